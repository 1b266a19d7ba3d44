# SPDX-License-Identifier: BSD-3-Clause
"""``pyshmem.launch`` in programs of all kinds: their streams, paths, children and handlers."""

from __future__ import annotations

import io
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pyshmem


@pytest.fixture(autouse=True)
def no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSHMEM_DEVICE", "none")


def opened() -> int:
    return len(os.listdir("/proc/self/fd"))


# ---- streams -----------------------------------------------------------------------------------


class Broken(io.StringIO):
    """As a notebook whose client is gone."""

    def write(self, text: str) -> int:
        raise RuntimeError("nobody is there")


class Unflushed(io.StringIO):
    def flush(self) -> None:
        raise ConnectionError


def closed() -> io.StringIO:
    stream = io.StringIO()
    stream.close()
    return stream


STREAMS = {
    "full": Path("/dev/full").open,
    "broken": Broken,
    "unflushed": Unflushed,
    "closed": closed,
    "none": lambda: None,
    "no stream": object,
}


def prints() -> int:
    pyshmem.barrier_all()
    for _ in range(200):
        print("x" * 100, flush=True)
    return pyshmem.my_pe()


@pytest.mark.parametrize("stream", STREAMS)
def test_a_stream_that_cannot_be_written_costs_the_output_alone(
    stream: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    before = opened()
    with monkeypatch.context() as patch:
        made = STREAMS[stream](*("w" if stream == "full" else ()))
        patch.setattr(sys, "stdout", made)
        assert pyshmem.launch(prints, 3) == [0, 1, 2]
    if stream == "full":
        made.buffer.raw.close()
    assert opened() == before
    told = capfd.readouterr().err.count("pyshmem: output of PEs is lost: ")
    assert told == (0 if stream == "none" else 3)


@pytest.mark.parametrize("encoding", ["latin-1", "ascii", "utf-8", "cp437"])
def test_characters_that_a_stream_lacks_are_replaced(
    encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, newline="")
    monkeypatch.setattr(sys, "stdout", stream)
    assert pyshmem.launch(print, 1, "\u2192 \u00fc", output="plain", env={"PYTHONUTF8": "1"}) == [
        None
    ]
    stream.seek(0)
    assert stream.read() == "\u2192 \u00fc\n".encode(encoding, "replace").decode(encoding)


def test_what_python_takes_in_paths_and_arguments_goes_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, tmp_path, b"/", None, "name\udce9"])
    monkeypatch.setattr(sys, "argv", [Path("a"), "name\udce9"])
    (path,) = pyshmem.launch(lambda: (sys.path[-2:], sys.argv), 1)
    assert path == ([str(tmp_path), "name\udce9"], ["a", "name\udce9"])


# ---- children of the program --------------------------------------------------------------------


@pytest.fixture
def ends_ignored() -> Iterator[None]:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    yield
    assert signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN
    signal.signal(signal.SIGCHLD, before)


def end_as(how: str) -> int:
    if pyshmem.my_pe():
        if how == "code":
            os._exit(3)
        if how == "signal":
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "exception":
            raise KeyError("no such row")
        pyshmem.barrier_all()
        return 1
    pyshmem.barrier_all()
    return 0


def outcome(how: str) -> Any:
    try:
        return pyshmem.launch(end_as, 2, how, output="none")
    except pyshmem.LaunchError as error:
        return str(error).splitlines()[0], error.failures[0]


@pytest.mark.usefixtures("ends_ignored")
@pytest.mark.parametrize(
    ("how", "text", "code"),
    [("code", "exit code 3", 3), ("signal", "SIGKILL", -9), ("exception", "no such row", 1)],
)
def test_how_pes_ended_is_known_where_ends_are_ignored(how: str, text: str, code: int) -> None:
    said, failure = outcome(how)
    assert said.startswith("PE 1 of 2 ")
    assert text in said
    assert failure.exit_code == code
    assert outcome("well") == [0, 1]


@pytest.mark.usefixtures("ends_ignored")
def test_other_threads_say_that_they_cannot_know_how_pes_ended() -> None:
    found: list[Any] = []
    for how in ("code", "exception", "well"):
        thread = threading.Thread(target=lambda how=how: found.append(outcome(how)))
        thread.start()
        thread.join()
    assert found[0][0].startswith("PE 1 of 2 ended, and with which exit code is not known: this ")
    assert found[0][1].exit_code is None
    assert found[1][0] == "PE 1 of 2 failed: KeyError: 'no such row'"
    assert found[2] == [0, 1]


def test_children_that_end_meanwhile_are_waited_for_where_ends_are_ignored(
    ends_ignored: None,
) -> None:
    child = subprocess.Popen(["sleep", "0.1"])
    pyshmem.launch(time.sleep, 1, 0.3)
    assert not Path(f"/proc/{child.pid}").exists()
    child.wait()


def test_a_handler_that_waits_for_all_children_takes_no_exit_code() -> None:
    waited: list[int] = []

    def wait_for_all(*_: object) -> None:
        try:
            while found := os.waitpid(-1, os.WNOHANG)[0]:
                waited.append(found)
        except ChildProcessError:
            pass

    before = signal.signal(signal.SIGCHLD, wait_for_all)
    try:
        assert outcome("code")[1].exit_code == 3
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_an_exception_of_a_handler_ends_the_job_and_is_raised() -> None:
    def ring(*_: object) -> None:
        raise TimeoutError("the program's own")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        with pytest.raises(TimeoutError, match="the program's own"):
            pyshmem.launch(time.sleep, 2, 600)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        assert signal.signal(signal.SIGALRM, before) is ring


def test_a_handler_that_raises_nothing_is_called_and_ends_nothing() -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, frame: seen.append(number))
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    try:
        assert pyshmem.launch(pyshmem.my_pe, 2) == [0, 1]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert seen


# ---- children of the PEs ------------------------------------------------------------------------


def pool() -> list[int]:
    with multiprocessing.get_context("fork").Pool(2) as workers:
        return workers.map(abs, [-1, 2, -3])


def terminated() -> int:
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
    child.start()
    child.terminate()
    child.join()
    return child.exitcode or 0


def terminated_with_its_own_handler() -> int:
    """A handler that the PE has set is its children's too."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(7))
    ready, tell = os.pipe()
    child = os.fork()
    if not child:
        os.write(tell, b"!")
        time.sleep(600)
    os.read(ready, 1)
    os.kill(child, signal.SIGTERM)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def forked_without_python() -> int:
    """A child that none of Python's hooks saw: what it writes is in nobody's way."""
    import ctypes

    child = ctypes.PyDLL(None).fork()
    if not child:
        time.sleep(600)
    os.kill(child, signal.SIGTERM)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def seen_by_a_program() -> bool:
    """A program that the PE starts without closing anything: the call and the answer are not there."""
    return "pyshmem-" in subprocess.run(
        ["ls", "-l", "/proc/self/fd"], close_fds=False, capture_output=True, text=True, check=True
    ).stdout.replace("pyshmem-control", "")


@pytest.mark.parametrize(
    ("function", "result"),
    [
        (pool, [1, 2, 3]),
        (terminated, -signal.SIGTERM),
        (terminated_with_its_own_handler, 7),
        (forked_without_python, -signal.SIGTERM),
        (seen_by_a_program, False),
    ],
)
def test_children_of_a_pe_leave_its_answer_alone(function: Any, result: object) -> None:
    assert pyshmem.launch(function, 2, timeout=60) == [result] * 2


# ---- arguments ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argument", "value", "kind"),
    [
        *(("timeout", value, TypeError) for value in ("5", b"5", True, [1], 1j)),
        *(("timeout", value, ValueError) for value in (0, -1, float("nan"))),
        *(("output", value, TypeError) for value in (None, 5, b"prefix", Path)),
        ("output", "files", ValueError),
        ("output", Path("a\0b"), ValueError),
        *(("env", value, TypeError) for value in ("A=1", [("A", "1")], {"N": 1}, {1: "a"})),
        *(("env", value, TypeError) for value in ({"A": None}, {"A": b"1"})),
        *(("env", {name: "1"}, ValueError) for name in ("", "A=B", "A\0", "\ud800")),
        *(("env", {"A": value}, ValueError) for value in ("a\0b", "\ud800")),
        *(("env", {f"PYSHMEM_{name}": "0"}, ValueError) for name in ("PE", "JOB", "CONTROL_FD")),
        *(("env", {"PYSHMEM_DEVICE": value}, ValueError) for value in ("gpu", "cuda:0")),
        ("env", {"PYSHMEM_HEAP_SIZE": "junk"}, ValueError),
        ("env", {"PYSHMEM_TIMEOUT": "soon"}, ValueError),
        ("env", {"SHMEM_SYMMETRIC_SIZE": "junk"}, ValueError),
        ("env", {"PYSHMEM_CUTOVER_PUT": "1:2:3=much"}, ValueError),
        ("env", {"PYSHMEM_CUTOVER_STREAMS": "nothing"}, ValueError),
        ("env", {"PYSHMEM_TUNE_FILE": "/there/is/none"}, ValueError),
        ("bind", 5, ValueError),
        ("bind", "socket", ValueError),
    ],
)
def test_a_wrong_argument_is_named_before_anything_starts(
    argument: str, value: Any, kind: type[Exception]
) -> None:
    with pytest.raises(kind, match=argument) as error:
        pyshmem.launch(pyshmem.my_pe, 1, **{argument: value})
    assert not isinstance(error.value, pyshmem.LaunchError)


def test_swapped_and_odd_first_arguments_say_the_way_out() -> None:
    with pytest.raises(TypeError, match=r"give launch\(function, n_pes\)"):
        pyshmem.launch(2, pyshmem.my_pe)  # type: ignore[arg-type]
    for odd in ("2", 2.0, None, True):
        with pytest.raises(TypeError, match="n_pes is "):
            pyshmem.launch(pyshmem.my_pe, odd)  # type: ignore[arg-type]


def test_right_arguments_of_other_types_are_taken() -> None:
    import numpy as np

    found = pyshmem.launch(
        os.getenv, np.int64(2), "A", timeout=np.float32(60), env={"A": "", "PYSHMEM_CHECK": ""}
    )
    assert found == ["", ""]
    assert pyshmem.launch(pyshmem.my_pe, 1, timeout=float("inf")) == [0]
    for device in ("", "NONE"):
        assert pyshmem.launch(pyshmem.my_pe, 1, env={"PYSHMEM_DEVICE": device}) == [0]
    with pytest.raises(pyshmem.LaunchError, match="oshrun"):
        pyshmem.launch(pyshmem.my_pe, 1, env={"PYSHMEM_CONDUIT": "OpenSHMEM"})


def test_a_folder_that_cannot_be_made_is_told_as_the_output(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(OSError, match="output: "):
            pyshmem.launch(pyshmem.my_pe, 1, output=folder)
