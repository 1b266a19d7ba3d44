# SPDX-License-Identifier: BSD-3-Clause
"""Triton's interpreter: programs as greenlets, bodies of the primitives, numbers as on GPUs."""

from ..._core import moved

__getattr__ = moved.contents_of(__name__, "scheduler")
