# SPDX-License-Identifier: BSD-3-Clause
"""Labels of kernels' stages, for timelines. Numba has no ``with`` in kernels: a stage is two calls."""

from ...host.kernels.host_only import of_kernels
from ..leaf import backend as leaf
from ..leaf.backend import CPU, SIM
from ..routine import routine


def stage_begin(label, priority=0):
    """Begin a stage of the calling block, for a timeline: ``pyshmem.profiling.trace``.

    While no timeline with kernels is made, kernels are compiled without their labels: they cost nothing.

    Args:
        label: text that stands in the call, at most 24 bytes in UTF-8.
        priority: a number that stands in the call. It is shown, and changes nothing: NVIDIA's GPUs have
            no such instruction.

    Fails to compile: another kind of label or priority.
    Example: ``shmem.stage_begin('gemm')``
    Extension.
    """
    leaf.stage_begin(label, priority)


def stage_end(label):
    """End the stage that ``stage_begin`` began in the same function. The block's first thread writes it.

    The stage is what that thread went through: other threads may be ahead or behind, and a load counts
    to where its value is used. In a loop it is a stage each time.

    Args:
        label: that of the begin.

    Fails to compile: a label that is not begun above in the function, or is no text.
    Example: ``shmem.stage_end('gemm')``
    Extension.
    """
    leaf.stage_end(label)


if SIM and not CPU:
    stage_begin, stage_end = routine(stage_begin), routine(stage_end)
else:  # intrinsics, which are compiled into their caller: the begin is a variable there
    for _body in (stage_begin, stage_end):
        globals()[_body.__name__] = of_kernels(getattr(leaf, _body.__name__), _body.__doc__)
