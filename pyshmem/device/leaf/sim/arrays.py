# SPDX-License-Identifier: BSD-3-Clause
"""Arrays as simulated kernels see them: with the type that they have on a GPU.

Numba compiles for the type of an array, in which its layout is C, F or A (neither). A slice takes its
layout from the form of the index, not from the strides: ``d[1:3, :]`` is A, though it lies in one piece.
Kernels' arrays remember it here, by Numba's own rule, so that the simulator takes what a GPU takes.
"""

from __future__ import annotations

import functools
import math
import sys
from pathlib import Path
from types import FrameType, NoneType
from typing import Any

import numba
import numpy as np
from numba.core import errors
from numba.core.typing.arraydecl import get_array_index_type
from numba.cuda import types
from numba.cuda.np import numpy_support
from numba.cuda.simulator.cudadrv.devicearray import FakeCUDAArray, FakeWithinKernelCUDAArray
from numba.cuda.simulator.kernelapi import FakeCUDALocal, FakeCUDAShared

from ...._core.values import is_integer
from ...._foreign import numba_simulator
from ...families import (
    BY_NUMBER,
    FAMILY_DTYPES,
    layout_message,
    mismatch,
    not_an_array,
    outside_family,
)  # fmt: skip
from . import forms

_SWAPPED = {"C": "F", "F": "C", "A": "A"}


#: Attributes of NumPy's arrays that compilers for GPUs do not have; ``source`` says more of copies.
_NO_ATTRIBUTES = (
    "argpartition argsort astype base byteswap choose clip compress conj conjugate cumprod cumsum "
    "data diagonal dot dump dumps flags getfield imag max min nonzero partition put repeat "
    "resize round searchsorted setfield sort squeeze swapaxes take to_device tobytes tofile tolist trace"
)
#: Functions of NumPy on arrays that they have.
_FUNCTIONS = (
    "sum prod mean std var any all argmin argmax count_nonzero searchsorted size shape nansum"
)
#: Of these, those that take the array alone; methods too.
_WHOLE = "sum prod mean std var any all argmax argmin"
#: Functions by elements that take whole arrays where an array for the results is the last argument, or
#: the array is changed in place.
_INTO = (
    "arccos arccosh arcsin arcsinh arctan arctan2 arctanh bitwise_and bitwise_or bitwise_xor "
    "conjugate cos cosh deg2rad degrees divide equal fmax fmin greater greater_equal hypot invert "
    "isnan left_shift less less_equal log log10 log2 logical_and logical_not logical_or "
    "logical_xor maximum minimum not_equal rad2deg radians right_shift sin sinh tan tanh"
)
#: Those that make an array, where kernels allocate.
_MAKERS = (
    "ascontiguousarray asfortranarray concatenate copy cumsum diff empty_like full_like hstack "
    "ones_like repeat roll stack vstack zeros_like"
)
DIVISION = "/= of an element of integers (write a[i] = a[i] / n)"
_PACKAGE = str(Path(__file__).parents[3])
#: Files that stand between a kernel and the question whether it may, and those that may.
_BETWEEN = (__file__, str(Path(__file__).with_name("record.py")), str(Path(numba.__file__).parent))
#: Of Numba, what finds the types of arguments of a function that it compiles for a kernel.
_TYPES = str(Path(numba.__file__).parent / "core")
_FREE = (_PACKAGE, str(Path(np.__file__).parent), _TYPES)
ELEMENTS = "kernels compute element by element"


def _asking() -> FrameType:
    """Who does something with an array: a kernel, or the library."""
    frame = sys._getframe(1)
    while (
        frame.f_back is not None
        and frame.f_code.co_filename.startswith(_BETWEEN)
        and not frame.f_code.co_filename.startswith(_TYPES)
    ):
        frame = frame.f_back
    return frame


def _refuse(what: str) -> None:
    """TypeError, where a kernel's own code does what no compiler for GPUs takes; the library may."""
    frame = _asking()
    if not frame.f_code.co_filename.startswith(_FREE):
        raise TypeError(f"{what}: compilers for GPUs do not take it, {ELEMENTS}")


class _Absent:
    """An attribute of arrays that kernels do not have."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, array: Any, owner: type) -> Any:
        if array is not None:
            _refuse(f"an array's {self.name}")
        return getattr(np.ndarray, self.name).__get__(array, owner)


class KernelArray(np.ndarray):
    """An array of a kernel. ``layout``: C, F or A; empty where the flags say it.

    It takes what compilers for GPUs take: elements, parts, one value for a part; no arithmetic on
    whole arrays, and none of NumPy's functions that make one. Reading an element costs about 0.3 us
    more than from a plain array, and writing one, too.
    """

    __slots__ = ("layout",)

    layout: str

    def __array_finalize__(self, origin: Any) -> None:
        self.layout = "A" if getattr(origin, "layout", "") == "A" else ""

    def __getitem__(self, index: Any) -> Any:
        if type(index) is not int:
            _refuse_index(index, True)
        found = super().__getitem__(index)
        if type(found) is KernelArray:
            found.layout = _layout_of_item(self.ndim, layout_of(self), _forms(index))
        elif type(found) is np.void:  # kernels read fields as attributes too
            return FakeWithinKernelCUDAArray(FakeCUDAArray(found))
        return found

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(value, FakeWithinKernelCUDAArray):
            value = unwrapped(value)  # a record, whose fields kernels read as attributes
        if not (isinstance(value, tuple) and self.ndim == 1 and isinstance(index, slice)):
            _refuse_parts(value)  # Numba stores a tuple into a part, not an array
        if type(index) is not int:
            _refuse_index(index, False)
        if isinstance(value, float) and self.dtype.kind in "iu":
            _refuse_division()
        if type(value) is int and self.dtype.kind == "f" and value >> 64 not in (0, -1):
            raise OverflowError(
                f"{value} has more than the 64 bits of a kernel's integers: a shift by 64 or more "
                "leaves 0 on a GPU"
            )
        put = super().__setitem__
        if type(index) is not int:
            put = np.ndarray.view(self, np.ndarray).__setitem__  # which reads no part
        try:
            put(index, value)
        except OverflowError:
            put(index, _wrapped(value, self.dtype))

    def __bool__(self) -> bool:
        _refuse("an array as a condition")
        return super().__bool__()

    def __str__(self) -> str:
        _refuse("a print of an array")
        return super().__str__()

    def __contains__(self, value: Any) -> bool:
        return value in np.ndarray.view(self, np.ndarray)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
        out = named.get("out", ())
        whole = any(isinstance(x, np.ndarray) and x.ndim for x in (*inputs, *out))
        into = bool(out) and ufunc.__name__ in _INTO.split()
        if method == "__call__" and whole and not into:
            _refuse(f"{ufunc.__name__} of a whole array")
        plain = [
            np.ndarray.view(x, np.ndarray) if isinstance(x, KernelArray) else x for x in inputs
        ]
        if out:
            named["out"] = tuple(
                np.ndarray.view(x, np.ndarray) if isinstance(x, KernelArray) else x for x in out
            )
        found = getattr(ufunc, method)(*plain, **named)
        return out[0] if len(out) == 1 else found

    def __array_function__(self, function: Any, kinds: Any, given: Any, named: Any) -> Any:
        allocates = numba_simulator.allocates() and function.__name__ in _MAKERS.split()
        if function.__name__ not in _FUNCTIONS.split() and not allocates:
            _refuse(f"numpy.{function.__name__} of an array")
        elif function.__name__ in _WHOLE.split() and (len(given) > 1 or named):
            _refuse(f"numpy.{function.__name__} along an axis")
        return super().__array_function__(function, kinds, given, named)

    @property
    def T(self) -> KernelArray:
        return self.transpose()

    def reshape(self, *shape: Any, **named: Any) -> KernelArray:  # type: ignore[override, unused-ignore]
        if named or layout_of(self) == "A":
            _refuse(f"reshape of an array that is not contiguous{', with order=' if named else ''}")
        found = super().reshape(*shape, **named)
        if self.size and found.ctypes.data != self.ctypes.data:
            _refuse("reshape of an array in Fortran's order, which copies")
        return found

    def transpose(self, *axes: Any) -> KernelArray:
        if axes:
            _refuse("transpose with axes")
        turned = super().transpose(*axes)
        if self.ndim > 1:
            turned.layout = "A" if axes else _SWAPPED[layout_of(self)]
        return turned

    def item(self, *given: Any) -> Any:
        if given:
            _refuse("an array's item with an index (write a[i])")
        return (
            super().item(*given)
            if given or self.size != 1
            else np.ndarray.view(self, np.ndarray).flat[0]
        )

    def view(self, *given: Any, **named: Any) -> Any:
        known = len(given) == 1 and not named and not isinstance(given[0], str | NoneType)
        if not known or any(given[0] is kind for kind in (float, int, bool, complex)):
            _refuse("an array's view without one dtype of NumPy (write a.view(np.int64))")
        return super().view(*given, **named)


def _whole(name: str) -> Any:
    plain = getattr(np.ndarray, name)

    def method(self: KernelArray, *given: Any, **named: Any) -> Any:
        if given or named:
            _refuse(f"an array's {name} along an axis")
        return plain(self, *given, **named)

    return method


def _fixed(name: str) -> property:
    """What kernels read of an array, and do not set."""

    def refuse(self: KernelArray, value: Any) -> None:
        _refuse(f"array.{name} = ...")

    return property(getattr(np.ndarray, name).__get__, refuse)


for _name in _NO_ATTRIBUTES.split():
    setattr(KernelArray, _name, _Absent(_name))
for _name in _WHOLE.split():
    setattr(KernelArray, _name, _whole(_name))
for _name in ("shape", "strides", "flat"):
    setattr(KernelArray, _name, _fixed(_name))
_flags = np.ndarray.flags.__get__  # type: ignore[attr-defined, unused-ignore]


def layout_of(array: np.ndarray) -> str:
    """The layout that the array's type has on a GPU."""
    if layout := getattr(array, "layout", ""):
        return str(layout)
    flags = _flags(array)
    return "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"


def _form(index: Any) -> Any:
    if isinstance(index, slice):
        return types.slice2_type if index.step is None else types.slice3_type
    if index is None:
        return types.none
    return types.ellipsis if index is Ellipsis else types.intp


def _forms(index: Any) -> tuple[Any, ...]:
    """Of an index of a view, what Numba's types say."""
    return tuple(map(_form, index)) if isinstance(index, tuple) else (_form(index),)


@functools.cache
def _layout_of_item(ndim: int, layout: str, forms: tuple[Any, ...]) -> str:
    index = types.BaseTuple.from_types(forms) if len(forms) > 1 else forms[0]
    result = get_array_index_type(types.Array(types.int8, ndim, layout), index).result
    return getattr(result, "layout", "C")


_ARRAYS = (np.ndarray, FakeCUDAArray, FakeWithinKernelCUDAArray)


def _refuse_index(index: Any, reads: bool) -> None:
    """TypeError: Numba knows no such index of an array. One more axis, and all of it, may be written."""
    if (index is None or index is Ellipsis) and reads:
        _refuse(f"array[{'None' if index is None else '...'}]")
    for one in index if isinstance(index, tuple) else (index,):
        if isinstance(one, (bool, np.bool_, list)) or (isinstance(one, np.ndarray) and one.ndim):
            _refuse(f"an index that is a {type(one).__name__}")


def _refuse_division() -> None:
    """TypeError: ``/=`` of an element of integers, which Numba has no store for."""
    frame = _asking()
    found = forms.elements_divided(frame.f_code)
    if frame.f_lasti not in found:
        return
    divisor = found[frame.f_lasti]
    if divisor is None or is_integer(eval(divisor, frame.f_globals, dict(frame.f_locals))):
        _refuse(DIVISION)


def _wrapped(value: Any, dtype: np.dtype) -> Any:
    """An integer as a GPU stores it: the bits that there is room for."""
    if not is_integer(value) or dtype.kind not in "iu":
        raise OverflowError(
            f"{value} is outside {dtype}, and what a GPU stores of it is not defined"
        )
    bits = 8 * dtype.itemsize
    low = int(value) & (1 << bits) - 1
    return low - (1 << bits) if dtype.kind == "i" and low >> bits - 1 else low


def _refuse_parts(value: Any) -> None:
    """TypeError: several values are assigned at once, or none."""
    if value is None:
        _refuse("None is assigned to a part of an array")
    if isinstance(value, (tuple, list)) or (isinstance(value, _ARRAYS) and value.ndim):
        what = "an array" if isinstance(value, _ARRAYS) else f"a {type(value).__name__}"
        _refuse(f"{what} is assigned to a part of an array (kernels copy element by element)")


def store(array: Any, index: Any, value: Any) -> None:
    """``array[index] = value`` of a kernel. TypeError: an array, which GPUs' compilers do not take."""
    inner = array._item
    inner = getattr(inner, "_ary", inner)
    if isinstance(inner, KernelArray):
        KernelArray.__setitem__(inner, index, value)
        return
    _refuse_parts(value)
    array._item[index] = value


def unwrapped(given: Any) -> Any:
    """What is within what Numba's simulator wraps around arguments."""
    if isinstance(given, np.ndarray):
        return given
    inner = getattr(given, "_item", given)
    return getattr(inner, "_ary", inner)


def ndarray_of(array: Any) -> np.ndarray:
    """The same of an array. TypeError: it is none."""
    inner = unwrapped(array)
    if not isinstance(inner, np.ndarray):
        raise TypeError(not_an_array(type(array).__name__))
    return inner


def contiguous(array: np.ndarray) -> np.ndarray:
    """``array``, if device routines take one of its layout. TypeError: they do not."""
    if array.ndim and layout_of(array) == "A":
        raise TypeError(layout_message(f"strides {array.strides}"))
    return array


@functools.cache
def dtype_name(dtype: np.dtype) -> str:
    """The name in the type table; of any other dtype what NumPy prints, as ``>i4``, ``|S3``."""
    return dtype.name if dtype.isnative and dtype.name in BY_NUMBER else str(dtype)


@functools.cache
def _is_of_kernels(dtype: np.dtype) -> bool:
    if dtype_name(dtype) == "bfloat16":
        return True  # Numba learns it from ``as_argument``
    try:
        return numpy_support.from_dtype(dtype) is not types.pyobject
    except errors.NumbaError:
        return False


def kernel_array(array: np.ndarray) -> KernelArray:
    """``array`` as a kernel is given it. TypeError: a GPU's kernels have no such dtype."""
    require_dtype(array)
    return array.view(KernelArray)


def require_dtype(array: np.ndarray) -> None:
    """TypeError: a GPU's kernels have no such dtype."""
    if not _is_of_kernels(array.dtype):
        raise TypeError(
            f"an array of dtype {array.dtype} is given to a kernel: Numba has no such type on GPUs; "
            "give its bytes, array.view('u1')"
        )


# -- what routines take ----------------------------------------------------------------------------


def _kind(array: Any) -> tuple[str, int, str]:
    array = contiguous(ndarray_of(array))
    return dtype_name(array.dtype), array.ndim, layout_of(array)


def match(dest: Any, source: Any) -> None:
    if message := mismatch(_kind(dest), _kind(source)):
        raise TypeError(message)


def require(family: str) -> Any:
    allowed = FAMILY_DTYPES[family]

    def check(array: Any) -> None:
        array = contiguous(ndarray_of(array))
        if (name := dtype_name(array.dtype)) not in allowed:
            raise TypeError(outside_family(name, family))

    return check


def _refuse_value(dtype: np.dtype, value: Any) -> None:
    """What Numba casts to no such dtype: no number, complex to real, and what it has no cast for."""
    number = isinstance(value, (bool, int, float, complex, np.generic))
    given = np.result_type(value) if number else None
    if given is None or dtype_name(given) not in FAMILY_DTYPES["element"]:
        raise TypeError(f"{value!r} of type {type(value).__name__} is no value of dtype {dtype}")
    real = given.kind == "c" and dtype.kind not in "cb"
    pair = dtype_name(given), dtype_name(dtype)
    if real or pair in _NO_CASTS or (pair[0] == "bfloat16" and dtype.kind == "c"):
        raise TypeError(f"{given} cannot become {dtype} in kernels: convert {value!r} first")


_NO_CASTS = {("bfloat16", "float16"), ("float16", "bool")}


def bits_in(dtype: np.dtype, value: Any) -> int:
    """The value as the dtype's bits; integers wrap round, as they do on a GPU."""
    if type(value) is not int:
        _refuse_value(dtype, value)
    if dtype.kind in "iu":
        return int(value) & ((1 << 8 * dtype.itemsize) - 1)
    return int.from_bytes(np.asarray(value).astype(dtype).tobytes(), "little")


def value_in(dtype: np.dtype, bits: int) -> Any:
    return np.frombuffer(bits.to_bytes(dtype.itemsize, "little"), dtype)[0]


def cast(like: Any, value: Any) -> Any:
    return value_in(like.dtype, bits_in(like.dtype, value))


# -- memory of kernels -----------------------------------------------------------------------------


def _as_dtype(dtype: Any) -> np.dtype:
    return np.dtype(numpy_support.as_dtype(dtype) if isinstance(dtype, types.Type) else dtype)


_POINTER = 8  # bytes


def check_alignment(alignment: int) -> None:
    """ValueError: compilers for GPUs take no such alignment of an array."""
    if alignment <= 0 or alignment & (alignment - 1) or alignment % _POINTER:
        raise ValueError(
            f"Alignment must be a power of 2 and a multiple of {_POINTER}, not {alignment}"
        )


def _memory(shape: Any, dtype: np.dtype, alignment: Any) -> KernelArray:
    if alignment is None:
        return kernel_array(np.empty(shape, dtype))
    if not is_integer(alignment):
        raise TypeError(f"alignment must be a constant integer, not {alignment!r}")
    check_alignment(alignment)
    sizes = shape if isinstance(shape, tuple) else (shape,)
    nbytes = math.prod(sizes) * dtype.itemsize
    memory = np.empty(nbytes + alignment, np.uint8)
    first = -memory.ctypes.data % alignment
    return kernel_array(memory[first : first + nbytes].view(dtype).reshape(shape))


class KernelShared(FakeCUDAShared):
    """Shared memory of a block: an array for each call that makes one."""

    def array(self, shape: Any, dtype: Any, alignment: int | None = None) -> KernelArray:
        dtype = _as_dtype(dtype)
        if shape == 0:  # dynamic shared memory, which all of these share
            count = self._dynshared_size // dtype.itemsize
            return kernel_array(np.frombuffer(self._dynshared.data, dtype, count))
        caller = sys._getframe(1)
        place = caller.f_code, caller.f_lasti
        if place not in self._allocations:
            self._allocations[place] = _memory(shape, dtype, alignment)
        found: KernelArray = self._allocations[place]
        return found


class KernelLocal(FakeCUDALocal):
    """A thread's own memory."""

    def array(self, shape: Any, dtype: Any, alignment: int | None = None) -> KernelArray:
        return _memory(shape, _as_dtype(dtype), alignment)
