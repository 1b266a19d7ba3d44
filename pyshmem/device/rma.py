# SPDX-License-Identifier: BSD-3-Clause
"""Put and get from kernels. Peers on the same host are reached by loads and stores."""

from __future__ import annotations

from typing import Any

from . import _copy
from ._backend import address_of, array_at, device_function, read, same_dtype, scopes, write
from ._faults import OP
from ._groups import Scope
from ._peers import peer_address


@device_function
def transfer_put(
    dest: Any, source: Any, pe: int, nelems: int, op: int, rank: int, size: int
) -> int:
    """Copies to ``pe`` with ``size`` lanes; returns the peer's address, 0 after a fault."""
    same_dtype(dest, source)
    remote = peer_address(dest, nelems, min(dest.size, source.size), pe, op)
    if remote != 0:
        _copy.push(remote, address_of(source), nelems * source.itemsize, rank, size)
    return remote


@device_function
def transfer_get(
    dest: Any, source: Any, pe: int, nelems: int, op: int, rank: int, size: int
) -> None:
    """Copies from ``pe`` with ``size`` lanes."""
    same_dtype(dest, source)
    remote = peer_address(source, nelems, min(dest.size, source.size), pe, op)
    if remote != 0:
        _copy.pull(address_of(dest), remote, nelems * source.itemsize, rank, size)


def _put(scope: Scope) -> Any:
    rank, size, sync = scope.rank, scope.size, scope.sync
    op = OP["put"]

    def put(dest, source, pe, nelems=None):  # type: ignore[no-untyped-def]
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

    def put_nbi(dest, source, pe, nelems=None):  # type: ignore[no-untyped-def]
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

    def get(dest, source, pe, nelems=None):  # type: ignore[no-untyped-def]
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

    def get_nbi(dest, source, pe, nelems=None):  # type: ignore[no-untyped-def]
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
def p(dest, value, pe):  # type: ignore[no-untyped-def]
    """Store ``value``, cast to dest's dtype, into the first element of ``dest`` on ``pe``.

    Completes: delivered at ``quiet``; ordered by ``fence``.
    Spec: shmem_p.
    """
    remote = peer_address(dest, 1, dest.size, pe, _P)
    if remote != 0:
        write(remote, dest, value)


@device_function
def g(source, pe):  # type: ignore[no-untyped-def]
    """The first element of ``source`` on ``pe``; the caller's own after a fault.

    Spec: shmem_g.
    """
    remote = peer_address(source, 1, source.size, pe, _G)
    return read(remote if remote != 0 else address_of(source), source)


@device_function
def ptr(array, pe):  # type: ignore[no-untyped-def]
    """``array`` of ``pe``, to index directly; the caller's own array after a fault.

    Loads and stores through it are ordinary ones: order them with ``fence`` and ``quiet``.
    Spec: shmem_ptr.
    """
    remote = peer_address(array, array.size, array.size, pe, _PTR)
    return array_at(array, remote if remote != 0 else address_of(array))
