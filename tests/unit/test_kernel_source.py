# SPDX-License-Identifier: BSD-3-Clause
"""The simulator refuses what no GPU's compiler takes, where a kernel's source says so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import kernel_sources
import numpy as np
import pytest
from numba import cuda
from numba.cuda import config

import pyshmem
import pyshmem.device  # (kernels as on a GPU)
from pyshmem.device.leaf.sim import source


@pytest.fixture(scope="module")
def job():
    with pyshmem.init(heap_size="2M", device_heap_size="2M", device="sim"):
        yield


REFUSED = [name for name in kernel_sources.KERNELS if name.startswith("refused_")]
ARRAYS = [name for name in kernel_sources.KERNELS if name.startswith("array_")]
TAKEN = [name for name in kernel_sources.KERNELS if name.startswith("taken_")]


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_gpu_compiles_is_refused_with_its_line(name: str) -> None:
    kernel = kernel_sources.KERNELS[name]
    line = kernel.__code__.co_firstlineno
    with pytest.raises(
        TypeError, match=rf"kernel {name} \(kernel_sources\.py:\d+\) cannot"
    ) as told:
        cuda.jit(kernel)[1, 1](np.ones(4), np.ones(4))
    assert line < int(str(told.value).partition("py:")[2].partition(")")[0]) < line + 5


@pytest.mark.parametrize("name", ARRAYS)
def test_what_gpus_do_not_do_with_arrays_is_refused_when_it_runs(name: str, job: None) -> None:
    a, b = (pyshmem.ones(4, heap="device") for _ in range(2))
    with pytest.raises(TypeError, match="compilers for GPUs do not take it"):
        cuda.jit(kernel_sources.KERNELS[name])[1, 1](a, b)


def test_whole_arrays_are_written_and_changed_in_place(job: None) -> None:
    @cuda.jit
    def kernel(a: np.ndarray, b: np.ndarray) -> None:
        np.fmax(a, 4.0, a)
        a /= b
        b /= 2.0

    a, b = pyshmem.ones(4, heap="device"), pyshmem.full(4, 8.0, heap="device")
    kernel[1, 1](a, b)
    assert pyshmem.to_numpy(a).tolist() == [0.5] * 4
    assert pyshmem.to_numpy(b).tolist() == [4.0] * 4


def test_records_are_copied_as_a_whole() -> None:
    pair = np.dtype([("i", np.int32), ("j", np.float32, (2,))])

    @cuda.jit
    def kernel(a: np.ndarray, b: np.ndarray) -> None:
        ours = cuda.shared.array(2, pair)
        ours[0] = a[1]
        b[0] = ours[0]
        b[1].i = ours[0].i + 1

    a, b = np.zeros(2, pair), np.zeros(2, pair)
    a[1] = (7, (1.5, 2.5))
    kernel[1, 1](a, b)
    assert b[0] == a[1]
    assert b[1]["i"] == 8


@pytest.mark.filterwarnings("ignore::numba.core.errors.NumbaWarning", "ignore::RuntimeWarning")
def test_numbas_generators_of_random_numbers_run(job: None) -> None:
    """Functions that Numba compiles for the simulator ask for arrays' layouts, which kernels may not."""
    from numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_uniform_float32

    @cuda.jit
    def kernel(states: np.ndarray, found: np.ndarray) -> None:
        i = cuda.grid(1)
        found[i] = xoroshiro128p_uniform_float32(states, i)

    states, found = create_xoroshiro128p_states(8, seed=1), pyshmem.zeros(8, heap="device")
    kernel[1, 8](states, found)
    assert len({x for x in pyshmem.to_numpy(found).tolist() if 0 <= x < 1}) == 8


def test_a_reshape_in_fortrans_order_is_no_copy() -> None:
    """It compiles; where the strides allow no such view, a GPU ends the thread without a word."""

    @cuda.jit
    def as_one(f: np.ndarray) -> None:
        f.reshape(4)[0] = 1

    @cuda.jit
    def as_it_is(f: np.ndarray) -> None:
        f.reshape((2, 2))[0, 1] = 1

    with pytest.raises(TypeError, match=r"reshape of an array in Fortran's order, which copies"):
        as_one[1, 1](np.zeros((2, 2), order="F"))
    seen = np.zeros((2, 2), order="F")
    as_it_is[1, 1](seen)
    assert seen.tolist() == [[0, 1], [0, 0]]


@pytest.mark.parametrize("name", TAKEN)
def test_what_gpus_compile_runs(name: str, job: None) -> None:
    a, b = (pyshmem.ones(4, heap="device") for _ in range(2))
    cuda.jit(kernel_sources.KERNELS[name])[1, 1](a, b)
    if name not in ("taken_parts", "taken_reductions"):  # Numba wraps arrays of the host itself
        cuda.jit(kernel_sources.KERNELS[name])[1, 1](np.ones(4), np.ones(4))


def test_the_compiler_says_the_same() -> None:
    path = Path(kernel_sources.__file__).with_name("compiled_sources.py")
    settings = os.environ | {"NUMBA_ENABLE_CUDASIM": "0"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", path],
        env=settings,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == TAKEN


def test_functions_that_kernels_call_are_looked_at_and_may_return() -> None:
    @cuda.jit(device=True)
    def half(x: float) -> float:
        return x / 2

    @cuda.jit(device=True)
    def many(x: float) -> float:
        return float(np.zeros(4)[0] + x)

    @cuda.jit
    def good(a: np.ndarray) -> None:
        a[0] = half(a[0])

    @cuda.jit
    def bad(a: np.ndarray) -> None:
        a[0] = many(a[0])

    a = np.ones(1)
    good[1, 1](a)
    assert a[0] == 0.5
    with pytest.raises(TypeError, match=r"kernel .*many .*it has numpy\.zeros"):
        bad[1, 1](a)


def test_a_symmetric_array_that_is_no_argument_is_refused(job: None) -> None:
    """A GPU's compiler knows no type of one on its heap, and would make a constant of the host's."""
    for heap in ("host", "device"):
        outer = pyshmem.ones(4, heap=heap)

        @cuda.jit
        def kernel(a: np.ndarray) -> None:
            a[0] = outer[1]  # noqa: B023  (launched before the next one)

        with pytest.raises(TypeError, match=r"it has outer, a symmetric array .*: give it as one"):
            kernel[1, 1](np.zeros(1))


@pytest.mark.parametrize("alignment", [None, 16, 1024])
def test_memory_of_kernels_is_aligned_as_it_is_asked(alignment: int | None) -> None:
    @cuda.jit
    def kernel(a: np.ndarray) -> None:
        mine = cuda.local.array((2, 3), np.float32, alignment=alignment)
        ours = cuda.shared.array(5, np.int16, alignment)
        mine[1, 2] = ours[4] = 7
        a[0], a[1], a[2] = mine.ctypes.data, ours.ctypes.data, mine[1, 2] + ours[4]

    a = np.zeros(3, np.int64)
    kernel[1, 1](a)
    assert [x % (alignment or 1) for x in a[:2]] == [0, 0]
    assert a[2] == 14


@pytest.mark.parametrize(
    ("alignment", "error", "text"),
    [(-8, ValueError, "a power of 2"), (24, ValueError, "a power of 2"), (4, ValueError, "of 8"),
     ("16", TypeError, "a constant integer"), (16.0, TypeError, "a constant integer")],
)  # fmt: skip
def test_an_alignment_that_no_gpu_has_is_refused(
    alignment: object, error: type[Exception], text: str
) -> None:
    @cuda.jit
    def kernel(a: np.ndarray) -> None:
        a[0] = cuda.local.array(2, np.float64, alignment=alignment).size

    with pytest.raises(error, match=f"lignment must be {text}|and a multiple {text}"):
        kernel[1, 1](np.zeros(1))


def test_kernels_make_arrays_where_those_of_gpus_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def kernel(a: np.ndarray) -> None:
        mine = np.full(2, a[0])
        a[1] = np.concatenate((mine, a.copy())).sum()

    with pytest.raises(TypeError, match=r"numpy\.full: .* NUMBA_CUDA_ENABLE_NRT=1"):
        cuda.jit(kernel)[1, 1](np.ones(2))
    monkeypatch.setattr(config, "CUDA_ENABLE_NRT", True, raising=False)
    a = np.ones(2)
    cuda.jit(kernel)[1, 1](a)
    assert a.tolist() == [1, 4]


def test_a_function_with_star_is_passed_on() -> None:
    @cuda.jit(device=True)
    def calls(function, *given):  # type: ignore[no-untyped-def]
        return function(*given)

    @cuda.jit
    def kernel(a: np.ndarray) -> None:
        def first(*given):  # type: ignore[no-untyped-def]
            return given[0] + len(given)

        a[0] = calls(first, a[1], 3)

    a = np.array([0.0, 5.0])
    kernel[1, 1](a)
    assert a[0] == 7


@pytest.mark.parametrize("stream", ["s", b"s", 1.0, (1,)])
def test_what_is_no_stream_is_refused(stream: object) -> None:
    @cuda.jit
    def kernel(a: np.ndarray) -> None:
        a[0] = 1

    with pytest.raises(TypeError, match=r"the stream of kernel kernel is a \w+; 0 stands"):
        kernel[1, 1, stream]


def test_a_kernel_without_source_is_left_to_the_compiler() -> None:
    made: dict[str, object] = {}
    exec("def kernel(a):\n    a[0] = {1: 4}[1]\n", made)
    a = np.zeros(1)
    cuda.jit(made["kernel"])[1, 1](a)
    assert a[0] == 4


def test_an_array_is_not_copied_by_a_slice() -> None:
    @cuda.jit
    def copies(a: np.ndarray, b: np.ndarray) -> None:
        a[1:3] = b[1:3]

    @cuda.jit
    def whole(a: np.ndarray, b: np.ndarray) -> None:
        a[:] = b

    for kernel in (copies, whole):
        with pytest.raises(TypeError, match=r"kernels copy element by element"):
            kernel[1, 1](np.zeros(4), np.ones(4))


def test_each_maker_of_arrays_is_numpys() -> None:
    assert len(source._makers(source._MAKERS)) == len(source._MAKERS.split())
