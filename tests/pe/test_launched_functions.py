# SPDX-License-Identifier: BSD-3-Clause
"""``pyshmem.launch``: functions of this module, and others that only exist in memory, on PEs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import pyshmem
from pyshmem.launcher import leftovers


@pytest.fixture(autouse=True)
def no_job_around(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSHMEM_DEVICE", "none")


def from_the_left(number: int) -> np.ndarray:
    """Counted init; the array outlives the job as a copy."""
    with pyshmem.init() as job:
        box = pyshmem.zeros(1, dtype=np.int64)
        pyshmem.p(box, number + job.my_pe, (job.my_pe + 1) % job.n_pes)
        pyshmem.barrier_all()
        print(f"PE {job.my_pe} was here")
        return box


def test_results_come_in_the_order_of_pes_and_output_by_pe(
    capsys: pytest.CaptureFixture[str],
) -> None:
    results = pyshmem.launch(from_the_left, 3, 10)
    assert [type(result) for result in results] == [np.ndarray] * 3
    assert [int(result[0]) for result in results] == [12, 10, 11]
    lines = capsys.readouterr().out.splitlines()
    assert sorted(lines) == [f"[{pe}] PE {pe} was here" for pe in range(3)]


def test_functions_without_a_module_are_sent_whole(tmp_path: Path) -> None:
    scope = {"__name__": "__main__", "os": os, "scale": 3}
    exec("def scaled(x):\n    print('o', x)\n    return scale * x, os.environ['MARK']", scope)
    assert (
        pyshmem.launch(scope["scaled"], 2, 5, output=tmp_path / "out", env={"MARK": "m"})
        == [(15, "m")] * 2
    )
    files = sorted((tmp_path / "out").iterdir())
    assert [(path.name, path.read_text()) for path in files] == [
        ("pe-0.txt", "o 5\n"),
        ("pe-1.txt", "o 5\n"),
    ]


def test_a_function_of_a_script_is_shown_with_its_lines(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import pyshmem\n\n"
        "def outer():\n"
        "    def fails():\n"
        "        raise ValueError('no such row')  # the line\n"
        "    fails()\n\n"
        "pyshmem.launch(outer, 2)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
    for line, name in ((6, "outer"), (5, "fails")):
        assert f'File "{script}", line {line}, in {name}\n' in done.stderr
    assert "raise ValueError('no such row')  # the line\n" in done.stderr


def test_functions_sent_whole_name_what_is_predefined() -> None:
    scope = {"__name__": "__main__", "world": pyshmem.TEAM_WORLD, "context": pyshmem.CTX_DEFAULT}
    exec("def place():\n    world.sync()\n    context.quiet()\n    return world.my_pe()", scope)
    assert pyshmem.launch(scope["place"], 2) == [0, 1]


@pytest.mark.parametrize("fails", [False, True])
def test_a_child_that_returns_from_the_function_gives_no_result(
    fails: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    def forks() -> int:
        child = os.fork()
        if child == 0 and fails:
            raise LookupError("of the child")
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) if child else -1

    assert pyshmem.launch(forks, 2) == [int(fails)] * 2
    assert capfd.readouterr().err.count("LookupError: of the child") == 2 * fails


def fail_on_one() -> None:
    if pyshmem.my_pe() == 1:
        raise KeyError("no such row")
    pyshmem.barrier_all()


def test_an_exception_comes_back_with_the_traceback_of_its_pe() -> None:
    with pytest.raises(
        pyshmem.LaunchError, match=r"PE 1 of 3 failed: KeyError: 'no such row'"
    ) as e:
        pyshmem.launch(fail_on_one, 3, output="none")
    assert "in fail_on_one" in str(e.value)
    assert isinstance(e.value.__cause__, KeyError)
    first, *others = (failure.pe for failure in e.value.failures)
    assert (first, sorted(others)) == (1, [0, 2])
    assert [failure.secondary for failure in e.value.failures] == [False, True, True]
    assert isinstance(e.value.failures[1].exception, pyshmem.PeerDied)


def fail_by_hearsay(explicit: bool) -> None:
    if pyshmem.my_pe() == 1:
        raise KeyError("no such row")
    try:
        pyshmem.barrier_all()
    except pyshmem.PeerDied as error:
        if explicit:
            raise RuntimeError("the step is lost") from error
        raise RuntimeError("the step is lost")  # noqa: B904


@pytest.mark.parametrize("explicit", [True, False])
def test_what_a_failure_elsewhere_leads_to_is_not_the_cause(explicit: bool) -> None:
    with pytest.raises(pyshmem.LaunchError, match="PE 1 of 2 failed: KeyError") as e:
        pyshmem.launch(fail_by_hearsay, 2, explicit, output="none")
    assert [(one.pe, one.secondary) for one in e.value.failures] == [(1, False), (0, True)]


def end_as(how: str) -> object:
    if how == "signal":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "exit":
        os._exit(0)
    return (number for number in range(3))


@pytest.mark.parametrize(
    ("how", "text", "code"),
    [
        ("signal", "was killed by SIGKILL", -signal.SIGKILL),
        ("exit", "ended with exit code 0 before its function returned", 0),
        ("result", "the result, a generator, cannot be sent back", 1),
    ],
)
def test_pes_that_give_no_result_are_named(how: str, text: str, code: int) -> None:
    with pytest.raises(pyshmem.LaunchError, match=f"PE 0 of 1.*{text}") as e:
        pyshmem.launch(end_as, 1, how, output="none")
    assert e.value.failures[0].exit_code == code


def hang_on_one() -> None:
    if pyshmem.my_pe() == 1:
        time.sleep(600)
    pyshmem.barrier_all()


def test_a_hang_is_ended_and_told() -> None:
    for seconds in (2.5, 10, 40):  # a slow machine takes as long to start
        with pytest.raises(pyshmem.LaunchError, match=f"still running after {seconds} s") as e:
            pyshmem.launch(hang_on_one, 2, timeout=seconds, output="none")
        if "PE 0: in barrier_all" in str(e.value):
            break
    assert e.value.failures[0].pe == 1
    assert "in hang_on_one" in e.value.failures[0].traceback
    assert "PE 0: in barrier_all" in str(e.value)
    assert pyshmem.launch(pyshmem.my_pe, 2) == [0, 1]  # the caller goes on


def test_ctrl_c_ends_the_pes_and_is_a_keyboard_interrupt(tmp_path: Path) -> None:
    def sleep() -> None:
        (tmp_path / str(pyshmem.my_pe())).write_text(os.environ["PYSHMEM_JOB"])
        time.sleep(600)

    def interrupt() -> None:
        while len(list(tmp_path.iterdir())) < 2:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        pyshmem.launch(sleep, 2, timeout=60)
    assert not leftovers.find((tmp_path / "0").read_text())


def test_other_threads_may_call_it_too() -> None:
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.extend(pyshmem.launch(pyshmem.my_pe, 2)))
    thread.start()
    thread.join()
    assert found == [0, 1]


def test_mistakes_are_told_before_anything_starts() -> None:
    with pytest.raises(ValueError, match="n_pes is 0"):
        pyshmem.launch(from_the_left, 0)
    with pytest.raises(ValueError, match="timeout is nan"):
        pyshmem.launch(pyshmem.my_pe, 2, timeout=float("nan"))
    with pytest.raises(TypeError, match="function is an int"):
        pyshmem.launch(7, 1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="output is 'files'"):
        pyshmem.launch(from_the_left, 1, output="files")
    with pytest.raises(pyshmem.LaunchError, match="cannot be sent to the PEs"):
        pyshmem.launch(from_the_left, 1, threading.Lock())
    with pytest.raises(ValueError, match="bind is 'socket'"):
        pyshmem.launch(from_the_left, 1, 0, bind="socket")
    assert "PYSHMEM_PE" not in os.environ
    assert sys.modules["pyshmem"].launch is pyshmem.launch


def what_things_are_called() -> list[str]:
    array = pyshmem.zeros(2, dtype=np.int64)
    team = pyshmem.TEAM_WORLD
    found = [repr(array), repr(array[:1]), repr(team), repr(pyshmem.Context(team=team))]
    return [*found, str(pyshmem.heap_info()), repr(array + 1)]


def test_reprs_say_heap_pe_and_size() -> None:
    found = pyshmem.launch(what_things_are_called, 2, env={"PYSHMEM_HEAP_SIZE": "4M"})[1]
    team = "<pyshmem team TEAM_WORLD: PE 1 of 2>"
    assert found[:2] == [f"SymmetricArray({v}, heap='host', pe=1)" for v in ("[0, 0]", "[0]")]
    assert found[2:4] == [team, f"<pyshmem context on {team}>"]
    assert " of 4 MiB in 1 blocks" in found[4]
    assert found[5] == "array([1, 1])"
