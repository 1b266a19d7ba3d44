# SPDX-License-Identifier: BSD-3-Clause
"""What kernels report, in words: the text of the host's exception.

Kernels of every compiler write the same record (``ishmemx_fault``); each front end says which names
belong to the kernels it knows.
"""

import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any

from .._core.contract import CMP, FAULT, WAITING
from .._core.library import ffi, lib, set_fault_formatter
from .._core.type_table import ROUTINES
from .messages import OPERATIONS

FAULT_PE, FAULT_ADDRESS, FAULT_NELEMS = FAULT.PE, FAULT.ADDRESS, FAULT.NELEMS
FAULT_TIMEOUT, FAULT_PROXY, FAULT_TEAM = FAULT.TIMEOUT, FAULT.PROXY, FAULT.TEAM
FAULT_STRIDE, FAULT_LOCK, FAULT_FAR = FAULT.STRIDE, FAULT.LOCK, FAULT.FAR
FAULT_CHOICE, FAULT_CHANNEL, FAULT_ATOMICS = FAULT.CHOICE, FAULT.CHANNEL, FAULT.ATOMICS

#: Routines of kernels by name.
OP = {name: number for number, name in enumerate(ROUTINES)}
ROUTINE_BITS = WAITING.COLLECTIVE  # of a number in ROUTINES, where more is packed above it
CMP_SHIFT, MANY, GAVE_UP = WAITING.CMP, 1 << WAITING.MANY, 1 << WAITING.GAVE_UP
_SYMBOLS = {CMP.EQ: "==", CMP.NE: "!=", CMP.GT: ">", CMP.GE: ">=", CMP.LT: "<", CMP.LE: "<="}

for _name, _number in OP.items():
    lib.ishmemx_name_set(lib.ISHMEMX_NAME_ROUTINE, _number, _name.encode())

#: Front ends' ``f(number)``: the kernel's name, or None when the number is not one of theirs. And the
#: module whose routines their kernels call with the arguments of OpenSHMEM, if there is one.
_namers: list[tuple[Callable[[int], str | None], str]] = []


def add_kernel_namer(namer: Callable[[int], str | None], module: str = "") -> None:
    """Ask ``namer`` too for the name that goes with word MODULE of a record."""
    _namers.append((namer, module))
    set_fault_formatter(_format_fault)


def kernel_name(number: int) -> str:
    """The name of the kernel whose word MODULE is ``number``; "?" when no front end knows it."""
    names = (namer(number) for namer, _ in _namers)
    return next((name for name in names if name), "?")


def _in_order(op: str, number: int) -> str:
    """How a routine is called whose ``pe`` is before ``nelems``, which C has the other way round."""
    module = next((module for namer, module in _namers if module and namer(number)), "")
    routine: Any = getattr(sys.modules.get(module), op, None)
    routine = getattr(routine, "fn", routine)  # of what a compiler has wrapped
    try:
        own = [name for name in inspect.signature(routine).parameters if name != "ctx"]
    except (TypeError, ValueError):
        return ""
    both = "pe" in own and "nelems" in own and own.index("pe") < own.index("nelems")
    return f"; it is called so: {op}({', '.join(own)})" if both else ""


def _format_fault(fault: Mapping[str, int]) -> str:
    return describe_fault(fault, kernel_name(fault["module"]))


def _text(ask: Callable[[Any, int], int], capacity: int) -> str:
    text = ffi.new("char[]", capacity)
    ask(text, capacity)
    return str(ffi.string(text).decode(errors="replace"))


def proxy_error() -> str:
    """What went wrong with the last request that failed in the proxy."""
    return _text(lib.ishmemx_proxy_error, 1024)


def report() -> str:
    """Where all PEs stand, and what their kernels wait for."""
    return _text(lib.ishmemx_report, 8192)


_WHAT = {
    FAULT_PE: "pe {a} is not one of the {b} PEs (0..{last}){outside}; nothing was transferred",
    FAULT_ADDRESS: "{b} bytes at {a:#x} are not on the device heap; pass an array made with "
    "heap='device' (nothing was transferred)",
    FAULT_NELEMS: "nelems {a} does not fit the arrays, which hold {b}; nothing was done",
    FAULT_TIMEOUT: "waited longer than PYSHMEM_TIMEOUT for {aim}{whom}; the PEs stand:\n",
    FAULT_PROXY: "the request failed on the host: ",
    FAULT_TEAM: "slot {a} holds no team of this PE (destroyed, or not a member?)",
    FAULT_LOCK: "no thread of this PE has the lock; it stays as it is",
    FAULT_FAR: "PE {a} is not reached by loads and stores (on another host, PYSHMEM_P2P=0, or an array "
    "on the host heap), so there is no pointer to it: put, get, load and store go by the host "
    "(nothing was transferred)",
    FAULT_ATOMICS: "the link to the GPU of PE {a} has no native atomic operations (or "
    "PYSHMEM_P2P_ATOMICS is owner): Numba kernels and the host ask that PE for them, Triton's "
    "cannot; use signals that are set",
    FAULT_CHANNEL: "two groups of this PE are in collectives of one team at a time (slot {a}); "
    "threads that belong together call the routine of all of them, as sum_reduce_work_group, or one of "
    "them calls it; groups that are apart take a channel each: team.channels(n)",
    FAULT_STRIDE: "stride {a} is less than 1, or than the block of {b}; nothing was transferred",
}


#: Collectives with arrays that are longer than ``nelems``.
_OF_EACH = {
    "alltoall": "dest and source hold",
    "alltoalls": "dest and source hold",
    "fcollect": "dest holds",
}


def _no_choice(a: int, last: int) -> str:
    """Of a number that is none: the last one tells which it was to be."""
    if last == CMP.LE:
        return f"cmp is {a}, not one of CMP_EQ (1) to CMP_LE ({last}); nothing was done"
    return f"sig_op is {a}, neither SIGNAL_SET (0) nor SIGNAL_ADD ({last}); nothing was done"


def _beyond_channel(a: int, b: int) -> str:
    """Of a channel of Triton's kernels: what it has comes with a minus, so does a program."""
    if a < 0:
        return (
            f"program {-a - 1} has no place in the channel, which was made for {-b}: the first argument "
            "of channel(programs, nbytes) is the programs of the largest grid; nothing was done"
        )
    return (
        f"a tile of {4 * a} bytes does not fit the channel, whose programs have {-4 * b}: the second "
        "argument of channel(programs, nbytes) is the bytes of the largest tile; nothing was done"
    )


def _aim(what: int, a: int, b: int) -> str:
    """What a wait that gave up was for, in the words of reports (host_proxy/messages.c)."""
    symbol = _SYMBOLS.get(what >> CMP_SHIFT & 15, "")
    if what & MANY:
        return f"{a} elements {symbol} {b}" if symbol else f"{a} elements"
    past = ", which is past it: CMP_GE takes that too" if symbol == "==" and b > a > 0 else ""
    return f"{symbol} {a} and saw {b}{past}".lstrip()


def describe_fault(fault: Mapping[str, int], kernel: str) -> str:
    """One sentence for the host's exception. ``fault`` has the fields of ``ishmemx_fault``."""
    if fault["module"] < 0:  # the proxy's own record: no kernel waited
        request = OPERATIONS[fault["op"]] if 0 < fault["op"] < len(OPERATIONS) else "quiet"
        if request == "waiting":
            return f"a kernel's wait was ended: {proxy_error()}"
        return f"a kernel's {request} without a reply failed on the host: {proxy_error()}"
    number = fault["op"] & ((1 << ROUTINE_BITS) - 1)
    op = ROUTINES[number] if number < len(ROUTINES) else f"operation {number}"
    if op == "reduce":
        op = "reduce (as sum_reduce, max_reduce)"
    where = (
        f"in kernel {kernel}, block {fault['block']}, thread {fault['thread']}: device routine {op}"
    )
    kind, pe, a, b = fault["kind"], fault["pe"], fault["a"], fault["b"]
    what = _WHAT.get(kind, "fault {kind}").format(
        kind=kind, a=a, b=b, last=b - 1, aim=_aim(fault["op"], a, b),
        whom=f" from PE {pe}" if pe >= 0 else "",
        outside=", or, with ctx=, was outside its team" if a == -1 else "",
    )  # fmt: skip
    if kind == FAULT_NELEMS and b < 0:
        what = _beyond_channel(a, b)
    if (kind == FAULT_PE and a >= b) or (kind == FAULT_NELEMS and 0 <= a < lib.ishmemx_n_pes()):
        what += _in_order(op, fault["module"])
    if kind == FAULT_NELEMS and op in _OF_EACH:
        what += f"; nelems is one PE's share, {_OF_EACH[op]} as many for each PE"
    if kind == FAULT_CHOICE:
        what = _no_choice(a, b)
    if op.startswith("put_signal"):  # by stores the data is on its way when the signal is looked at
        what = what.replace("nothing was transferred", "no signal was sent")
    if kind == FAULT_TIMEOUT:
        what += report()
    elif kind == FAULT_PROXY:
        what += proxy_error()
    return f"{where}: {what}"
