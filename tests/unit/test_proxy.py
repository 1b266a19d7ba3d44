# SPDX-License-Identifier: BSD-3-Clause
"""Handlers that kernels call: what can be registered; the names of what the proxy counts."""

from __future__ import annotations

import ctypes

import pytest

import pyshmem
from pyshmem._core.contract import REQUEST_OP
from pyshmem._core.library import ffi, lib
from pyshmem.host import messages as proxy

CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 4)


@pytest.fixture
def labs():
    """A C function, as a ctypes pointer: its result does not matter here."""
    return CALLBACK(("labs", ctypes.CDLL(None)))


def test_operations_are_those_of_the_ring() -> None:
    assert proxy.OPERATIONS[REQUEST_OP.PUT_SIGNAL] == "put_signal"
    assert len(proxy.OPERATIONS) == REQUEST_OP.COUNT
    assert len(ffi.new("ishmemx_proxy_stats_t *").requests) >= len(proxy.OPERATIONS)


def test_handlers_are_their_numbers_and_keep_the_function(labs) -> None:
    first, second = pyshmem.register_handler(labs), pyshmem.register_handler(labs)
    assert isinstance(first, int)
    assert first != second
    assert first.function is labs
    pyshmem.unregister_handler(first)
    assert pyshmem.register_handler(labs) == int(first)  # the number is free again
    pyshmem.unregister_handler(proxy._handlers[int(first)])
    pyshmem.unregister_handler(second)


def test_every_form_of_a_c_function_gives_its_address(labs) -> None:
    address = ctypes.cast(labs, ctypes.c_void_p).value
    pointer = ffi.cast("ishmemx_handler_t", address)
    forms = (labs, pointer, ffi.cast("void *", address), address)
    assert [proxy.address_of(form) for form in forms] == [address] * 4


def test_a_numba_cfunc_gives_its_address() -> None:
    numba = pytest.importorskip("numba")
    good = numba.cfunc("int64(int64, int64, int64, int64)")(lambda a, b, c, d: a + b * c - d)
    assert proxy.address_of(good) == good.address
    bad = numba.cfunc("float64(float64)")(lambda x: x)
    with pytest.raises(TypeError, match="signature"):
        pyshmem.register_handler(bad)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda a, b, c, d: 0, "a Python function.*numba.cfunc"),
        ("labs", "is no function"),
        (None, "is no function"),
        (True, "is no function"),
        (ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int32)(0), "signature"),
    ],
    ids=["python", "str", "none", "bool", "signature"],
)
def test_what_the_proxy_cannot_call_is_refused(function: object, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        pyshmem.register_handler(function)


def test_a_null_pointer_is_refused() -> None:
    with pytest.raises(ValueError, match="null"):
        pyshmem.register_handler(0)


def test_unregistering_twice_is_refused(labs) -> None:
    handler = pyshmem.register_handler(labs)
    pyshmem.unregister_handler(handler)
    with pytest.raises(ValueError, match="is not registered"):
        pyshmem.unregister_handler(handler)


def test_there_is_room_for_64(labs) -> None:
    handlers = [pyshmem.register_handler(labs) for _ in range(lib.ISHMEMX_MAX_HANDLERS)]
    try:
        with pytest.raises(pyshmem.HeapExhausted, match="64 handlers"):
            pyshmem.register_handler(labs)
    finally:
        for handler in handlers:
            pyshmem.unregister_handler(handler)


def test_stats_need_a_job() -> None:
    with pytest.raises(pyshmem.NotInitialized):
        pyshmem.proxy_stats()


def test_former_names_of_figures_warn() -> None:
    stats = proxy.ProxyStats({}, 1, 0, 0, 0, am_messages=3, am_bytes=5)
    for old, value in (("far_messages", 3), ("far_bytes", 5)):
        with pytest.warns(DeprecationWarning, match=f"{old} is am_"):
            assert getattr(stats, old) == value
