# SPDX-License-Identifier: BSD-3-Clause
"""The state block of kernels that are compiled for the CPU: memory of the process that they read."""

from __future__ import annotations

import llvmlite.binding
import numpy as np

from ...state import WORDS

#: Its name in compiled code.
STATE_NAME = "pyshmem_cpu_state"


class _State:
    def __init__(self) -> None:
        self.words = np.zeros(WORDS, np.int64)
        self.filled = False
        llvmlite.binding.add_symbol(STATE_NAME, self.words.ctypes.data)

    def fill(self, words: list[int]) -> None:
        self.words[:] = words
        self.filled = True

    def forget(self) -> None:
        self.words[:] = 0
        self.filled = False


STATE = _State()
