# SPDX-License-Identifier: BSD-3-Clause
"""The parts of the launcher, one by one; whole jobs are in tests/pe/test_cleanup.py."""

from __future__ import annotations

import fcntl
import itertools
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from pyshmem.launcher import leftovers
from pyshmem.launcher.call.arguments import MOST_PES, number_of_pes
from pyshmem.launcher.control import NativeControl
from pyshmem.launcher.guard import Guard
from pyshmem.launcher.job import Job
from pyshmem.launcher.output.streams import PARTIAL_AGE, Stream
from pyshmem.launcher.settings import check_settings, settle_device
from pyshmem.launcher.signals import Held, Signals
from pyshmem.launcher.spec import JobSpec, LaunchError
from pyshmem.launcher.targets import resolve_command

# ---- what to run -----------------------------------------------------------------------------


def test_a_python_script_runs_under_this_python(tmp_path: Path) -> None:
    script = tmp_path / "a.py"
    script.touch(mode=0o755)  # executable or not: another interpreter would lack pyshmem
    assert resolve_command(str(script), ["-n", "3"]) == [sys.executable, str(script), "-n", "3"]


def test_an_executable_file_runs_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hello").touch(mode=0o755)
    monkeypatch.chdir(tmp_path)
    assert resolve_command("hello", []) == [str(tmp_path / "hello")]


def test_a_program_is_found_in_path() -> None:
    assert resolve_command("sh", ["-c", "true"])[0].endswith("/sh")


def test_a_module_is_named_as_for_python() -> None:
    assert resolve_command("a.b", ["x"], module=True) == [sys.executable, "-m", "a.b", "x"]


@pytest.mark.parametrize("target", ["gone.py", "gone-program", "./gone", "/gone/x.py"])
def test_a_target_that_is_not_there_is_named(target: str) -> None:
    with pytest.raises(LaunchError, match="no such file"):
        resolve_command(target, [])


def test_a_folder_needs_a_main(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="__main__"):
        resolve_command(str(tmp_path), [])
    (tmp_path / "__main__.py").touch()
    assert resolve_command(str(tmp_path), [])[1] == str(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "mode", "told"),
    [
        ("a.sh", "echo\n", 0o644, "is not executable: chmod"),
        ("a", "#!/bin/sh\necho\n", 0o644, "is not executable: chmod"),
        ("a.sh", "echo\n", 0o755, "has no first line #!/bin/sh"),
        ("a", "#!/bin/sh\r\necho\r\n", 0o755, "end as on Windows"),
        ("a", "#!/not/there/sh\n", 0o755, "names /not/there/sh, which cannot be run"),
        ("a", "#!\n", 0o755, "names nothing"),
        ("a.cu", "", 0o644, "compile it"),
        ("a.ipynb", "{}", 0o644, "is a notebook"),
    ],
)
def test_a_file_that_nothing_can_run_is_told_before_a_pe_starts(
    name: str, content: str, mode: int, told: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(content.encode())
    path.chmod(mode)
    with pytest.raises(LaunchError, match=told):
        resolve_command(str(path), [])


@pytest.mark.parametrize("content", ["", "print(1)\n", "#!/usr/bin/env python3\n"])
def test_what_may_be_python_is_left_to_python(content: str, tmp_path: Path) -> None:
    path = tmp_path / "program"
    path.write_text(content)
    assert resolve_command(str(path), []) == [sys.executable, str(path)]


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("Hello.py", r"looked in .*: is hello\.py meant\?"),
        ("hello", r"is hello\.py meant\?"),
        ("gone.py", r"to run an installed module: -m gone"),
        ("in/gone.py", r"\(looked in [^)]*\)\nsee"),
        ("", "TARGET is empty"),
    ],
)
def test_a_target_that_is_not_there_is_looked_for(
    target: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hello.py").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LaunchError, match=told):
        resolve_command(target, [])


def test_a_file_is_no_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hello.py").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LaunchError, match=r"leave -m out, or write -m hello for hello\.py"):
        resolve_command("hello.py", [], module=True)


def test_a_device_that_cannot_be_had_is_refused_with_a_way_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pyshmem.host.job.runtime.gpu_count", lambda: 0)
    monkeypatch.setenv("PYSHMEM_DEVICE", "cuda")
    with pytest.raises(LaunchError, match="--device sim"):
        settle_device()
    monkeypatch.setattr("pyshmem._foreign.environment.has_module", lambda name: False)
    monkeypatch.setenv("PYSHMEM_DEVICE", "sim")
    with pytest.raises(LaunchError, match="numba is not installed"):
        settle_device()
    monkeypatch.setenv("PYSHMEM_DEVICE", "auto")
    assert settle_device() == "none"


def test_a_malformed_setting_is_refused_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYSHMEM_TIMEOUT", "soon")
    with pytest.raises(ValueError, match=r"PYSHMEM_TIMEOUT.*soon"):
        check_settings()


def test_more_pes_than_a_job_may_have_are_refused_by_the_number_of_the_c_library() -> None:
    header = Path(__file__).parents[2] / "native" / "src" / "join" / "hello.h"
    (most,) = re.findall(r"#define PYSH_MAX_PES +(0x[0-9a-f]+)", header.read_text())
    assert int(most, 16) == MOST_PES
    assert number_of_pes(MOST_PES) == MOST_PES
    for given in (MOST_PES + 1, 10**6, 2**70):
        with pytest.raises(ValueError, match=f"n_pes is {given}; a job has at most 1023 PEs"):
            number_of_pes(given)
    with pytest.raises(TypeError, match="n_pes is masked_array"):
        number_of_pes(np.ma.array(1, mask=True))


def test_environment_of_a_pe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    spec = JobSpec(4, ["x"], device="sim", settings={"CHECK": "1"})
    environment = spec.environment(2, 9)
    expected = {"PE": "2", "N_PES": "4", "LOCAL_PE": "2", "CONTROL_FD": "9", "CHECK": "1"}
    assert {name: environment[f"PYSHMEM_{name}"] for name in expected} == expected
    assert environment["PYSHMEM_JOB"] == spec.job != JobSpec(4, ["x"]).job
    assert environment["PYSHMEM_DEVICE"] == "sim"
    assert environment["NUMBA_ENABLE_CUDASIM"] == "1"
    assert environment["OMP_NUM_THREADS"] == "7"
    assert "PYTHONUNBUFFERED" not in environment


def test_environment_with_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "1")
    environment = JobSpec(2, ["x"], device="cuda", tag=True).environment(0, 9)
    assert "NUMBA_ENABLE_CUDASIM" not in environment
    assert environment["CUDA_MODULE_LOADING"] == "EAGER"
    assert environment["PYTHONUNBUFFERED"] == "1"


# ---- output ----------------------------------------------------------------------------------


class _Pipes:
    """A stream between two pipes."""

    def __init__(self, tag: str = "", keep: int = 50) -> None:
        source, self._in = os.pipe()
        self._out, self._target = os.pipe()
        os.set_blocking(self._out, False)
        fcntl.fcntl(self._target, fcntl.F_SETPIPE_SZ, 1 << 20)  # nobody reads while it writes
        self.stream = Stream(os.fdopen(source, "rb", 0), self._target, tag, keep)

    def feed(self, data: bytes, now: float = 0.0) -> None:
        os.write(self._in, data)
        assert self.stream.pump(now)

    def end(self) -> None:
        os.close(self._in)
        assert not self.stream.pump(0.0)

    def passed(self) -> bytes:
        try:
            return os.read(self._out, 1 << 20)
        except BlockingIOError:
            return b""

    def close(self) -> None:
        self.stream.close()
        os.close(self._out)
        os.close(self._target)


@pytest.fixture
def pipes() -> Iterator[_Pipes]:
    made = _Pipes(tag="[3] ")
    yield made
    made.close()


def test_lines_pass_whole_and_tagged(pipes: _Pipes) -> None:
    pipes.feed(b"one\ntw")
    assert pipes.passed() == b"[3] one\n"
    pipes.feed(b"o\nlast")
    assert pipes.passed() == b"[3] two\n"
    pipes.end()
    assert pipes.passed() == b"[3] last"


def test_a_carriage_return_passes_at_once(pipes: _Pipes) -> None:
    pipes.feed(b"10%\r20%\r")
    assert pipes.passed() == b"[3] 10%\r[3] 20%\r"
    assert pipes.stream.last_lines() == [""]


def test_a_prompt_passes_after_a_moment(pipes: _Pipes) -> None:
    pipes.feed(b"name? ", now=1.0)
    pipes.stream.flush_partial(1.0 + PARTIAL_AGE / 2)
    assert pipes.passed() == b""
    pipes.stream.flush_partial(1.0 + PARTIAL_AGE)
    assert pipes.passed() == b"[3] name? "
    pipes.feed(b"Bob\nx\n")
    assert pipes.passed() == b"Bob\n[3] x\n"


def test_a_line_without_end_does_not_fill_memory(pipes: _Pipes) -> None:
    for _ in range(3):
        pipes.feed(b"x" * 30000)
    assert len(pipes.passed()) > 65536


def test_the_last_lines_are_kept() -> None:
    pipes = _Pipes(keep=3)
    pipes.feed(b"".join(b"%d\n" % i for i in range(10)) + b"end")
    pipes.end()
    assert pipes.stream.last_lines() == ["7", "8", "9", "end"]
    assert pipes.passed().startswith(b"0\n1\n")
    pipes.close()


def test_a_reader_that_has_gone_fails_nothing() -> None:
    pipes = _Pipes()
    os.close(pipes._out)
    pipes.feed(b"line\n")
    pipes._out = os.open(os.devnull, os.O_RDONLY)
    pipes.close()


def test_a_launcher_that_stood_still_leaves_the_pes_their_time(pipes: _Pipes) -> None:
    control = NativeControl(1)
    job = Job(JobSpec(1, ["x"]), control, Held())
    pe = SimpleNamespace(pe=0, returncode=None, streams=[pipes.stream])
    job.processes = [pe]  # type: ignore[list-item]
    ending = job._end("", 1, ((0.7, signal.SIGTERM), (0.5, signal.SIGKILL)))
    due = ending.due
    pipes.feed(b"half a line", now=1.0)
    job._give_back(20.0)
    job._give_back(-1.0)  # it woke early, for there was something to do
    pipes.stream.flush_partial(20.9)
    assert pipes.passed() == b""
    pipes.stream.flush_partial(21.0 + PARTIAL_AGE)
    assert pipes.passed() == b"[3] half a line"
    assert ending.due == pytest.approx(due + 19.75)
    control.close()


def test_a_signal_that_comes_late_is_followed_by_the_next_in_its_time() -> None:
    control = NativeControl(1)
    job = Job(JobSpec(1, ["x"]), control, Held())
    sent: list[int] = []
    pe = SimpleNamespace(pe=0, returncode=None, streams=[], in_foreground=False, signal=sent.append)
    job.processes = [pe]  # type: ignore[list-item]
    ending = job._end("", 1, ((0.7, signal.SIGTERM), (0.5, signal.SIGKILL)))
    late = ending.since + 60.0  # the machine stood still within a turn
    for after, count in ((-59.5, 0), (0.0, 1), (0.4, 1), (0.6, 2), (5.5, 2)):
        assert job._take_steps(late + after)
        assert sent == [signal.SIGTERM, signal.SIGKILL][:count]
    assert not job._take_steps(late + 5.7)  # nothing more could end it
    assert ending.killed == [0]
    control.close()


# ---- signals and leftovers ---------------------------------------------------------------------


def test_signals_arrive_as_numbers_and_handlers_come_back() -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with Signals() as signals:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        assert signals.take() == [signal.SIGTERM, signal.SIGINT]
        assert signals.take() == []
    assert {number: signal.getsignal(number) for number in before} == before


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Signals() as signals:
            signal.raise_signal(signal.SIGHUP)
            assert signals.take() == []
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.fixture
def sleeper() -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A process of a made-up job, in a session of its own."""
    job = uuid.uuid4().hex
    process = subprocess.Popen(
        ["sleep", "60"], env=os.environ | {"PYSHMEM_JOB": job}, start_new_session=True
    )
    while not Path(f"/proc/{process.pid}/environ").read_bytes():
        time.sleep(0.001)  # it is starting
    yield job, process
    process.kill()
    process.wait()


def test_processes_are_known_by_job_or_group(
    sleeper: tuple[str, subprocess.Popen[bytes]],
) -> None:
    job, process = sleeper
    leader = leftovers.Target(process.pid)
    assert leftovers.find(job) == [(process.pid, leader.start)]
    assert leftovers.find(job[:-1]) == []
    assert leftovers.find("no such job", [leader]) == [(process.pid, leader.start)]
    leader.close()


def test_leftovers_are_ended(sleeper: tuple[str, subprocess.Popen[bytes]]) -> None:
    job, process = sleeper
    assert leftovers.end(job) == 1
    assert process.wait(5) == -signal.SIGKILL
    assert leftovers.end(job) == 0


def test_leftovers_are_ended_on_a_machine_that_stands_still(
    sleeper: tuple[str, subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    job, process = sleeper
    monkeypatch.setattr(
        leftovers,
        "time",
        SimpleNamespace(monotonic=itertools.count(0, 100).__next__, sleep=time.sleep),
    )
    assert leftovers.end(job, grace=1) == 1
    assert process.wait(5) == -signal.SIGKILL


def test_the_guard_acts_only_when_the_launcher_was_killed(
    sleeper: tuple[str, subprocess.Popen[bytes]],
) -> None:
    job, process = sleeper
    guard = Guard(job)
    guard.dismiss()
    assert process.poll() is None
    guard = Guard(job)
    assert guard._process.stdin is not None
    guard._process.stdin.close()  # what the kernel does for a launcher that was killed
    assert guard._process.wait(10) == 0
    assert process.wait(5) == -signal.SIGKILL


@pytest.fixture
def python_in_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python that cannot start without LD_LIBRARY_PATH."""
    wrapper = tmp_path / "python"
    wrapper.write_text(
        '#!/bin/sh\n[ "$LD_LIBRARY_PATH" = "$0.d" ] || { echo "no libpython" >&2; exit 127; }\n'
        f'exec {sys.executable} "$@"\n'
    )
    wrapper.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(wrapper))
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{wrapper}.d")


@pytest.mark.usefixtures("python_in_need")
def test_the_guard_has_the_environment_that_its_python_needs(
    sleeper: tuple[str, subprocess.Popen[bytes]],
) -> None:
    job, process = sleeper
    guard = Guard(job)
    assert guard._process.stdin is not None
    guard._process.stdin.close()
    assert guard._process.wait(10) == 0
    assert process.wait(5) == -signal.SIGKILL


@pytest.mark.usefixtures("python_in_need")
def test_a_guard_that_cannot_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Guard("a").dismiss() == ""
    monkeypatch.delenv("LD_LIBRARY_PATH")
    assert Guard("a").dismiss() == "no libpython"


def test_the_guard_is_deaf_to_the_signals_of_a_batch_system() -> None:
    guard = Guard("a")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
        guard._process.send_signal(number)
    guard.dismiss()
    assert guard._process.returncode == 0


def test_the_guard_is_not_of_the_job_that_its_launcher_is_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outer = uuid.uuid4().hex
    monkeypatch.setenv("PYSHMEM_JOB", outer)
    guard = Guard("inner")
    assert leftovers.find(outer) == []
    guard.dismiss()


def test_without_proc_groups_are_ended_whole(
    sleeper: tuple[str, subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    job, process = sleeper
    monkeypatch.setattr(leftovers, "can_look", lambda: False)
    assert leftovers.find(job) == []
    assert leftovers.end(job, [leftovers.Target(process.pid)]) == 0
    assert process.wait(5) == -signal.SIGKILL


def test_leftovers_may_end_by_themselves() -> None:
    job = uuid.uuid4().hex
    with subprocess.Popen(["sleep", "0.2"], env=os.environ | {"PYSHMEM_JOB": job}) as process:
        assert leftovers.end(job, grace=600) == 0
    assert process.returncode == 0
