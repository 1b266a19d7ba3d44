# SPDX-License-Identifier: BSD-3-Clause
"""Stages are not recorded by kernels that are compiled for the CPU."""

from numba.core import errors

from ..compiled.llvm import intrinsic

__all__ = ["stage_begin", "stage_end"]

_MESSAGE = "stages of kernels are not compiled for the CPU yet: run with --device sim"


@intrinsic
def stage_begin(_context, label, priority=0):
    """See ``api.stages``."""
    raise errors.TypingError(_MESSAGE)


@intrinsic
def stage_end(_context, label):
    """See ``api.stages``."""
    raise errors.TypingError(_MESSAGE)
