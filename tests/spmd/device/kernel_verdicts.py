# SPDX-License-Identifier: BSD-3-Clause
"""What kernels may be given: for each routine, dtype and form of its arrays one verdict.

The simulator has to give it (``test_verdicts.py``), and the compiler for GPUs
(``tests/unit/test_sm90_verdicts.py``).
A verdict is empty, or what the error says. The table walks the public routines: a new one with arrays
is in it, or a parameter of unknown name fails the test.
"""

from __future__ import annotations

import inspect

import numpy as np

from pyshmem import device as shmem
from pyshmem._core.type_table import ELEMENTS
from pyshmem.device.families import FAMILY_DTYPES
from pyshmem.device.leaf.backend import device_function
from pyshmem.device.routine import ROUTINES

UNKNOWN, OUTSIDE = "Numba has no such type", "is not among the types of this routine"
ORDERS, LAYOUT = "bytes are copied as they lie", "pyshmem.device routines take contiguous arrays"

#: Dtypes outside the type table that Numba has.
TEXT_AND_RECORDS: dict = {
    "S3": "S3", "S12": "S12", "U1": "<U1", "M8": "M8[s]",
    "three bytes": [("a", "u1"), ("b", "u1"), ("c", "u1")],
    "eight bytes": [("a", "i4"), ("b", "f4")], "twelve bytes": [("a", "i4"), ("b", "f8")],
    "twenty-four bytes": [("a", "f8"), ("b", "f8"), ("c", "f8")],
}  # fmt: skip
#: Those that no kernel has.
OF_NO_KERNEL = (">i4", ">f8", ">u8", ">c8", "V3", "V24", "longdouble", "clongdouble")
OF_THE_TABLE = [element.dtype for element in ELEMENTS if element.dtype != "longdouble"]


def numpy_dtype(name: str) -> np.dtype:
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(TEXT_AND_RECORDS.get(name, name))


def family_of(routine: str) -> str:
    """The family of the type table whose dtypes a routine takes; empty: any dtype."""
    base, _, kind = routine.partition("_")
    if base == "atomic":
        words = kind.removesuffix("_nbi").removeprefix("fetch_")
        if words == "add":
            return "a" if routine.endswith("_nbi") else "d"
        families = dict.fromkeys(("fetch", "set", "swap"), "x") | dict.fromkeys(
            ("and", "or", "xor"), "b"
        )
        return families.get(words, "a")
    if kind.startswith(("reduce", "inscan", "exscan")):
        return {"sum": "s", "prod": "s", "max": "m", "min": "m"}.get(base, "t")
    if kind == "lock":
        return "lock"
    if base == "signal":
        return "signal"
    if base in ("wait", "test"):
        return "a"
    if base in ("broadcast", "collect", "fcollect", "alltoall", "alltoalls"):
        return "r"
    return "element" if base in ("p", "g") else ""


# -- the forms of arrays ---------------------------------------------------------------------------

#: ``f`` with its first array in that form: Numba lets no function but a kernel return a view.
FORMS = {
    "whole": lambda f: lambda a, b, sig, numbers: f(a, b, sig, numbers),
    "rows": lambda f: lambda a, b, sig, numbers: f(a[1:3], b, sig, numbers),
    "one row": lambda f: lambda a, b, sig, numbers: f(a[1], b, sig, numbers),
    "turned": lambda f: lambda a, b, sig, numbers: f(a.T, b, sig, numbers),
    "rows of all columns": lambda f: lambda a, b, sig, numbers: f(a[1:3, :], b, sig, numbers),
    "all columns": lambda f: lambda a, b, sig, numbers: f(a[..., 0:4], b, sig, numbers),
    "a column": lambda f: lambda a, b, sig, numbers: f(a[:, 1], b, sig, numbers),
    "with a step": lambda f: lambda a, b, sig, numbers: f(a[0:3:1], b, sig, numbers),
    "rows of what is turned": lambda f: lambda a, b, sig, numbers: f(a.T[1:3], b, sig, numbers),
    "turned twice": lambda f: lambda a, b, sig, numbers: f(a[1:3, :].T.T, b, sig, numbers),
}
CONTIGUOUS = ("whole", "rows", "one row", "turned")
#: Of dest and source.
PAIRS = [(form, form) for form in FORMS] + [
    ("whole", "turned"), ("turned", "rows"), ("one row", "turned"), ("turned", "one row"),
    ("rows", "whole"),
]  # fmt: skip


def verdict(routine: str, dtype: str, dest: str = "whole", source: str = "whole") -> str:
    family = family_of(routine)
    if dtype in OF_NO_KERNEL:
        return UNKNOWN
    if family and dtype not in FAMILY_DTYPES[family]:
        return OUTSIDE
    forms = (dest, source) if takes_two(routine) else (dest,)
    if not set(forms) <= set(CONTIGUOUS):
        return LAYOUT
    matrices = [form for form in forms if form != "one row"]
    return ORDERS if len({form == "turned" for form in matrices}) > 1 else ""


# -- kernels ---------------------------------------------------------------------------------------

ARRAYS = ("dest", "source", "fetch", "ivar", "ivars", "lock", "array")


def parameters(routine: str) -> list[str]:
    """Those without a default; of intrinsics without the context, which Numba gives them."""
    shown = inspect.signature(getattr(shmem, routine)).parameters.values()
    return [one.name for one in shown if one.default is one.empty and one.name != "_context"]


def typed(routine: str) -> bool:
    """Has it an array whose dtype and form are the caller's?"""
    names = parameters(routine)
    return bool(set(names) & {*ARRAYS, "sig_addr"})


def takes_two(routine: str) -> bool:
    """Does it copy between two arrays?"""
    return len({"dest", "source", "fetch"} & set(parameters(routine))) == 2


#: Routines with arrays, by a thread. The groups' forms are made of the same bodies.
CASES = [
    name
    for name in (*ROUTINES, "ptr")
    if not name.endswith(("_warp", "_work_group", "_grid")) and typed(name)
]

#: A call of ``f``, by its parameters; ``a`` and ``b`` are its arrays, in its order.
CALLS = {
    "dest source pe": lambda f: lambda a, b, sig, numbers: f(a, b, shmem.my_pe()),
    "dest source sig_addr signal sig_op pe": lambda f: (
        lambda a, b, sig, numbers: f(a, b, sig, 1, shmem.SIGNAL_SET, shmem.my_pe())
    ),
    "dest source dst sst nelems pe": lambda f: (
        lambda a, b, sig, numbers: f(a, b, 1, 1, 1, shmem.my_pe())
    ),
    "dest source dst sst bsize nblocks pe": lambda f: (
        lambda a, b, sig, numbers: f(a, b, 1, 1, 1, 1, shmem.my_pe())
    ),
    "team dest source nelems": lambda f: lambda a, b, sig, numbers: f(0, a, b, 1),
    "team dest source nelems root": lambda f: lambda a, b, sig, numbers: f(0, a, b, 1, 0),
    "team dest source dst sst nelems": lambda f: lambda a, b, sig, numbers: f(0, a, b, 1, 1, 1),
    "source pe": lambda f: lambda a, b, sig, numbers: f(a, shmem.my_pe()),
    # Of the array that ``ptr`` makes: functions of kernels return no arrays that they made.
    "array pe": lambda f: lambda a, b, sig, numbers: f(a, shmem.my_pe()).size,
    "dest value pe": lambda f: lambda a, b, sig, numbers: f(a, 0, shmem.my_pe()),
    "dest cond value pe": lambda f: lambda a, b, sig, numbers: f(a, 0, 0, shmem.my_pe()),
    "fetch dest pe": lambda f: lambda a, b, sig, numbers: f(a, b, shmem.my_pe()),
    "fetch dest value pe": lambda f: lambda a, b, sig, numbers: f(a, b, 0, shmem.my_pe()),
    "fetch dest cond value pe": lambda f: lambda a, b, sig, numbers: f(a, b, 0, 0, shmem.my_pe()),
    "ivar cmp cmp_value": lambda f: lambda a, b, sig, numbers: f(a, shmem.CMP_EQ, 0),
    "ivars nelems status cmp cmp_value": lambda f: (
        lambda a, b, sig, numbers: f(a, 1, None, shmem.CMP_EQ, 0)
    ),
    "ivars nelems status cmp cmp_values": lambda f: (
        lambda a, b, sig, numbers: f(a, 1, None, shmem.CMP_EQ, numbers)
    ),
    "ivars nelems indices status cmp cmp_value": lambda f: (
        lambda a, b, sig, numbers: f(a, 1, numbers, None, shmem.CMP_EQ, 0)
    ),
    "ivars nelems indices status cmp cmp_values": lambda f: (
        lambda a, b, sig, numbers: f(a, 1, numbers, None, shmem.CMP_EQ, numbers)
    ),
    "lock": lambda f: lambda a, b, sig, numbers: f(a),
    "sig_addr signal sig_op pe": lambda f: (
        lambda a, b, sig, numbers: f(a, 1, shmem.SIGNAL_SET, shmem.my_pe())
    ),
    "sig_addr signal pe": lambda f: lambda a, b, sig, numbers: f(a, 1, shmem.my_pe()),
}
#: Parameters by other names.
ALIASES = {
    "team dest source nreduce": "team dest source nelems", "dest pe": "source pe",
    "fetch source pe": "fetch dest pe", "sig_addr": "lock",
    "sig_addr cmp cmp_value": "ivar cmp cmp_value",
}  # fmt: skip


def _second(form):
    """The form of the second array."""

    def of(f):
        swapped = device_function(lambda a, b, sig, numbers: f(b, a, sig, numbers))
        cut = device_function(form(swapped))
        return lambda a, b, sig, numbers: cut(b, a, sig, numbers)

    return of


def kernel_of(routine: str, dest: str = "whole", source: str = "whole"):
    """``kernel(a, b, sig, numbers)``: one call, with ``a`` and ``b`` in these forms."""
    names = " ".join(parameters(routine))
    call = device_function(CALLS[ALIASES.get(names, names)](getattr(shmem, routine)))
    return FORMS[dest](device_function(_second(FORMS[source])(call)))


def a_dtype_of(routine: str) -> str:
    """One that it takes."""
    return sorted(FAMILY_DTYPES[family_of(routine) or "r"])[0]
