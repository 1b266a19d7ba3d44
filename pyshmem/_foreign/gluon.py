# SPDX-License-Identifier: BSD-3-Clause
"""What of Gluon is read. Seen in Triton 3.6 to 3.9."""

from __future__ import annotations

from triton.experimental.gluon.language import _core
from triton.experimental.gluon.language._core import builtin as builtin

from .hooks import Hook

HOOKS = (Hook(_core, "builtin", "fn"),)
