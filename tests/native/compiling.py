# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of C programs share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

WARNINGS = ["-Wall", "-Wextra", "-Werror"]

Compile = Callable[[Sequence[str | Path], str], Path]
