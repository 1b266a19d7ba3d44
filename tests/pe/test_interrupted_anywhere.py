# SPDX-License-Identifier: BSD-3-Clause
"""An exception at each bytecode of a call in turn, as Ctrl-C may come: nothing is lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest

#: Calls, and what may be left over by one that has ended early.
CALLS = {
    "zeros": "pyshmem.zeros(8)",
    "full": "pyshmem.full(8, 3)",
    "realloc": "pyshmem.realloc(kept, 70 if len(kept) == 9 else 9)",
    "free": "pyshmem.free(pyshmem.empty(8))",
    "split_strided": "pyshmem.TEAM_WORLD.split_strided(0, 1, 1)",
    "split_2d": "pyshmem.TEAM_WORLD.split_2d(1)",
    "split": "pyshmem.TEAM_WORLD.split(0)",
    "from_pes": "pyshmem.Team.from_pes([0])",
    "members": "team_of_members([0], lambda mine: [mine])",
    "destroy": "pyshmem.TEAM_WORLD.split_strided(0, 1, 1).destroy()",
    "Context": "pyshmem.Context()",
    "context's end": "pyshmem.Context().destroy()",
    "request": "pyshmem.sum_reduce_nb(kept_b, kept_a).wait()",
    "Lock": "pyshmem.Lock()",
    "with Lock": "hold(lock)",
}

#: Traces the package, and interrupts it at its n-th instruction.
INTERRUPT = """
class Interrupt:
    def __init__(self, n): self.left = n
    def __call__(self, frame, event, arg):
        if not frame.f_code.co_filename.startswith(HOME): return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            self.left -= 1
            if self.left == 0: raise KeyboardInterrupt
        return self
"""

PROGRAM = (
    """
import gc, os, sys, warnings, numpy as np, pyshmem
from pyshmem._core import library
from pyshmem.host.teams.made_by_members import team_of_members
warnings.simplefilter("ignore")
CALLS = {calls!r}
HOME = os.path.dirname(pyshmem.__file__)

"""
    + INTERRUPT
    + """
def left_over():
    gc.collect()
    pyshmem.drain()  # what was dropped
    stats = library.ffi.new("ishmemx_heap_stats_t *")
    library.check(library.lib.ishmemx_heap_stats(0, stats))
    slots = library.ffi.new("uint64_t *")
    library.check(library.lib.ishmemx_team_free_slots(slots))
    return stats.allocations - stats.released, 64 - bin(slots[0]).count("1")

def hold(lock):
    with lock:
        pass

with pyshmem.init(heap_size="8M"):
    lock = pyshmem.Lock()
    kept_a, kept_b = pyshmem.ones(4), pyshmem.zeros(4)
    for name, call in CALLS.items():
        kept = pyshmem.zeros(9)
        step, ended, before = {step}, False, left_over()
        n = 1
        while not ended:
            interrupt = Interrupt(n)
            n += step
            made = None
            sys.settrace(interrupt)
            try:
                made = eval(call)
            except KeyboardInterrupt:
                pass
            except pyshmem.ShmemError:
                pass
            finally:
                sys.settrace(None)
            ended = interrupt.left > 0
            del made
            if "kept," in call:
                del kept
                kept = pyshmem.zeros(9)
            if name == "with Lock":
                hold(lock)  # nobody has it
            now = left_over()
            assert now == before, (name, n - step, before, now)
        del kept
        print(name, n)
"""
)


@pytest.mark.parametrize(
    "step", [pytest.param(1, marks=pytest.mark.long), pytest.param(3, id="each third bytecode")]
)
def test_nothing_is_lost(step: int, run_pes: Callable) -> None:
    done = run_pes(1, PROGRAM.format(calls=CALLS, step=step), timeout=180, check=True)
    assert len(done.stdout.splitlines()) == len(CALLS)


#: The same where the interpreter looks for signals: where a function begins, behind calls, where a loop
#: goes back. Elsewhere no Ctrl-C comes: not between a ``with`` and its lock, which would stay taken.
SIGNAL = """
LOOKS = {dis.opmap[name] for name in ("RESUME", "CALL", "CALL_FUNCTION_EX", "JUMP_BACKWARD")}

class Interrupt:
    def __init__(self, n): self.left = n
    def __call__(self, frame, event, arg):
        if not frame.f_code.co_filename.startswith(HOME): return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        code, last = frame.f_code.co_code, None
        def local(frame, event, arg):
            nonlocal last
            if event == "opcode":
                looks, last = last in LOOKS, code[frame.f_lasti]
                self.left -= looks
                if looks and self.left == 0: raise KeyboardInterrupt
            return local
        return local
"""

KERNELS = (
    """
import dis, os, sys, warnings, numpy as np, pyshmem, pyshmem.device
from numba import cuda
from pyshmem.host.kernels import host_only
warnings.simplefilter("ignore")
HOME = os.path.dirname(pyshmem.__file__)

@cuda.jit
def count(a, n):
    if cuda.grid(1) < n:
        pyshmem.device.atomic_inc(a, 0)
        cuda.syncthreads()

"""
    + SIGNAL
    + """
with pyshmem.init(heap_size="8M"):
    a = pyshmem.zeros(1, dtype=np.int64, heap="device")
    n, step, ended = 1, {step}, False
    while not ended:
        interrupt = Interrupt(n)
        n += step
        sys.settrace(interrupt)
        try:
            count[1, 2](a, 2)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        ended = interrupt.left > 0
        assert not host_only._running
        a[0] = 0
        count[2, 4](a, 8)
        cuda.synchronize()
        assert a[0] == 8, (n - step, a[0])
    print(n)
"""
)


@pytest.mark.parametrize("step", [1, 29])  # the first launches of 29 do what later ones find done
def test_a_kernel_of_the_simulator_that_is_interrupted_leaves_the_next_alone(
    step: int, run_pes: Callable
) -> None:
    pytest.importorskip("numba.cuda")
    program = KERNELS.replace("{step}", str(step))
    done = run_pes(1, program, device="sim", timeout=180, check=True)
    assert int(done.stdout) > 500


JOBS = (
    """
import dis, os, sys, pyshmem
from pyshmem._core.library import lib
HOME = os.path.dirname(pyshmem.__file__)

"""
    + SIGNAL
    + """
def is_whole():
    assert pyshmem.initialized() == bool(lib.ishmemx_initialized()), n

def interrupted(call):
    interrupt = Interrupt(n)
    sys.settrace(interrupt)
    try:
        call()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)
    is_whole()
    return interrupt.left <= 0

n, more = 1, True
while more:
    more = interrupted(lambda: pyshmem.init(heap_size="1M"))
    if not pyshmem.initialized():
        pyshmem.init(heap_size="1M")
    assert pyshmem.ones(4).sum() == 4
    more |= interrupted(pyshmem.finalize)
    pyshmem.finalize()
    is_whole()
    assert not pyshmem.initialized(), n
    n += {step}
print(n)
"""
)


@pytest.mark.parametrize(
    "step", [pytest.param(1, marks=pytest.mark.long), pytest.param(3, id="each third")]
)
def test_a_start_and_an_end_that_are_interrupted_leave_a_job_or_none(
    step: int, run_pes: Callable
) -> None:
    done = run_pes(1, JOBS.replace("{step}", str(step)), device="none", timeout=180, check=True)
    assert int(done.stdout) > 50


CAPTURES = (
    """
import contextlib, gc, os, sys, numpy as np, pyshmem
HOME = os.path.dirname(pyshmem.__file__), contextlib.__file__

"""
    + INTERRUPT
    + """
def put_and_keep(value):
    source[0] = value
    with stream.capture() as graph:
        pyshmem.put(dest, source, 0, stream=stream)
    return graph

with pyshmem.init(heap_size="8M"):
    stream = pyshmem.streams.Stream()
    source, dest = (pyshmem.zeros(1, np.int64, heap="device") for _ in range(2))
    put_and_keep(0)
    n, ended = 1, False
    while not ended:
        interrupt = Interrupt(n)
        sys.settrace(interrupt)
        try:
            put_and_keep(n)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        ended = interrupt.left > 0
        pyshmem.put(dest, source, 0, stream=stream)  # it is done, not captured
        stream.synchronize()
        assert dest[0] == source[0], n
        put_and_keep(-n).replay(stream)
        stream.synchronize()
        assert dest[0] == -n
        n += 1
    print(n)
"""
)


def test_a_capture_that_is_interrupted_has_ended(run_pes: Callable) -> None:
    pytest.importorskip("numba.cuda")
    done = run_pes(1, CAPTURES, device="sim", timeout=100, check=True)
    assert int(done.stdout) > 50


LANGUAGE = (
    """
import dis, os, sys, numpy as np, pyshmem, pyshmem.triton, triton, triton.language as tl
from triton.runtime import interpreter
HOME = os.path.dirname(pyshmem.__file__), interpreter.__file__

@triton.jit
def double(a, n: tl.constexpr):
    i = tl.arange(0, n)
    tl.store(a + i, 2 * tl.sum(tl.load(a + i)) + tl.load(a + i))

"""
    + SIGNAL
    + """
def language():
    return [dict(vars(owner)) for owner in (tl, tl.core, tl.tensor)]

with pyshmem.init(heap_size="8M"):
    a = pyshmem.zeros(4, dtype=np.int64, heap="device")
    double[(1,)](a, 4)  # Triton puts back what a class inherits as its own
    before = language()
    n, step, ended = 1, {step}, False
    while not ended:
        interrupt = Interrupt(n)
        n += step
        sys.settrace(interrupt)
        try:
            double[(1,)](a, 4)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        ended = interrupt.left > 0
        assert language() == before, n - step
        a[:] = 1
        double[(1,)](a, 4)
        assert a[0] == 9, (n - step, a[0])
    print(n)
"""
)


@pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.long), 53])
def test_tritons_language_is_put_back_whatever_interrupts(step: int, run_pes: Callable) -> None:
    pytest.importorskip("triton")
    program = LANGUAGE.replace("{step}", str(step))
    done = run_pes(1, program, device="sim", timeout=180, check=True)
    assert int(done.stdout) > 500


MANAGERS = (
    """
import contextlib, dis, gc, os, resource, signal, sys, warnings, numpy as np, pyshmem
from pathlib import Path
from pyshmem import cutover
from pyshmem._core import kept_files, library
from pyshmem._foreign import environment
from pyshmem.launcher import binding, guard, process
warnings.simplefilter("ignore")
HOME = os.path.dirname(pyshmem.__file__), contextlib.__file__
PLACE = Path(sys.argv[0]).with_name("made")
FILES = resource.getrlimit(resource.RLIMIT_NOFILE)
CPUS = os.sched_getaffinity(0)

"""
    + SIGNAL
    + """
def forced():
    with cutover.forced("put", 0):
        pass

def files():
    with process.files_of((FILES[0] - 256) // 10 + 1):
        pass

def cpus():
    with binding.bound(binding.Share(frozenset(sorted(CPUS)[:1]), 1)):
        pass

def words():
    return list(library.device_state())

CALLS = {
    forced: lambda: not cutover._forced and words() == before,
    files: lambda: resource.getrlimit(resource.RLIMIT_NOFILE) == FILES,
    cpus: lambda: os.sched_getaffinity(0) == CPUS,
    lambda: environment._without_collector(lambda module: None, None): gc.isenabled,
    lambda: guard.Guard("none").dismiss(): lambda: not signal.pthread_sigmask(signal.SIG_BLOCK, ()),
    lambda: kept_files.kept(PLACE, lambda: None, lambda file: None):
        lambda: kept_files._open_locked(Path(f"{PLACE}.lock"), 0.0) is not None,
}

resource.setrlimit(resource.RLIMIT_NOFILE, (min(FILES[0], 256), FILES[1]))
FILES = resource.getrlimit(resource.RLIMIT_NOFILE)
with pyshmem.init(heap_size="8M"):
    before = words()
    for call, is_undone in CALLS.items():
        n, ended = 1, False
        while not ended:
            interrupt = Interrupt(n)
            n += 1
            sys.settrace(interrupt)
            try:
                call()
            except KeyboardInterrupt:
                pass
            finally:
                sys.settrace(None)
            ended = interrupt.left > 0
            assert is_undone(), (call, n)
        print(n)
"""
)


def test_what_is_for_a_block_only_ends_with_it(run_pes: Callable) -> None:
    """Nothing is left of what is set where a block begins, when Ctrl-C ends it or comes just before."""
    done = run_pes(1, MANAGERS, device="sim", timeout=100, check=True)
    assert len(done.stdout.splitlines()) == 6
