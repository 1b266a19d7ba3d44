# SPDX-License-Identifier: BSD-3-Clause
"""What all public routines have in common: integers are integers, read-only arrays are not written."""

from __future__ import annotations

import array
import ctypes
import warnings
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import callers
import ml_dtypes
import numpy as np
import pytest

import pyshmem


@pytest.fixture(autouse=True, scope="module")
def job():
    with pyshmem.init(heap_size="16M", device_heap_size="8M", device="sim") as running:
        yield running


class Index:
    """An integer of another library."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


class Intish:
    """What int() would take, and operator.index does not."""

    def __int__(self) -> int:
        return 0


NO_INTEGERS = (
    0.9, np.float32(0.9), np.float64(1.0), np.longdouble(0.9), Fraction(9, 10), Decimal("0.9"),
    np.array(0.9), Intish(), "1", 1j, np.ma.masked, np.ma.array(0, mask=True), np.ma.array(0),
    np.array([0.0]), np.datetime64(0, "s"), np.timedelta64(0, "s"), ml_dtypes.bfloat16(0),
)  # fmt: skip


class Failing:
    """An integer that cannot say which."""

    def __index__(self) -> int:
        raise KeyError("its own error")


def test_every_parameter_is_known_to_these_tests() -> None:
    known = callers.ARGUMENTS.keys() | callers.OTHERS
    unknown = {p for _, _, parameters in callers.routines() for p in parameters} - known
    assert not unknown, "say in callers.py what these are"


@pytest.mark.parametrize(("name", "parameter", "on_stream"), callers.cases(callers.NUMBERS))
def test_a_number_that_is_no_integer_is_refused(name: str, parameter: str, on_stream: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for number in NO_INTEGERS:
            with pytest.raises(TypeError, match=callers.NUMBERS[parameter]):
                callers.call(name, on_stream, **{parameter: number})


@pytest.mark.parametrize(("name", "parameter", "on_stream"), callers.cases(callers.NUMBERS))
def test_an_error_of_index_itself_is_told(name: str, parameter: str, on_stream: bool) -> None:
    with pytest.raises(KeyError, match="its own error"):
        callers.call(name, on_stream, **{parameter: Failing()})


@pytest.mark.parametrize(("name", "parameter", "on_stream"), callers.cases(callers.NUMBERS))
def test_an_object_with_index_is_an_integer(name: str, parameter: str, on_stream: bool) -> None:
    right = callers.ARGUMENTS[parameter]("host")
    for number in (Index(right), np.int64(right), np.uint8(right), np.array(right)):
        callers.call(name, on_stream, **{parameter: number})


def _set_flags(array: Any) -> Any:
    array.setflags(write=False)
    return array


def _assign_flag(array: Any) -> Any:
    array.flags.writeable = False
    return array


def _view(array: Any) -> Any:
    array.flags.writeable = False
    return array[:]


def _used_before(array: Any) -> Any:
    view = array[0:]
    pyshmem.put(array, view, 0)
    view.flags["WRITEABLE"] = False
    return view


def _strided(array: Any) -> Any:
    return np.lib.stride_tricks.as_strided(array, subok=True, writeable=False)


LOCKS: list[Callable[[Any], Any]] = [_set_flags, _assign_flag, _view, _used_before, _strided]


@pytest.mark.parametrize("lock", LOCKS)
@pytest.mark.parametrize(
    ("name", "parameter", "on_stream"),
    [case for case in callers.cases(callers.WRITTEN) if case[0] not in callers.READERS],
)
def test_an_array_that_is_read_only_is_not_written(
    name: str, parameter: str, on_stream: bool, lock: Any
) -> None:
    locked = lock(callers.ARGUMENTS[parameter]("device" if on_stream else "host"))
    before = locked.copy()
    with pytest.raises(ValueError, match=f"{parameter} is read-only"):
        callers.call(name, on_stream, **{parameter: locked})
    pyshmem.quiet()
    assert (locked == before).all()


@pytest.mark.parametrize(
    "name", ["put", "get", "broadcast", "sum_reduce", "g", "atomic_fetch", "iput"]
)
def test_an_array_that_is_read_only_is_read(name: str) -> None:
    source = callers.ARGUMENTS["source"]("host")
    source.flags.writeable = False
    callers.call(name, False, source=source)
    callers.call(name, False, source=source)  # the second time nothing is remembered either


def test_an_array_that_may_be_written_again_is_written() -> None:
    dest = pyshmem.zeros(1, np.int64)
    dest.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        pyshmem.p(dest, 1, 0)
    dest.flags.writeable = True
    pyshmem.p(dest, 1, 0)
    assert dest[0] == 1


def test_one_function_says_what_an_integer_is() -> None:
    """``np.integer`` has spans of time among its classes, so nobody else asks for it."""
    home = Path(pyshmem.__file__).parent
    asks = {
        str(path.relative_to(home))
        for path in home.rglob("*.py")
        for line in path.read_text().splitlines()
        if "isinstance" in line and "np.integer" in line
    }
    assert asks == {"_core/values.py"}


def test_what_ptr_returns_is_read_only_with_its_array() -> None:
    array = pyshmem.zeros(4)
    array.flags.writeable = False
    assert not pyshmem.ptr(array, 0).flags.writeable
    assert not pyshmem.TEAM_WORLD.ptr(array, 0).flags.writeable
    array.flags.writeable = True
    assert pyshmem.ptr(array, 0).flags.writeable


def test_a_freed_array_stays_one_when_its_flags_change() -> None:
    array = pyshmem.zeros(4)
    pyshmem.free(array)
    array.flags.writeable = False
    with pytest.raises(ValueError, match="freed"):
        pyshmem.put(pyshmem.zeros(4), array, 0)


#: Calls of methods with one number, by what they call it.
METHODS: dict[str, Callable[[Any], Any]] = {
    "Team.translate_pe pe": lambda n: pyshmem.TEAM_WORLD.translate_pe(n, pyshmem.TEAM_WORLD),
    "Team.ptr pe": lambda n: pyshmem.TEAM_WORLD.ptr(pyshmem.zeros(1), n),
    "Team.split_strided start": lambda n: pyshmem.TEAM_WORLD.split_strided(n, 1, 1),
    "Team.split_strided stride": lambda n: pyshmem.TEAM_WORLD.split_strided(0, n, 1),
    "Team.split_strided size": lambda n: pyshmem.TEAM_WORLD.split_strided(0, 1, n),
    "Team.split_2d xrange": lambda n: pyshmem.TEAM_WORLD.split_2d(n),
    "Team.from_pes pe": lambda n: pyshmem.Team.from_pes([n]),
    "Team.split color": lambda n: pyshmem.TEAM_WORLD.split(n),
    "Team.split key": lambda n: pyshmem.TEAM_WORLD.split(0, n),
    "Team.channels n": lambda n: pyshmem.TEAM_WORLD.channels(n),
    "Team.create_ctx options": lambda n: pyshmem.TEAM_WORLD.create_ctx(n).destroy(),
    "Context.pe_quiet pe": lambda n: pyshmem.CTX_DEFAULT.pe_quiet([n]),
    "Context.session_start options": lambda n: pyshmem.CTX_DEFAULT.session_start(n),
    "Context.session_start total_ops": lambda n: pyshmem.CTX_DEFAULT.session_start(0, total_ops=n),
    "pe_quiet pe": lambda n: pyshmem.pe_quiet([n]),
    "stream stream": lambda n: pyshmem.quiet(stream=n),
}
_RIGHT = {"pe": 0, "start": 0, "color": 0, "key": 0, "options": 0, "stream": 0}


@pytest.mark.parametrize("method", METHODS)
def test_a_number_of_a_method_is_an_integer(method: str) -> None:
    parameter = method.split()[-1]
    for number in NO_INTEGERS:
        with pytest.raises(TypeError, match=rf"\b{parameter}\b"):
            METHODS[method](number)
    right = _RIGHT.get(parameter, 1)
    for number in (np.int64(right), Index(right))[: 1 if parameter == "stream" else 2]:
        made = METHODS[method](number)
        for team in made if isinstance(made, tuple) else (made,):
            if isinstance(team, pyshmem.Team):
                team.destroy()


ARRAYS = callers.WRITTEN | {"source", "array", "ivar", "ivars"}


@pytest.mark.parametrize(("name", "parameter", "on_stream"), callers.cases(ARRAYS))
def test_an_array_whose_bytes_are_not_its_values_is_refused(
    name: str, parameter: str, on_stream: bool
) -> None:
    masked = np.ma.masked_array(np.ones(4, np.int64), [0, 1, 0, 0], hard_mask=True)
    with pytest.raises(TypeError, match=rf"{parameter} is a masked array.*np\.ma\.getdata"):
        callers.call(name, on_stream, **{parameter: masked})
    assert masked.data.tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("name", ["cmp_values", "status"])
def test_a_masked_array_is_no_mask_and_no_right_hand_side(name: str) -> None:
    masked = np.ma.masked_array([1, 1, 1, 1], [0, 1, 0, 0])
    with pytest.raises(TypeError, match=f"{name} is a masked array"):
        callers.call("test_all_vector", False, **{name: masked})


def test_a_masked_array_makes_no_array() -> None:
    with pytest.raises(TypeError, match="values is a masked array"):
        pyshmem.array(np.ma.masked_array([1.0, 2.0], [0, 1]))
    with pytest.raises(TypeError, match="array is a masked array"):
        pyshmem.to_numpy(np.ma.masked_array([1.0, 2.0], [0, 1]))
    for hidden in (np.ma.masked, np.ma.array(5, mask=True), np.ma.array([5, 6])):
        for dtype in (None, np.int64, np.float32, "S2"):
            with pytest.raises(TypeError, match="fill_value is masked"):
                pyshmem.full(2, hidden, dtype)
    with pytest.raises(TypeError, match="shape is masked"):
        pyshmem.zeros(np.ma.array(3, mask=True))  # type: ignore[arg-type, unused-ignore]


#: Objects that are no arrays, with the way to one.
NO_ARRAYS: dict[str, tuple[Any, str]] = {
    "list": ([1, 2, 3, 4], r"is a list, not an array: give (np\.asarray|pyshmem\.array)\("),
    "bytes": (bytes(32), r"is a bytes: give np\.frombuffer\("),
    "bytearray": (bytearray(32), r"is a bytearray: give np\.frombuffer\("),
    "array.array": (array.array("q", [1] * 4), r"is an array\.array: give np\.frombuffer\("),
    "ctypes": ((ctypes.c_int64 * 4)(), r"is a .*_Array_4: give np\.frombuffer\("),
    "int": (4, r"is an int, not an array($|: p\(dest, value, pe\) puts one number)"),
    "set": ({1}, "is a set, not an array$"),
    "None": (None, "is None, not an array: most"),
}  # fmt: skip


@pytest.mark.parametrize("what", NO_ARRAYS)
@pytest.mark.parametrize(
    "name", ["put", "get", "sum_reduce", "atomic_swap_nbi", "ptr", "wait_until"]
)
def test_what_is_no_array_is_told_what_makes_one(name: str, what: str) -> None:
    given, told = NO_ARRAYS[what]
    parameter = next(p for routine, p, _ in callers.cases(ARRAYS) if routine == name)
    with pytest.raises(TypeError, match=f"{parameter} {told}"):
        callers.call(name, False, **{parameter: given})
