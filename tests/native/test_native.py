# SPDX-License-Identifier: BSD-3-Clause
"""The C side by itself: programs against the installed headers and library, sanitizers, exports."""

from __future__ import annotations

import functools
import hashlib
import hmac
import importlib.util
import json
import os
import platform
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from compiling import WARNINGS, Compile, compile_objects, gcc, write_made_headers

HERE = Path(__file__).parent
SOURCES = HERE.parents[1] / "native" / "src"
ROOT = HERE.parents[1]
PROXY = ROOT / "host_proxy"
LIBRARY = [*sorted(SOURCES.rglob("*.c")), *sorted(PROXY.glob("*.c"))]
SANITIZERS = {
    "address": ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
    "thread": ["-fsanitize=thread", "-Wno-tsan"],
}

#: Programs that print "ok" when every PE is content, a group of routines each.
PROGRAMS = ["ring", "teams", "strided", "waits", "exchanges", "contexts", "generic", "cells"]
PROGRAMS += ["claims", "requests", "threads", "sandia", "wakes", "system_region", "active_sets"]
PROGRAMS += ["deprecated"]

#: Programs whose threads are a kernel's, on rings of so many slots: name, slots, arguments.
RINGS = [
    ("ring_replies", 8, ["8", "400"]),
    ("ring_replies", 4096, ["8", "400"]),
    ("ring_waiters", 1 << 19, []),
    ("ring_stalled", 8, ["8", "100"]),
    ("ring_skipped", 8, ["3", "100"]),
    ("ring_skipped", 8, ["300", "100"]),  # until phases come again
    ("ring_orders", 4096, []),
    ("ring_errors", 4096, []),
    ("ring_handlers", 4096, []),
]

#: Programs whose PE 0 asks PE 1 for what is wrong: name, its share of all, setting.
FUZZED = [
    ("fuzz_requests", 0.3, "NODE_SIZE=1"),
    ("fuzz_requests", 0.15, "P2P=0"),
    ("fuzz_requests", 0.15, "P2P=1"),
    ("fuzz_messages", 0.3, "NODE_SIZE=1"),
    ("fuzz_rows", 0.1, "P2P_ATOMICS=owner"),
]

#: These wait most of the time, for what takes too long.
STOPS = ("ring_stops", 4096, [])

#: What ring_orders replaces, to decide when copies are done.
WRAPPED = {
    "ring_orders": ["-Wl,--wrap=pysh_sim_engine_copy", "-Wl,--wrap=pysh_sim_engine_finished"]
}


def ring_id(value: object) -> str:
    return str(value) if isinstance(value, str | int) else ""


def sanitizer_works(folder: Path, options: list[str]) -> bool:
    probe = folder / "probe.c"
    probe.write_text("int main(void) { return 0; }\n")
    command = ["gcc", *options, probe, "-o", folder / "probe"]
    return (
        not subprocess.run(command, capture_output=True).returncode
        and not subprocess.run([folder / "probe"], capture_output=True).returncode
    )


# ---- the allocator -------------------------------------------------------------------------------


def test_the_allocator_keeps_its_book(build: Compile, run_command: Callable) -> None:
    sources = [HERE / "allocator_test.c", SOURCES / "memory" / "allocator.c"]
    program = build(["-std=gnu11", "-O2", f"-I{SOURCES}", *sources], "allocator")
    assert run_command([program], 60, check=True).stdout == "allocator ok\n"


def test_the_allocator_under_sanitizers(
    build: Compile, run_command: Callable, tmp_path: Path
) -> None:
    options = [*SANITIZERS["address"], "-g", "-O1"]
    if not sanitizer_works(tmp_path, options):
        pytest.skip("this gcc has no sanitizers")
    sources = [HERE / "allocator_test.c", SOURCES / "memory" / "allocator.c"]
    program = build(["-std=gnu11", *options, f"-I{SOURCES}", *sources], "allocator")
    assert run_command([program], 60, check=True).stdout == "allocator ok\n"


def test_sizes_from_outside_do_not_wrap(build: Compile, run_command: Callable) -> None:
    program = build(["-std=gnu11", "-O2", f"-I{SOURCES}", HERE / "extents.c"], "extents")
    assert run_command([program], 60, check=True).stdout == "ok\n"


def test_a_process_is_known_by_its_number_and_its_start(
    build: Compile, run_command: Callable
) -> None:
    sources = [HERE / "processes.c", SOURCES / "base" / "process.c"]
    program = build(["-std=gnu11", "-O2", f"-I{SOURCES}", *sources], "processes")
    assert run_command([program], 60, check=True).stdout == "ok\n"


#: What the meeting over TCP takes of the library.
MEETING = ("sha256", "clock", "interrupt", "status", "state")


@pytest.mark.parametrize("options", [[], ["-fsanitize=address,undefined"]], ids=["", "sanitized"])
@pytest.mark.parametrize("n_broken", [2000, pytest.param(100_000, marks=pytest.mark.long)])
def test_pes_meet_among_strangers(
    n_broken: int, options: list[str], build: Compile, flags: list[str], run_command: Callable
) -> None:
    sources = [HERE / "meetings.c", *(SOURCES / "base" / f"{name}.c" for name in MEETING)]
    program = build(
        ["-std=gnu11", "-O1", "-g", *options, f"-I{SOURCES}", *sources, *flags, "-lpthread"],
        "meetings",
    )
    seed = time.time_ns() % 1_000_000
    done = run_command([program, str(n_broken), str(seed)], 120)
    assert done.stdout == "ok\n", f"seed {seed}: {done.stderr}"


@pytest.fixture
def many_hosts(build: Compile, flags: list[str]) -> Path:
    """The program of many hosts in one process."""
    sources = [HERE / f"many_hosts{part}.c" for part in ("", "_join", "_agree")]
    sources += [SOURCES / "base" / f"{name}.c" for name in ("sha256", "status", "state")]
    sources.append(SOURCES / "agree" / "tree.c")
    return build(["-std=gnu11", "-O2", f"-I{SOURCES}", *sources, *flags], "many_hosts")


@pytest.mark.parametrize(
    ("n", "size"),
    [
        (64, 1),
        (64, 8),
        pytest.param(8192, 8, marks=[pytest.mark.long, pytest.mark.timeout(2400)]),
    ],
)
def test_what_many_pes_take_to_join_and_to_meet(
    n: int, size: int, many_hosts: Path, run_command: Callable
) -> None:
    """Counts of the code itself: those of docs/scaling.md."""
    seed, card, said = time.time_ns() % 1_000_000, 64, 8
    command = [many_hosts, *map(str, (n, size, card, said, seed))]
    done = run_command(command, 2300, check=True)
    print(done.stdout)
    join, barrier, exchange = map(json.loads, done.stdout.splitlines())
    others, nodes = n - 1, n // size
    deep = nodes.bit_length() - 1
    assert join["connections"] == others
    assert join["bytes"] == others * (n * card + card + 4 * 32 + 2 * 32 + 4), f"seed {seed}"
    for met, messages in ((barrier, 1), (exchange, 2)):
        assert met["connections"] == nodes - 1
        assert (met["messages"], met["busiest"]) == (
            messages * 2 * (nodes - 1),
            messages * 2 * deep,
        ), f"seed {seed}"
        # What comes from the other one at the top may be there before this one tells it something.
        assert 2 * deep - 1 <= met["steps"] <= 2 * deep, f"seed {seed}"
    data = (nodes - 2) * n * said + (deep + 1) * n // 2 * said
    heads = barrier["bytes"] // (2 * (nodes - 1)) - 56
    assert exchange["bytes"] - barrier["bytes"] == data + 2 * (nodes - 1) * heads


@pytest.mark.parametrize("jobs", [150, pytest.param(20_000, marks=pytest.mark.long)])
def test_pes_of_few_hosts_meet_in_any_order(
    jobs: int, many_hosts: Path, run_command: Callable
) -> None:
    """With PEs that leave for handlers and return, call other routines, and are killed."""
    seed = time.time_ns() % 1_000_000
    done = run_command([many_hosts, "any", str(jobs), str(seed)], 500)
    assert done.returncode == 0, f"seed {seed}: {done.stderr}"
    assert min(json.loads(done.stdout).values()) > 100, f"seed {seed}: {done.stdout}"


def test_digests_are_those_of_others(
    build: Compile, flags: list[str], run_command: Callable
) -> None:
    sources = [HERE / "digests.c", SOURCES / "base" / "sha256.c"]
    program = build(["-std=gnu11", "-O2", f"-I{SOURCES}", *sources, *flags], "digests")
    lines = run_command([program], 60, check=True).stdout.splitlines()
    assert len(lines) == 200
    for n, line in enumerate(lines):
        message = bytes((i * 7 + n) % 256 for i in range(n))
        keyed = hmac.new(message[:64], message, "sha256").hexdigest()
        assert line == f"{hashlib.sha256(message).hexdigest()} {keyed}"


def test_nobody_else_asks_for_a_process_by_its_number() -> None:
    """``kill(pid, 0)`` says that somebody has the number, not who."""
    asking = re.compile(r"\bkill\([^;]*,\s*0\)")
    found = {path.name for path in LIBRARY if asking.search(path.read_text())}
    assert found == {"process.c"}


# ---- kernels on CPUs -----------------------------------------------------------------------------


def test_fibers_meet_wait_and_fail(build: Compile, flags: list[str], run_command: Callable) -> None:
    sources = [HERE / "fibers.c", *sorted((SOURCES / "fiber").glob("*.c"))]
    sources += [SOURCES / "base" / name for name in ("clock.c", "say.c", "state.c", "thread.c")]
    program = build(
        ["-std=gnu11", "-O2", f"-I{SOURCES}", *sources, *flags, "-lpthread", "-lm"], "fibers"
    )
    assert run_command([program], 120, check=True).stdout == "ok\n"


# ---- a program of users --------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_plain_openshmem_program_runs(
    name: str, build: Compile, flags: list[str], n_pes: int, run_pes: Callable
) -> None:
    arguments = ["-std=c11", "-pedantic", "-O2", HERE / f"{name}.c", *flags, "-lpthread", "-ldl"]
    program = build(arguments, name)

    def run(check: str) -> str:
        return run_pes(n_pes, program, env={"PYSHMEM_CHECK": check}, check=True).stdout

    modes = "01" if n_pes == 3 else "0"
    with ThreadPoolExecutor(2) as side_by_side:
        assert list(side_by_side.map(run, modes)) == ["ok\n"] * len(modes)


@pytest.mark.parametrize("cores", [1, 16])
def test_who_polls_gives_its_core_away_to_a_pe(
    cores: int, build: Compile, flags: list[str], n_pes: int, run_pes: Callable
) -> None:
    program = build(["-std=gnu11", "-O2", HERE / "polls.c", *flags, "-ldl"], "polls")
    assert run_pes(n_pes, program, [str(cores)], check=True).stdout == "ok\n"


def test_a_collective_that_fails_says_why(
    build: Compile, flags: list[str], run_pes: Callable
) -> None:
    program = build(["-std=c11", HERE / "refused.c", *flags], "refused")
    done = run_pes(2, program, check=True)
    assert done.stdout == "ok\n"
    for pe in range(2):
        assert f"PE {pe}: shmem_int_broadcast: " in done.stderr


@pytest.mark.parametrize(("way", "code"), [("g", 7), ("g", 0), ("e", 7), ("f", 1)])
def test_a_job_that_one_of_many_threads_ends(
    way: str, code: int, build: Compile, flags: list[str], run_pes: Callable
) -> None:
    program = build(["-std=gnu11", HERE / "leaving.c", *flags, "-lpthread"], "leaving")
    done = run_pes(2, program, [way, str(code)])
    assert done.returncode == code, done.stderr
    assert done.stdout.count("left") == 2
    assert way != "f" or re.search(r"(?m)^pyshmem: PE 0 \(pid", done.stderr), done.stderr


@pytest.mark.skipif(platform.machine() != "x86_64", reason="counts stores by a flag of x86-64")
def test_puts_store_each_byte_once(build: Compile, flags: list[str], run_command: Callable) -> None:
    program = build(["-std=c11", "-O2", HERE / "stores.c", *flags], "stores")
    assert run_command([program], 60, check=True).stdout == "ok\n"


def test_static_variables_under_sanitizers(
    build: Compile, sanitized: list[str | Path], run_pes: Callable
) -> None:
    program = build(["-std=gnu11", HERE / "statics.c", *sanitized], "statics")
    done = run_pes(3, program, ["mapped"], timeout=120, check=True)
    assert done.stdout == "ok\n"
    assert "ERROR" not in done.stderr
    assert "WARNING" not in done.stderr


# ---- alone -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("compiler", [c for c in ("g++", "clang++") if shutil.which(c)])
@pytest.mark.parametrize("standard", ["c++11", "c++20"])
def test_generic_routines_of_cxx(
    standard: str, compiler: str, flags: list[str], tmp_path: Path, n_pes: int, run_pes: Callable
) -> None:
    program, source = tmp_path / "overloads", HERE / "overloads.cpp"
    options = [f"-std={standard}", "-pedantic", *WARNINGS]
    command = [compiler, *options, "-o", program, source, *flags]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert run_pes(n_pes, program, check=True).stdout == "ok\n"


def test_a_program_started_alone_is_one_pe(
    build: Compile, flags: list[str], run_command: Callable
) -> None:
    program = build(["-std=c11", HERE / "ring.c", *flags], "ring")
    assert run_command([program], 60, check=True).stdout == "ok\n"


@pytest.fixture(scope="session")
def watched(
    flags: list[str], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], list[str | Path] | None]:
    """``watched(sanitizer)``: what ``sanitized`` is for it, or None if this gcc does not have it."""

    @functools.cache
    def compile_library(sanitizer: str) -> list[str | Path] | None:
        folder = tmp_path_factory.mktemp(sanitizer)
        options = [*SANITIZERS[sanitizer], "-g1", "-O1"]  # lines, for reports
        if not sanitizer_works(folder, options):
            return None
        write_made_headers(folder)
        options += [
            *(flag for flag in flags if flag.startswith("-I")),
            f"-I{PROXY}",
            f"-I{SOURCES}",
            f"-I{folder}",
        ]
        command = ["-std=gnu11", "-fwrapv", *WARNINGS, *options, '-DPYSHMEM_VERSION="0"']
        objects = compile_objects(
            [*command, f"-I{folder}", f"-I{SOURCES}", f"-I{ROOT}"], LIBRARY, folder
        )
        return [*options, *objects, "-lpthread", "-ldl", "-lm"]

    return compile_library


@pytest.fixture(scope="module", params=SANITIZERS)
def sanitized(
    request: pytest.FixtureRequest, watched: Callable[[str], list[str | Path] | None]
) -> list[str | Path]:
    """Options, headers and the whole library to build into a program, so that all of it is watched."""
    found = watched(request.param)
    if found is None:
        pytest.skip(f"this gcc has no {request.param} sanitizer")
    return found


@pytest.mark.parametrize("n_pes", [pytest.param(2, marks=pytest.mark.long), 3])  # every path
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_library_under_sanitizers(
    name: str, build: Compile, sanitized: list[str | Path], n_pes: int, run_pes: Callable
) -> None:
    program = build(["-std=gnu11", HERE / f"{name}.c", *sanitized], name)
    done = run_pes(n_pes, program, timeout=120, check=True)
    assert done.stdout == "ok\n"
    assert "ERROR" not in done.stderr
    assert "WARNING" not in done.stderr


#: Whose threads all call at once, and what the thread that serves other hosts is beside.
OVER_UCX = [
    "threads",
    *(pytest.param(name, marks=pytest.mark.long) for name in ("waits", "contexts", "wakes")),
]


@pytest.mark.parametrize("name", OVER_UCX)
def test_threads_beside_the_one_that_serves_other_hosts(
    name: str, build: Compile, watched: Callable[[str], list[str | Path] | None], run_pes: Callable
) -> None:
    sanitized = watched("thread")
    if sanitized is None:
        pytest.skip("this gcc has no thread sanitizer")
    found = importlib.util.find_spec("libucx")
    if not found or not found.origin:
        pytest.skip("pip install 'pyshmem-openshmem[ucx]': this test runs on it")
    program = build(["-std=gnu11", HERE / f"{name}.c", *sanitized], name)
    nodes = {"PYSHMEM_CONDUIT": "ucx", "PYSHMEM_NODE_SIZE": "1"}
    nodes["PYSHMEM_UCX_LIBRARY"] = str(Path(found.origin).parent / "lib" / "libucp.so.0")
    done = run_pes(2, program, timeout=120, check=True, env=nodes)
    assert done.stdout == "ok\n"
    assert "WARNING" not in done.stderr


def test_of_two_threads_that_end_a_team_one_does(
    build: Compile, flags: list[str], tmp_path: Path, run_command: Callable
) -> None:
    program = build(["-std=gnu11", HERE / "sweeps.c", *plain(flags, tmp_path)], "sweeps")
    assert run_command([program], 60, check=True).stdout == "ok\n"


def test_a_stream_that_another_thread_destroys_is_refused_and_not_used(
    build: Compile, flags: list[str], tmp_path: Path, run_command: Callable
) -> None:
    sources = ["-std=gnu11", HERE / "destroyed_streams.c", *plain(flags, tmp_path)]
    program = build(sources, "destroyed_streams")
    assert run_command([program], 60, check=True).stdout == "ok\n"


# ---- the ring, with threads for kernels ------------------------------------------------------------


def run_ring(
    name: str,
    slots: int,
    arguments: list[str],
    compiled: list[str | Path],
    build: Compile,
    run: Callable,
) -> None:
    program = build(["-std=gnu11", HERE / f"{name}.c", *compiled], name)
    settings = {"PYSHMEM_RING_SLOTS": str(slots)}
    settings["PYSHMEM_TIMEOUT"] = "1" if name in ("ring_stops", "ring_handlers") else "60"
    # Seconds of the processor: threads that wait poll, and a busy machine takes none of them.
    limited = ["sh", "-c", 'ulimit -t 240 && exec "$@"', "sh", program, *arguments]
    done = run(limited, 900, check=True, **settings)
    assert (done.stdout, done.stderr) == ("ok\n", "")


def plain(flags: list[str], folder: Path) -> list[str | Path]:
    write_made_headers(folder)
    return ["-O2", f"-I{PROXY}", f"-I{SOURCES}", f"-I{folder}", *flags, "-lpthread"]


@pytest.mark.parametrize(
    ("name", "slots", "arguments"),
    [row for row in RINGS if row[0] not in WRAPPED],  # these replace what is inside the library
    ids=ring_id,
)
def test_the_ring_serves_threads_as_it_does_kernels(
    name: str,
    slots: int,
    arguments: list[str],
    build: Compile,
    flags: list[str],
    made: Path,
    run_command: Callable,
) -> None:
    run_ring(name, slots, arguments, plain(flags, made), build, run_command)


@pytest.mark.timeout(1000)
@pytest.mark.parametrize(("name", "slots", "arguments"), RINGS, ids=ring_id)
def test_the_ring_under_sanitizers(
    name: str,
    slots: int,
    arguments: list[str],
    build: Compile,
    sanitized: list[str | Path],
    run_command: Callable,
) -> None:
    compiled = [*sanitized, *WRAPPED.get(name, [])]
    run_ring(name, slots, arguments, compiled, build, run_command)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("n", [pytest.param(1_000_000, marks=pytest.mark.long), 50_000])
@pytest.mark.parametrize(("name", "share", "setting"), FUZZED)
def test_what_is_wrong_of_what_a_pe_asks_is_refused_and_nobody_dies(
    name: str,
    share: float,
    setting: str,
    n: int,
    build: Compile,
    watched: Callable[[str], list[str | Path] | None],
    run_pes: Callable,
) -> None:
    """Together ``n`` wrong requests, messages and rows, among about as many right ones."""
    compiled = watched("address")
    if compiled is None:
        pytest.skip("this gcc has no address sanitizer")
    wrapped = ["-Wl,--wrap=pysh_am_post_slot"] if name == "fuzz_messages" else []
    program = build(["-std=gnu11", HERE / f"{name}.c", *compiled, *wrapped], name)
    key, value = setting.split("=")
    patience = float(os.environ.get("TESTS_PATIENCE", "1"))
    settings = {f"PYSHMEM_{key}": value, "PYSHMEM_TIMEOUT": f"{60 * patience:g}"}
    seed = random.getrandbits(63) | 1
    arguments = [str(int(n * share)), str(seed)]
    done = run_pes(2, program, arguments, device="sim", env=settings, timeout=570)
    assert done.returncode == 0, f"seed {seed}: {done.stderr}"
    assert done.stdout.endswith("right: ok\n"), f"seed {seed}: {done.stdout}"


def test_the_engine_process_under_sanitizers(
    build: Compile, sanitized: list[str | Path], run_pes: Callable
) -> None:
    program = build(["-std=gnu11", HERE / "engine.c", *sanitized], "engine")
    main = HERE.parents[1] / "native" / "engine" / "main.c"
    gcc("-std=gnu11", "-o", program.parent / "pyshmem-engine", main, *sanitized)
    settings = {"PYSHMEM_ENGINE": "process", "PYSHMEM_TIMEOUT": "60"}
    done = run_pes(2, program, env=settings, timeout=120, check=True)
    assert (done.stdout, done.stderr) == ("ok\n", "")


def test_device_heaps_of_more_pes_than_a_node_may_have(
    build: Compile, flags: list[str], made: Path, run_pes: Callable
) -> None:
    program = build(["-std=gnu11", HERE / "many_pes.c", *plain(flags, made)], "many_pes")
    heaps = {"PYSHMEM_HEAP_SIZE": "1M", "PYSHMEM_DEVICE_HEAP_SIZE": "1M"}
    done = run_pes(144, program, device="sim", env=heaps, timeout=120, check=True)
    assert done.stdout == "ok\n"


def test_the_barrier_of_few_pes_where_pes_leave(
    build: Compile, made: Path, flags: list[str], run_command: Callable
) -> None:
    options = [option for option in plain(flags, made) if not str(option).startswith("-l")]
    program = build(["-std=gnu11", HERE / "barrier_of_few.c", *options], "barrier_of_few")
    assert run_command([program], 60, check=True).stdout == "ok\n"


def test_far_pes_take_little_device_memory(
    build: Compile, flags: list[str], made: Path, run_pes: Callable
) -> None:
    """64 bytes a peer at most: tables of kernels' teams are made for the members of a node."""
    program = build(["-std=gnu11", HERE / "device_tables.c", *plain(flags, made)], "device_tables")
    settings = {
        "PYSHMEM_HEAP_SIZE": "1M",
        "PYSHMEM_DEVICE_HEAP_SIZE": "1M",
        "PYSHMEM_NODE_SIZE": "1",
    }
    few, many = (
        int(run_pes(n, program, device="sim", env=settings, timeout=60, check=True).stdout)
        for n in (8, 72)
    )
    assert many - few <= 64 * (72 - 8)


def test_a_handler_that_blocks_does_not_keep_finalize(
    build: Compile, flags: list[str], made: Path, run_command: Callable
) -> None:
    program = build(["-std=gnu11", HERE / "ring_blocked.c", *plain(flags, made)], "ring_blocked")
    done = run_command([program], 60, check=True, PYSHMEM_TIMEOUT="1")
    assert done.stdout == "ok\n"
    assert "has not returned; its thread is left behind" in done.stderr


def test_the_ring_ends_while_kernels_go_on_also_under_sanitizers(
    build: Compile,
    flags: list[str],
    made: Path,
    watched: Callable[[str], list[str | Path] | None],
    run_command: Callable,
) -> None:
    builds = [plain(flags, made), *(found for name in SANITIZERS if (found := watched(name)))]
    with ThreadPoolExecutor() as pool:
        runs = [pool.submit(run_ring, *STOPS, compiled, build, run_command) for compiled in builds]
    for run in runs:
        run.result()


def test_a_failing_call_ends_a_c_job_with_the_reason(
    build: Compile, flags: list[str], run_pes: Callable, tmp_path: Path
) -> None:
    source = tmp_path / "wrong.c"
    source.write_text(
        "#include <shmem.h>\n"
        "int main(void) {\n"
        "    shmem_init();\n"
        "    long *cell = shmem_malloc(sizeof *cell);\n"
        "    if (shmem_my_pe() == 1)\n"
        "        shmem_long_p(cell, 1, 7);\n"
        "    shmem_barrier_all();\n"
        "    return 0;\n"
        "}\n"
    )
    done = run_pes(2, build(["-std=c11", source, *flags], "wrong"))
    assert done.returncode != 0
    assert "PE 1: shmem_long_p: pe 7 is outside the team of 2 PEs (0..1)" in done.stderr


@pytest.mark.parametrize(("command", "name"), [("cc", "ring.c"), ("cxx", "overloads.cpp")])
def test_a_compiler_that_knows_openshmem(
    command: str, name: str, tmp_path: Path, run_command: Callable
) -> None:
    compiler = [sys.executable, "-m", "pyshmem", command, "-O1", f"-I{HERE}"]
    run_command([*compiler, "-c", HERE / name, "-o", tmp_path / "part.o"], 60, check=True)
    run_command([*compiler, tmp_path / "part.o", "-o", tmp_path / "user"], 60, check=True)
    assert run_command([tmp_path / "user"], 60, check=True).stdout == "ok\n"
    shown = run_command([*compiler, "-show"], 60, check=True).stdout.split()
    assert f"-I{HERE}" in shown
    assert "-l:libpyshmem.so.0" in shown
    failed = run_command([*compiler, "--no-such-option"], 60)
    assert failed.returncode
    assert "no-such-option" in failed.stderr


# ---- headers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "header", ["shmem.h", "shmemx.h", "ishmemx.h", "pshmem.h", "mpp/shmem.h", "mpp/shmemx.h"]
)
@pytest.mark.parametrize(
    ("compiler", "options"),
    [("gcc", ["-std=c99", "-pedantic"]), ("gcc", ["-std=c11", "-pedantic"]), ("gcc", ["-std=c17"]),
     ("g++", ["-std=c++11", "-pedantic", "-Wshadow"]), ("g++", ["-std=c++20"])],
    ids=["c99", "c11", "c17", "c++11", "c++20"],
)  # fmt: skip
def test_headers_compile_by_themselves(
    header: str, compiler: str, options: list[str], flags: list[str], tmp_path: Path
) -> None:
    source = tmp_path / ("user.cpp" if compiler == "g++" else "user.c")
    source.write_text(f"#include <{header}>\nint main(void) {{ return 0; }}\n")
    command = [compiler, *options, *WARNINGS, *flags, source, "-o", tmp_path / "user", *flags]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.long
def test_sources_compile_without_a_warning_when_optimised(flags: list[str], tmp_path: Path) -> None:
    write_made_headers(tmp_path)
    includes = [flag for flag in flags if flag.startswith("-I")]
    options = ["-std=gnu11", "-O3", *WARNINGS, "-Wmaybe-uninitialized", "-fvisibility=hidden"]
    options += ['-DPYSHMEM_VERSION="0"', f"-I{tmp_path}", *includes, f"-I{SOURCES}", f"-I{ROOT}"]
    objects = compile_objects([*options, "-fPIC"], LIBRARY, tmp_path)
    gcc("-shared", *objects, "-o", tmp_path / "library.so")
