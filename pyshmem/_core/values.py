# SPDX-License-Identifier: BSD-3-Clause
"""From a value that a user gives to an element of an array: the one place that converts, for all dtypes.

NumPy's own conversions wrap, cut off, or make infinities of what a dtype cannot hold, each dtype in a
way of its own. Here floats are rounded; anything else that would come out as another value is refused.

Comparisons and signal operations are integers, each of a class of its own, so that swapped arguments are
told; plain numbers may be given in their place.
"""

from __future__ import annotations

import datetime
import functools
import math
import numbers
import operator
from collections.abc import Callable, Iterable
from enum import Enum, IntEnum
from inspect import Signature
from typing import Any

import numpy as np

from .contract import CMP, SIGNAL

#: Makes an array of no dimension of a value; raises TypeError, OverflowError.
_Maker = Callable[[np.dtype[Any], Any, str], "np.ndarray[Any, Any]"]
_TEXTS = (str, bytes, bytearray, memoryview)


def is_integer(value: Any) -> bool:
    """Whether it is an int or an integer of NumPy; not a span of time, which NumPy counts among them."""
    return isinstance(value, int | np.integer) and not isinstance(value, np.timedelta64)


def refuse_masked(value: Any, name: str) -> None:
    """Raises: TypeError for a masked array, whose index and value are those of an element that hides."""
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name} is masked; give the value itself, as np.ma.getdata does")


def element_of(dtype: np.dtype[Any], value: Any, name: str = "value") -> np.ndarray[Any, Any]:
    """An array of no dimension with ``value``, which the caller calls ``name``, as a ``dtype``.

    Raises: TypeError (of another kind than the dtype's values), OverflowError (it is outside).
    """
    return _maker_of(dtype)(dtype, one_value(value, name), name)


def fitting(dtype: np.dtype[Any], value: Any, name: str = "fill_value") -> None:
    """Refuse one Python integer that an integer dtype cannot hold: older NumPy and ml_dtypes wrap it.

    And what is masked, whose elements do not count.

    Other values of new arrays go by NumPy's rules, of which its users know.
    """
    refuse_masked(value, name)
    if isinstance(value, int) and _maker_of(dtype) is _integer:
        _integer(dtype, value, name)


def shown(value: Any) -> str:
    """``value`` for a message; of a long one its beginning, of a long integer its size."""
    if (
        isinstance(value, int) and value.bit_length() > 1024
    ):  # Python refuses to print much longer ones
        return f"an integer of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def with_article(name: str) -> str:
    """``an int``, ``a list``: the name of a type in a sentence."""
    return f"{'an' if name[:1] in tuple('aeioAEIO') else 'a'} {name}"


def outside(dtype: np.dtype[Any], value: Any, name: str, limits: str = "") -> OverflowError:
    """The error of a value that the dtype cannot hold."""
    return OverflowError(f"{name} {shown(value)} is outside {dtype}{limits and f' ({limits})'}")


def unfit(dtype: np.dtype[Any], value: Any, name: str) -> TypeError:
    """The error of a value that is none of the dtype's."""
    cut = isinstance(value, (float, np.floating)) and dtype.kind in "iu"
    way = ""
    if cut and float(value).is_integer():
        way = f"; int({shown(value)}) is a whole number"
    elif cut and name in ("value", "cond"):
        way = "; make the array with dtype=float"
    if isinstance(value, (list, tuple)):
        way = "; give one value"
    return TypeError(
        f"{name} is {shown(value)} ({type(value).__name__}); the array's dtype is {dtype}{way}"
    )


def real_of(dtype: np.dtype[Any], value: Any, name: str) -> float:
    """A real number as a float, for a dtype of floats; not yet looked at whether that holds it."""
    given: Any = value
    kind = value.dtype.kind if isinstance(value, np.generic) else ""
    is_complex = isinstance(value, numbers.Complex) and not isinstance(value, numbers.Real)
    if isinstance(value, _TEXTS) or is_complex or kind not in ("", *"biufV"):
        raise unfit(dtype, value, name)  # float() reads texts, and drops imaginary parts and units
    try:
        number = float(given)
    except OverflowError:
        raise outside(dtype, value, name) from None
    except Exception:  # what objects of other libraries raise
        raise unfit(dtype, value, name) from None
    if math.isinf(number) and value != number:
        raise outside(dtype, value, name)
    return number


# ---- what a value is -----------------------------------------------------------------------------


def one_value(value: Any, name: str) -> Any:
    """A value as it is, of an array without dimensions its element.

    Raises: TypeError (it has dimensions, or is masked).
    """
    refuse_masked(value, name)
    if isinstance(value, np.ndarray):
        if value.ndim:
            raise TypeError(f"{name} is an array of shape {value.shape}; give one value")
        return value[()]
    if isinstance(value, np.generic) or getattr(value, "shape", None) != ():
        return value
    return value.item() if hasattr(value, "item") else value


@functools.cache
def _maker_of(dtype: np.dtype[Any]) -> _Maker:
    if dtype.subdtype is not None:
        return _subarray
    if dtype.names is not None:
        return _record
    if dtype.type.__module__.partition(".")[0] == "ml_dtypes":
        return _maker_of_extension(dtype)
    makers: dict[str, _Maker] = {
        "b": _boolean, "i": _integer, "u": _integer, "f": _real, "c": _complex, "S": _bytes,
        "U": _text, "V": _void, "M": _time, "m": _time,
    }  # fmt: skip
    return makers.get(dtype.kind, _own) if dtype.type.__module__ == "numpy" else _own


def _maker_of_extension(dtype: np.dtype[Any]) -> _Maker:
    if "int" in dtype.name:
        return _integer
    return _complex if "complex" in dtype.name else _real


def _own(dtype: np.dtype[Any], value: Any, name: str) -> np.ndarray[Any, Any]:
    """Of dtypes of other libraries, their own scalars alone."""
    if not isinstance(value, dtype.type):
        raise unfit(dtype, value, name)
    return np.array(value, dtype)


# ---- numbers -------------------------------------------------------------------------------------


def _boolean(dtype: np.dtype[Any], value: Any, name: str) -> np.ndarray[Any, Any]:
    if isinstance(value, np.bool_):
        return np.array(value, dtype)
    try:
        number = operator.index(value)
    except TypeError:
        raise unfit(dtype, value, name) from None
    if number not in (0, 1):
        raise outside(dtype, value, name, "False, True, 0 or 1")
    return np.array(number, dtype)


@functools.cache
def integer_limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    """The least and the largest value of an integer dtype, those of ml_dtypes too."""
    if dtype.type.__module__ == "numpy":
        known: Any = np.iinfo(dtype)
    else:
        import ml_dtypes

        known = ml_dtypes.iinfo(dtype)
    return int(known.min), int(known.max)


def _integer(dtype: np.dtype[Any], value: Any, name: str) -> np.ndarray[Any, Any]:
    try:
        number = operator.index(value)
    except TypeError:
        raise unfit(dtype, value, name) from None
    least, most = integer_limits(dtype)
    if not least <= number <= most:
        raise outside(dtype, number, name, f"{least}..{most}")
    return np.array(number, dtype)


@functools.cache
def _most_without_infinity(dtype: np.dtype[Any]) -> float:
    """The largest value of a dtype without infinity, which makes it or NaN of larger ones."""
    with np.errstate(all="ignore"):
        if np.isinf(np.array(math.inf, dtype).astype(np.float64)):
            return math.inf
    import ml_dtypes

    return float(ml_dtypes.finfo(dtype).max)


def _holds(dtype: np.dtype[Any], wanted: Any, stored: Any) -> bool:
    """Is a number that was given the number that is stored, but for rounding?"""
    if np.isnan(wanted):
        return bool(np.isnan(stored))
    if np.isinf(wanted):
        return bool(stored == wanted)
    # Rounding at most doubles what is not 0: a dtype without 0 makes its least number of all below.
    return bool(
        np.isfinite(stored)
        and abs(wanted) <= _most_without_infinity(dtype)
        and abs(stored) <= 2 * abs(wanted)
    )


def _real(dtype: np.dtype[Any], value: Any, name: str) -> np.ndarray[Any, Any]:
    if dtype.char == "g" and _is_exact(value):
        return _long_double(dtype, value, name)
    wanted = real_of(dtype, value, name)
    with np.errstate(all="ignore"):
        one = np.array(wanted, dtype)
        if not _holds(dtype, wanted, float(one)):
            raise outside(dtype, value, name)
    return one


def _is_exact(value: Any) -> bool:
    """Has it digits that a float may not have?"""
    own = value.dtype.kind in "iuf" if isinstance(value, np.generic) else isinstance(value, int)
    return own and not isinstance(value, np.timedelta64)


def _long_double(dtype: np.dtype[Any], value: Any, name: str) -> np.ndarray[Any, Any]:
    try:
        with np.errstate(all="ignore"):
            one = np.array(value, dtype)
    except (OverflowError, ValueError):  # NumPy goes by the digits, of which Python allows so many
        raise outside(dtype, value, name) from None
    if np.isinf(one) and not (isinstance(value, np.floating) and np.isinf(value)):
        raise outside(dtype, value, name)
    return one


def _complex(dtype: np.dtype[Any], value: Any, name: str) -> np.ndarray[Any, Any]:
    wanted = value
    if not isinstance(value, (np.complexfloating, np.longdouble)):  # pyright: ignore[reportArgumentType]
        kind = value.dtype.kind if isinstance(value, np.generic) else ""
        if isinstance(value, _TEXTS) or kind not in ("", *"biufcVW"):
            raise unfit(dtype, value, name)
        try:
            wanted = complex(value)
        except OverflowError:
            raise outside(dtype, value, name) from None
        except Exception:  # what objects of other libraries raise
            raise unfit(dtype, value, name) from None
        if any(map(math.isinf, (wanted.real, wanted.imag))) and value != wanted:
            raise outside(dtype, value, name)
    with np.errstate(all="ignore"):
        one = np.array(wanted, dtype)
        stored = one.astype(np.clongdouble)[()]
        part = np.dtype(np.longdouble)  # every complex dtype has infinities
        for given, kept in ((wanted.real, stored.real), (wanted.imag, stored.imag)):
            if not _holds(part, np.longdouble(given), kept):
                raise outside(dtype, value, name)
    return one


# ---- texts and bytes -----------------------------------------------------------------------------


def _fits(dtype: np.dtype[Any], value: Any, length: int, room: int, name: str) -> None:
    if length > room:
        raise outside(dtype, value, name, f"{length} characters or bytes, {room} fit")


def _bytes(dtype: np.dtype[Any], value: Any, name: str) -> np.ndarray[Any, Any]:
    if not isinstance(value, (str, bytes)) or (isinstance(value, str) and not value.isascii()):
        raise unfit(dtype, value, name)
    _fits(dtype, value, len(value), dtype.itemsize, name)
    return np.array(value, dtype)


def _text(dtype: np.dtype[Any], value: Any, name: str) -> np.ndarray[Any, Any]:
    if not isinstance(value, str):
        raise unfit(dtype, value, name)
    _fits(dtype, value, len(value), dtype.itemsize // 4, name)
    return np.array(value, dtype)


def _void(dtype: np.dtype[Any], value: Any, name: str) -> np.ndarray[Any, Any]:
    if isinstance(value, np.void) and value.dtype.names is None:
        value = value.tobytes()
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise unfit(dtype, value, name)
    given = bytes(value)
    _fits(dtype, given, len(given), dtype.itemsize, name)
    return np.array(given.ljust(dtype.itemsize, b"\0"), dtype)


# ---- times ---------------------------------------------------------------------------------------


def _time(dtype: np.dtype[Any], value: Any, name: str) -> np.ndarray[Any, Any]:
    """A point in time or a distance; a finer one than the dtype's unit is refused."""
    moment = dtype.kind == "M"
    own: type = np.datetime64 if moment else np.timedelta64
    others: Any = (str, datetime.date) if moment else datetime.timedelta
    try:
        if isinstance(value, own):
            given = np.array(value)
        elif isinstance(value, others):
            given = np.array(own(value))
        elif is_integer(value):
            return np.array(operator.index(value), dtype)
        else:
            raise unfit(dtype, value, name)
        one = given.astype(dtype, casting="unsafe" if moment else "same_kind")
        back = one.astype(given.dtype, casting="unsafe")
    except OverflowError:
        raise outside(dtype, value, name) from None
    except (ValueError, TypeError):
        raise unfit(dtype, value, name) from None
    if not np.isnat(given) and back != given:
        raise outside(dtype, value, name)
    return one


# ---- records -------------------------------------------------------------------------------------


def _record(dtype: np.dtype[Any], value: Any, name: str) -> np.ndarray[Any, Any]:
    """A record, field by field: a tuple, or a record with the same names."""
    assert dtype.names is not None
    fields: Any = dtype.fields
    if isinstance(value, np.void) and value.dtype == dtype:
        return np.array(value, dtype)
    if isinstance(value, np.void) and value.dtype.names == dtype.names:
        given = tuple(value[field] for field in dtype.names)
    elif isinstance(value, tuple) and len(value) == len(dtype.names):
        given = value
    else:
        raise unfit(dtype, value, name)
    one = np.zeros((), dtype)
    for field, part in zip(dtype.names, given, strict=True):
        kind = fields[field][0]
        one[field] = _maker_of(kind)(kind, part, f"{name}[{field!r}]")
    return one


def _subarray(dtype: np.dtype[Any], value: Any, name: str) -> np.ndarray[Any, Any]:
    """A field that is an array: of its shape, or one value for all its elements."""
    assert dtype.subdtype is not None
    base, shape = dtype.subdtype
    try:
        given = np.broadcast_to(np.array(value, object), shape)
    except ValueError:
        raise unfit(dtype, value, name) from None
    one = np.empty(shape, base)
    for index in np.ndindex(*shape):
        one[index] = element_of(base, given[index], name)
    return one


# ---- constants, which are arguments of one parameter each ----------------------------------------


class Choice(IntEnum):
    """A number that is the argument of one parameter only."""

    def __repr__(self) -> str:
        """The name that users write."""
        return f"{_PARAMETERS[type(self)].prefix}{self.name}"

    @classmethod
    def _missing_(cls, value: object) -> None:
        raise ValueError(f"{value!r} is none of {_PARAMETERS[cls].all_of}")

    def refuse_as(self, name: str) -> None:
        """Raises: TypeError, where the parameter ``name`` is another one than its own."""
        refuse_misplaced(name, self)


class Cmp(Choice):
    """Comparisons of ``wait_until``, ``test`` and ``signal_wait_until``."""

    EQ = CMP.EQ
    NE = CMP.NE
    GT = CMP.GT
    GE = CMP.GE
    LT = CMP.LT
    LE = CMP.LE


class SignalOp(Choice):
    """How a signal changes the signal word."""

    SET = SIGNAL.SET
    ADD = SIGNAL.ADD


CMP_EQ, CMP_NE, CMP_GT, CMP_GE, CMP_LT, CMP_LE = Cmp
SIGNAL_SET, SIGNAL_ADD = SignalOp


class _Parameter:
    """The parameter of a class, what its members are called, and where it stands."""

    def __init__(self, name: str, prefix: str, order: str, all_of: str) -> None:
        self.name, self.prefix, self.order, self.all_of = name, prefix, order, all_of


_PARAMETERS: dict[type[Choice], _Parameter] = {
    Cmp: _Parameter(
        "cmp", "CMP_", "the comparison comes before the value: signal_wait_until(sig, CMP_GE, 1)",
        "CMP_EQ, CMP_NE, CMP_GT, CMP_GE, CMP_LT or CMP_LE",
    ),
    SignalOp: _Parameter(
        "sig_op", "SIGNAL_",
        "the value comes first, then what is done with it, then the PE: "
        "put_signal(dest, source, sig, 1, SIGNAL_SET, pe)",
        "SIGNAL_SET or SIGNAL_ADD",
    ),
}  # fmt: skip

#: Parameters that are choices, and what may be given to them.
CHOICES = {one.name: one.all_of for one in _PARAMETERS.values()}


def misplaced(name: str, kind: Any, shown: str = "") -> str:
    """What is to be told of an argument ``name`` of class ``kind``; empty: nothing.

    Args:
        name: the parameter.
        kind: the argument's class.
        shown: the argument; empty: only its class is known, as where kernels are compiled.
    """
    of = _PARAMETERS.get(kind)
    if of is None and name in CHOICES and isinstance(kind, type) and issubclass(kind, Enum):
        # Other libraries count theirs in another way: NVSHMEM's CMP_EQ is 0.
        return f"{name} is {shown or kind.__name__}, which is none of {CHOICES[name]}"
    if of is None or of.name == name:
        return ""
    what = shown or f"one of {of.all_of}"
    told = f"{name} is {what}, which belongs to {of.name}: {of.order}"
    return f"{told}; {name} is {CHOICES[name]}" if name in CHOICES else told


def refuse_misplaced(name: str, value: Any, routine: str = "") -> None:
    """Raises: TypeError for a comparison or a signal operation in another argument's place.

    Or another enumeration in theirs; ``routine``: of which the error is to tell.
    """
    if isinstance(value, Enum) and (told := misplaced(name, type(value), repr(value))):
        raise TypeError(f"{routine}: {told}" if routine else told)


# ---- arguments of kernels' routines --------------------------------------------------------------

#: Parameters of routines that are whole numbers; a fraction in their place is refused, not cut.
WHOLE_NUMBERS = frozenset((
    "team", "dest_team", "ctx", "pe", "root", "nelems", "nreduce", "dst", "sst", "bsize", "nblocks",
    "npes", "first", "cmp", "signal", "sig_op", "handler", "code", "a", "b", "c", "d",
))  # fmt: skip
#: Those that all threads of a group go by, and so give alike: ``cmp`` and a signal are the first one's.
OF_A_GROUP = frozenset((
    "team", "ctx", "pe", "root", "nelems", "nreduce", "dst", "sst", "bsize", "nblocks", "npes",
))  # fmt: skip


def bound(routine: str, shown: Signature, given: Any, named: Any) -> dict[str, Any]:
    """The arguments of a call by their parameters.

    Raises: TypeError (it does not fit).
    """
    try:
        return shown.bind(*given, **named).arguments
    except TypeError as error:
        called = f"it is called so: {routine}({', '.join(shown.parameters)})"
        raise TypeError(f"{routine}: {error}; {called}") from None


def not_whole(routine: str, name: str, kind: str, parameters: Iterable[str]) -> str:
    """The message for an argument that is no integer where one is asked for."""
    way = (
        "; a team is TEAM_WORLD, or what as_argument(team) gave the kernel"
        if name == "team"
        else ""
    )
    called = f"it is called so: {routine}({', '.join(parameters)})"
    return f"{routine}: {name} is a whole number, not {kind}{way}; {called}"
