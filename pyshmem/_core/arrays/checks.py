# SPDX-License-Identifier: BSD-3-Clause
"""From an array to address, type and number of elements: the only validation of arrays.

The core gets ints, so an array on a heap keeps its own (``SymmetricArray``), and two such arrays
are checked by comparing ints. Anything else (NumPy, CuPy, ``__cuda_array_interface__``, DLPack) is
looked at each time.
"""

from __future__ import annotations

import contextlib
import math
import numbers
import sys
import weakref
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, SupportsIndex

import numpy as np

from .. import errors, other_names
from ..dtypes import Kind, as_dtype, integer_of, kind_of, nelems_of
from ..library import HEAPS, ffi, lib, not_initialized
from ..values import is_integer, with_article
from . import cupy_arrays, dlpack, tensors
from .peer_views import PeerMemory

_HEAP_NAMES = {number: name for name, number in HEAPS.items()}


#: Where the elements of an array are: address, bytes, kind.
Place = tuple[int, int, Kind]

#: Values of SymmetricArray._nbytes that are no size.
UNKNOWN, GONE = -1, -2

#: Assigning one of these moves or reinterprets the elements.
_LAYOUT = frozenset(("dtype", "shape", "strides", "data"))


#: What ``pyshmem.register`` was given of torch, by ``id``, with its place then: looking at a tensor anew
#: takes longer than a put of few bytes.
registered_tensors: dict[int, tuple[Any, Place]] = {}


#: Arrays that were registered, by ``id``, and the line of the program that ended it.
unregistered: dict[int, tuple[weakref.ref[Any], str]] = {}


#: Do kernels on GPUs reach the host heap? ``pyshmem.device`` says so.
pinned = False


class SymmetricArray(np.ndarray[Any, np.dtype[Any]]):
    """A NumPy array on a symmetric heap.

    Views and slices stay symmetric. Results of arithmetic and copies are plain ``np.ndarray``, but
    NumPy's own copies, by ``astype`` or lists of indices, keep the type; their ``heap`` is None.
    The memory goes back to the heap by ``pyshmem.free``, or, some time after the last reference to
    the array and its views has gone, in a later collective call.
    """

    # _nbytes is UNKNOWN, and _address and _kind are unset, until it is known that the array lies on
    # a heap and may be written to: what looks at these slots alone, the extension's calls for one, need
    # not ask. It is GONE, and _gone says why, once the block of an allocated array is no longer its.
    __slots__ = ("_address", "_gone", "_kind", "_nbytes")
    _address: int
    _nbytes: int
    _kind: Kind
    _gone: str

    def __array_finalize__(self, array: Any) -> None:
        _set_nbytes(self, UNKNOWN)

    @property
    def heap(self) -> str | None:
        """The heap the elements lie on, ``"host"`` or ``"device"``; None: on neither."""
        address = self.__array_interface__["data"][0]
        return _HEAP_NAMES.get(lib.heap_of(address, self.nbytes)) if not gone(self) else None

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """For kernels of a job without P2P, which see the pinned host heap; else there is none."""
        if not pinned:
            raise AttributeError("__cuda_array_interface__")
        interface = dict(self.__array_interface__, strides=self.strides, version=3)
        interface["data"] = (interface["data"][0] if self.size else 0, not self.flags.writeable)
        return interface

    def __repr__(self) -> str:
        heap = self.heap
        if heap is None:  # a copy, or of a job that has ended
            return f"{super().__repr__()[:-1]}, heap=None)"
        return f"{super().__repr__()[:-1]}, heap={heap!r}, pe={lib.ishmemx_my_pe()})"

    def copy(self, order: Any = "C") -> Any:
        """A copy in ordinary memory."""
        return self.view(np.ndarray).copy(order)

    def squeeze(self, axis: Any = None) -> Any:
        """A view without axes of one element; NumPy's own is an array like results of functions."""
        return self.reshape(self.view(np.ndarray).squeeze(axis).shape)

    def put(self, ind: Any, v: Any, mode: Any = None) -> None:
        """NumPy's, which writes elements of this array, as ``np.put`` calls it: with a ``mode``.

        Raises: TypeError (without one: an array and a number may be meant as source and PE).
        """
        if not isinstance(mode, str):
            raise TypeError(
                "put of an array is NumPy's, which writes elements of this one. To another PE it is "
                "pyshmem.put(dest, source, pe); for elements here write array[indices] = values, or "
                "np.put(array, indices, values)"
            )
        super().put(ind, v, mode)  # type: ignore[arg-type]

    def resize(self, *_shape: Any, **_options: Any) -> None:
        """NumPy's, which needs memory of its own.

        Raises: ValueError.
        """
        raise ValueError(
            "an array of a symmetric heap keeps its size: pyshmem.realloc(array, shape), by all PEs, "
            "makes one of another"
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # a protocol that somebody asks for
            raise AttributeError(name)
        raise other_names.no_attribute("an array of a symmetric heap", name, other_names.OF_ARRAY)

    def setflags(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, write: Any = None, align: Any = None, uic: Any = None
    ) -> None:
        """NumPy's; assigning to ``flags`` comes here too."""
        if self._nbytes != GONE:
            _set_nbytes(self, UNKNOWN)
        super().setflags(write=write, align=align, uic=uic)

    def __copy__(self) -> Any:
        return self.copy("K")

    def __deepcopy__(self, _memo: dict[int, Any] | None, /) -> Any:
        return self.copy("K")

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        if array is self:
            return self
        return array[()] if return_scalar else array.view(np.ndarray)

    def __reduce__(self) -> Any:
        return self.view(np.ndarray).__reduce__()

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _LAYOUT and self._nbytes != GONE:
            _set_nbytes(self, UNKNOWN)
        super().__setattr__(name, value)


def gone(array: np.ndarray[Any, Any]) -> str:
    """Why the elements of ``array`` can no longer be used; empty: they can."""
    owner = array
    while isinstance(owner.base, SymmetricArray):  # of a view of a view made since, several
        owner = owner.base
    return owner._gone if isinstance(owner, SymmetricArray) and owner._nbytes == GONE else ""


def beyond_kernels(array: np.ndarray[Any, Any]) -> str:
    """Why kernels of a job with P2P are not given the elements of ``array``; empty: they are.

    Numba would have them copied to the GPU and back.
    """
    base = array.base
    owner = base if type(base) is SymmetricArray else array
    if type(owner) is not SymmetricArray or owner.heap != "host":
        return ""
    return (
        'it is on the host heap, which kernels do not reach: make it with heap="device" (with '
        "PYSHMEM_P2P=0 they reach both heaps)"
    )


# The setters of the slots; SymmetricArray.__setattr__ is for users.
_set_address = SymmetricArray.__dict__["_address"].__set__
_set_nbytes = SymmetricArray.__dict__["_nbytes"].__set__
_set_kind = SymmetricArray.__dict__["_kind"].__set__


def remember(array: SymmetricArray, address: int, nbytes: int, kind: Kind) -> None:
    """Keep what the operations need of an array on a heap."""
    _set_address(array, address)
    _set_kind(array, kind)
    _set_nbytes(array, nbytes)


def retire(array: SymmetricArray, why: str) -> None:
    """The memory of what an allocation returned is no longer its own; nor its views'."""
    array._gone = why
    _set_nbytes(array, GONE)


def heap_number(heap: str) -> int:
    """The number of a heap by its name."""
    try:
        return HEAPS[heap]
    except (KeyError, TypeError):
        raise ValueError(f"heap is {heap!r}; the heaps are 'host' and 'device'") from None


def place(array: Any, name: str, *, symmetric: bool, writable: bool) -> Place:
    """Where the elements of ``array`` are.

    Args:
        array: anything with contiguous elements.
        name: what the caller calls it, for messages.
        symmetric: it has to lie on a symmetric heap.
        writable: its elements, or those of its copies on other PEs, will be written.
    """
    ours = isinstance(array, SymmetricArray)
    if ours:
        if array._nbytes >= 0:
            return array._address, array._nbytes, array._kind
        if why := gone(array):
            raise _no_longer(name, why)
    if isinstance(array, np.ndarray):
        if isinstance(array, np.ma.MaskedArray):
            raise masked(name)
        address, nbytes, kind = _place_of_ndarray(array, name, writable)
    elif found := tensors.on_heap(array):
        return found
    else:
        if symmetric and (kept := registered_tensors.get(id(array))) and _still_there(array, *kept):
            return kept[1]
        interface, dtype, on_gpu = _describe(array, name, symmetric)
        address, nbytes, kind = _place_of_interface(interface, dtype, name, writable)
        if nbytes:
            _check_memory(interface, array, name)
        if why := cupy_arrays.gone(array):
            raise _no_longer(name, why)
        if on_gpu and nbytes and not _kernels_may_be_at_work(address, nbytes, symmetric):
            cupy_arrays.wait_for(interface)
    if (ours or symmetric) and nbytes:
        if lib.heap_of(address, nbytes) >= 0:
            if ours and array.flags.writeable:
                remember(array, address, nbytes, kind)
        elif symmetric and not lib.ishmemx_is_registered(address, nbytes):
            raise pending(name, address, nbytes) or _not_symmetric(name, array)
    elif symmetric:  # without elements it has no place of its own
        address = _any_address()
    return address, nbytes, kind


def _still_there(array: Any, kept: Any, where: Place) -> bool:
    """Has a tensor the memory that it was registered with? Torch lets it have another."""
    return kept is array and array.data_ptr() == where[0] and array.nbytes == where[1]


def _kernels_may_be_at_work(address: int, nbytes: int, symmetric: bool) -> bool:
    """By design: on the heap, and where a peer's part of registered memory is meant."""
    if lib.heap_of(address, nbytes) >= 0:
        return True
    return symmetric and bool(lib.ishmemx_is_registered(address, nbytes))


def _any_address() -> int:
    """The first address of the host heap, for transfers of nothing."""
    base = ffi.new("uintptr_t *")
    lib.ishmemx_heap_range(0, base, ffi.new("int64_t *"))
    return int(base[0])


def _no_longer(name: str, why: str) -> Exception:
    if not lib.ishmemx_initialized():
        return errors.NotInitialized(
            f"{name} was made in a job that has ended, by finalize or the end of its `with` block: move "
            "this line before that, or make it again after init"
        )
    return ValueError(f"{name} cannot be used any more: {why}")


def pending(name: str, address: int, nbytes: int) -> Exception | None:
    """The error of memory of a pool that the PEs have not compared; None: it is none."""
    if not lib.ishmemx_pool_pending(address, nbytes):
        return None
    return ValueError(
        f"{name} is memory of a pool that the PEs have not compared yet: leave the block of the pool, "
        "or call its rendezvous(), first"
    )


def _with_bases(array: Any) -> Iterator[Any]:
    """It, and what it is a view of, outwards."""
    while array is not None:
        yield array
        array = getattr(array, "base", None)


def _unregistered_at(array: Any) -> str:
    """The line that has unregistered it, or what it is a view of; nothing: it was not registered."""
    for one in _with_bases(array):
        kept, where = unregistered.get(id(one), (None, ""))
        if kept is not None and kept() is one:
            return where
    return ""


def _is_of_peer(array: Any) -> bool:
    """Is it what ``ptr`` returned, or a part of that?"""
    return any(isinstance(one, PeerMemory) for one in _with_bases(array))


def _not_symmetric(name: str, array: Any) -> Exception:
    if not lib.ishmemx_initialized():
        return not_initialized(f"{name} has to be on a symmetric heap")
    what = (
        f"shape {tuple(getattr(array, 'shape', ()))}, {getattr(array, 'dtype', 'other elements')}"
    )
    if where := _unregistered_at(array):
        return ValueError(
            f"{name} ({what}) is not registered any more, since {where}: register it again, or move "
            "this line before that"
        )
    if _is_of_peer(array):
        return ValueError(
            f"{name} ({what}) is what ptr() returned, memory of another PE: give the own array, and "
            "that PE as pe; loads and stores alone reach it here"
        )
    if type(array).__module__.startswith("torch"):
        return ValueError(
            f"{name} ({what}) is not on a symmetric heap: other PEs reach no ordinary "
            "tensors; make it with pyshmem.interop.torch.empty, zeros, ones, tensor, ... (the host's "
            "put and get take memory of pyshmem.register too)"
        )
    return ValueError(
        f"{name} ({what}) is not on a symmetric heap: other PEs reach no ordinary arrays, and no copies "
        "or results of arithmetic; make it with pyshmem.empty, zeros, array, ... (the host's put and "
        "get take memory of pyshmem.register too)"
    )


def _place_of_ndarray(array: np.ndarray, name: str, writable: bool) -> Place:
    try:
        buffer = ffi.from_buffer(array)
        address, nbytes = lib.address_of(buffer), len(buffer)
    except (ValueError, BufferError):  # strided, or of a dtype that buffers cannot describe
        if not array.flags.c_contiguous:
            raise _not_contiguous(name, array.shape, array.strides) from None
        address, nbytes = array.__array_interface__["data"][0], array.nbytes
    if writable and not array.flags.writeable:
        raise ValueError(f"{name} is read-only")
    return address, nbytes, kind_of(array.dtype)


def _describe(
    array: Any, name: str, symmetric: bool = False
) -> tuple[dict[str, Any], np.dtype[Any], bool]:
    """An array of another library: its interface, its dtype, and whether a GPU may be at work on it."""
    if isinstance(array, np.generic):  # its interface is that of an array that is gone by then
        hint = "to name an element of an array pass a part, a[i : i + 1]"
        raise TypeError(f"{name} is a scalar of {array.dtype}, not an array; {hint}")
    if meaning := dlpack.other_than_bytes(array):
        raise TypeError(f"{name} is {_named(array)} {meaning}")
    for protocol in ("__array_interface__", "__cuda_array_interface__"):  # both: the host's memory
        try:
            interface = getattr(array, protocol, None)
        except Exception:  # torch's raises various ones for a dtype that it cannot express
            if not hasattr(array, "__dlpack__"):
                raise
            continue
        if interface is not None:
            _check_interface(interface, protocol, array, name)
            return interface, _dtype_of(interface, array), protocol == "__cuda_array_interface__"
    if not hasattr(array, "__dlpack__"):
        raise _no_array(array, name, symmetric)
    try:
        interface, dtype, device = dlpack.describe(array)
    except Exception as error:  # torch has its own for each reason
        told = str(error).partition("\n")[0]
        raise TypeError(f"{name} is {_named(array)} that cannot be used: {told}") from None
    return interface, dtype, device != dlpack.HOST


def _check_interface(interface: Any, protocol: str, array: Any, name: str) -> None:
    """Raises TypeError for an interface that is none, as of a class whose author has just begun."""
    what = f"{name} is {_named(array)} whose {protocol}"
    if not isinstance(interface, dict):
        raise TypeError(f"{what} is no dictionary but {interface!r:.40}")
    shape, data = interface.get("shape"), interface.get("data")
    right = {
        "shape": isinstance(shape, (tuple, list)) and all(is_integer(n) and n >= 0 for n in shape),
        "typestr": isinstance(interface.get("typestr"), str),
        "data": isinstance(data, tuple) and len(data) == 2 and is_integer(data[0]),
        "strides": isinstance(interface.get("strides"), (tuple, list, type(None))),
    }
    for key, is_right in right.items():
        if not is_right:
            raise TypeError(f"{what} has a wrong {key}, or none: {interface.get(key)!r:.40}")


def _named(given: Any) -> str:
    """Its class with an article, by the name that users write."""
    kind = type(given)
    package = sys.modules.get("pyshmem")
    if getattr(package, kind.__name__, None) is kind:
        return f"a pyshmem.{kind.__name__}"
    builtin = kind.__module__ == "builtins"
    return with_article(kind.__name__ if builtin else f"{kind.__module__}.{kind.__name__}")


#: What has an array, by its class, and where.
_ARRAYS_OF = {
    "Registration": "give the array that was registered, registration.array; the host's put and get "
    "take it",
    "Lock": "its array is lock.word",
    "Job": "it is left out, as routines know the job",
    "Team": "the team is given by its name, team=",
}


def _no_array(given: Any, name: str, symmetric: bool) -> TypeError:
    """The error of what has no elements that the library can find, and how an array is made of it."""
    if given is None:
        return TypeError(
            f"{name} is None, not an array: most routines have no result, and ptr() has none for a PE "
            "whose memory is not reached by loads, as on another host (put and get go there)"
        )
    what = f"{name} is {_named(given)}"
    if isinstance(given, numbers.Number) and name == "source":
        return TypeError(
            f"{what}, not an array: p(dest, value, pe) puts one number, np.full(n, value) makes an array"
        )
    if way := _ARRAYS_OF.get(type(given).__name__ if "pyshmem." in what else ""):
        return TypeError(f"{what}, not an array: {way}")
    try:
        memoryview(given)
    except TypeError:
        sequence = hasattr(given, "__len__") and not isinstance(given, (str, dict, set, frozenset))
        of_dest = ", dest.dtype" if name == "source" and not symmetric else ""
        maker = "pyshmem.array" if symmetric else "np.asarray"  # the latter is out of peers' reach
        return TypeError(
            f"{what}, not an array{f': give {maker}({name}{of_dest})' if sequence else ''}"
        )
    typed = "" if isinstance(given, memoryview) else ", dtype=..."
    return TypeError(f"{what}: give np.frombuffer({name}{typed}), which is an array of its memory")


def masked(name: str) -> TypeError:
    """The error of a masked array: the bytes of its elements do not tell which of them count."""
    return TypeError(
        f"{name} is a masked array, of which elements do not count; give np.ma.getdata({name}), all "
        f"of them, or {name}.filled(...)"
    )


def as_ndarray(array: Any, name: str) -> np.ndarray[Any, Any] | None:
    """The elements of an array of another library in host memory, of any dtype; None: a GPU has them.

    The result is valid as long as ``array`` is.

    Raises: TypeError (it has no such elements).
    """
    interface, dtype, on_gpu = _describe(array, name)
    if on_gpu:
        return None
    shape, strides = tuple(interface["shape"]), interface.get("strides")
    if not math.prod(shape):
        return np.empty(shape, dtype)
    _check_memory(interface, array, name)
    raw = {
        "data": interface["data"],
        "shape": shape,
        "version": 3,
        "typestr": f"|V{dtype.itemsize}",
    }
    if strides is not None:
        raw["strides"] = tuple(strides)
    return np.asarray(SimpleNamespace(__array_interface__=raw)).view(dtype)


def _check_memory(interface: dict[str, Any], array: Any, name: str) -> None:
    """Refuse what stands for an array and has none: fake tensors, and wrappers around others."""
    if not interface["data"][0]:
        raise TypeError(
            f"{name} is {_named(array)} without memory; give the array that it stands for"
        )


def _dtype_of(interface: dict[str, Any], array: Any) -> np.dtype[Any]:
    # An array's own dtype tells more than the type string, which has no bfloat16.
    own = getattr(array, "dtype", None)
    if isinstance(own, np.dtype):
        return own
    dtype: np.dtype[Any] = np.dtype(interface.get("descr") or interface["typestr"])
    if dtype.str != interface["typestr"]:
        dtype = np.dtype(interface["typestr"])
    if dtype.kind == "V" and not dtype.fields and own is not None:
        named = as_dtype(own)
        return named if named.itemsize == dtype.itemsize else dtype
    return dtype


def _place_of_interface(
    interface: dict[str, Any], dtype: np.dtype[Any], name: str, writable: bool
) -> Place:
    address, read_only = interface["data"]
    if writable and read_only:
        raise ValueError(f"{name} is read-only")
    shape, strides = tuple(interface["shape"]), interface.get("strides")
    size, expected = 1, []
    for extent in reversed(shape):
        expected.append(size * dtype.itemsize)
        size *= extent
    if strides is not None and size:
        pairs = zip(reversed(tuple(strides)), expected, reversed(shape), strict=True)
        if any(extent > 1 and stride != wanted for stride, wanted, extent in pairs):
            raise _not_contiguous(name, shape, tuple(strides))
    return address, size * dtype.itemsize, kind_of(dtype)


def _not_contiguous(name: str, shape: tuple[int, ...], strides: tuple[int, ...]) -> ValueError:
    instead = "a contiguous part" if name == "dest" else "a contiguous part or a copy"
    return ValueError(
        f"{name} is not C-contiguous (shape {shape}, strides {strides} bytes); "
        f"pass {instead}; iput and iget copy elements that lie apart: give them the whole array, "
        "flat, from the first of these elements on, as a.reshape(-1)[first:], and the distance in "
        "elements as dst or sst"
    )


# ---- what the operations call ------------------------------------------------------------------


def pair(
    sized: Any, other: Any, nelems: SupportsIndex | None, names: tuple[str, str], local: str = ""
) -> tuple[int, int, int]:
    """The addresses of two arrays and the bytes to copy between them.

    Args:
        sized: array whose size is the default of ``nelems``.
        other: array of the same dtype and at least ``nelems`` elements.
        nelems: elements to copy.
        names: what the caller calls the two, for messages.
        local: which of ``names`` may lie outside the symmetric heaps.
    """
    try:
        nbytes = sized._nbytes
        if nelems is None and 0 <= nbytes <= other._nbytes and sized._kind is other._kind:
            return sized._address, other._address, nbytes
    except AttributeError:
        pass
    # Where both are known they may be written to: what is read-only is never remembered.
    try:
        first = place(sized, names[0], symmetric=names[0] != local, writable=names[0] == "dest")
        second = place(other, names[1], symmetric=names[1] != local, writable=names[1] == "dest")
    except ValueError as error:
        if local:
            _note_swapped(error, sized if names[0] == local else other, local)
        raise
    return first[0], second[0], bytes_of(first, second, nelems, names)


def _note_swapped(error: ValueError, local: Any, name: str) -> None:
    """Says that the two may be swapped, where the one that may be anywhere is on a symmetric heap."""
    with contextlib.suppress(Exception):  # what that one lacks is told of the other
        place(local, name, symmetric=True, writable=False)
        routine = "get" if name == "dest" else "put"
        error.add_note(f"{name} is on one: are the two swapped? It is {routine}(dest, source, pe)")


def bytes_of(
    sized: Place,
    other: Place,
    nelems: SupportsIndex | None,
    names: tuple[str, str],
    factor: int = 1,
) -> int:
    """The bytes of ``nelems`` elements, checked: ``other`` holds ``factor`` times as many."""
    _, available, kind = sized
    _, capacity, other_kind = other
    if kind is not other_kind:
        raise TypeError(
            f"{names[0]} has dtype {kind.dtype}, {names[1]} has dtype {other_kind.dtype}; "
            "they must be the same: make both with one dtype="
        )
    itemsize = kind.dtype.itemsize
    nbytes = available if nelems is None else nelems_of("nelems", nelems) * itemsize
    if 0 <= nbytes <= available and nbytes * factor <= capacity:
        return nbytes
    count = nbytes // itemsize
    if count < 0:
        raise ValueError(f"nelems is {count}; give 0 or more")
    if nbytes > available:
        raise ValueError(f"nelems is {count}, but {names[0]} has {available // itemsize} elements")
    asked = f"{names[0]} has {count} elements" if nelems is None else f"nelems is {count}"
    needed = f", so {names[1]} needs {count * factor}" if factor > 1 else ""
    hint = "; pass nelems=, or parts of equal size" if nelems is None else ""
    if factor > 1:
        hint = f": make {names[1]} {factor} times as long as {names[0]}" if nelems is None else ""
    raise ValueError(f"{asked}{needed}, but {names[1]} has {capacity // itemsize}{hint}")


def target(array: Any, name: str, *, writable: bool) -> tuple[int, Kind]:
    """The address of element 0 of a symmetric array, and its kind; ``writable``: it will be written."""
    try:
        if array._nbytes > 0:
            return array._address, array._kind
    except AttributeError:
        pass
    address, nbytes, kind = place(array, name, symmetric=True, writable=writable)
    if not nbytes:
        raise ValueError(f"{name} has no elements; its element 0 is the target")
    return address, kind


def signal_target(array: Any, *, writable: bool) -> int:
    """The address of a symmetric signal word."""
    address, kind = target(array, "sig_addr", writable=writable)
    if kind is not UINT64:
        raise TypeError(
            f"sig_addr has dtype {kind.dtype}; signals are uint64, as new_signal makes them"
        )
    return address


UINT64 = kind_of(np.dtype(np.uint64))

#: Streams: an int, or an object of CuPy, torch, Numba or with ``__cuda_stream__``.
StreamLike = Any


def stream_handle(stream: StreamLike) -> int:
    """The ``cudaStream_t`` of a stream object, as an int."""
    if isinstance(stream, (bool, np.bool_)):
        raise TypeError(
            f"stream is {stream}; give a stream, such as pyshmem.streams.Stream() or one of CuPy, "
            "torch or Numba, and leave stream= out for a call on the host"
        )
    if isinstance(stream, type):
        name = stream.__name__
        raise TypeError(f"stream is the class {name}; give a stream, {name}()")
    if is_integer(stream):
        if not 0 <= stream < 1 << 64:
            raise ValueError(f"stream is {stream}, which is no handle of a stream")
        return int(stream)
    protocol: Any = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        described: Any = protocol() if callable(protocol) else protocol
        return integer_of("the stream's handle", described[1])
    for attribute in ("ptr", "cuda_stream", "handle"):
        value = getattr(stream, attribute, None)
        if value is not None:
            return integer_of("the stream's handle", getattr(value, "value", value) or 0)
    if "simulator" in type(stream).__module__ or "simulator" in getattr(stream, "__module__", ""):
        return 0
    raise TypeError(
        f"stream is {with_article(type(stream).__name__)}; give an int, a stream of CuPy, torch or "
        "Numba, or an object with __cuda_stream__"
    )
