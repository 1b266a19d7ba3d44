# SPDX-License-Identifier: BSD-3-Clause
# The cffi extension that ffi_build.py makes.
from typing import Any

ffi: Any
lib: Any
