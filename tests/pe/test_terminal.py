# SPDX-License-Identifier: BSD-3-Clause
"""A job and its terminal: the keys that stop and end it, its input and output."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil


@contextmanager
def job_on_terminal(script: Path, n: int) -> Iterator[tuple[int, int]]:
    """The launcher of a job on ``n`` PEs, and the terminal it is on; who enters waits for its end."""
    pid, terminal = pty.fork()
    if pid == 0:
        command = [sys.executable, "-m", "pyshmem", "run", "-n", str(n), "--device", "none"]
        os.execv(sys.executable, [*command, str(script)])
    try:
        yield pid, terminal
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        raise
    finally:
        os.close(terminal)


def test_ctrl_c_on_a_terminal_reaches_each_pe_once(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(
        """
import os, signal, sys, time
seen = []
signal.signal(signal.SIGINT, lambda *a: seen.append(1))
me = os.environ["PYSHMEM_PE"]
if me == "0":
    print("read", input(), flush=True)
print("ready", flush=True)
end = time.monotonic() + 60
while not seen and time.monotonic() < end:
    time.sleep(0.01)
time.sleep(0.4)
os.write(1, f"PE {me} saw {len(seen)}\\n".encode())
"""
    )
    with job_on_terminal(script, 3) as (pid, terminal):
        os.write(terminal, b"Bob\n")
        _read_until(terminal, lambda text: text.count("ready") == 3)
        os.write(terminal, b"\x03")
        text = _read_until(terminal, lambda text: "ended by SIGINT" in text)
        _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 130
    assert sorted(re.findall(r"PE \d saw \d", text)) == [f"PE {pe} saw 1" for pe in range(3)]


def test_the_stop_key_stops_all_pes_until_the_job_goes_on(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(
        "import os, time\n"
        "os.write(1, f'pid {os.getpid()}\\n'.encode())\n"
        f"while not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(0.01)\n"
        "os.write(1, b'over\\n')\n"
    )
    with job_on_terminal(script, 2) as (pid, terminal):
        text = _read_until(terminal, lambda text: len(re.findall(r"pid \d+\r", text)) == 2)
        pes = [psutil.Process(int(found)) for found in re.findall(r"pid (\d+)", text)]
        os.write(terminal, b"\x1a")
        _, status = os.waitpid(pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        deadline = time.monotonic() + 60
        while {pe.status() for pe in pes} != {psutil.STATUS_STOPPED}:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        os.kill(pid, signal.SIGCONT)
        (tmp_path / "go").touch()
        _read_until(terminal, lambda text: text.count("over") == 2)
        _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def _read_until(terminal: int, done: Callable[[str], bool]) -> str:
    text, end = "", time.monotonic() + 60
    while not done(text) and time.monotonic() < end:
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                text += os.read(terminal, 4096).decode()
            except OSError:
                break  # the other side has closed
    assert done(text), text
    return text


def test_input_goes_to_pe_0(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    # One write a line: where PYTHONUNBUFFERED is set, print writes each of its values on its own.
    script.write_text(
        "import os, sys; print(f'{os.environ[\"PYSHMEM_PE\"]} {sys.stdin.read()!r}\\n', end='')"
    )
    command = [sys.executable, "-m", "pyshmem", "run", "-n", "2", "--device", "none", str(script)]
    done = subprocess.run(command, input="hello", capture_output=True, text=True, timeout=60)
    assert sorted(done.stdout.splitlines()) == ["0 'hello'", "1 ''"]


def test_output_that_a_full_disk_does_not_take_is_told(
    tmp_path: Path, run_command: Callable
) -> None:
    script = tmp_path / "program.py"
    script.write_text("print('here', flush=True)\nprint('and here', flush=True)")
    job = f"{sys.executable} -m pyshmem run -n 1 --tag --device none {script}"
    told = "pyshmem: output of PEs is lost: No space left on device\n"
    assert run_command(["bash", "-c", f"{job} >/dev/full"], 30).stderr == told
    assert run_command(["bash", "-c", f"{job} | true"], 30).stderr == ""


UNFINISHED = """
import sys
import pyshmem

with pyshmem.init(heap_size="1M") as job:
    for stream in sys.stdout, sys.stderr:
        if job.my_pe == 0:
            stream.write("a line of 0\\nanother of 0")  # as print does, before the end of the last line
        pyshmem.barrier_all()
        if job.my_pe == 1:
            print("a line of 1", file=stream)
        pyshmem.barrier_all()
        if job.my_pe == 0:
            stream.write("\\n")
"""


def test_a_text_of_several_lines_leaves_its_last_line_whole(run_pes: Callable) -> None:
    done = run_pes(2, UNFINISHED, check=True)
    for output in (done.stdout, done.stderr):
        assert sorted(output.splitlines()) == ["a line of 0", "a line of 1", "another of 0"]


def test_an_unfinished_line_is_there_when_it_is_asked_for(run_pes: Callable) -> None:
    program = """
    import sys
    import pyshmem

    with pyshmem.init(heap_size="1M") as job:
        if job.my_pe == 0:
            print("one\\ntwo", end="", flush=True)
        pyshmem.barrier_all()
        if job.my_pe == 1:
            pyshmem.global_exit(0)
        pyshmem.barrier_all()
    """
    assert run_pes(2, program).stdout == "one\ntwo"
