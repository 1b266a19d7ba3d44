# SPDX-License-Identifier: BSD-3-Clause
"""What messages to the host are made of, in the simulator: the names of ``leaf.cuda.messages``."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from ...._core.values import is_integer
from ...families import PRINT_FLOAT, PRINT_INT, PRINT_TEXT, label_words


def label_word(label: Any, index: int) -> int:
    if not isinstance(label, str):
        raise TypeError(
            f"a label is text that stands in the call, such as 'x', not {type(label).__name__}"
        )
    return label_words(label)[index]


def print_kind(value: Any) -> int:
    if value is None:
        return PRINT_TEXT
    if is_integer(value) or isinstance(value, np.bool_):
        return PRINT_INT
    if isinstance(value, (float, np.floating)):
        return PRINT_FLOAT
    raise TypeError(f"kernels print an integer, a float or nothing, not {type(value).__name__}")


def print_bits(value: Any) -> int:
    if print_kind(value) == PRINT_TEXT:
        return 0
    if print_kind(value) == PRINT_INT:
        return (int(value) + (1 << 63)) % (1 << 64) - (1 << 63)
    return int(struct.unpack("<q", struct.pack("<d", float(value)))[0])
