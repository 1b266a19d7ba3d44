# SPDX-License-Identifier: BSD-3-Clause
"""The CUDA accelerator against a driver that is none: it has the rules of one, see ``fake_cuda.c``."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from compiling import Compile, gcc
from forbidden import NUMBERS

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
#: Where the ring's header is, and what it is made of.
INCLUDE = [f"-I{ROOT / 'host_proxy'}", f"-I{ROOT / 'native' / 'src'}"]

#: Programs for one PE that print "ok": name, argument, settings.
PIECES = {"PYSHMEM_P2P": "0", "PYSHMEM_DEVICE_HEAP_SIZE": "32M"}
PROGRAMS: list[tuple[str, str, dict[str, str]]] = [
    ("cuda_captures", "cuda", {}),
    ("cuda_streams", "cuda", {"PYSHMEM_STREAM_GRAPHS": "1"}),
    ("cuda_waits", "cuda", {}),
    ("ring_pieces", "sim", {"PYSHMEM_P2P": "0", "PYSHMEM_DEVICE_HEAP_SIZE": "32M"}),
    (
        "ring_pieces",
        "cuda",
        {"PYSHMEM_P2P": "0", "PYSHMEM_DEVICE_HEAP_SIZE": "32M", "PYSHMEM_ENGINE": "thread"},
    ),
]


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the fake driver, for LD_LIBRARY_PATH."""
    folder = tmp_path_factory.mktemp("driver")
    options = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]
    gcc(*options, "-o", folder / "libcuda.so.1", *sorted(HERE.glob("fake_cuda*.c")), "-lpthread")
    return folder


@pytest.mark.parametrize(("name", "argument", "settings"), PROGRAMS)
def test_the_cuda_accelerator_beside_other_uses_of_the_driver(
    name: str,
    argument: str,
    settings: dict[str, str],
    build: Compile,
    flags: list[str],
    driver: Path,
    run_command: Callable,
) -> None:
    options = ["-std=gnu11", "-O2", *INCLUDE, HERE / f"{name}.c", *flags, "-lpthread", "-ldl"]
    program = build(options, name)
    settings = {"PYSHMEM_TIMEOUT": "30", "PYSHMEM_DEVICE_HEAP_SIZE": "8M", **settings}
    done = run_command([program, argument], 60, check=True, LD_LIBRARY_PATH=str(driver), **settings)
    assert (done.stdout, done.stderr) == ("ok\n", "")


def test_a_launch_that_does_not_come_back_does_not_keep_finalize(
    build: Compile, flags: list[str], driver: Path, run_command: Callable
) -> None:
    options = ["-std=gnu11", "-O2", *INCLUDE, HERE / "cuda_launches.c", *flags, "-lpthread", "-ldl"]
    settings = {"LD_LIBRARY_PATH": str(driver), "PYSHMEM_ENGINE": "thread", "PYSHMEM_TIMEOUT": "1"}
    settings |= {"PYSHMEM_DEVICE_HEAP_SIZE": "8M"}
    done = run_command([build(options, "cuda_launches")], 60, check=True, **settings)
    assert done.stdout == "ok\n"
    assert "the thread that waits there is left behind" in done.stderr


def test_atomics_go_by_the_owner_where_the_link_has_none(
    build: Compile, flags: list[str], driver: Path, run_pes: Callable
) -> None:
    """On 3 PEs, of which the links to and from GPU 2 have no native atomics."""
    options = [
        "-std=gnu11",
        "-O2",
        *INCLUDE,
        HERE / "owner_atomics.c",
        *flags,
        "-lpthread",
        "-ldl",
    ]
    settings = {"LD_LIBRARY_PATH": str(driver), "FAKE_CUDA_WITHOUT_ATOMICS": "2"}
    settings |= {
        "PYSHMEM_ENGINE": "thread",
        "PYSHMEM_DEVICE_HEAP_SIZE": "8M",
        "PYSHMEM_TIMEOUT": "30",
    }
    done = run_pes(3, build(options, "owner_atomics"), [], env=settings, check=True)
    assert done.stdout == "ok\n"


@pytest.mark.parametrize("n_pes", [1, 2])
def test_registered_memory_of_gpus(
    n_pes: int, build: Compile, flags: list[str], driver: Path, run_pes: Callable
) -> None:
    options = ["-std=gnu11", "-O2", *INCLUDE, HERE / "cuda_registered.c"]
    program = build([*options, *flags, "-lpthread", "-ldl"], "cuda_registered")
    settings = {"LD_LIBRARY_PATH": str(driver), "PYSHMEM_DEVICE_HEAP_SIZE": "8M"}
    settings |= {"PYSHMEM_ENGINE": "thread", "PYSHMEM_TIMEOUT": "30"}
    done = run_pes(n_pes, program, [], env=settings, check=True)
    assert done.stdout == "ok\n"


@pytest.mark.parametrize("engine", ["process", "thread"])
@pytest.mark.parametrize(
    ("n_pes", "way"), [(1, {}), (2, {}), (3, {}), (4, {}), (2, {"PYSHMEM_P2P": "0"})]
)
def test_a_device_heap_grows(
    n_pes: int,
    way: dict[str, str],
    engine: str,
    build: Compile,
    flags: list[str],
    driver: Path,
    run_pes: Callable,
) -> None:
    options = ["-std=gnu11", "-O2", *INCLUDE, HERE / "cuda_growth.c", *flags, "-lpthread", "-ldl"]
    settings = {"LD_LIBRARY_PATH": str(driver), "PYSHMEM_DEVICE_HEAP_GROWS": "1"}
    settings |= {"PYSHMEM_DEVICE_HEAP_SIZE": "4M", "PYSHMEM_ENGINE": engine, **way}
    done = run_pes(n_pes, build(options, "cuda_growth"), [], env=settings, check=True)
    assert done.stdout == "ok\n"


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"PYSHMEM_DEVICE_HEAP_GROWS": "0"}, "PYSHMEM_DEVICE_HEAP_GROWS is 0"),
        ({"PYSHMEM_DEVICE_HEAP_SIZE": "64M"}, "its size was given"),
        ({"FAKE_CUDA_WITHOUT_DESCRIPTORS": "1"}, "the GPU of PE 1 shares no memory by descriptors"),
        ({}, "cannot grow by"),  # the driver has less than a GiB of such memory
    ],
)
def test_a_device_heap_of_a_fixed_size_says_why(
    settings: dict[str, str],
    why: str,
    build: Compile,
    flags: list[str],
    driver: Path,
    run_pes: Callable,
) -> None:
    options = ["-std=gnu11", "-O2", *INCLUDE, HERE / "cuda_growth.c", *flags, "-lpthread", "-ldl"]
    settings = {"LD_LIBRARY_PATH": str(driver), "PYSHMEM_ENGINE": "thread", **settings}
    done = run_pes(2, build(options, "cuda_growth"), [why], env=settings, check=True)
    assert done.stdout.split() == ["ok"] * 2


@pytest.mark.skipif(platform.machine() not in NUMBERS, reason="numbers of calls are not known here")
@pytest.mark.parametrize(
    ("grows", "told"), [("auto", "ok"), ("1", "PYSHMEM_DEVICE_HEAP_GROWS=1: a socket")]
)
def test_a_host_that_forbids_sockets_between_pes(
    grows: str, told: str, build: Compile, flags: list[str], driver: Path, run_command: Callable
) -> None:
    """By a filter, as profiles of containers are: the fixed heap is there, or the setting is named."""
    options = ["-std=gnu11", "-O2", *INCLUDE, HERE / "cuda_growth.c", *flags, "-lpthread", "-ldl"]
    program = build(options, "cuda_growth")
    command = [
        sys.executable,
        HERE.parent / "forbidden.py",
        "datagrams",
        sys.executable,
        "-m",
        "pyshmem",
    ]
    command += [
        "run",
        "-n",
        "2",
        "--timeout",
        "60",
        program,
        "give each other memory: Operation not",
    ]
    settings = {"LD_LIBRARY_PATH": str(driver), "PYSHMEM_ENGINE": "thread"}
    done = run_command(list(map(str, command)), 90, **settings, PYSHMEM_DEVICE_HEAP_GROWS=grows)
    assert told in done.stdout + done.stderr
    assert (done.returncode == 0) == (grows == "auto"), done.stderr


def test_a_device_heap_that_is_to_grow_and_cannot_is_refused(
    build: Compile, flags: list[str], driver: Path, run_pes: Callable
) -> None:
    options = ["-std=gnu11", "-O2", *INCLUDE, HERE / "cuda_growth.c", *flags, "-lpthread", "-ldl"]
    settings = {"LD_LIBRARY_PATH": str(driver), "PYSHMEM_DEVICE_HEAP_GROWS": "1"}
    settings |= {"FAKE_CUDA_WITHOUT_DESCRIPTORS": "1"}
    done = run_pes(2, build(options, "cuda_growth"), [], env=settings)
    assert "PYSHMEM_DEVICE_HEAP_GROWS=1: the GPU of PE 1 shares no memory by d" in done.stderr


def test_what_a_far_atomic_fetches_to_a_gpu_keeps_nobody_waiting(
    build: Compile, flags: list[str], driver: Path, run_pes: Callable
) -> None:
    options = ["-std=gnu11", "-O2", *INCLUDE, HERE / "far_fetches.c", *flags, "-lpthread", "-ldl"]
    settings = {"LD_LIBRARY_PATH": str(driver), "PYSHMEM_NODE_SIZE": "1", "PYSHMEM_TIMEOUT": "30"}
    settings |= {"PYSHMEM_DEVICE_HEAP_SIZE": "8M", "PYSHMEM_ENGINE": "thread"}
    done = run_pes(2, build(options, "far_fetches"), [], env=settings, check=True)
    assert done.stdout == "ok\n"


@pytest.mark.parametrize("heap", ["device", "host"])
@pytest.mark.parametrize("peer", ["NODE_SIZE=1", "P2P=0", "P2P=1"])
def test_nothing_that_waits_in_the_driver_stops_what_goes_through_hosts(
    peer: str, heap: str, build: Compile, flags: list[str], driver: Path, run_pes: Callable
) -> None:
    """Puts, gets and signals of 2 PEs, both of which are in a free that waits for a kernel."""
    options = ["-std=gnu11", "-O2", *INCLUDE, HERE / "far_copies.c", *flags, "-lpthread", "-ldl"]
    name, value = peer.split("=")
    settings = {"LD_LIBRARY_PATH": str(driver), f"PYSHMEM_{name}": value, "PYSHMEM_TIMEOUT": "30"}
    settings |= {"PYSHMEM_DEVICE_HEAP_SIZE": "8M", "PYSHMEM_STAGE_SIZE": "1M"}
    done = run_pes(2, build(options, "far_copies"), [heap], env=settings, timeout=60, check=True)
    assert done.stdout == "ok\n"


#: PEs, those of a node, bytes of a message with a stage of 1M, engine, what else. Of ten some wait.
SPREADS = [
    (4, 2, 16384, "process", ""),
    (5, 2, 8192, "process", ""),
    (4, 2, 16384, "process", "fails"),
    (11, 10, 4096, "thread", ""),
    (4, 1, 16384, "process", "P2P=0"),
]


@pytest.mark.parametrize(("n_pes", "node_size", "data", "engine", "way"), SPREADS)
def test_what_goes_to_all_of_a_node_travels_once(
    n_pes: int,
    node_size: int,
    data: int,
    engine: str,
    way: str,
    build: Compile,
    flags: list[str],
    driver: Path,
    run_pes: Callable,
) -> None:
    options = ["-std=gnu11", "-O2", *INCLUDE, HERE / "far_spreads.c", *flags, "-lpthread", "-ldl"]
    settings = {"LD_LIBRARY_PATH": str(driver), "PYSHMEM_NODE_SIZE": str(node_size)}
    settings |= {"PYSHMEM_DEVICE_HEAP_SIZE": "8M", "PYSHMEM_STAGE_SIZE": "1M"}
    settings |= {"PYSHMEM_TIMEOUT": "60", "PYSHMEM_ENGINE": engine}
    if way == "P2P=0":  # PEs of a node do not map each other's heaps: a message a PE
        settings |= {"PYSHMEM_P2P": "0", "PYSHMEM_NODE_SIZE": "2"}
    program = build(options, "far_spreads")
    done = run_pes(n_pes, program, [node_size, data, way], env=settings, timeout=60, check=True)
    assert done.stdout == "ok\n"


@pytest.mark.parametrize("who", ["host", "kernel"])
def test_a_gpu_that_is_lost_is_told_once_and_ends_the_job(
    who: str, build: Compile, flags: list[str], driver: Path, run_pes: Callable
) -> None:
    options = ["-std=gnu11", "-O2", *INCLUDE, HERE / "cuda_lost.c", *flags, "-lpthread", "-ldl"]
    settings = {"LD_LIBRARY_PATH": str(driver), "PYSHMEM_ENGINE": "thread"}
    settings |= {"PYSHMEM_DEVICE_HEAP_SIZE": "8M", "PYSHMEM_TIMEOUT": "20"}
    done = run_pes(2, build(options, "cuda_lost"), [who], env=settings, timeout=40)
    assert done.stdout == "ended\n" * 2, done.stderr
    told = [line for line in done.stderr.splitlines() if line.startswith("PE 0: its GPU")]
    assert len(told) == 1, done.stderr
    assert "is lost: CUDA_ERROR_ECC_UNCORRECTABLE (CUDA error 214: of the fake driver)" in told[0]


# ---- the copy engine in a process of its own -------------------------------------------------------

ENGINE = {"PYSHMEM_ENGINE": "process", "PYSHMEM_DEVICE_HEAP_SIZE": "8M", "PYSHMEM_TIMEOUT": "60"}


@pytest.fixture
def engine(build: Compile, flags: list[str]) -> Path:
    options = ["-std=gnu11", "-O2", *INCLUDE, HERE / "engine.c", *flags, "-lpthread", "-ldl"]
    return build(options, "engine")


@pytest.mark.parametrize("n_pes", [1, 3])
@pytest.mark.parametrize("accelerator", ["sim", "cuda"])
def test_an_engine_in_a_process_of_its_own(
    accelerator: str, n_pes: int, engine: Path, driver: Path, run_pes: Callable
) -> None:
    settings = {**ENGINE, "LD_LIBRARY_PATH": str(driver)}
    done = run_pes(n_pes, engine, [accelerator], env=settings, check=True)
    assert done.stdout == "ok\n"


@pytest.mark.parametrize(("n_pes", "where"), [(1, "near"), (2, "far")])
def test_a_copy_that_fails_in_the_engine_is_told_once_and_however_late(
    n_pes: int, where: str, build: Compile, flags: list[str], driver: Path, run_pes: Callable
) -> None:
    options = ["-std=gnu11", "-O2", *INCLUDE, HERE / "engine_failures.c", *flags, "-lpthread"]
    settings = {**ENGINE, "LD_LIBRARY_PATH": str(driver), "FAKE_CUDA_FAILS": "4088"}
    settings |= {"PYSHMEM_RINGS": "2", "PYSHMEM_NODE_SIZE": "1"}
    program = build([*options, "-ldl"], "engine_failures")
    done = run_pes(n_pes, program, [where], env=settings, timeout=60, check=True)
    assert done.stdout == "ok\n"


def test_an_engine_does_not_outlive_its_pe(engine: Path, run_command: Callable) -> None:
    done = run_command([engine, "sim", "killed"], 60, **ENGINE)
    assert done.returncode == -signal.SIGKILL
    pid, deadline = int(done.stdout), time.monotonic() + 30
    assert pid > 0
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, "the engine's process is still there"
        time.sleep(0.01)


def test_an_engine_that_cannot_start_says_why(
    engine: Path, tmp_path: Path, flags: list[str], run_command: Callable
) -> None:
    folder = next(flag.removeprefix("-L") for flag in flags if flag.startswith("-L"))
    copy = tmp_path / "libpyshmem.so.0"  # without the program beside it
    copy.write_bytes((Path(folder) / "libpyshmem.so.0").read_bytes())
    done = run_command([engine], 60, LD_PRELOAD=str(copy), **ENGINE)
    assert done.returncode == 1
    assert f"PYSHMEM_ENGINE=process needs the program {tmp_path}/pyshmem-engine" in done.stderr
    program = tmp_path / "pyshmem-engine"
    program.write_text("#!/bin/sh\nexit 3\n")
    os.chmod(program, 0o755)
    done = run_command([engine], 60, LD_PRELOAD=str(copy), **ENGINE)
    assert done.returncode == 1
    assert "ended before it served" in done.stderr


def test_the_kernels_for_words_are_ptx_that_assembles(tmp_path: Path) -> None:
    """Both texts of ``accel/cuda/word_kernels.c``, for the oldest and newest GPU that may get them."""
    pytest.importorskip("cuda.bindings.nvjitlink", reason="needs the CUDA toolchain")
    from cuda.bindings import nvjitlink

    source = (HERE.parents[1] / "native/src/accel/cuda/word_kernels.c").read_text(encoding="utf-8")
    texts = source[source.index("#define KERNELS") : source.index("typedef struct kernels")]
    main = (
        "int main(int n, char **v) { (void)v; return puts(n > 1 ? early_text : plain_text) < 0; }"
    )
    (tmp_path / "texts.c").write_text(f"#include <stdio.h>\n{texts}\n{main}\n", encoding="utf-8")
    gcc("-o", tmp_path / "texts", tmp_path / "texts.c")
    for more, arch in (([], "sm_75"), ([], "sm_90"), (["early"], "sm_90"), (["early"], "sm_100")):
        text = subprocess.run([tmp_path / "texts", *more], capture_output=True, check=True).stdout
        linker = nvjitlink.create(1, [f"-arch={arch}"])
        nvjitlink.add_data(linker, nvjitlink.InputType.PTX, text, len(text), "words")
        nvjitlink.complete(linker)
        code = bytearray(nvjitlink.get_linked_cubin_size(linker))
        nvjitlink.get_linked_cubin(linker, code)
        assert b"pysh_wait" in code
        nvjitlink.destroy(linker)


LAUNCHES = """
import ctypes
from types import SimpleNamespace

import pytest
from pyshmem._core import _fast
from pyshmem._core.errors import NotInitialized
from pyshmem._core.library import check, ffi, lib
from pyshmem.host import fast_calls

fake = ctypes.CDLL("libcuda.so.1")
FOREIGN, early = 4, 6


def made(kinds="PiP", function=FOREIGN, in_front=2, rest=(32,), shape=(96, 512, False, True)):
    return _fast.Launch(function, (2, 3, 1), *shape, kinds, in_front, rest, None)


with pytest.raises(NotInitialized):
    made()(0, 16, 3)
config = ffi.new("ishmemx_config_t *")
check(lib.ishmemx_config_from_environment(config))
config.accelerator = lib.ISHMEMX_DEVICE_CUDA
check(lib.ishmemx_init(config))
stream = ffi.new("uintptr_t *")
check(lib.ishmemx_stream_create(stream))


def launched(launch, *in_front):
    before = fake.fake_cuda_launched(0)
    done = launch(stream[0], *in_front)
    check(lib.ishmemx_stream_finish(stream[0]))
    return done, fake.fake_cuda_launched(0) - before


launch = made()
assert launch.takes()
assert not made("PPP").takes() and not made("Pi", rest=()).takes()
assert not made("PiPP", rest=(32, 0)).takes()
tensor = SimpleNamespace(data_ptr=lambda: 4096)
assert launched(launch, tensor, -3) == (True, 1)
assert [fake.fake_cuda_word(at) for at in range(5)] == [4064, -3, 96, 512, early]
assert (fake.fake_cuda_shape(0), fake.fake_cuda_shape(1)) == (6, 1)
asked = []
counting = SimpleNamespace(data_ptr=lambda: asked.append(1) or 4096)
assert launched(made(in_front=3, rest=()), counting, 2, counting) == (True, 1)
assert (fake.fake_cuda_word(0), len(asked)) == (0, 1)  # of one that is given twice, once
same = 32
assert launched(made(in_front=3, rest=()), 64, same, same) == (True, 1)  # an int is one of each kind
assert [fake.fake_cuda_word(at) for at in range(2)] == [32, 32]
assert launched(made(shape=(32, 0, True, True)), 48, 1) == (True, 1)
assert (fake.fake_cuda_shape(1), fake.fake_cuda_word(5)) == (2, 2)
assert launched(launch, 4096 + 8, 3) == (False, 0)  # compiled for multiples of 16
with pytest.raises(OverflowError):
    launch(stream[0], tensor, 1 << 31)
with pytest.raises(AttributeError):
    launch(stream[0], "x", 1)
with pytest.raises(TypeError, match="a stream and 2"):
    launch(stream[0], tensor)
for wrong in (dict(kinds="PzP"), dict(in_front=1), dict(kinds="P" * 65, rest=(0,) * 63)):
    with pytest.raises(ValueError, match="kinds"):
        made(**wrong)
check(lib.ishmemx_finalize())
with pytest.raises(NotInitialized):
    launch(0, 16, 3)
print("ok")
"""


def test_kernels_of_other_libraries_are_launched(driver: Path, run_command: Callable) -> None:
    """By the extension, in one call of the driver, with all that Triton's own launch says."""
    settings = {"PYSHMEM_TIMEOUT": "30", "PYSHMEM_DEVICE_HEAP_SIZE": "8M"}
    command = [sys.executable, "-c", LAUNCHES]
    done = run_command(command, 60, check=True, LD_LIBRARY_PATH=str(driver), **settings)
    assert (done.stdout, done.stderr) == ("ok\n", "")
