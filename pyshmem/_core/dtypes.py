# SPDX-License-Identifier: BSD-3-Clause
"""From a dtype to what the core can do with it."""

from __future__ import annotations

import inspect
import operator
import struct
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from .library import lib
from .type_table import ELEMENTS, elements_of
from .values import (
    CHOICES,
    element_of,
    integer_limits,
    one_value,
    outside,
    real_of,
    refuse_masked,
    refuse_misplaced,
    shown,
    unfit,
)

#: What users may give as a dtype: also names of ml_dtypes and torch dtypes.
DTypeLike = npt.DTypeLike | Any


class Kind:
    """What the core can do with a dtype. One object a dtype, so ``is`` compares dtypes."""

    __slots__ = (
        "atomic", "atomic_fetch", "compare_swap", "dtype", "element", "failed", "g", "native", "p",
        "plain", "test", "wait_until",
    )  # fmt: skip

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype
        names = [e.name for e in ELEMENTS if _is_element(dtype, e.dtype)]
        name = names[0] if names else ""
        #: Number of the element type in the core, -1: bytes only.
        self.element = next((i for i, e in enumerate(ELEMENTS) if e.name == name), -1)
        #: Calls of the extension for one value; None: not for this dtype.
        self.p: Any = getattr(lib, f"p_{name}", None)
        self.g: Any = getattr(lib, f"g_{name}", None)
        self.atomic: Any = getattr(lib, f"atomic_{name}", None)
        self.atomic_fetch: Any = getattr(lib, f"atomic_fetch_{name}", None)
        self.compare_swap: Any = getattr(lib, f"compare_swap_{name}", None)
        self.wait_until: Any = getattr(lib, f"wait_until_{name}", None)
        self.test: Any = getattr(lib, f"test_{name}", None)
        #: What those return when they may have failed.
        self.failed: Any = getattr(lib, f"failed_{name}", None)
        #: The Python type of one value.
        self.native: type = float if dtype.kind == "f" else int
        #: Values of that type need no look: a float may be too large for float32, which C makes inf.
        self.plain: type | None = None if name == "float" else self.native

    def scalar(self, value: Any, name: str) -> Any:
        """``value`` as ``native``, refusing what would lose something but an integer out of range."""
        if type(value) is not self.native:
            refuse_misplaced(name, value)
            value = one_value(value, name)
        if self.native is int:
            try:
                return operator.index(value)
            except TypeError:
                raise unfit(self.dtype, value, name) from None
        number = value if type(value) is float else real_of(self.dtype, value, name)
        if self.plain is None:
            try:
                struct.pack("=f", number)  # native "f" makes it inf
            except OverflowError:
                raise outside(self.dtype, number, name) from None
        return number

    def one(self, value: Any, name: str) -> np.ndarray[Any, Any]:
        """``value`` as an array of one element; of any dtype."""
        return element_of(self.dtype, value, name)


def bits_of(kind: Kind, value: Any, name: str = "value") -> int:
    """The bits of one value of an atomic's dtype, the argument ``name``, as the library carries them."""
    number = kind.scalar(value, name)
    letters = {4: "fiI", 8: "dqQ"}[kind.dtype.itemsize]
    letter = letters["fiu".index(kind.dtype.kind)]
    try:
        return int.from_bytes(struct.pack(f"={letter}", number), "little")
    except (struct.error, OverflowError):
        least, most = integer_limits(kind.dtype)
        raise outside(kind.dtype, number, name, f"{least}..{most}") from None


def out_of_range(kind: Kind, *values: Any) -> OverflowError:
    """The error behind an OverflowError of the extension: the first of ``values`` that does not fit."""
    least, most = integer_limits(kind.dtype)
    wrong = next((value for value in values if not least <= value <= most), values[0])
    return outside(kind.dtype, wrong, "value", f"{least}..{most}")


def integer(name: str, value: Any, dtype: Any = np.int32) -> int:
    """The argument ``name`` as an int that fits ``dtype``, of 32 bits or more.

    Raises: TypeError (no integer), OverflowError.
    """
    if type(value) is int and 0 <= value < 1 << 31:
        return value
    number, (least, most) = integer_of(name, value), integer_limits(np.dtype(dtype))
    if not least <= number <= most:
        raise OverflowError(
            f"{name} is {shown(number)}, which is outside {np.dtype(dtype)} ({least}..{most})"
        )
    return number


def nelems_of(name: str, value: Any) -> int:
    """The argument ``name`` as a number of elements, which is still to be held against an array's.

    Raises: TypeError (no integer).
    """
    return value if type(value) is int else integer_of(name, value)


def pe_number(pe: Any, name: str = "pe") -> int:
    """A PE as the library takes it, which knows the numbers that there are.

    Raises: TypeError (no integer), ValueError (no job has such a PE).
    """
    if type(pe) is int and 0 <= pe < 1 << 31:
        return pe
    number = integer_of(name, pe)
    if not -1 << 31 <= number < 1 << 31:
        raise ValueError(f"{name} {shown(number)} is outside the job")
    return number


def integer_of(name: str, value: Any) -> int:
    """The argument ``name`` as an int: what any integer of a user's goes through.

    Raises: TypeError (no integer).
    """
    refuse_masked(value, name)
    refuse_misplaced(name, value)
    try:
        return operator.index(value)
    except TypeError:
        if inspect.isroutine(value) and name not in CHOICES:
            called = f"{value.__name__}()"
            raise TypeError(f"{name} is a function, not an integer: call it, {called}") from None
        what = f"{name} is {shown(value)} ({type(value).__name__}), not an integer"
        constants = CHOICES.get(name)
        raise TypeError(f"{what}; give pyshmem.{constants}" if constants else what) from None


def _is_element(dtype: np.dtype[Any], name: str) -> bool:
    if not dtype.isnative or dtype.fields is not None:
        return False
    if name == "bfloat16":  # known to NumPy only where ml_dtypes has been imported
        return dtype.name == name
    return dtype == np.dtype(name)


_kinds: dict[np.dtype[Any], Kind] = {}


def kind_of(dtype: np.dtype[Any]) -> Kind:
    """The ``Kind`` of a dtype."""
    try:
        return _kinds[dtype]
    except KeyError:
        return _kinds.setdefault(dtype, Kind(dtype))


#: What people of machine learning call them.
_SHORT_NAMES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "fp64": "float64"}


def as_dtype(dtype: Any, *, of_values: bool = False) -> np.dtype[Any]:
    """A dtype from what NumPy takes, a name of ml_dtypes such as "bfloat16" (or "bf16"), or of torch.

    ``of_values``: values will give it a size where it has none, as "S".
    """
    found: np.dtype[Any]
    try:
        found = np.dtype(dtype)
    except TypeError:
        import ml_dtypes

        name = str(dtype).removeprefix("torch.")
        name = _SHORT_NAMES.get(name, name)
        named = getattr(ml_dtypes, name, None) or getattr(np, name, None)
        if not isinstance(named, type):
            hint = "; a shape of several numbers is a tuple" if isinstance(dtype, int) else ""
            if isinstance(dtype, str) and dtype in ("host", "device"):
                hint = f"; where an array lies is heap={dtype!r}"
            told = f"dtype {dtype!r} is known neither to NumPy nor to ml_dtypes{hint}"
            raise TypeError(told) from None
        found = np.dtype(named)
    if found.hasobject:
        raise TypeError(f"dtype {found} holds Python objects; other PEs cannot use their addresses")
    if found.subdtype is not None:
        base, extents = found.subdtype
        raise TypeError(
            f"dtype {found} is an array of {base}, of which NumPy makes further extents; give dtype "
            f"{base} and the shape (..., {', '.join(map(str, extents))})"
        )
    if found.itemsize == 0 and not of_values:
        raise TypeError(f"dtype {found} has no size; give one, such as 'S8'")
    return found


class AsBits:
    """An array of 16-bit elements, of any library, as uint16: for those who do not know its dtype.

    torch has no ``__cuda_array_interface__`` for bfloat16; CuPy's has no name for it.
    """

    def __init__(self, array: Any) -> None:
        if str(array.dtype).startswith("torch."):
            array = array.view(sys.modules["torch"].int16)  # the same memory
        self._array = array
        #: What tells whether an array of ours is still there.
        self.data = getattr(array, "data", None)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return dict(self._array.__cuda_array_interface__, typestr="<u2", descr=[("", "<u2")])


def unsupported_dtype(routine: str, kind: Kind, family: str) -> TypeError:
    """The error of a dtype outside the table of ``routine``; names those inside."""
    inside = ", ".join(element.dtype for element in elements_of(family))
    return TypeError(f"{routine}: dtype {kind.dtype} is outside the routine's types: {inside}")
