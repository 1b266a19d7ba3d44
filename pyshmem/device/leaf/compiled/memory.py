# SPDX-License-Identifier: BSD-3-Clause
"""Accesses to memory, of the machine that is compiled for."""

from .llvm import FOR_CPU

if FOR_CPU:
    from ..cpu import memory
else:
    from ..cuda import memory  # type: ignore[no-redef]

load16, load_bits, store_bits = memory.load16, memory.load_bits, memory.store_bits
round_bfloat16, store16_near = memory.round_bfloat16, memory.store16_near
