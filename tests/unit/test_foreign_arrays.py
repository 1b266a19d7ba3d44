# SPDX-License-Identifier: BSD-3-Clause
"""Arrays of other libraries, by DLPack and the array interfaces, and their streams."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pyshmem
from pyshmem._core.arrays import checks as symmetric
from pyshmem._core.arrays import dlpack


@pytest.fixture(autouse=True, scope="module")
def job() -> Iterator[pyshmem.Job]:
    with pyshmem.init(heap_size="4M", device_heap_size="1M", device="sim") as running:
        yield running


@pytest.fixture(params=["host", "device"])
def heap(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Interface:
    """An array that only has an array interface."""

    def __init__(
        self, array: np.ndarray, name: str = "__array_interface__", **changed: Any
    ) -> None:
        self.array = array
        interface = dict(array.__array_interface__, **changed)
        setattr(self, name, interface)


class DLPack:
    """An array that only speaks DLPack."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **arguments: Any) -> Any:
        return self.array.__dlpack__(**arguments)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


WRONG = {
    "shape": (4, None, ("a",), (-4,)),
    "typestr": (8, None),
    "data": (None, (), ("x", False), bytearray(32)),
    "strides": (5,),
}


@pytest.mark.parametrize("protocol", ["__array_interface__", "__cuda_array_interface__"])
def test_an_interface_that_is_none_is_told_by_name(protocol: str) -> None:
    dest = pyshmem.zeros(4)
    for key, values in WRONG.items():
        for value in values:
            given = Interface(np.ones(4), protocol, **{key: value})
            with pytest.raises(TypeError, match=f"source is .* whose {protocol} has a wrong {key}"):
                pyshmem.put(dest, given, 0)
    for none in ("x", 5):
        with pytest.raises(TypeError, match=f"whose {protocol} is no dictionary but {none!r}"):
            pyshmem.put(dest, type("A", (), {protocol: none})(), 0)


@pytest.mark.parametrize(
    "wrap",
    [Interface, DLPack, lambda array: Interface(array, "__cuda_array_interface__"), memoryview],
    ids=["array_interface", "dlpack", "cuda_array_interface", "memoryview"],
)
def test_local_arrays_of_other_libraries(wrap: Any) -> None:
    dest = pyshmem.zeros((2, 3))
    source = np.arange(6.0).reshape(2, 3)
    if wrap is memoryview:
        with pytest.raises(TypeError, match="memoryview"):
            pyshmem.put(dest, wrap(source), 0)
        return
    pyshmem.put(dest, wrap(source), 0)
    assert (dest == source).all()


class BFloat16Tensor:
    """A tensor as torch's: its dtype is torch's own, NumPy's is not to be had."""

    def __init__(self, bits: np.ndarray, interface: Any, versioned: bool) -> None:
        self.bits, self.interface, self.versioned = bits, interface, versioned
        self.dtype = type("dtype", (), {"__repr__": lambda self: "torch.bfloat16"})()

    @property
    def __cuda_array_interface__(self) -> Any:
        if isinstance(self.interface, type):
            raise self.interface(str(self.dtype))
        return dict(self.bits.__array_interface__, typestr=self.interface, descr=None, version=2)

    def __dlpack__(self, **arguments: Any) -> Any:
        if arguments and not self.versioned:
            raise TypeError("unexpected keyword argument 'max_version'")
        capsule = self.bits.__dlpack__(**arguments)
        name = dlpack._name_of(capsule)
        address = dlpack._pointer_in(capsule, name)
        if name == b"dltensor_versioned":
            address += dlpack._Versioned.tensor.offset
        dlpack._Tensor.from_address(address).kind = 4  # kDLBfloat
        return capsule

    def __dlpack_device__(self) -> Any:
        return 1, 0


@pytest.mark.parametrize("versioned", [True, False])
@pytest.mark.parametrize("interface", ["<V2", AttributeError, KeyError])
def test_bfloat16_tensors_are_put_and_got(interface: Any, versioned: bool, heap: str) -> None:
    values = np.arange(6, dtype=ml_dtypes.bfloat16)
    dest = pyshmem.zeros(6, "bfloat16", heap=heap)
    pyshmem.put(dest, BFloat16Tensor(values.view(np.uint16), interface, versioned), 0)
    assert (pyshmem.to_numpy(dest) == values).all()
    got = np.zeros(6, np.uint16)
    pyshmem.get(BFloat16Tensor(got, interface, versioned), dest, 0)
    assert (got.view(ml_dtypes.bfloat16) == values).all()
    with pytest.raises(TypeError, match="bfloat16"):
        pyshmem.put(pyshmem.zeros(6, "float16"), BFloat16Tensor(got, interface, versioned), 0)


def test_tensors_that_cannot_be_used_say_why() -> None:
    class Strange(DLPack):
        field: str
        value: int

        def __dlpack__(self, **arguments: Any) -> Any:
            capsule = self.array.__dlpack__()
            tensor = dlpack._Tensor.from_address(dlpack._pointer_in(capsule, b"dltensor"))
            setattr(tensor, self.field, self.value)
            return capsule

    dest = pyshmem.zeros(4)
    strange = Strange(np.arange(4.0))
    for field, value, why in (("kind", 3, "dtype 3"), ("lanes", 2, "2 lanes"), ("device", 4, "4")):
        strange.field, strange.value = field, value
        with pytest.raises(TypeError, match=f"source is a .*Strange that cannot be used: .*{why}"):
            pyshmem.put(dest, strange, 0)
    frozen = np.arange(4.0)
    frozen.flags.writeable = False
    pyshmem.put(dest, DLPack(frozen), 0)
    with pytest.raises(ValueError, match="dest is read-only"):
        pyshmem.get(DLPack(frozen), dest, 0)
    pyshmem.put(dest[:2], DLPack(np.arange(4.0)[2:]), 0)
    assert dest[:2].tolist() == [2, 3]
    with pytest.raises(ValueError, match="not C-contiguous"):
        pyshmem.put(dest, DLPack(np.arange(8.0)[::2]), 0)


def test_a_pinned_array_without_elements_has_no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """As CUDA's interface for arrays asks; drivers refuse an address that is none."""
    monkeypatch.setattr(symmetric, "pinned", True)
    full, empty = pyshmem.zeros(3), pyshmem.zeros((0, 4))
    assert full.__cuda_array_interface__["data"] == (full.ctypes.data, False)
    assert empty.__cuda_array_interface__["data"] == (0, False)


def test_an_interface_on_the_heap_is_symmetric() -> None:
    dest = pyshmem.zeros(4)
    pyshmem.put(Interface(dest), np.arange(4.0), 0)
    pyshmem.p(Interface(dest[3:]), 9.0, 0)
    assert dest.tolist() == [0, 1, 2, 9]


def test_local_arrays_of_a_gpu_are_waited_for_as_they_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[int] = []
    monkeypatch.setattr(symmetric.cupy_arrays, "on_gpu", True)
    monkeypatch.setattr(symmetric.cupy_arrays, "synchronize", waited.append)
    dest, source, name = pyshmem.zeros(4), np.arange(4.0), "__cuda_array_interface__"
    for stream in (1, 77, None):
        pyshmem.put(dest, Interface(source, name, stream=stream), 0)
        pyshmem.get(Interface(source, name, stream=stream), dest, 0)
    assert waited == [1, 1, 77, 77]
    pyshmem.put(Interface(dest, name, stream=1), source, 0)  # on the heap: not waited for
    assert waited == [1, 1, 77, 77]
    pyshmem.put(dest, Interface(source, name, version=2), 0)  # as torch's: the default stream
    assert waited == [1, 1, 77, 77, 1]


def test_an_array_of_a_gpu_whose_block_is_gone() -> None:
    block = SimpleNamespace(gone="")
    array = Interface(np.arange(4.0), "__cuda_array_interface__")
    array.data = SimpleNamespace(mem=SimpleNamespace(_owner=block))  # as CuPy's
    dest = pyshmem.zeros(4)
    pyshmem.put(dest, array, 0)
    block.gone = "it was freed"
    with pytest.raises(ValueError, match="source cannot be used any more: it was freed"):
        pyshmem.put(dest, array, 0)


def test_strides_of_an_interface_are_looked_at() -> None:
    array = np.arange(12.0).reshape(3, 4)
    dest = pyshmem.zeros(12)
    pyshmem.put(dest, Interface(array, strides=(32, 8)), 0)
    assert (dest == array.ravel()).all()
    with pytest.raises(ValueError, match="contiguous"):
        pyshmem.put(dest, Interface(array[:, ::2]), 0)
    pyshmem.put(dest, Interface(array[:, :1][:1]), 0, nelems=1)  # an extent of 1 has any stride


def test_read_only_sources_are_fine() -> None:
    dest = pyshmem.zeros(4)
    source = np.arange(4.0)
    source.flags.writeable = False
    pyshmem.put(dest, source, 0)
    assert dest[3] == 3


def test_streams_of_any_library() -> None:
    from pyshmem._core.arrays.checks import stream_handle

    class Protocol:
        def __cuda_stream__(self) -> tuple[int, int]:
            return 0, 5

    class Attribute:
        pass

    for name in ("ptr", "cuda_stream", "handle"):
        stream = Attribute()
        setattr(stream, name, 5)
        assert stream_handle(stream) == 5
    assert stream_handle(Protocol()) == stream_handle(5) == 5
