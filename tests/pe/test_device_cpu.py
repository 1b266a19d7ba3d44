# SPDX-License-Identifier: BSD-3-Clause
"""Device cpu: kernels compiled for the CPU. The device suite there: ``test_suites_on_cpu.py``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent

TRAFFIC = """
import numpy as np
import pyshmem
from numba import cuda
from pyshmem import device as shmem

@cuda.jit
def copy(box, data):
    shmem.put(box, data, 0)

@cuda.jit
def exchange(box, data, sums, signal, counter):
    me, n = shmem.my_pe(), shmem.n_pes()
    right = (me + 1) % n
    shmem.stage_begin("all of it", 2)
    shmem.put_signal_work_group(box, data, signal, 1, shmem.SIGNAL_SET, right)
    shmem.signal_wait_until_work_group(signal, shmem.CMP_EQ, 1)
    if cuda.threadIdx.x == 0:
        for pe in range(n):
            shmem.atomic_add(counter, me + 1, pe)
        sums[0] = shmem.g(data, right)
    shmem.sum_reduce_work_group(shmem.TEAM_WORLD, sums[1:], data, 100)
    shmem.barrier_all_work_group()
    shmem.stage_end("all of it")

with pyshmem.init() as job:
    me, n = job.my_pe, job.n_pes
    make = lambda count, dtype: pyshmem.zeros(count, dtype=dtype, heap="device")
    box, data, sums = (make(count, np.float64) for count in (100, 100, 101))
    signal, counter = make(1, np.uint64), make(1, np.int64)
    data[:] = np.arange(100) + me
    pyshmem.barrier_all()
    exchange[1, 64](box, data, sums, signal, counter)
    assert (box == np.arange(100) + (me - 1) % n).all()
    assert counter[0] == n * (n + 1) // 2 and sums[0] == (me + 1) % n
    assert (sums[1:] == n * np.arange(100) + n * (n - 1) // 2).all()
    box.setflags(write=False)
    try:
        copy[1, 1](box, data)
    except Exception as error:
        assert "put: dest is read-only" in str(error)
        print("ok")
"""

WRONG = """
import os, signal, sys, threading, time
import numpy as np
import pyshmem.device
from numba import cuda
from pyshmem import barrier_all

@cuda.jit
def raises(x):
    if cuda.grid(1) == 5:
        raise ValueError("five")

@cuda.jit
def deadlocks(x):
    if cuda.threadIdx.x < 3:
        cuda.syncthreads()
    else:
        cuda.syncwarp()

@cuda.jit
def unknown(x):
    cuda.no_such_name(x)

@cuda.jit
def halves(x):
    x[0] = cuda.fp16.no_such_half(x[0])

@cuda.jit
def host_routine(x):
    pyshmem.put(x, x, 0)

@cuda.jit
def host_routine_by_name(x):
    barrier_all()

@cuda.jit
def spins(x):
    while x[0] == 0:
        pass

@cuda.jit
def crashes(x):
    if cuda.grid(1) == 37:
        x[1 << 40] = 1

zeros = np.zeros(4)
for kernel in (raises, deadlocks, unknown, halves, host_routine, host_routine_by_name):
    try:
        kernel[2, 4](zeros)
    except Exception as error:
        lines = [line for line in str(error).splitlines() if "cuda." in line or len(line) < 120]
        print(kernel.__name__, type(error).__name__, lines[-1 if kernel is deadlocks else 0])
        print(*getattr(error, "__notes__", ()))
        words = "not compiled", "host routine"
        print([line for line in str(error).splitlines() if any(word in line for word in words)])
spins[1, 1](np.ones(4))
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    spins[4, 4](zeros)
except KeyboardInterrupt:
    print("interrupted")
sys.stdout.flush()
crashes[4, 16](zeros)
"""


OUTSIDE = """
import numpy as np
import pyshmem.device
from numba import cuda, int32

TABLE = np.arange(5)

@cuda.jit(device=True)
def read(row, at):
    return row[at]

@cuda.jit
def argument(x, i):
    if cuda.grid(1) == 5:
        x[i, 2] = 1

@cuda.jit
def shared(x, i):
    part = cuda.shared.array(8, int32)
    part[i] = 1
    x[0, 0] = part[0]

@cuda.jit
def atomic(x, i):
    cuda.atomic.add(x, (i, 0), 1)

@cuda.jit
def inlined(x, i):
    x[0, 0] = read(x[1], i)

@cuda.jit
def constant(x, i):
    x[0, 0] = TABLE[i]

CASES = [(argument, index) for index in (3, -4, 4, -5)]
for kernel, index in (*CASES, (shared, 8), (atomic, 40), (inlined, 6), (constant, 5)):
    try:
        kernel[2, 4](np.zeros((4, 4)), index)
        print("fine")
    except IndexError as error:
        print(error)
"""


#: Prints how many functions Numba compiled for a kernel that calls routines and has a constant.
COUNTED = """
import sys
import pyshmem
from numba import cuda
from numba.core import event
from pyshmem import device as shmem

def kernel_of(number):
    @cuda.jit
    def kernel(box, data):
        data[cuda.threadIdx.x] += number
        cuda.syncthreads()
        shmem.put_work_group(box, data, 0)
    return kernel

with pyshmem.init() as job:
    box, data = (pyshmem.zeros(4, dtype=sys.argv[2], heap="device") for _ in range(2))
    number = int(sys.argv[1])
    data[:] = 5
    pyshmem.barrier_all()
    with event.install_recorder("numba:compile") as compiled:
        kernel_of(number)[1, 4](box, data)
    pyshmem.barrier_all()
    assert job.my_pe or box.tolist() == [5 + number] * 4
    print(len(compiled.buffer) // 2)
"""


#: What programs register for kernels of GPUs, and what no CPU has.
EXTENDS = """
import math
import numpy as np
import pyshmem.device
import numba.extending
from llvmlite import ir
from numba import cuda, types
from numba.core.typing import signature
from numba.cuda.extending import (
    intrinsic, make_attribute_wrapper, overload, overload_attribute, overload_method, register_jitable,
    register_model,
)
from numba.cuda.misc.special import literal_unroll
from numba.extending import models, typeof_impl

def own(x): ...
def for_all(x): ...
def by_numba(x): ...

@overload(own)
def _own(x):
    return lambda x: x + 1

@overload(own, target="generic")
def _of_others(x):
    return lambda x: x - 1000

@overload(for_all, target="generic")
def _for_all(x):
    return lambda x: 10 * own(x)

@numba.extending.overload(by_numba, target="cuda")
def _by_numba(x):
    return lambda x: x + 5

@overload_attribute(types.Array, "first")
def _first(a):
    return lambda a: a[0]

@overload_method(types.Array, "second_plus")
def _second_plus(a, x):
    return lambda a, x: a[1] + x

@register_jitable
def twice(x):
    return 2 * x

@intrinsic
def negated(_context, x):
    return signature(types.int64, types.int64), lambda c, builder, s, args: builder.neg(args[0])

def call_of(name):
    @intrinsic
    def ask(_context, x):
        def codegen(context, builder, _sig, args):
            kind = ir.FunctionType(ir.IntType(32), [])
            return builder.zext(builder.call(ir.Function(builder.module, kind, name), []), args[0].type)
        return signature(types.int64, types.int64), codegen
    return ask

ptx = call_of("llvm.nvvm.read.ptx.sreg.warpid")
nowhere = call_of("no_such_function_of_c")

@intrinsic
def written(_context, x):
    def codegen(context, builder, _sig, args):
        kind = ir.FunctionType(ir.VoidType(), [])
        builder.asm(kind, "membar.gl;", "", [], True)
        return args[0]
    return signature(types.int64, types.int64), codegen

@cuda.jit
def registered(out):
    out[1] = 20
    out[0] = 7
    out[2] = own(1)
    out[3] = for_all(1)
    out[4] = by_numba(1)
    out[5] = out.first
    out[6] = out.second_plus(3)
    out[7] = twice(4) + negated(np.int64(1))
    for each in literal_unroll((1, 2.5)):
        out[8] += math.floor(each)

def of(function):
    @cuda.jit
    def kernel(out):
        out[0] = function(out[0])
    return kernel

out = np.zeros(9, np.int64)
registered[1, 1](out)
print(*out)
for function in (ptx, nowhere, written):
    try:
        of(function)[1, 1](out)
    except Exception as error:
        print(error)
"""


CONSTANTS = """
import enum, sys
from collections import namedtuple
import pyshmem
import numpy as np
from numba import cuda
import pyshmem.device
from numba.cuda.extending import overload
import chosen

class Kind(enum.IntEnum):
    ONE = chosen.MEMBER

Pair = namedtuple("Pair", chosen.FIELDS)

def of_program(x):
    raise NotImplementedError

if chosen.REGISTERED:
    @overload(of_program)
    def typing(x):
        factor = chosen.REGISTERED
        return lambda x: factor * x

@cuda.jit
def kernel(out):
    out[0] = chosen.NUMBER + 10 * Kind.ONE + 100 * Pair(1, 2).a

@cuda.jit
def registered(out):
    out[0] = of_program(np.float64(3))

@cuda.jit
def refused(out):
    out[0] = cuda.no_such_name

out = np.zeros(1)
kernel[1, 1](out)
print(int(out[0]))
try:
    registered[1, 1](out)
    print(int(out[0]))
except TypeError as error:
    print("a function of Python" in str(error))
try:
    refused[1, 1](out)
except Exception as error:
    print(type(error).__name__, "no_such_name" in str(error), error.__context__ is not None)
"""


@pytest.mark.parametrize("threads", ["1", "3"])
def test_kernels_on_cpus_have_the_names_of_numba_cuda(
    threads: str, run_pes: Callable, kept: dict[str, str]
) -> None:
    """The second time the machine code of the first is loaded."""
    environment = {**kept, "PYSHMEM_CPU_THREADS": threads}
    program = HERE / "kernels_on_cpu.py"
    done = run_pes(1, program, timeout=200, device="cpu", env=environment, check=True)
    talk = ["thread 0 1.5 True", "thread 1 1.5 True"]
    zero = "tid=[0, 0, 0] ctaid=[0, 0, 0]: integer division by zero"
    tuples = "(1, 0, 0) (4, (5, 1.5)) (1,) (2, (3.5, True))"
    assert done.stdout.splitlines() == [zero, *talk, tuples, "of a name 5", "NotInitialized", "ok"]


def test_kernels_on_cpus_have_all_of_libdevice(run_pes: Callable, kept: dict[str, str]) -> None:
    program = HERE / "libdevice_on_cpu.py"
    done = run_pes(1, program, timeout=200, device="cpu", env=kept, check=True)
    assert done.stdout == "ok\n"


def test_programs_have_ufuncs_and_arrays_of_others_on_cpus(
    run_pes: Callable, kept: dict[str, str]
) -> None:
    program = HERE / "host_side_on_cpu.py"
    done = run_pes(1, program, timeout=200, device="cpu", env=kept, check=True)
    assert done.stdout == "ok\n"


def test_kernels_on_cpus_take_what_is_registered_for_gpus(
    run_command: Callable, kept: dict[str, str]
) -> None:
    """Code that only a GPU has is refused: LLVM itself would end the process."""
    done = run_command(
        [sys.executable, "-c", EXTENDS], 200, PYSHMEM_DEVICE="cpu", check=True, **kept
    )
    numbers, *told = (line for line in done.stdout.splitlines() if not line.startswith("NUMBA"))
    assert numbers == "7 20 2 20 6 7 23 7 3"
    head = "kernel of.<locals>.kernel (<string>:86) cannot be compiled: "
    assert told == [
        head + "it calls llvm.nvvm.read.ptx.sreg.warpid, which CPUs have not",
        head + "it calls no_such_function_of_c, which is not in this process",
        head + "it has assembly, which is a GPU's: membar.gl;",
    ]


def test_kept_machine_code_is_of_what_the_program_says_now(
    run_command: Callable, kept: dict[str, str], tmp_path: Path
) -> None:
    """By constants of other files, enumerations, named tuples, overloads; and refusals are kept."""

    def run(**chosen: object) -> list[str]:
        words = {"NUMBER": 1, "MEMBER": 1, "FIELDS": "a b", "REGISTERED": 0} | chosen
        text = "".join(f"{name} = {value!r}\n" for name, value in words.items())
        (tmp_path / "chosen.py").write_text(text)
        (tmp_path / "program.py").write_text(CONSTANTS)
        # Of a file that was written within the second Python would take what it has compiled.
        environment = {**kept, "PYSHMEM_DEVICE": "cpu", "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, str(tmp_path / "program.py")]
        return run_command(command, 200, check=True, **environment).stdout.splitlines()

    assert run() == ["111", "True", "TypingError True True"]
    assert run() == ["111", "True", "TypingError True False"]  # nothing was compiled
    assert run(NUMBER=2)[0] == "112"
    assert run(MEMBER=2)[0] == "121"
    assert run(FIELDS="b a")[0] == "211"
    assert run(REGISTERED=5)[1] == "15"
    assert run(REGISTERED=6)[1] == "18"


def test_machine_code_is_named_by_all_that_makes_it(run_command: Callable) -> None:
    """Globals, closures, defaults, called functions, modules, enumerations; Numba's flags."""
    command = [sys.executable, str(HERE / "kept_names_on_cpu.py")]
    done = run_command(command, 100, check=True, PYSHMEM_DEVICE="cpu")
    assert done.stdout == "24 pairs, 3 compilers\n"


@pytest.mark.parametrize("setting", ["P2P=1", "P2P=0", "NODE_SIZE=1"])
def test_kernels_on_cpus_communicate(setting: str, run_pes: Callable, kept: dict[str, str]) -> None:
    name, _, value = setting.partition("=")
    environment = {**kept, f"PYSHMEM_{name}": value}
    program = Path(kept["PYSHMEM_CACHE_DIR"]).with_name("traffic.py")  # the same file each time
    program.write_text(TRAFFIC)
    done = run_pes(3, program, timeout=200, device="cpu", env=environment, check=True)
    assert done.stdout.split() == ["ok"] * 3


def test_routines_are_compiled_once_on_a_host(tmp_path: Path, run_pes: Callable) -> None:
    """One of two PEs compiles them; later kernels compile what is theirs, whatever Python's hashes.

    What moves elements is compiled for their size, whatever their dtype.
    """
    program, store = tmp_path / "counted.py", tmp_path / "store"
    program.write_text(COUNTED)

    def compiled(n_pes: int, number: int, dtype: str = "i8", **settings: str) -> list[int]:
        environment = {"PYSHMEM_CACHE_DIR": str(store), **settings}
        given = [number, dtype]
        done = run_pes(
            n_pes, program, given, timeout=200, device="cpu", env=environment, check=True
        )
        return sorted(map(int, done.stdout.split()))

    others, first = compiled(2, 1, PYTHONHASHSEED="1")
    assert others == 0
    assert first > 30
    files = list((store / "routines").iterdir())
    (routine,) = (file for file in files if "pyshmem_put_work_group_" in file.name)
    (part,) = (file for file in files if "pyshmem_part_ask_" in file.name)
    assert all("pyshmem_part_" in file.name for file in files if file != routine)
    (own,) = compiled(1, 2, PYTHONHASHSEED="2")
    assert own < 10
    assert compiled(1, 2, PYTHONHASHSEED="3") == [0]
    (own,) = compiled(1, 2, "f8")  # a put of elements of that size is there
    assert own < 10
    routine.unlink()  # the kernel's code is there, what it calls is not
    (without_parts,) = compiled(1, 2)
    assert own < without_parts < first - 10  # what all routines call is there
    part.unlink()
    assert 0 < compiled(1, 2)[0] < first
    assert part.exists()


def test_what_goes_wrong_in_kernels_on_cpus_is_told(
    run_command: Callable, kept: dict[str, str]
) -> None:
    done = run_command([sys.executable, "-c", WRONG], 200, PYSHMEM_DEVICE="cpu", **kept)
    for part in (
        "raises ValueError five\nin kernel raises, block (1, 0, 0), thread (1, 0, 0)\n",
        ", 0, 0): threads 0-2 at syncthreads; threads 3 at a warp's meeting\n",
        "cuda.no_such_name is not compiled for the CPU yet",
        "cuda.fp16.no_such_half is not compiled for the CPU yet",
        "pyshmem.put is a host routine; in kernels use pyshmem.device.put",
        "pyshmem.barrier_all is a host routine; in kernels use pyshmem.device.barrier_all",
        "interrupted\n",
    ):
        assert part in done.stdout
    assert "in kernel crashes, block (2, 0, 0), thread (5, 0, 0)\n" in done.stderr
    assert done.returncode < 0


def test_indices_out_of_bounds_are_told_in_checking_mode(
    run_command: Callable, kept: dict[str, str]
) -> None:
    settings = {**kept, "PYSHMEM_CHECK": "1", "PYSHMEM_CPU_THREADS": "1"}  # block 0 is first
    done = run_command([sys.executable, "-c", OUTSIDE], 200, PYSHMEM_DEVICE="cpu", **settings)
    cases = (
        (4, 4, "x", 15, "argument"), (-5, 4, "x", 15, "argument"), (8, 8, "part", 20, "shared"),
        (40, 4, "x", 25, "atomic"), (6, 4, "row", 10, "inlined"), (5, 5, "TABLE", 33, "constant"),
    )  # fmt: skip
    wanted = [
        f"index {index} is out of bounds for axis 0 with size {size} of {name}, <string>:{line}, "
        f"in kernel {kernel}, block ({{0}}, 0, 0), thread ({{0}}, 0, 0)"
        for index, size, name, line, kernel in cases
    ]
    told = ["fine", "fine", *(text.format(int("argument" in text)) for text in wanted)]
    assert done.stdout.splitlines() == told, done.stderr


#: First seed and number of kernels.
SEEDS = [(0, 30), *(pytest.param((1000 * k, 100), marks=pytest.mark.long) for k in range(1, 11))]


@pytest.mark.timeout(1000)
@pytest.mark.parametrize("device", ["cpu", "sim"])
@pytest.mark.parametrize("seeds", SEEDS)
def test_random_kernels_do_what_numpy_does(
    seeds: tuple[int, int], device: str, run_pes: Callable, kept: dict[str, str]
) -> None:
    program = HERE / "random_kernels.py"
    done = run_pes(1, program, seeds, timeout=900, device=device, env=kept, check=True)
    assert done.stdout.strip() == f"0 of {seeds[1]} differ"


#: Each kernel of ``unit/kernel_sources.py`` for itself. Numba's CPU stores a float as an integer.
SOURCES = """
import sys
import pyshmem
sys.path.insert(0, sys.argv[1])
import kernel_sources
from numba import cuda
import pyshmem.device

with pyshmem.init(heap_size="2M", device_heap_size="2M"):
    for name, kernel in kernel_sources.KERNELS.items():
        a, b = (pyshmem.ones(4, heap="device") for _ in range(2))
        try:
            cuda.jit(kernel)[1, 1](a, b)
            taken = True
        except Exception:
            taken = False
        if taken != name.startswith("taken_") and name != "array_of_integers_divided":
            print("taken" if taken else "refused", name)
    print("tried", len(kernel_sources.KERNELS))
"""


def test_what_gpus_refuse_is_refused_here_too(run_pes: Callable) -> None:
    done = run_pes(1, SOURCES, [HERE.parent / "unit"], device="cpu", timeout=300, check=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith(("taken", "refused"))]
    assert not lines
    assert "\ntried 1" in f"\n{done.stdout}"


def test_a_function_of_kernels_is_looked_at_too(run_pes: Callable) -> None:
    program = """
import numpy as np
import pyshmem
import pyshmem.device
from numba import cuda

@cuda.jit(device=True)
def drawn(x):
    return x + np.random.random()

@cuda.jit
def kernel(a):
    a[0] = drawn(a[0])

with pyshmem.init(heap_size="2M", device_heap_size="2M"):
    a = pyshmem.ones(4, heap="device")
    try:
        kernel[1, 1](a)
    except Exception as error:
        print("drawn" in str(error) and "it has numpy.random" in str(error))
"""
    assert run_pes(1, program, device="cpu", check=True).stdout == "True\n"
