# SPDX-License-Identifier: BSD-3-Clause
"""Stages of kernels, labelled for timelines: ``with stage("load", ctx):``, or a begin and an end.

While no timeline with kernels is made they are compiled to nothing. Triton's language has ``with`` for
whatever it can call that has ``__enter__`` and ``__exit__``; these compile the begin and the end there.
"""

import sys
from types import FrameType

import triton
import triton.language as tl

from .primitives.backend import INTERPRETED, device_function, now, write_stage
from .primitives.job_constants import staged

__all__ = ["stage", "stage_begin", "stage_end"]


@device_function
def stage_begin():
    """Begin a stage: what ``stage_end`` takes, an int64.

    Example: ``begin = shmem.stage_begin(); shmem.stage_end(begin, "load", ctx)``
    Extension.
    """
    if staged():
        return now()
    else:
        return tl.cast(0, tl.int64)


@device_function
def stage_end(begin, label: tl.constexpr, ctx, priority: tl.constexpr = 0):
    """End a stage of the calling program, in Gluon of the calling group of warps.

    Its first thread writes it.

    Args:
        begin: what ``stage_begin`` returned.
        label: text of at most 24 bytes in UTF-8, a constant.
        ctx: the context argument.
        priority: a constant. It is shown, and changes nothing: NVIDIA's GPUs have no such instruction.

    Example: ``begin = shmem.stage_begin(); shmem.stage_end(begin, "load", ctx)``
    Extension.
    """
    if staged():
        write_stage(begin, label, ctx, priority)


class _Entered:
    """A stage in a kernel that is being compiled, or interpreted."""

    def __init__(self, generator, label, ctx, priority):
        self.generator = generator
        self.end_with = (label, ctx, priority)

    def _call(self, function, *arguments):
        if self.generator is None:
            return function(*arguments)
        return self.generator.call_JitFunction(function, list(arguments), {})

    def __enter__(self):
        self.begin = self._call(stage_begin)

    def __exit__(self, *_error):
        self._call(stage_end, self.begin, *self.end_with)


def _generator():
    """Triton's code generator: the one that visits the ``with``."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code.co_name != "visit_With":
        frame = frame.f_back
    if frame is None:
        raise TypeError("a stage is entered by with: with shmem.stage('load', ctx):")
    return frame.f_locals["self"]


class _Stage(triton.runtime.jit.ConstexprFunction):
    """What ``stage`` is: called when a kernel is compiled.

    Triton hashes functions of this kind, and the constants that they use, into a cached kernel's key.
    """

    def __call__(self, label, ctx, priority=0, _semantic=None):
        if not INTERPRETED and _semantic is None:
            raise TypeError("stages are part of kernels: with shmem.stage('load', ctx): in one")
        if not INTERPRETED:
            label, priority = tl.constexpr(self.fn(label)), tl.constexpr(priority)
        return _Entered(None if INTERPRETED else _generator(), label, ctx, priority)


def _label(label):
    """Label the statements under ``with`` as a stage of the calling program, for a timeline.

    ``with shmem.stage("load", ctx):`` in a kernel, ``ctx`` being its context argument, and no ``return``
    in it. What the first thread went through counts: other threads may be ahead or behind, and the
    compiler may take loads across its borders; a load ends where its value is used.
    ``pyshmem.profiling.trace`` records stages; without it they are compiled to nothing.

    Args:
        label: text of at most 24 bytes in UTF-8, a constant.
        ctx: the context argument.
        priority: a constant, as of Gluon's ``warp_pipeline_stage``. It is shown, and changes nothing:
            NVIDIA's GPUs have no such instruction.

    Example: ``with shmem.stage("load", ctx): value = tl.load(source + offs)``
    Extension.
    """
    staged()
    return getattr(label, "value", label)


stage = _Stage(_label)
stage.__doc__, stage.__name__ = _label.__doc__, "stage"
