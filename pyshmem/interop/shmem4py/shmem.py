# SPDX-License-Identifier: BSD-3-Clause
"""The routines of ``shmem4py.shmem`` on pyshmem; the package says what differs.

Extension.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from enum import StrEnum
from typing import Any, NoReturn

import numpy as np

import pyshmem

from ..._core.library import ThreadLevel as THREAD
from ..._core.library import ffi as ffi
from ..._core.library import lib as _lib
from ..._core.values import Cmp as CMP
from ..._core.values import SignalOp as SIGNAL
from ...host.locks import Lock as _Lock
from ...host.memory.creation import Hint as MALLOC
from ...host.teams.contexts import CtxOption as CTX
from . import join
from ._handles import CTX_DEFAULT as CTX_DEFAULT
from ._handles import CTX_INVALID as CTX_INVALID
from ._handles import TEAM_INVALID as TEAM_INVALID
from ._handles import TEAM_SHARED as TEAM_SHARED
from ._handles import TEAM_WORLD as TEAM_WORLD
from ._handles import Ctx as Ctx
from ._handles import Team as Team
from ._handles import bare
from ._memory import _getbuffer as _getbuffer
from ._memory import alloc as alloc
from ._memory import array as array
from ._memory import del_array as del_array
from ._memory import empty as empty
from ._memory import free as free
from ._memory import fromalloc as fromalloc
from ._memory import full as full
from ._memory import in_c_order
from ._memory import new_array as new_array
from ._memory import ones as ones
from ._memory import zeros as zeros


class lib:
    """The constant that programs look up in shmem4py's bindings."""

    SHMEM_TEAM_NUM_CONTEXTS: int = _lib.ISHMEMX_TEAM_NUM_CONTEXTS


VENDOR_STRING = pyshmem.info_get_name()
CTX_PRIVATE, CTX_SERIALIZED, CTX_NOSTORE = CTX
MALLOC_ATOMICS_REMOTE, MALLOC_SIGNAL_REMOTE = MALLOC
SIGNAL_SET, SIGNAL_ADD = SIGNAL.SET, SIGNAL.ADD
THREAD_SINGLE, THREAD_FUNNELED, THREAD_SERIALIZED, THREAD_MULTIPLE = THREAD


class AMO(StrEnum):
    """Operations of ``atomic_op`` and its like."""

    SET = "set"
    INC = "inc"
    ADD = "add"
    AND = "and"
    OR = "or"
    XOR = "xor"


class OP(StrEnum):
    """Operations of ``reduce``."""

    AND = "and"
    OR = "or"
    XOR = "xor"
    MAX = "max"
    MIN = "min"
    SUM = "sum"
    PROD = "prod"


AMO_SET, AMO_INC, AMO_ADD, AMO_AND, AMO_OR, AMO_XOR = AMO
OP_AND, OP_OR, OP_XOR, OP_MAX, OP_MIN, OP_SUM, OP_PROD = OP
_COMPARISONS: dict[Any, CMP] = {
    "eq": CMP.EQ, "ne": CMP.NE, "gt": CMP.GT, "ge": CMP.GE, "lt": CMP.LT, "le": CMP.LE,
    "==": CMP.EQ, "!=": CMP.NE, ">": CMP.GT, ">=": CMP.GE, "<": CMP.LT, "<=": CMP.LE,
}  # fmt: skip
#: Parameters that have another name in pyshmem, and those that may be left out.
_RENAMED = {"target": "dest", "size": "nelems", "addr": "array"}
_DEFAULTS = {"size": None, "ctx": None, "team": None, "status": None}

# What is the same there.
CMP_EQ = pyshmem.CMP_EQ
CMP_GE = pyshmem.CMP_GE
CMP_GT = pyshmem.CMP_GT
CMP_LE = pyshmem.CMP_LE
CMP_LT = pyshmem.CMP_LT
CMP_NE = pyshmem.CMP_NE
MAJOR_VERSION = pyshmem.MAJOR_VERSION
MINOR_VERSION = pyshmem.MINOR_VERSION


def barrier_all() -> None:
    """Wait until all PEs are here, and complete all operations of the default context."""
    pyshmem.barrier_all()


clear_lock = pyshmem.clear_lock
finalize = pyshmem.finalize
info_get_name = pyshmem.info_get_name
info_get_version = pyshmem.info_get_version
init = pyshmem.init
my_pe = pyshmem.my_pe
n_pes = pyshmem.n_pes
pe_accessible = pyshmem.pe_accessible
query_thread = pyshmem.query_thread
set_lock = pyshmem.set_lock


def sync_all() -> None:
    """Wait until all PEs are here."""
    pyshmem.sync_all()


def _plain(value: Any) -> Any:
    """What pyshmem's routines take: arrays in C order, objects instead of handles."""
    return in_c_order(bare(value))


def _order(given: Any) -> str:
    """Of an array of which it matters: C or Fortran."""
    if not isinstance(given, np.ndarray) or given.flags.c_contiguous == given.flags.f_contiguous:
        return ""
    return "C" if given.flags.c_contiguous else "Fortran"


def _pair(target: Any, source: Any) -> tuple[Any, Any]:
    """The two arrays of a call, whose elements are moved as they lie in memory.

    Raises: ValueError (one is in C order and one in Fortran order, of two or more dimensions).
    """
    orders = [_order(target), _order(source)]
    if all(orders) and orders[0] != orders[1]:
        raise ValueError(
            f"target is in {orders[0]} order and source in {orders[1]} order, and elements are moved as "
            "they lie; give both one order, as by np.asarray(source, order=...)"
        )
    return _plain(target), _plain(source)


def _comparison(cmp: Any) -> Any:
    return _COMPARISONS.get(cmp.lower(), cmp) if isinstance(cmp, str) else cmp


def _held_by_both(target: Any, source: Any) -> int | None:
    """The default of ``size``; None, pyshmem's default, when they hold the same."""
    return None if target.size == source.size else min(target.size, source.size)


def _signature(names: list[str]) -> inspect.Signature:
    kind, empty = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.empty
    return inspect.Signature(
        [inspect.Parameter(name, kind, default=_DEFAULTS.get(name, empty)) for name in names]
    )


def _adapted(name: str, order: str, **renamed: str) -> Callable[..., Any]:
    """The routine ``name`` of pyshmem, called with the parameters of ``order``."""
    function = getattr(pyshmem, name)
    names = order.split()
    renamed = _RENAMED | renamed
    sized = {"target", "source", "size"} <= set(names) and name not in ("collect", "fcollect")

    def call(*args: Any, **kwargs: Any) -> Any:
        if len(args) > len(names):
            raise TypeError(f"{name} takes {len(names)} arguments ({order}), not {len(args)}")
        given = dict(zip(names, args, strict=False))
        if twice := given.keys() & kwargs.keys():
            raise TypeError(f"{name} got {', '.join(sorted(twice))} twice")
        given |= kwargs
        if sized and given.get("size") is None:
            given["size"] = _held_by_both(given["target"], given["source"])
        if "cmp" in given:
            given["cmp"] = _comparison(given["cmp"])
        if "target" in given and "source" in given:
            given["target"], given["source"] = _pair(given["target"], given["source"])
        items = [(key, value) for key, value in given.items() if value is not None]
        result = function(**{renamed.get(key, key): _plain(value) for key, value in items})
        return result.tolist() if "_some" in name else result

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"``pyshmem.{name}`` with the parameters {order.replace(' ', ', ')}."
    call.__signature__ = _signature(names)  # type: ignore[attr-defined]
    return call


put, get, put_nbi, get_nbi = (
    _adapted(name, "target source pe size ctx") for name in ("put", "get", "put_nbi", "get_nbi")
)
put_signal, put_signal_nbi = (
    _adapted(
        name, "target source pe signal value sigop size ctx",
        signal="sig_addr", value="signal", sigop="sig_op",
    )
    for name in ("put_signal", "put_signal_nbi")
)  # fmt: skip
signal_fetch = _adapted("signal_fetch", "signal", signal="sig_addr")
atomic_set, atomic_add, atomic_and, atomic_or, atomic_xor = (
    _adapted(f"atomic_{op}", "target value pe ctx") for op in ("set", "add", "and", "or", "xor")
)
atomic_swap, atomic_fetch_add, atomic_fetch_and, atomic_fetch_or, atomic_fetch_xor = (
    _adapted(f"atomic_{op}", "target value pe ctx")
    for op in ("swap", "fetch_add", "fetch_and", "fetch_or", "fetch_xor")
)
atomic_inc, atomic_fetch_inc = (
    _adapted(f"atomic_{op}", "target pe ctx") for op in ("inc", "fetch_inc")
)
atomic_fetch = _adapted("atomic_fetch", "source pe ctx")
atomic_compare_swap = _adapted("atomic_compare_swap", "target cond value pe ctx")
atomic_fetch_nbi = _adapted("atomic_fetch_nbi", "fetch source pe ctx")
atomic_fetch_inc_nbi = _adapted("atomic_fetch_inc_nbi", "fetch target pe ctx")
atomic_compare_swap_nbi = _adapted("atomic_compare_swap_nbi", "fetch target cond value pe ctx")
(
    atomic_swap_nbi, atomic_fetch_add_nbi, atomic_fetch_and_nbi, atomic_fetch_or_nbi,
    atomic_fetch_xor_nbi,
) = (
    _adapted(f"atomic_{op}_nbi", "fetch target value pe ctx")
    for op in ("swap", "fetch_add", "fetch_and", "fetch_or", "fetch_xor")
)  # fmt: skip
broadcast = _adapted("broadcast", "target source root size team")
collect, fcollect = (_adapted(name, "target source size team") for name in ("collect", "fcollect"))
and_reduce, or_reduce, xor_reduce, max_reduce, min_reduce, sum_reduce, prod_reduce = (
    _adapted(f"{op}_reduce", "target source size team")
    for op in ("and", "or", "xor", "max", "min", "sum", "prod")
)
wait_until, test = (
    _adapted(name, "ivar cmp value", value="cmp_value") for name in ("wait_until", "test")
)
signal_wait_until = _adapted(
    "signal_wait_until", "signal cmp value", signal="sig_addr", value="cmp_value"
)
wait_until_all, wait_until_any, wait_until_some, test_all, test_any, test_some = (
    _adapted(f"{verb}_{which}", "ivars cmp value status", value="cmp_value")
    for verb, which in itertools.product(("wait_until", "test"), ("all", "any", "some"))
)
(
    wait_until_all_vector, wait_until_any_vector, wait_until_some_vector,
    test_all_vector, test_any_vector, test_some_vector,
) = (
    _adapted(f"{verb}_{which}_vector", "ivars cmp values status", values="cmp_values")
    for verb, which in itertools.product(("wait_until", "test"), ("all", "any", "some"))
)  # fmt: skip
fence, quiet = (_adapted(name, "ctx") for name in ("fence", "quiet"))
addr_accessible = _adapted("addr_accessible", "addr pe")


def ptr(target: Any, pe: int) -> Any:
    """``pyshmem.ptr``, in the order of ``target`` and as writable."""
    copy = pyshmem.ptr(in_c_order(target), pe)
    if copy is None:
        return None
    copy.flags.writeable = target.flags.writeable
    return copy.T if target.flags.fnc else copy


def _at_distances(target: Any, source: Any, tst: int, sst: int) -> int:
    """How many elements both hold at these distances."""
    return int(min(-(-target.size // tst), -(-source.size // sst)))


def iput(
    target: Any, source: Any, pe: int, tst: int = 1, sst: int = 1, size: int | None = None,
    ctx: Ctx | None = None,
) -> None:  # fmt: skip
    """``pyshmem.iput`` of as many elements as both sides hold."""
    nelems = _at_distances(target, source, tst, sst) if size is None else size
    pyshmem.iput(*_pair(target, source), pe, dst=tst, sst=sst, nelems=nelems, ctx=bare(ctx))


def iget(
    target: Any, source: Any, pe: int, tst: int = 1, sst: int = 1, size: int | None = None,
    ctx: Ctx | None = None,
) -> None:  # fmt: skip
    """``pyshmem.iget`` of as many elements as both sides hold."""
    nelems = _at_distances(target, source, tst, sst) if size is None else size
    pyshmem.iget(*_pair(target, source), pe, dst=tst, sst=sst, nelems=nelems, ctx=bare(ctx))


def alltoall(target: Any, source: Any, size: int | None = None, team: Team | None = None) -> None:
    """``pyshmem.alltoall`` of as many elements as both sides hold."""
    alltoalls(target, source, 1, 1, size, team)


def alltoalls(
    target: Any, source: Any, tst: int = 1, sst: int = 1, size: int | None = None,
    team: Team | None = None,
) -> None:  # fmt: skip
    """``pyshmem.alltoalls`` of as many elements as both sides hold."""
    whole = TEAM_WORLD if team is None else team
    if size is None:
        held = _at_distances(target, source, tst, sst)
        size, rest = divmod(held, whole.n_pes())
        if rest:
            raise ValueError(f"{held} elements are no blocks of equal size for {whole.n_pes()} PEs")
    arrays = _pair(target, source)
    if tst == sst == 1:
        pyshmem.alltoall(*arrays, nelems=size, team=bare(whole))
    else:
        pyshmem.alltoalls(*arrays, dst=tst, sst=sst, nelems=size, team=bare(whole))


def _atomic(op: Any, value: Any, pe: int, fetch: str = "", nbi: str = "") -> tuple[Any, ...]:
    """The routine for ``op``, and what it takes behind the target: inc has no value."""
    amo = AMO(str(op).lower())
    verb = "swap" if fetch and amo == AMO_SET else f"{fetch}{amo}"
    return getattr(pyshmem, f"atomic_{verb}{nbi}"), (pe,) if amo == AMO_INC else (value, pe)


def atomic_op(target: Any, value: Any, op: str, pe: int, ctx: Ctx | None = None) -> None:
    """The atomic operation ``op``: set, inc, add, and, or, xor."""
    routine, rest = _atomic(op, value, pe)
    routine(_plain(target), *rest, ctx=bare(ctx))


def atomic_fetch_op(target: Any, value: Any, op: str, pe: int, ctx: Ctx | None = None) -> Any:
    """``atomic_op`` that returns what was there."""
    routine, rest = _atomic(op, value, pe, "fetch_")
    return routine(_plain(target), *rest, ctx=bare(ctx))


def atomic_fetch_op_nbi(
    fetch: Any, target: Any, value: Any, op: str, pe: int, ctx: Ctx | None = None
) -> None:
    """``atomic_fetch_op`` whose value from before arrives in ``fetch`` by ``quiet``."""
    routine, rest = _atomic(op, value, pe, "fetch_", "_nbi")
    routine(_plain(fetch), _plain(target), *rest, ctx=bare(ctx))


def reduce(
    target: Any, source: Any, op: str = OP_SUM, size: int | None = None, team: Team | None = None
) -> None:
    """The reduction ``op``: and, or, xor, max, min, sum, prod."""
    where = bare(TEAM_WORLD if team is None else team)
    nelems = _held_by_both(target, source) if size is None else size
    routine = getattr(pyshmem, f"{OP(str(op).lower())}_reduce")
    routine(*_pair(target, source), nelems=nelems, team=where)


def sync(team: Team | None = None) -> None:
    """Wait until all PEs of the team are here."""
    (TEAM_WORLD if team is None else team).sync()


# ---- signals, locks and the rest -----------------------------------------------------------------


def new_signal() -> Any:
    """A signal word of 0. Collective."""
    return pyshmem.new_signal()


def del_signal(signal: Any) -> None:
    """Give a signal word back. Collective."""
    pyshmem.free(signal)


def new_lock() -> Any:
    """A lock for ``set_lock``, ``test_lock`` and ``clear_lock``. Collective."""
    return pyshmem.zeros(1, np.int64)


def del_lock(lock: Any) -> None:
    """Give a lock back. Collective."""
    pyshmem.free(lock)


def test_lock(lock: Any) -> bool:
    """Take the lock if nobody has it; as in C, false when this PE has it now."""
    return not pyshmem.test_lock(lock)


class Lock(_Lock):
    """A lock with the methods of ``threading.Lock``."""

    def acquire(self, blocking: bool = True) -> bool:
        """Take the lock; whether it was free, when not ``blocking``."""
        if blocking:
            self.set()
            return True
        return self.test()

    def release(self) -> None:
        """Let the lock go."""
        self.clear()

    def destroy(self) -> None:
        """Give the lock back. Collective."""
        if self.word is not None:
            pyshmem.free(self.word)
            self.word = None


def init_thread(requested: int = THREAD_MULTIPLE) -> THREAD:
    """Join the job and return the level of thread support."""
    pyshmem.init(thread_level=requested)
    return pyshmem.query_thread()


def global_exit(status: int = 0) -> NoReturn:
    """``pyshmem.global_exit``."""
    pyshmem.global_exit(status)


def pcontrol(level: int = 1) -> None:
    """``pyshmem.pcontrol``."""
    pyshmem.pcontrol(level)


join()
