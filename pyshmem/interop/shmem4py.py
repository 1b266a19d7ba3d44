# SPDX-License-Identifier: BSD-3-Clause
"""Programs written for shmem4py: its names and argument orders, on pyshmem.

    from pyshmem.interop import shmem4py as shmem    # was: from shmem4py import shmem

Importing it initialises, as there. What differs: arrays are in C order; errors are pyshmem's
exceptions, of which most are RuntimeErrors, too.

Extension.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

import pyshmem

from .. import _errors
from .._lib import Cmp as CMP
from .._lib import SignalOp as SIGNAL
from .._lib import ThreadLevel as THREAD
from .._lib import ffi as ffi
from .._lib import lib as _lib
from ..contexts import CtxOption as CTX
from ..heap import Hint as MALLOC
from ..locks import Lock as _Lock
from ._shmem4py_handles import CTX_DEFAULT as CTX_DEFAULT
from ._shmem4py_handles import CTX_INVALID as CTX_INVALID
from ._shmem4py_handles import TEAM_INVALID as TEAM_INVALID
from ._shmem4py_handles import TEAM_SHARED as TEAM_SHARED
from ._shmem4py_handles import TEAM_WORLD as TEAM_WORLD
from ._shmem4py_handles import Ctx as Ctx
from ._shmem4py_handles import Team as Team
from ._shmem4py_handles import bare


class lib:
    """The constant that programs look up in shmem4py's bindings."""

    SHMEM_TEAM_NUM_CONTEXTS: int = _lib.ISHMEMX_TEAM_NUM_CONTEXTS


VENDOR_STRING = pyshmem.info_get_name()
CTX_PRIVATE, CTX_SERIALIZED, CTX_NOSTORE = CTX
MALLOC_ATOMICS_REMOTE, MALLOC_SIGNAL_REMOTE = MALLOC
SIGNAL_SET, SIGNAL_ADD = SIGNAL.SET, SIGNAL.ADD
THREAD_SINGLE, THREAD_FUNNELED, THREAD_SERIALIZED, THREAD_MULTIPLE = THREAD
AMO_SET, AMO_INC, AMO_ADD, AMO_AND, AMO_OR, AMO_XOR = "set", "inc", "add", "and", "or", "xor"
OP_AND, OP_OR, OP_XOR, OP_MAX, OP_MIN = "and", "or", "xor", "max", "min"
OP_SUM, OP_PROD = "sum", "prod"
_COMPARISONS: dict[Any, CMP] = {
    "eq": CMP.EQ, "ne": CMP.NE, "gt": CMP.GT, "ge": CMP.GE, "lt": CMP.LT, "le": CMP.LE,
    "==": CMP.EQ, "!=": CMP.NE, ">": CMP.GT, ">=": CMP.GE, "<": CMP.LT, "<=": CMP.LE,
}  # fmt: skip
#: Parameters that have another name here.
_PARAMETERS = {
    "target": "dest",
    "size": "nelems",
    "tst": "dst",
    "value": "cmp_value",
    "values": "cmp_values",
}

# What is the same there.
CMP_EQ = pyshmem.CMP_EQ
CMP_GE = pyshmem.CMP_GE
CMP_GT = pyshmem.CMP_GT
CMP_LE = pyshmem.CMP_LE
CMP_LT = pyshmem.CMP_LT
CMP_NE = pyshmem.CMP_NE
MAJOR_VERSION = pyshmem.MAJOR_VERSION
MINOR_VERSION = pyshmem.MINOR_VERSION
barrier_all = pyshmem.barrier_all
clear_lock = pyshmem.clear_lock
finalize = pyshmem.finalize
global_exit = pyshmem.global_exit
info_get_name = pyshmem.info_get_name
info_get_version = pyshmem.info_get_version
init = pyshmem.init
my_pe = pyshmem.my_pe
n_pes = pyshmem.n_pes
pe_accessible = pyshmem.pe_accessible
query_thread = pyshmem.query_thread
set_lock = pyshmem.set_lock
signal_fetch = pyshmem.signal_fetch
sync_all = pyshmem.sync_all


def _adapted(name: str, order: str) -> Callable[..., Any]:
    """The routine ``name`` of pyshmem, called with the parameters of ``order``."""
    function = getattr(pyshmem, name)
    names = order.split()
    # An atomic's value keeps its name; that of a comparison has another.
    renamed = {key: value for key, value in _PARAMETERS.items() if key != "value" or "cmp" in names}

    def call(*args: Any, **kwargs: Any) -> Any:
        if len(args) > len(names):
            raise TypeError(f"{name} takes {len(names)} arguments ({order}), not {len(args)}")
        given = dict(zip(names, args, strict=False))
        if twice := given.keys() & kwargs.keys():
            raise TypeError(f"{name} got {', '.join(sorted(twice))} twice")
        given = {renamed.get(key, key): value for key, value in (given | kwargs).items()}
        if "cmp" in given:
            given["cmp"] = _COMPARISONS.get(given["cmp"], given["cmp"])
        result = function(**{key: bare(value) for key, value in given.items() if value is not None})
        return result.tolist() if "_some" in name else result

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"``pyshmem.{name}`` with the parameters {order.replace(' ', ', ')}."
    return call


put, get, put_nbi, get_nbi = (
    _adapted(name, "target source pe size ctx") for name in ("put", "get", "put_nbi", "get_nbi")
)
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
collect, fcollect, alltoall = (
    _adapted(name, "target source size team") for name in ("collect", "fcollect", "alltoall")
)
alltoalls = _adapted("alltoalls", "target source tst sst size team")
and_reduce, or_reduce, xor_reduce, max_reduce, min_reduce, sum_reduce, prod_reduce = (
    _adapted(f"{op}_reduce", "target source size team")
    for op in ("and", "or", "xor", "max", "min", "sum", "prod")
)
wait_until, test = (_adapted(name, "ivar cmp value") for name in ("wait_until", "test"))
signal_wait_until = _adapted("signal_wait_until", "sig_addr cmp value")
wait_until_all, wait_until_any, wait_until_some, test_all, test_any, test_some = (
    _adapted(f"{verb}_{which}", "ivars cmp value status")
    for verb, which in itertools.product(("wait_until", "test"), ("all", "any", "some"))
)
(
    wait_until_all_vector, wait_until_any_vector, wait_until_some_vector,
    test_all_vector, test_any_vector, test_some_vector,
) = (
    _adapted(f"{verb}_{which}_vector", "ivars cmp values status")
    for verb, which in itertools.product(("wait_until", "test"), ("all", "any", "some"))
)  # fmt: skip
fence, quiet = (_adapted(name, "ctx") for name in ("fence", "quiet"))
ptr = _adapted("ptr", "array pe")
addr_accessible = _adapted("addr_accessible", "array pe")


def _spaced(target: Any, source: Any, tst: int, sst: int, size: int | None) -> dict[str, int]:
    if size is None:
        size = min(-(-np.asarray(target).size // tst), -(-np.asarray(source).size // sst))
    return {"dst": tst, "sst": sst, "nelems": size}


def iput(
    target: Any, source: Any, pe: int, tst: int = 1, sst: int = 1, size: int | None = None,
    ctx: Ctx | None = None,
) -> None:  # fmt: skip
    """``pyshmem.iput`` of as many elements as both sides hold."""
    pyshmem.iput(target, source, pe, **_spaced(target, source, tst, sst, size), ctx=bare(ctx))


def iget(
    target: Any, source: Any, pe: int, tst: int = 1, sst: int = 1, size: int | None = None,
    ctx: Ctx | None = None,
) -> None:  # fmt: skip
    """``pyshmem.iget`` of as many elements as both sides hold."""
    pyshmem.iget(target, source, pe, **_spaced(target, source, tst, sst, size), ctx=bare(ctx))


def _operation(op: Any) -> str:
    return str(getattr(op, "value", op))


def atomic_op(target: Any, value: Any, op: str, pe: int, ctx: Ctx | None = None) -> None:
    """The atomic operation ``op``: set, inc, add, and, or, xor."""
    rest = (pe,) if _operation(op) == AMO_INC else (value, pe)
    getattr(pyshmem, f"atomic_{_operation(op)}")(target, *rest, ctx=bare(ctx))


def atomic_fetch_op(target: Any, value: Any, op: str, pe: int, ctx: Ctx | None = None) -> Any:
    """``atomic_op`` that returns what was there."""
    name = "atomic_swap" if _operation(op) == AMO_SET else f"atomic_fetch_{_operation(op)}"
    rest = (pe,) if _operation(op) == AMO_INC else (value, pe)
    return getattr(pyshmem, name)(target, *rest, ctx=bare(ctx))


def atomic_fetch_op_nbi(
    fetch: Any, target: Any, value: Any, op: str, pe: int, ctx: Ctx | None = None
) -> None:
    """``atomic_fetch_op`` whose value from before arrives in ``fetch`` by ``quiet``."""
    name = "atomic_swap_nbi" if _operation(op) == AMO_SET else f"atomic_fetch_{_operation(op)}_nbi"
    rest = (pe,) if _operation(op) == AMO_INC else (value, pe)
    getattr(pyshmem, name)(fetch, target, *rest, ctx=bare(ctx))


def reduce(
    target: Any, source: Any, op: str = OP_SUM, size: int | None = None, team: Team | None = None
) -> None:
    """The reduction ``op``: and, or, xor, max, min, sum, prod."""
    where = TEAM_WORLD if team is None else team
    getattr(pyshmem, f"{_operation(op)}_reduce")(target, source, nelems=size, team=bare(where))


def put_signal(
    target: Any, source: Any, pe: int, signal: Any, value: int, sigop: int,
    size: int | None = None, ctx: Ctx | None = None,
) -> None:  # fmt: skip
    """``pyshmem.put_signal`` in shmem4py's order."""
    pyshmem.put_signal(target, source, signal, value, sigop, pe, nelems=size, ctx=bare(ctx))


def put_signal_nbi(
    target: Any, source: Any, pe: int, signal: Any, value: int, sigop: int,
    size: int | None = None, ctx: Ctx | None = None,
) -> None:  # fmt: skip
    """``pyshmem.put_signal_nbi`` in shmem4py's order."""
    pyshmem.put_signal_nbi(target, source, signal, value, sigop, pe, nelems=size, ctx=bare(ctx))


def sync(team: Team | None = None) -> None:
    """Wait until all PEs of the team are here."""
    (TEAM_WORLD if team is None else team).sync()


# ---- memory ------------------------------------------------------------------------------------


def _made(array: Any, order: str) -> Any:
    if order == "F" and array.ndim > 1:
        pyshmem.free(array)
        raise _errors.UnsupportedError("arrays on a symmetric heap are in C order, not 'F'")
    return array


def new_array(
    shape: Any, dtype: Any = float, order: str = "C", *,
    align: int | None = None, hints: int | None = None, clear: bool = True,
) -> Any:  # fmt: skip
    """A symmetric array, of zeros unless ``clear`` is false. Collective."""
    array = pyshmem.empty(shape, dtype, align=align, hints=hints or 0)
    if clear:
        array[...] = 0
        pyshmem.sync_all()
    return _made(array, order)


def empty(shape: Any, dtype: Any = float, order: str = "C", **options: Any) -> Any:
    """A symmetric array without values. Collective."""
    return new_array(shape, dtype, order, clear=False, **options)


def zeros(shape: Any, dtype: Any = float, order: str = "C", **options: Any) -> Any:
    """A symmetric array of zeros. Collective."""
    return new_array(shape, dtype, order, **options)


def full(shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", **options: Any) -> Any:
    """A symmetric array of one value. Collective."""
    kind = np.asarray(fill_value).dtype if dtype is None else dtype
    array = new_array(shape, kind, order, clear=False, **options)
    array[...] = np.asarray(fill_value).astype(array.dtype)
    pyshmem.sync_all()
    return array


def ones(shape: Any, dtype: Any = float, order: str = "C", **options: Any) -> Any:
    """A symmetric array of ones. Collective."""
    return full(shape, 1, dtype, order, **options)


def array(obj: Any, dtype: Any = None, *, order: str = "K", **options: Any) -> Any:
    """A symmetric array with the elements of another. Collective."""
    values = np.asarray(obj, dtype)
    made = new_array(values.shape, values.dtype, order, clear=False, **options)
    made[...] = values
    pyshmem.sync_all()
    return made


def alloc(
    count: int, size: int = 1, align: int | None = None, hints: int | None = None,
    clear: bool = True,
) -> Any:  # fmt: skip
    """``count * size`` symmetric bytes. Collective."""
    return new_array(count * size, np.uint8, align=align, hints=hints, clear=clear)


def fromalloc(mem: Any, shape: Any = None, dtype: Any = None, order: str = "C") -> Any:
    """What ``alloc`` returned as an array; free ``mem``, not the array."""
    typed = mem.view(np.uint8 if dtype is None else dtype)
    return typed if shape is None else typed.reshape(shape, order=order)


def free(mem: Any) -> None:
    """Give an array back. Collective."""
    pyshmem.free(mem)


del_array = free


def new_signal() -> Any:
    """A signal word of 0. Collective."""
    return pyshmem.new_signal()


def del_signal(signal: Any) -> None:
    """Give a signal word back. Collective."""
    pyshmem.free(signal)


# ---- locks and the rest ------------------------------------------------------------------------


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
        """Nothing: the memory goes back when every PE has dropped the lock."""


def init_thread(requested: int = THREAD_MULTIPLE) -> THREAD:
    """Join the job and return the level of thread support."""
    pyshmem.init(thread_level=requested)
    return pyshmem.query_thread()


def pcontrol(level: int = 1) -> None:
    """``pyshmem.pcontrol``."""
    pyshmem.pcontrol(level)


if not pyshmem.initialized():
    pyshmem.init()
