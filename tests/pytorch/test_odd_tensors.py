# SPDX-License-Identifier: BSD-3-Clause
"""Tensors whose memory has not their values, or that have none: refused by what takes foreign arrays."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import pyshmem
from pyshmem._core.arrays import checks


@pytest.fixture(autouse=True, scope="module")
def job():
    with pyshmem.init(heap_size="4M", device_heap_size="1M", device="sim") as running:
        yield running


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch tells of prototypes
        yield


def _fake() -> Any:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return torch.ones(4)


def _masked() -> Any:
    from torch.masked import masked_tensor

    return masked_tensor(torch.ones(4), torch.tensor([True, False, True, True]))


ODD: dict[str, tuple[Callable[[], Any], str]] = {
    "negative view": (lambda: torch.tensor([1 + 2j]).conj().imag, "resolve_neg"),
    "conjugate": (lambda: torch.ones(4, dtype=torch.complex64).conj(), "resolve_conj"),
    "requires grad": (lambda: torch.ones(4, requires_grad=True), "detach"),
    "parameter": (lambda: torch.nn.Parameter(torch.ones(4)), "detach"),
    "meta": (lambda: torch.ones(4, device="meta"), "meta"),
    "sparse": (lambda: torch.ones(4).to_sparse(), "layout"),
    "sparse rows": (lambda: torch.ones(4, 4).to_sparse_csr(), "layout"),
    "nested": (
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
        "cannot be used",
    ),
    "quantised": (lambda: torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.qint8), "types"),
    "fake": (_fake, "without memory"),
    "zero": (lambda: torch._efficientzerotensor(4), "without memory"),
    "masked": (_masked, "do not count"),
}
CALLS: dict[str, Callable[[Any], Any]] = {
    "put": lambda t: pyshmem.put(
        pyshmem.zeros(t.numel() if hasattr(t, "numel") else 4, "f4"), t, 0
    ),
    "get": lambda t: pyshmem.get(t, pyshmem.zeros(4, "f4"), 0),
    "put_nbi": lambda t: pyshmem.put_nbi(pyshmem.zeros(4, "f4"), t, 0),
    "iput": lambda t: pyshmem.iput(pyshmem.zeros(4, "f4"), t, 0),
    "array": lambda t: pyshmem.array(t),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("what", ODD)
def test_a_tensor_whose_memory_has_not_its_values_is_refused(what: str, call: str) -> None:
    make, told = ODD[what]
    tensor = make()
    argument = {"get": "dest", "array": "values"}.get(call, "source")
    with pytest.raises(TypeError, match=f"^{argument} is a .*{told}"):
        CALLS[call](tensor)


@pytest.mark.parametrize(
    "dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float16", "bool", "complex64", "uint16"]
)
def test_an_array_of_a_tensor_of_each_dtype(dtype: str) -> None:
    tensor = torch.tensor([[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]]).to(getattr(torch, dtype))
    for given in (tensor, tensor.T, tensor[:, ::2], tensor[:0], tensor[0, 1]):
        made = pyshmem.array(given)
        assert made.dtype.name == dtype
        assert made.shape == tuple(given.shape)
        assert made.astype(complex).tolist() == given.to(torch.complex64).tolist()
    if tensor.is_complex():  # their imaginary part would be lost
        with pytest.raises(TypeError, match="complex"):
            pyshmem.array(tensor, dtype=np.float32)
        tensor = tensor.real
    assert pyshmem.array(tensor, dtype=np.float32).tolist() == [[0, 1, 1], [1, 0, 0]]


# ---- tensors on a heap, at which C looks ----------------------------------------------------------


def _on_heap(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    raw = pyshmem.zeros(24 * dtype.itemsize, np.uint8)
    return torch.as_tensor(np.asarray(raw)).view(dtype).reshape(2, 3, 4)


DTYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.uint16, torch.int32, torch.int64,
    torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.float8_e4m3fn,
]  # fmt: skip
VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "whole": lambda t: t,
    "part": lambda t: t[1],
    "row": lambda t: t[1, 2],
    "an element": lambda t: t[1, 2, 3],
    "a column of one": lambda t: t[:1, :1, :],
    "size 1 of any stride": lambda t: t[1].as_strided((1, 4), (1000, 1)),
}


def _looked_at_by_python(tensor: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> Any:
    with monkeypatch.context() as patch:
        patch.setattr(checks.tensors, "on_heap", lambda array: None)
        return checks.place(tensor, "dest", symmetric=True, writable=True)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_both_ways_to_look_find_the_same(
    dtype: torch.dtype, view: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensor = VIEWS[view](_on_heap(dtype))
    long = _looked_at_by_python(tensor, monkeypatch)
    short = checks.tensors.on_heap(tensor)
    assert short is not None
    assert short == long
    assert short[2] is long[2]


LEFT_TO_PYTHON: dict[str, Callable[[], torch.Tensor]] = {
    "columns": lambda: _on_heap()[:, :, 1:3],
    "transposed": lambda: _on_heap().transpose(0, 1),
    "empty": lambda: _on_heap()[:0],
    "off the heap": lambda: torch.ones(3),
    "requires grad": lambda: _on_heap().requires_grad_(),
    "parameter": lambda: torch.nn.Parameter(_on_heap()),
    "negative view": lambda: _on_heap(torch.complex64).conj().imag,
    "conjugate": lambda: _on_heap(torch.complex64).conj(),
    "complex": lambda: _on_heap(torch.complex64),
    "of a subclass": lambda: _on_heap().as_subclass(type("Mine", (torch.Tensor,), {})),
}


@pytest.mark.parametrize("what", LEFT_TO_PYTHON)
def test_what_is_more_than_elements_is_left_to_python(what: str) -> None:
    assert checks.tensors.on_heap(LEFT_TO_PYTHON[what]()) is None


def test_a_parameter_that_wants_no_gradient_is_looked_at() -> None:
    parameter = torch.nn.Parameter(_on_heap(), requires_grad=False)
    found = checks.tensors.on_heap(parameter)
    assert found is not None
    assert found[:2] == (parameter.data_ptr(), parameter.nbytes)
