# SPDX-License-Identifier: BSD-3-Clause
"""``python -m pyshmem``, also the console script ``pyshmem``: run, info, doctor."""

from __future__ import annotations

from . import _core  # noqa: F401  # first: it looks whose __init__.py this is
from .cli import main

if __name__ == "__main__":
    main()
