# SPDX-License-Identifier: BSD-3-Clause
"""OpenSHMEM inside kernels of Gluon, Triton's lower language: the functions of ``pyshmem.triton``.

    import pyshmem.gluon as shmem
    from triton.experimental import gluon
    from triton.experimental.gluon import language as gl

    @gluon.jit
    def shift(dest, source, sig, ctx, B: gl.constexpr):
        layout: gl.constexpr = gl.BlockedLayout([1], [32], [gl.num_warps()], [0])
        right = (shmem.my_pe(ctx) + 1) % shmem.n_pes(ctx)
        offs = gl.arange(0, B, layout)
        shmem.put_signal(dest + offs, source + offs, sig, 1, shmem.SIGNAL_SET, right, ctx)
        shmem.signal_wait_until(sig, shmem.CMP_EQ, 1, ctx)

Scope is a program, and in ``gl.warp_specialize`` a partition: the warps of one call, one of which polls
or signals. Tiles keep the caller's layout. Collectives of tiles are Triton's alone, and so is the
interpreter: kernels of Gluon need a GPU, and peers that loads and stores reach.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import triton as _shmem
from .._core.errors import UnsupportedError
from ..triton.primitives import backend as _backend

if _backend.INTERPRETED:
    raise UnsupportedError(
        "pyshmem.gluon needs a GPU: Triton's interpreter does not run kernels of Gluon; "
        "write the kernel in Triton (pyshmem.triton) to run it in the simulator"
    )

from . import twins as _twins

wrap, team_number = _shmem.wrap, _shmem.team_number
globals().update(_twins.functions())

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...  # the functions of kernels, which are made above


def context() -> _shmem.Context:
    """The context argument of kernels; see ``pyshmem.triton.context``.

    Raises: UnsupportedError, too, where loads and stores do not reach the peers (PYSHMEM_P2P is 0).
    """
    found = _shmem.context()
    _twins.require_p2p()
    return found
