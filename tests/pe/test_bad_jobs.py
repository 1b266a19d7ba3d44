# SPDX-License-Identifier: BSD-3-Clause
"""Jobs that go wrong: every PE is told what happened, and none waits for ever."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

# ---- PEs that do not agree -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "other"), [(0, "9.8.7"), (-1, "sparc")], ids=["version", "machine"]
)
def test_other_libraries_are_told_on_all_pes(word: int, other: str, run_pes: Callable) -> None:
    """What a library says of itself is its version, "for", and its family of processors."""
    done = run_pes(
        3,
        """
        import sys
        from pyshmem._core.library import ffi, lib
        config = ffi.new("ishmemx_config_t *")
        assert lib.ishmemx_config_from_environment(config) == 0
        ours = ffi.string(config.version).decode()
        words = ours.split()
        assert words[1] == "for"
        words[int(sys.argv[1])] = sys.argv[2]
        other = ffi.new("char[]", " ".join(words).encode())
        if config.pe == 1:
            config.version = other
        status = lib.ishmemx_init(config)
        assert status == lib.ISHMEMX_ERR_MISMATCH, status
        text = ffi.string(lib.ishmemx_error()).decode()
        sys.stdout.write(f"PE {config.pe} has {ours}: {text}\\n")
        """,
        [word, other],
        check=True,
    )
    lines = sorted(line for line in done.stdout.splitlines() if line.startswith("PE "))
    assert [line[:4] for line in lines] == ["PE 0", "PE 1", "PE 2"]
    for line in lines:
        assert "version" in line
        assert other in line
        assert line.count("libpyshmem") == 2  # both paths


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("heap_size='2M' if me == 1 else '1M'", r"heap.*2\.0 MiB|2097152"),
        ("heap_size='1M', device='none' if me == 1 else 'sim'", "device|accelerator"),
    ],
    ids=["heap sizes", "devices"],
)
def test_other_arguments_of_init_are_told_on_all_pes(
    arguments: str, text: str, run_pes: Callable
) -> None:
    done = run_pes(
        2,
        f"""
        import os, sys, pyshmem
        me = int(os.environ["PYSHMEM_PE"])
        try:
            pyshmem.init({arguments})
        except pyshmem.MismatchError as error:
            sys.stdout.write(f"PE {{me}}: {{error}}\\n")
        """,
        device="sim",
        check=True,
    )
    lines = sorted(line for line in done.stdout.splitlines() if line.startswith("PE "))
    assert [line[:4] for line in lines] == ["PE 0", "PE 1"]
    assert all(re.search(text, line) for line in lines), lines


# ---- use at the wrong time -----------------------------------------------------------------------


def test_use_before_init_and_after_finalize(run_pes: Callable) -> None:
    run_pes(
        2,
        """
        import numpy as np, pyshmem
        kept = []
        def refused():
            for call in (
                pyshmem.my_pe, pyshmem.barrier_all, pyshmem.quiet, pyshmem.drain,
                lambda: pyshmem.zeros(2), lambda: pyshmem.put(np.zeros(2), np.zeros(2), 0),
                lambda: pyshmem.g(np.zeros(2), 0), lambda: pyshmem.signal_fetch(np.zeros(1, "u8")),
                lambda: pyshmem.sum_reduce(np.zeros(2), np.zeros(2)),
                lambda: [pyshmem.put(array, array, 0) for array in kept] or pyshmem.n_pes(),
            ):
                try:
                    call()
                except pyshmem.NotInitialized as error:
                    assert "init" in str(error), error
                else:
                    raise SystemExit("not refused")
        refused()
        with pyshmem.init(heap_size="1M"):
            kept.append(pyshmem.zeros(2))
        refused()
        pyshmem.finalize()
        """,
        check=True,
    )


# ---- PEs that fail -------------------------------------------------------------------------------


def test_a_syntax_error_on_one_pe_only(run_pes: Callable, tmp_path: Path) -> None:
    (tmp_path / "part_0.py").write_text("import pyshmem\nwith pyshmem.init(): pass\n")
    (tmp_path / "part_1.py").write_text("import pyshmem\nwith pyshmem.init() pass\n")
    done = run_pes(3, "import os\nme = os.environ['PYSHMEM_PE']\n__import__(f'part_{int(me) % 2}')")
    assert done.returncode == 1
    assert "SyntaxError" in done.stderr
    assert "part_1.py" in done.stderr
    assert re.search(r"PE 1 \(pid \d+\) ended with exit code 1", done.stderr)


def test_an_exception_in_the_middle_reaches_the_others(run_pes: Callable) -> None:
    done = run_pes(
        3,
        """
        import sys, pyshmem
        pyshmem.init(heap_size="1M")
        pyshmem.barrier_all()
        if pyshmem.my_pe() == 1:
            raise ZeroDivisionError("a share of nothing")
        try:
            pyshmem.barrier_all()
        except pyshmem.PeerDied as error:
            sys.stdout.write(f"told: {error}\\n")
            sys.exit(1)
        """,
    )
    assert done.returncode == 1
    told = [line for line in done.stdout.splitlines() if line.startswith("told: ")]
    assert told
    assert all("PE 1" in line and "ZeroDivisionError: a share of nothing" in line for line in told)
    assert "Traceback" in done.stderr
    assert "\npyshmem: PE 1 (" in done.stderr  # also when those that say nothing ended before it


def test_the_cause_is_named_though_it_ends_after_those_that_say_nothing(run_pes: Callable) -> None:
    done = run_pes(
        3,
        """
        import atexit, sys, time, pyshmem
        with pyshmem.init(heap_size="1M") as job:
            if job.my_pe == 1:
                atexit.register(time.sleep, 600)
                raise KeyError("no such row")
            try:
                pyshmem.barrier_all()
            except pyshmem.PeerDied:
                sys.exit(9)
        """,
    )
    report = done.stderr[done.stderr.rindex("\npyshmem: ") :]
    assert report.startswith("\npyshmem: PE 1 ("), done.stderr
    assert "KeyError: 'no such row'" in report
    assert "SIGTERM" not in report  # the launcher's own, after which nobody asked
    assert done.returncode == 1


def test_of_a_report_the_others_hear_the_first_sentence(run_pes: Callable) -> None:
    done = run_pes(
        2,
        """
        import sys, pyshmem
        pyshmem.init(heap_size="1M")
        word = pyshmem.zeros(1, "u8")
        pyshmem.barrier_all()
        if pyshmem.my_pe() == 1:
            pyshmem.signal_wait_until(word, pyshmem.CMP_EQ, 1)
        try:
            while True:  # has no time that could end first
                pyshmem.test(word, pyshmem.CMP_EQ, 1)
        except pyshmem.PeerDied as error:
            sys.stdout.write(f"told: {error}\\n")
            sys.exit(1)
        """,
        env={"PYSHMEM_TIMEOUT": "1"},
    )
    told = done.stdout.splitlines()[0]
    assert told.endswith(
        "signal_wait_until (== 1, seen 0) took longer than 1 s (PYSHMEM_TIMEOUT)"
    ), told


def test_a_pe_that_ends_before_the_others_barrier_is_told(run_pes: Callable) -> None:
    done = run_pes(
        2,
        """
        import pyshmem
        with pyshmem.init(heap_size="1M") as job:
            if job.my_pe == 1:
                pyshmem.barrier_all()
        """,
    )
    assert done.returncode == 1
    assert "MismatchError: PE 0 called finalize while PE 1 called barrier_all" in done.stderr


def test_pes_in_different_collectives_are_told_what_the_other_one_called(run_pes: Callable) -> None:
    done = run_pes(
        2,
        """
        import pyshmem
        with pyshmem.init(heap_size="1M") as job:
            try:
                pyshmem.zeros(1) if job.my_pe else pyshmem.barrier_all()
            except pyshmem.MismatchError as error:
                print(error, flush=True)
            pyshmem.global_exit(0)
        """,
    )
    assert "PE 1 called zeros while PE 0 called barrier_all" in done.stdout


def test_leaving_early_is_told_to_those_who_wait(run_pes: Callable) -> None:
    done = run_pes(
        2,
        """
        import pyshmem
        with pyshmem.init(heap_size="1M") as job:
            word = pyshmem.zeros(1, int)
            if job.my_pe == 1:
                pyshmem.wait_until(word, pyshmem.CMP_EQ, 1)
        """,
        env={"PYSHMEM_TIMEOUT": "1"},
    )
    assert done.returncode != 0
    assert re.search(
        r"ShmemTimeout: (wait_until \(== 1, seen 0\)|finalize) took longer than 1 s", done.stderr
    )
    assert re.search(r"PE 0 \(pid \d+\): in finalize for", done.stderr)
    assert re.search(r"PE 1 \(pid \d+\): in wait_until \(== 1, seen 0\) for", done.stderr)


def test_a_barrier_that_not_all_enter_times_out_with_a_report(run_pes: Callable) -> None:
    done = run_pes(
        2,
        """
        import time, pyshmem
        pyshmem.init(heap_size="1M")
        if pyshmem.my_pe() == 0:
            pyshmem.barrier_all()
        time.sleep(20)
        """,
        env={"PYSHMEM_TIMEOUT": "0.5"},
    )
    assert done.returncode != 0
    assert re.search(r"barrier_all took longer than 0\.5 s \(PYSHMEM_TIMEOUT\)", done.stderr)
    assert re.search(r"PE 1 \(pid \d+\): running", done.stderr)


@pytest.mark.parametrize(
    ("ending", "status"),
    [
        ("pyshmem.abort(7, 'enough')", 7),
        ("pyshmem.global_exit(5)", 5),
        ("pyshmem.global_exit(0)", 0),
    ],
)
@pytest.mark.parametrize("others", ["pyshmem.barrier_all()", "time.sleep(1000)"])
def test_one_pe_ends_the_job(others: str, ending: str, status: int, run_pes: Callable) -> None:
    program = f"""
import time, pyshmem
pyshmem.init(heap_size="1M")
print("printed before", end="")
pyshmem.barrier_all()
if pyshmem.my_pe() == 1:
    {ending}
{others}
"""
    done = run_pes(2, program)
    assert "job still running" not in done.stderr
    assert done.returncode == status
    assert "printed before" in done.stdout


# ---- signals to a PE -----------------------------------------------------------------------------


def test_a_python_signal_handler_runs_in_a_wait(run_pes: Callable) -> None:
    run_pes(
        1,
        """
        import signal, pyshmem
        with pyshmem.init(heap_size="1M") as job:
            word = pyshmem.zeros(1, int)
            signal.signal(signal.SIGALRM, lambda *_: pyshmem.atomic_set(word, 1, 0))
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            pyshmem.wait_until(word, pyshmem.CMP_EQ, 1)

            def stop(*_):
                raise LookupError("from the handler")
            signal.signal(signal.SIGALRM, stop)
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            try:
                pyshmem.wait_until(word, pyshmem.CMP_EQ, 2)
            except LookupError as error:
                assert str(error) == "from the handler"
            else:
                raise SystemExit("the wait went on")
            pyshmem.barrier_all()
        """,
        check=True,
    )


def test_a_lock_comes_to_a_pe_whose_wait_ended_early(run_pes: Callable) -> None:
    run_pes(
        2,
        """
        import pyshmem
        job = pyshmem.init(heap_size="1M")
        lock, told = pyshmem.Lock(), pyshmem.zeros(1, int)
        times = 0
        for take in (lock.set, lock.test):
            times += 1
            if job.my_pe == 0:
                lock.set()
                pyshmem.sync_all()
                while not pyshmem.test(told, pyshmem.CMP_EQ, times):
                    pass
                lock.clear()
                pyshmem.sync_all()
            else:
                pyshmem.sync_all()
                try:
                    lock.set()
                    raise SystemExit("it has the lock")
                except pyshmem.ShmemTimeout:
                    pyshmem.p(told, times, 0)
                pyshmem.sync_all()
                assert take() is not False
                lock.clear()
            pyshmem.sync_all()
        with lock:
            pass
        """,
        env={"PYSHMEM_TIMEOUT": "1.5"},
        check=True,
    )


@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&- 2>&-"])
def test_a_launcher_whose_standard_streams_are_closed(
    closed: str, tmp_path: Path, run_command: Callable
) -> None:
    """Nothing of the job's own takes their place."""
    script = tmp_path / "program.py"
    script.write_text(
        "import sys, pyshmem\n"
        "print('x' * 100_000)\n"
        "with pyshmem.init(heap_size='1M') as job:\n"
        "    print('x' * 100_000)\n"
        "    pyshmem.barrier_all()\n"
        "    assert not sys.stdin or sys.stdin.read() == ''\n"
        f"    open(r'{tmp_path}/' + str(job.my_pe), 'w').close()\n"
    )
    command = f"{sys.executable} -m pyshmem run -n 2 --device none --timeout 20 {script} {closed}"
    done = run_command(["bash", "-c", command], 30)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "0").exists()
    assert (tmp_path / "1").exists()


def test_global_exit_ends_the_job_though_nothing_can_be_printed(run_pes: Callable) -> None:
    done = run_pes(
        2,
        """
        import sys, pyshmem
        job = pyshmem.init(heap_size="1M")
        sys.stdout.close()
        if job.my_pe == 0:
            pyshmem.global_exit(7)
        pyshmem.barrier_all()
        """,
    )
    assert done.returncode == 7
