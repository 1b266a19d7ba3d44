# SPDX-License-Identifier: BSD-3-Clause
"""Leaf primitives as Numba intrinsics: inline PTX and LLVM."""
