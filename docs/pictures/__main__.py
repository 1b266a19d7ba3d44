# SPDX-License-Identifier: BSD-3-Clause
"""Draws the pictures of this folder anew: ``python docs/pictures``."""

from pathlib import Path

import curves
import drawings

if __name__ == "__main__":
    folder = Path(__file__).parent
    for draw in drawings.ALL:
        draw().write(folder)
    curves.write(folder)
