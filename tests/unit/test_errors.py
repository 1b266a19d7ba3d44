# SPDX-License-Identifier: BSD-3-Clause
"""Statuses become exceptions; bad input is told with the value and the way out."""

from __future__ import annotations

import inspect
import operator
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from environment import clean_environment

import pyshmem
from pyshmem._core import library
from pyshmem._core.contract import CMP
from pyshmem._core.library import lib
from pyshmem.host import faults
from pyshmem.host.job import meant_calls


@pytest.fixture
def job() -> Iterator[pyshmem.Job]:
    with pyshmem.init(heap_size="4M", device_heap_size="1M", device="none") as running:
        yield running


def test_every_status_has_an_exception() -> None:
    statuses = {name: getattr(lib, name) for name in dir(lib) if name.startswith("ISHMEMX_ERR_")}
    special = {"ISHMEMX_ERR_STATE", "ISHMEMX_ERR_INTERRUPTED", "ISHMEMX_ERR_FAULT"}
    for name, status in statuses.items():
        with pytest.raises(BaseException) as caught:
            library.fail(status)
        if name not in special | {"ISHMEMX_ERR_ARGUMENT", "ISHMEMX_ERR_TYPE"}:
            assert isinstance(caught.value, pyshmem.ShmemError), name
    with pytest.raises(KeyboardInterrupt):
        library.fail(lib.ISHMEMX_ERR_INTERRUPTED)


def test_an_interrupted_wait_raises_what_the_handler_raised(monkeypatch) -> None:
    monkeypatch.setattr(library, "interruption", LookupError("from a handler"))
    with pytest.raises(LookupError, match="from a handler"):
        library.fail(lib.ISHMEMX_ERR_INTERRUPTED)
    assert library.interruption is None


def test_calls_before_init_and_after_finalize_say_so() -> None:
    assert not pyshmem.initialized()
    calls = [
        pyshmem.my_pe,
        pyshmem.n_pes,
        pyshmem.barrier_all,
        pyshmem.quiet,
        pyshmem.drain,
        lambda: pyshmem.zeros(3),
        lambda: pyshmem.put(np.zeros(3), np.zeros(3), 0),
        lambda: pyshmem.p(np.zeros(3), 1, 0),
        lambda: pyshmem.free(np.zeros(3)),
        lambda: pyshmem.heap_info(),
    ]
    for call in calls:
        with pytest.raises(pyshmem.NotInitialized, match="init"):
            call()
    with pyshmem.init(heap_size="1M", device="none"):
        array = pyshmem.zeros(3)
    pyshmem.finalize()
    with pytest.raises(pyshmem.NotInitialized, match="job that has ended"):
        pyshmem.put(array, array, 0)
    with pytest.raises(pyshmem.NotInitialized):
        pyshmem.free(array)
    with pytest.raises(pyshmem.NotInitialized, match="it ended by finalize, with the `with`"):
        pyshmem.zeros(3)


def test_a_function_for_a_number_is_told_to_be_called() -> None:
    with (
        pyshmem.init(heap_size="1M", device="none"),
        pytest.raises(TypeError, match=r"^pe is a function, not an integer: call it, my_pe\(\)"),
    ):
        pyshmem.put(pyshmem.zeros(3), np.zeros(3), pyshmem.my_pe)  # type: ignore[arg-type]


def test_a_pe_for_a_context_is_told_the_routine() -> None:
    with (
        pyshmem.init(heap_size="1M", device="none"),
        pytest.raises(TypeError, match=r"not a context; of one PE's operations it is pe_quiet"),
    ):
        pyshmem.quiet(0)  # type: ignore[arg-type]


def test_init_is_counted() -> None:
    with pyshmem.init(heap_size="1M", device="none") as outer:
        with pyshmem.init() as inner:
            assert inner is outer
        assert pyshmem.initialized()
        with pytest.raises(ValueError, match=r"'sim'.*'none'"):
            pyshmem.init(device="sim")
        with pytest.raises(ValueError, match=r"heap_size is '2M'.* 1048576 bytes: the first init"):
            pyshmem.init(heap_size="2M")
        pyshmem.init(heap_size="1M").finalize()
    assert not pyshmem.initialized()


def test_init_says_what_is_wrong_with_its_arguments() -> None:
    with pytest.raises(ValueError, match=r"'gpu'.*auto, cuda, sim, cpu and none"):
        pyshmem.init(device="gpu")
    with pytest.raises(ValueError, match="much"):
        pyshmem.init(heap_size="much")
    with pytest.raises(ValueError, match="-1"):
        pyshmem.init(heap_size=-1)
    assert not pyshmem.initialized()


def _no_longer_registered() -> Any:
    with pyshmem.register(np.zeros(4)) as registered:
        return registered.array


BAD_CALLS = {
    "pe too large": (lambda a, b: pyshmem.put(a, b, 7), ValueError, "pe 7 .*1 PE.*0..0"),
    "pe negative": (lambda a, b: pyshmem.get(a, b, -1), ValueError, "pe -1 .*0..0"),
    "pe of a value": (lambda a, b: pyshmem.p(a, 1, 3), ValueError, "pe 3 "),
    "pe no integer": (lambda a, b: pyshmem.put(a, b, 0.5), TypeError, "integer"),
    "pe huge": (lambda a, b: pyshmem.p(a, 1, 2**40), ValueError, str(2**40)),
    "root": (lambda a, b: pyshmem.broadcast(a, b, 2), ValueError, "2"),
    "not symmetric": (
        lambda a, b: pyshmem.put(np.zeros(4), a, 0),
        ValueError,
        r"dest \(shape \(4,\), float64\) is not on a symmetric heap: .* make it with",
    ),
    "not contiguous": (
        lambda a, b: pyshmem.put(a[::2], b, 0, nelems=1),
        ValueError,
        r"dest is not C-contiguous .*strides \(16,\)",
    ),
    "not contiguous, of iput": (
        lambda a, b: pyshmem.iput(a[::2], b, 0, nelems=1),
        ValueError,
        r"dest is not C-contiguous .* flat, .* a\.reshape\(-1\)\[first:\], .* as dst or sst$",
    ),
    "read-only": (
        lambda a, b: pyshmem.get(np.frombuffer(bytes(32)), b, 0),
        ValueError,
        "dest is read-only",
    ),
    "dtype": (
        lambda a, b: pyshmem.put(a, np.zeros(4, np.float32), 0),
        TypeError,
        "source has dtype float32, dest has dtype float64",
    ),
    "a list in a peer's memory": (
        lambda a, b: pyshmem.put([0.0], a, 0),
        TypeError,
        r"dest is a list, not an array: give pyshmem\.array\(dest\)",
    ),
    "shape in two": (lambda a, b: pyshmem.zeros(4, 4), TypeError, "several numbers is a tuple"),
    "no array": (lambda a, b: pyshmem.put(a, [1.0], 0), TypeError, "source is a list"),
    "nelems too large": (
        lambda a, b: pyshmem.put(a, b, 0, nelems=5),
        ValueError,
        "nelems is 5, but source has 4",
    ),
    "nelems negative": (lambda a, b: pyshmem.put(a, b, 0, nelems=-2), ValueError, "nelems is -2"),
    "nelems no integer": (lambda a, b: pyshmem.put(a, b, 0, nelems=1.0), TypeError, "float"),
    "dest too small": (
        lambda a, b: pyshmem.put(a[:3], b, 0),
        ValueError,
        "source has 4 elements, but dest has 3; pass nelems=",
    ),
    "value of another kind": (
        lambda a, b: pyshmem.p(a.view(np.int64), 1.5, 0),
        TypeError,
        r"value is 1.5 \(float\); the array's dtype is int64; make the array with dtype=float",
    ),
    "a whole number of another kind": (
        lambda a, b: pyshmem.p(a.view(np.int64), 2.0, 0),
        TypeError,
        r"value is 2.0 .*; int\(2.0\) is a whole number",
    ),
    "value out of range": (
        lambda a, b: pyshmem.p(a.view(np.int8), 300, 0),
        OverflowError,
        r"value 300 is outside int8 \(-128..127\)",
    ),
    "atomic value out of range": (
        lambda a, b: pyshmem.atomic_add(a.view(np.uint32), -1, 0),
        OverflowError,
        "value -1 is outside uint32",
    ),
    "atomic dtype": (
        lambda a, b: pyshmem.atomic_inc(a.view(np.int16), 0),
        TypeError,
        "int16 is outside .*int32, int64, uint32, uint64",
    ),
    "atomic dtype 2": (
        lambda a, b: pyshmem.atomic_compare_swap(a, 0, 1, 0),
        TypeError,
        "float64 is outside .*int32, int64, uint32, uint64",
    ),
    "atomic of the core's table": (lambda a, b: pyshmem.atomic_or(a, 1.0, 0), TypeError, "int32"),
    "bitwise reduction of floats": (
        lambda a, b: pyshmem.xor_reduce(a, b),
        TypeError,
        "xor_reduce: dtype float64 is outside",
    ),
    "signal dtype": (
        lambda a, b: pyshmem.signal_fetch(a),
        TypeError,
        "signals are uint64, as new_signal",
    ),
    "an element": (
        lambda a, b: pyshmem.p(a[0], 1.0, 0),
        TypeError,
        r"pass a part, a\[i : i \+ 1\]",
    ),
    "comparison in words": (
        lambda a, b: pyshmem.test(a.view(np.int64), "==", 0),
        TypeError,
        "cmp is '==' .*, not an integer; give pyshmem.CMP_EQ",
    ),
    "signal operation in words": (
        lambda a, b: pyshmem.put_signal(a, b, pyshmem.new_signal(), 1, "add", 0),
        TypeError,
        "sig_op is 'add' .*; give pyshmem.SIGNAL_SET or SIGNAL_ADD",
    ),
    "a list for a team": (
        lambda a, b: pyshmem.sum_reduce(a, a, team=[0]),
        TypeError,
        r"not a Team; these PEs make one.*Team\.from_pes\(\[0\]\)",
    ),
    "what register returned": (
        lambda a, b: pyshmem.sum_reduce(pyshmem.register(np.zeros(4)), a),
        TypeError,
        r"dest is a pyshmem\.Registration, not an array: give .* registration\.array",
    ),
    "nothing, as of ptr": (
        lambda a, b: pyshmem.put(a, None, 0),
        TypeError,
        r"source is None.*ptr\(\)",
    ),
    "a class for a stream": (
        lambda a, b: pyshmem.put(a, b, 0, stream=pyshmem.streams.Stream),
        TypeError,
        r"stream is the class Stream; give a stream, Stream\(\)",
    ),
    "a number for an array": (
        lambda a, b: pyshmem.put(a, 3, 0),
        TypeError,
        r"source is an int, not an array: p\(dest, value, pe\) puts one number, np.full",
    ),
    "what was registered": (
        lambda a, b: pyshmem.put(_no_longer_registered()[1:], b[1:], 0),
        ValueError,
        r"dest .* is not registered any more, since test_errors.py:\d+: register it again",
    ),
    "dest and source that share elements": (
        lambda a, b: pyshmem.sum_reduce(a[1:], a[:3]),
        ValueError,
        "they share 2 elements: give arrays that lie apart, or the same array for both",
    ),
    "wait dtype": (lambda a, b: pyshmem.wait_until(a, pyshmem.CMP_EQ, 0), TypeError, "float64"),
    "comparison": (lambda a, b: pyshmem.test(a.view(np.int64), 9, 0), ValueError, "9"),
    "no element": (lambda a, b: pyshmem.g(a[:0], 0), ValueError, "no elements"),
    "freeing a view": (lambda a, b: pyshmem.free(a[1:]), ValueError, "view"),
    "freeing another view": (lambda a, b: pyshmem.free(a[:]), ValueError, "view"),
    "freeing ordinary memory": (lambda a, b: pyshmem.free(np.zeros(4)), ValueError, "symmetric"),
    "heap": (lambda a, b: pyshmem.zeros(3, heap="gpu"), ValueError, "'gpu'.*'host' and 'device'"),
    "no device heap": (
        lambda a, b: pyshmem.zeros(3, heap="device"),
        pyshmem.UnsupportedError,
        "PYSHMEM_DEVICE",
    ),
    "shape": (lambda a, b: pyshmem.zeros((2, -1)), ValueError, r"\(2, -1\)"),
    "Python objects": (lambda a, b: pyshmem.zeros(3, object), TypeError, "object"),
    "unknown dtype": (lambda a, b: pyshmem.zeros(3, "int7"), TypeError, "'int7'"),
    "heap exhausted": (
        lambda a, b: pyshmem.zeros(1 << 30, np.uint8),
        pyshmem.HeapExhausted,
        "1.0 GiB requested, .*free, largest block .*PYSHMEM_HEAP_SIZE",
    ),
    "stream": (lambda a, b: pyshmem.put(a, b, 0, stream=object()), TypeError, "__cuda_stream__"),
}


@pytest.mark.parametrize("name", BAD_CALLS)
def test_bad_input_is_told_and_loses_nothing(job, name: str) -> None:
    call, exception, text = BAD_CALLS[name]
    first, second = pyshmem.arange(4.0), pyshmem.arange(4.0)
    with pytest.raises(exception, match=text):
        call(first, second)
    assert (first == np.arange(4.0)).all()
    assert (second == np.arange(4.0)).all()
    pyshmem.put(first, second, 0)
    pyshmem.barrier_all()


def test_freeing_twice_is_told(job) -> None:
    array = pyshmem.zeros(3)
    view = array[1:]
    pyshmem.free(array)
    with pytest.raises(ValueError, match="freed"):
        pyshmem.free(array)
    with pytest.raises(ValueError, match="freed"):
        pyshmem.put(array, np.zeros(3), 0)
    with pytest.raises(ValueError, match="freed"):
        pyshmem.put(view, np.zeros(2), 0)


@pytest.mark.parametrize(
    ("ending", "status"),
    [("raise ValueError('x')", 1), ("raise SystemExit(3)", 3), ("sys.exit(4)", 4), ("pass", 0)],
)
def test_a_script_that_forgets_finalize_ends_with_its_own_status(ending: str, status: int) -> None:
    code = f"import sys, pyshmem; pyshmem.init(heap_size='1M', device='none')\n{ending}"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert result.returncode == status


MISTAKE = """
import pyshmem

def mine(array):
    pyshmem.put([1.0], array, 0)

with pyshmem.init(heap_size="1M", device="none"):
    mine(pyshmem.zeros(4))
"""


def told_of(code: str, **environment: str) -> list[str]:
    """The lines of the traceback."""
    settings = clean_environment() | environment
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=settings, timeout=60)
    assert done.returncode == 1
    return done.stderr.splitlines()


IN_A_THREAD = """
import threading, pyshmem

def work(dest):
    pyshmem.put(dest, [1.0], 0)

with pyshmem.init(heap_size="1M", device="none"):
    thread = threading.Thread(target=work, args=(pyshmem.zeros(1),))
    thread.start()
    thread.join()
raise SystemExit(1)
"""


def test_what_ends_a_thread_is_told_in_the_programs_lines() -> None:
    lines = told_of(IN_A_THREAD)
    files = [line for line in lines if line.lstrip().startswith("File")]
    assert files[-1] == '  File "<string>", line 5, in work'
    assert not any("pyshmem/" in line for line in files)
    assert "TypeError: source is a list, not an array: give np.asarray(source, dest.dtype)" in lines
    assert lines[-1].startswith("it is called so: pyshmem.put(dest, source, pe, ")


def test_a_hook_of_the_program_has_the_programs_lines_too() -> None:
    code = """
import sys, traceback
sys.excepthook = lambda kind, error, frames: traceback.print_exception(kind, error, frames)
import pyshmem
pyshmem.zeros(3)
"""
    assert sum("File" in line for line in told_of(code)) == 1


IN_A_KERNEL = """
import pyshmem
from numba import cuda
from pyshmem import device

@cuda.jit
def k(array):
    device.put(array, array)

with pyshmem.init(heap_size="4M", device_heap_size="1M"):
    k[1, 1](pyshmem.zeros(4, heap="device"))
"""


def test_a_traceback_has_the_lines_of_the_program_and_how_the_routine_is_called() -> None:
    lines = told_of(MISTAKE)
    assert [line for line in lines if "File" in line] == [
        '  File "<string>", line 8, in <module>',
        '  File "<string>", line 5, in mine',
    ]
    assert lines[-2].startswith("TypeError: dest is a list")
    assert lines[-1].startswith("it is called so: pyshmem.put(dest, source, pe, *, nelems=None, ")


def test_a_setting_keeps_all_frames() -> None:
    lines = told_of(MISTAKE, PYSHMEM_TRACEBACKS="full")
    assert any("checks.py" in line for line in lines)


def test_what_no_raise_of_the_package_foresaw_keeps_all_frames() -> None:
    code = MISTAKE.replace(
        "def mine", "from pyshmem._core.arrays import checks\nchecks.place = 3\n\ndef mine"
    )
    assert any("checks.py" in line for line in told_of(code))


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("init(n_pes=4)", "pyshmem.init(*, heap_size=None, device_heap_size=None, device=None, "),
        ("sum_reduce(1)", "pyshmem.sum_reduce(dest, source, *, "),
        ("barrier_all(1)", "pyshmem.barrier_all("),
        ("Team.from_pes()", "pyshmem.Team.from_pes("),
    ],
)
def test_a_call_that_does_not_fit_is_told_the_one_that_does(call: str, told: str) -> None:
    lines = told_of(f"import pyshmem\npyshmem.{call}")
    assert [line for line in lines if "File" in line] == ['  File "<string>", line 2, in <module>']
    assert lines[-1].startswith(f"it is called so: {told}")
    assert ("run -n 4 program.py" in lines[-2]) == call.startswith("init")


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("sum_reduce(1, 2, op='max')", "the operation is in the routine's name: sum_reduce, max_"),
        ("put(dst=1, src=2, pe=3)", "the array that is written is dest"),
        ("put(1, 2, target=3)", "the other PE is pe"),
        ("broadcast(1, 2, src=0)", "the PE that the elements are of is root"),
        ("put(1, 2, 3, async_op=True)", "what does not wait is a routine of its own: put_nbi"),
        ("sum_reduce(1, 2, group=3)", "the PEs that take part are team="),
        ("zeros(3, device='cuda')", 'where an array lies is heap="host" or heap="device"'),
        ("launch(print, 2, device='sim')", "settings of the PEs go by env={'PYSHMEM_DEVICE': ...}"),
        ("g(1, 2, stream=3)", "it has no form on a stream: g is get(dest, source, pe, stream=)"),
        ("launch(print, np=2)", "the number of PEs is n_pes"),
        ("launch(print, 2, args=(1, 2))", "what the function is given follows n_pes"),
        ("init(timeout=3)", "this setting is a variable of the environment: PYSHMEM_TIMEOUT"),
        ("put_signal(1, 2, sig=3)", "the signal's word is sig_addr"),
        ("wait_until(1, value=3)", "what is compared with is cmp_value"),
        (
            "barrier_all(pyshmem.TEAM_WORLD)",
            "it is of all PEs; of the PEs of a team it is team.sync()",
        ),
        (
            "sum_reduce(1, 2, 3)",
            "what is behind the * is given by its name: nelems=, team=, stream=",
        ),
    ],
)
def test_arguments_of_other_libraries_are_told_what_does_the_same(call: str, told: str) -> None:
    lines = told_of(f"import pyshmem\npyshmem.{call}")
    assert lines[-2].startswith(told)
    assert lines[-1].startswith("it is called so: pyshmem.")


@pytest.mark.parametrize("name", meant_calls.MADE_BY)
def test_objects_that_the_library_makes_are_told_how_one_gets_them(name: str) -> None:
    lines = told_of(f"import pyshmem\npyshmem.{name}()")
    assert lines[-1] == meant_calls.MADE_BY[name]
    assert "__init__() missing" in lines[-2]
    for routine in re.findall(r"pyshmem\.([A-Za-z_.]+)", lines[-1]):
        assert operator.attrgetter(routine)(pyshmem)


def test_a_function_that_is_called_instead_of_launched_is_told() -> None:
    called = "def work():\n    return pyshmem.my_pe()\n\nprint(pyshmem.launch(work(), 2))"
    code = f"import pyshmem, linecache\ntext = {called!r}\n"
    code += "linecache.cache['f.py'] = len(text), None, text.splitlines(True), 'f.py'\n"
    lines = told_of(f"{code}exec(compile(text, 'f.py', 'exec'))")
    assert any("launch(work, n_pes), not what work() returns" in line for line in lines)


def test_an_arrays_own_put_is_not_shown_as_the_call_that_fits() -> None:
    code = "import pyshmem\nwith pyshmem.init(heap_size='4M'):\n    pyshmem.zeros(4).put([1], 0)"
    lines = told_of(code, PYSHMEM_DEVICE="none")
    assert "To another PE it is pyshmem.put(dest, source, pe)" in lines[-1]


def test_a_call_in_a_kernel_is_told_the_routine_for_kernels() -> None:
    pytest.importorskip("numba")
    lines = told_of(IN_A_KERNEL, PYSHMEM_DEVICE="sim")
    assert lines[-1].startswith("it is called so: pyshmem.device.put(dest, source, pe, ")
    assert lines[-2].startswith("in simulated kernel k, ")
    lines = told_of(IN_A_KERNEL.replace("put(array,", "put(1,"), PYSHMEM_DEVICE="sim")
    assert lines[-1].startswith("it is called so: pyshmem.device.put(dest, source, pe, ")


def test_an_argument_that_kernels_cannot_use_is_told_by_its_name() -> None:
    pytest.importorskip("numba")
    lines = told_of(IN_A_KERNEL.replace(', heap="device"', ""), PYSHMEM_DEVICE="sim")
    assert "it is on the host heap" in lines[-2]
    assert lines[-1] == "it is argument array of kernel k"


def test_a_collective_s_fault_says_of_whom_the_elements_are() -> None:
    fault = dict.fromkeys(("module", "block", "thread", "pe"), 0) | {"a": 8, "b": 4}
    fault |= {"op": faults.OP["alltoall"], "kind": faults.FAULT_NELEMS}
    assert "nelems is one PE's share, dest and source hold" in faults.describe_fault(fault, "k")


def test_an_index_past_the_end_in_a_kernel_has_the_lines_of_the_program() -> None:
    pytest.importorskip("numba")
    for wrong in ("array[9] = 1", "array[0] = array[3, 1]"):
        code = IN_A_KERNEL.replace("device.put(array, array)", wrong)
        lines = told_of(code, PYSHMEM_DEVICE="sim")
        assert [line.split(",")[1] for line in lines if "File" in line] == [" line 11", " line 8"]
        assert lines[-2].startswith("IndexError: ")
        assert lines[-1].startswith("in simulated kernel k, ")


def test_a_block_of_each_pe_is_told_with_what_it_makes_of_all(job) -> None:
    array = pyshmem.zeros(4)
    told = "nelems is 5 for each of 1 PEs, so source needs 5 elements, but has 4"
    with pytest.raises(ValueError, match=told):
        pyshmem.alltoall(pyshmem.zeros(8), array, nelems=5)
    with pytest.raises(ValueError, match=told.replace("source", "dest")):
        pyshmem.alltoall(array, pyshmem.zeros(8), nelems=5)


def test_a_lock_is_told_to_be_held_by_with(job) -> None:
    lock = pyshmem.Lock()
    for routine in (pyshmem.set_lock, pyshmem.test_lock, pyshmem.clear_lock):
        with pytest.raises(TypeError, match=r"held by `with lock:`; its array is lock\.word"):
            routine(lock)


def test_what_is_told_of_arguments_is_about_routines_that_there_are() -> None:
    routines = {name: getattr(pyshmem, name) for name in pyshmem.__all__}
    taken = {
        parameter
        for routine in routines.values()
        if callable(routine) and not isinstance(routine, type)
        for parameter in inspect.signature(routine).parameters
    }
    for parameter, told, others in meant_calls._INSTEAD:
        assert parameter in (*taken, "")
        assert parameter in told
        assert parameter not in others


def test_tracebacks_are_whole_again_for_who_looks_later() -> None:
    code = """
import sys, traceback
hook = sys.excepthook
import pyshmem
def mine(kind, error, frames):
    ours(kind, error, frames)
    print(len(traceback.extract_tb(error.__traceback__)), file=sys.stderr)
ours, sys.excepthook = sys.excepthook, mine
pyshmem.zeros(3)
"""
    assert int(told_of(code)[-1]) > 1


KERNEL = """
import pyshmem
from numba import cuda
from pyshmem import device as shmem

@cuda.jit
def kernel(dest, source):
    shmem.put(dest, source, 0)

with pyshmem.init(heap_size="1M", device_heap_size="1M"):
    kernel[1, 1](pyshmem.zeros(1, heap="device"))
"""


def test_a_kernel_without_one_of_its_arguments_is_a_mistake_of_the_program() -> None:
    lines = told_of(KERNEL, PYSHMEM_DEVICE="sim", NUMBA_ENABLE_CUDASIM="1")
    assert [line for line in lines if "File" in line] == ['  File "<string>", line 11, in <module>']
    assert "TypeError: kernel() missing 1 required positional argument: 'source'" in lines


CHILD = """
import multiprocessing
import pyshmem

def work():
    with pyshmem.init() as job:
        print(job.n_pes)

child = multiprocessing.get_context("fork").Process(target=work)
child.start()
child.join()
"""


def test_a_process_of_multiprocessing_is_told_that_it_is_a_job_by_itself() -> None:
    place = ("PYSHMEM_", "RANK", "WORLD_SIZE", "OMPI_", "PMI", "SLURM_")
    alone = {name: value for name, value in os.environ.items() if not name.startswith(place)}
    command = [sys.executable, "-c", CHILD]
    done = subprocess.run(command, capture_output=True, text=True, env=alone, timeout=60)
    assert done.stdout == "1\n"
    assert "RuntimeWarning: this process of multiprocessing is a job of one PE" in done.stderr


def test_a_child_of_fork_is_told_in_the_program_s_lines(tmp_path) -> None:
    """Also by what multiprocessing writes of it there."""
    program = tmp_path / "forks.py"
    program.write_text(
        "import multiprocessing\nimport pyshmem\n"
        "def work():\n    pyshmem.barrier_all()\n"
        "with pyshmem.init(heap_size='1M', device='none'):\n"
        "    child = multiprocessing.get_context('fork').Process(target=work)\n"
        "    child.start()\n    child.join()\n"
    )
    done = subprocess.run(
        [sys.executable, program],
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "pyshmem.NotInitialized: PE 0 forked this process" in done.stderr
    assert "pyshmem.barrier_all()" in done.stderr
    assert "/pyshmem/_core/" not in done.stderr
    assert "have this one return what that is to put" in done.stderr


def test_a_thread_whose_target_is_a_routine_says_so() -> None:
    program = (
        "import threading, pyshmem\n"
        "thread = threading.Thread(target=pyshmem.barrier_all)\nthread.start()\nthread.join()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=clean_environment(), capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert "NotInitialized" in done.stderr
    assert "the thread's target is the routine itself" in done.stderr


def test_put_and_get_with_their_sides_swapped_are_told(job) -> None:
    ours, own = pyshmem.zeros(4), np.zeros(4)
    for call, name in ((pyshmem.put, "source"), (pyshmem.get, "dest")):
        with pytest.raises(ValueError, match="symmetric heap") as caught:
            call(*((own, ours) if call is pyshmem.put else (ours, own)), 0)
        assert caught.value.__notes__ == [
            f"{name} is on one: are the two swapped? It is {call.__name__}(dest, source, pe)"
        ]
    with pytest.raises(ValueError, match="symmetric heap") as caught:
        pyshmem.put(own, own, 0)
    assert not hasattr(caught.value, "__notes__")


@pytest.mark.parametrize("name", ["waitall", "Waitall", "testall", "Wait"])
def test_names_of_mpi4py_s_requests_are_told_of_the_class_too(name) -> None:
    with pytest.raises(
        AttributeError, match=r"class Request has no \w+: .*request\.(wait|test)\(\)"
    ):
        getattr(pyshmem.Request, name)
    with pytest.raises(AttributeError, match="class Request has no attribute 'nothing'"):
        _ = pyshmem.Request.nothing  # type: ignore[attr-defined]


def test_a_wait_s_fault_for_one_value_that_was_passed_names_the_comparison() -> None:
    fault = dict.fromkeys(("module", "block", "thread", "pe"), 0) | {"a": 1, "b": 2}
    fault |= {"op": CMP.EQ << faults.CMP_SHIFT, "kind": faults.FAULT_TIMEOUT}
    assert "== 1 and saw 2, which is past it: CMP_GE" in faults.describe_fault(fault, "k")
    assert "past" not in faults.describe_fault(fault | {"a": 0}, "k")


def test_a_check_that_is_no_word_of_it_is_refused() -> None:
    for text in ("yes", "on", "true", "1,yes"):
        with pytest.raises(ValueError, match=r"0, 1 or a list of args\|order"):
            library.number_in("PYSHMEM_CHECK", text)
    assert library.number_in("PYSHMEM_CHECK", "1,order") == 3
    assert library.number_in("SHMEM_DEBUG", "yes") == 1
