# SPDX-License-Identifier: BSD-3-Clause
"""Put and get from kernels. Peers on the same host are reached by loads and stores."""

from __future__ import annotations

from typing import Any

from . import _copy
from ._backend import address_of, array_from, device_function, read, same_dtype, scopes, write
from ._faults import OP
from ._groups import Scope
from ._peers import on_peer, reachable


@device_function
def transfer_put(
    dest: Any, source: Any, pe: int, nelems: int, op: int, rank: int, size: int
) -> bool:
    """Copies to ``pe`` with ``size`` lanes; False after a fault."""
    same_dtype(dest, source)
    if reachable(dest, nelems, min(dest.size, source.size), pe, op):
        nbytes = nelems * source.itemsize
        _copy.push(on_peer(dest, pe), address_of(source), nbytes, rank, size)
        return True
    return False


@device_function
def transfer_get(
    dest: Any, source: Any, pe: int, nelems: int, op: int, rank: int, size: int
) -> None:
    """Copies from ``pe`` with ``size`` lanes."""
    same_dtype(dest, source)
    if reachable(source, nelems, min(dest.size, source.size), pe, op):
        nbytes = nelems * source.itemsize
        _copy.pull(address_of(dest), on_peer(source, pe), nbytes, rank, size)


def _put(scope: Scope) -> Any:
    rank, size, sync = scope.rank, scope.size, scope.sync
    op = OP["put"]

    def put(dest, source, pe, nelems=None):
        """Copy ``source`` into ``dest`` on ``pe``.

        Args:
            dest: contiguous array on the device heap.
            source: contiguous array of the same dtype in any memory of the kernel.
            pe: target PE, ``0 <= pe < n_pes()``.
            nelems: elements to copy; default ``source.size``.

        Completes: ``source`` may be changed on return. Delivered at ``quiet``; ordered by ``fence``.
        Faults: pe, nelems or dest out of range: nothing is copied, the next host call raises.
        Spec: shmem_put.
        """
        count = source.size if nelems is None else nelems
        sync()
        transfer_put(dest, source, pe, count, op, rank(), size())
        sync()

    return put


def _put_nbi(scope: Scope) -> Any:
    rank, size, sync = scope.rank, scope.size, scope.sync
    op = OP["put_nbi"]

    def put_nbi(dest, source, pe, nelems=None):
        """Start copying ``source`` into ``dest`` on ``pe``; arguments as for ``put``.

        Completes: nothing on return; ``source`` must not change until ``quiet``.
        Spec: shmem_put_nbi.
        """
        count = source.size if nelems is None else nelems
        sync()
        transfer_put(dest, source, pe, count, op, rank(), size())

    return put_nbi


def _get(scope: Scope) -> Any:
    rank, size, sync = scope.rank, scope.size, scope.sync
    op = OP["get"]

    def get(dest, source, pe, nelems=None):
        """Copy ``source`` on ``pe`` into ``dest``.

        Args:
            dest: contiguous array of the same dtype in any memory of the kernel.
            source: contiguous array on the device heap.
            pe: PE to read from, ``0 <= pe < n_pes()``.
            nelems: elements to copy; default ``dest.size``.

        Completes: the data is in ``dest`` on return, for the whole group.
        Faults: pe, nelems or source out of range: nothing is copied, the next host call raises.
        Spec: shmem_get.
        """
        count = dest.size if nelems is None else nelems
        sync()
        transfer_get(dest, source, pe, count, op, rank(), size())
        sync()

    return get


def _get_nbi(scope: Scope) -> Any:
    rank, size, sync = scope.rank, scope.size, scope.sync
    op = OP["get_nbi"]

    def get_nbi(dest, source, pe, nelems=None):
        """Start copying ``source`` on ``pe`` into ``dest``; arguments as for ``get``.

        Completes: nothing on return; ``dest`` is complete at ``quiet``.
        Spec: shmem_get_nbi.
        """
        count = dest.size if nelems is None else nelems
        sync()
        transfer_get(dest, source, pe, count, op, rank(), size())

    return get_nbi


put, put_warp, put_work_group = scopes(_put)
put_nbi, put_nbi_warp, put_nbi_work_group = scopes(_put_nbi)
get, get_warp, get_work_group = scopes(_get)
get_nbi, get_nbi_warp, get_nbi_work_group = scopes(_get_nbi)

_P, _G, _PTR = OP["p"], OP["g"], OP["ptr"]


@device_function
def p(dest, value, pe):
    """Store ``value``, cast to dest's dtype, into the first element of ``dest`` on ``pe``.

    Completes: delivered at ``quiet``; ordered by ``fence``.
    Spec: shmem_p.
    """
    if reachable(dest, 1, dest.size, pe, _P):
        write(on_peer(dest, pe), dest, value)


@device_function
def g(source, pe):
    """The first element of ``source`` on ``pe``; the caller's own after a fault.

    Spec: shmem_g.
    """
    if reachable(source, 1, source.size, pe, _G):
        return read(on_peer(source, pe), source)
    return read(address_of(source), source)


def _locate(array, pe):
    if reachable(array, array.size, array.size, pe, _PTR):
        return on_peer(array, pe)
    return address_of(array)


ptr = array_from(_locate)
ptr.__doc__ = """``ptr(array, pe)``: ``array`` of ``pe``, to index; the caller's own after a fault.

    Loads and stores through it are ordinary ones: order them with ``fence`` and ``quiet``.
    Spec: shmem_ptr.
    """
