# SPDX-License-Identifier: BSD-3-Clause
"""What all tests share: running a program on N PEs, the PE counts, the tests that need a GPU."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

import pytest
from environment import clean_environment, listing, processes_of

#: Programs that tests run are no tests, whatever their names.
collect_ignore_glob = ["check/*/*"]
RunCommand = Callable[..., "subprocess.CompletedProcess[str]"]


def pytest_configure() -> None:
    """Have an editable install built by this process, and by none of those that the tests start."""
    import pyshmem  # noqa: F401

    # A shell begins what is to run in the background deaf to the terminal's keys, nohup to its end.
    usual = {signal.SIGINT: signal.default_int_handler}
    usual |= dict.fromkeys((signal.SIGQUIT, signal.SIGHUP), signal.SIG_DFL)
    for number, handler in usual.items():
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)
    os.environ["NINJA_IS_DONE"] = str(Path(__file__).parents[1] / "tools" / "ninja")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--pes",
        default="1,2,3,4",
        help="numbers of PEs on which tests that take n_pes run, as 1,2,4",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "n_pes" in metafunc.fixturenames and not _parametrized(metafunc):
        numbers = [int(n) for n in metafunc.config.getoption("--pes").split(",")]
        metafunc.parametrize("n_pes", numbers, ids=lambda n: f"{n}pe", scope="session")


def _parametrized(metafunc: pytest.Metafunc) -> bool:
    marks = metafunc.definition.iter_markers("parametrize")
    return any("n_pes" in str(mark.args[0]) for mark in marks)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave ``spmd`` to the jobs that run it, unless it is what was asked for."""
    if collection_path.name != "spmd" or "PYSHMEM_PE" in os.environ:
        return None
    return None if any("spmd" in argument for argument in config.args) else True


#: Files that take longest, which begin first, so that no process of ``make test`` is alone with one at
#: the end. The others stay in their order.
LONGEST = ("pe/test_suites_on_cpu.py",)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    places = {here / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))


#: By this word ``make test`` finds the files with serial tests, for to collect all takes seconds.
SERIAL = "mark.serial"


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem() -> Generator[None, Any, Any]:
    """Have no serial test in a file without the word: it would run in neither half of ``make test``."""
    made = yield
    for item in made if isinstance(made, list) else [made]:
        serial = isinstance(item, pytest.Item) and item.get_closest_marker("serial")
        if serial and not _is_found(item.path):
            raise pytest.Collector.CollectError(
                f"{item.name} is marked serial, but make test does not find its file, which lacks the "
                f'text "{SERIAL}": write @pytest.{SERIAL}, or pytestmark = pytest.{SERIAL}'
            )
    return made


@functools.cache
def _is_found(path: Path) -> bool:
    return SERIAL in path.read_text(encoding="utf-8")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") and not _has_gpu():
        pytest.skip("needs an NVIDIA GPU")


@functools.cache
def _has_gpu() -> bool:
    from pyshmem.host.job.runtime import gpu_count

    return gpu_count() > 0


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    for_gpu = [report for report in skipped if "gpu" in getattr(report, "keywords", ())]
    if for_gpu and not _has_gpu():
        terminalreporter.write_line(
            f"{len(for_gpu)} of the {len(skipped)} skipped tests need an NVIDIA GPU", yellow=True
        )


#: Times the time of a command, for machines that do much else (with PYTEST_TIMEOUT, a test's seconds).
PATIENCE = float(os.environ.get("TESTS_PATIENCE", "1"))


def _run_command(
    command: Sequence[str], timeout: float, *, check: bool = False, **extra: str
) -> subprocess.CompletedProcess[str]:
    process = subprocess.Popen(
        command,
        env=clean_environment(**extra),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=PATIENCE * timeout)
    except subprocess.TimeoutExpired:
        processes = listing(processes_of(process.pid))
        os.killpg(process.pid, signal.SIGKILL)
        try:
            output, errors = process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            output, errors = "(what it started holds its output, and still runs)", ""
        pytest.fail(
            f"{command} did not end in {timeout:g} s\n{output}\n{errors}\n{processes}",
            pytrace=False,
        )
    if check and process.returncode:
        pytest.fail(
            f"exit status {process.returncode}: {' '.join(map(str, command))}\n"
            f"---- stdout\n{output}\n---- stderr\n{errors}",
            pytrace=False,
        )
    return subprocess.CompletedProcess(list(command), process.returncode, output, errors)


@pytest.fixture(scope="session")
def run_command() -> RunCommand:
    """``run_command(command, timeout, check=False, **variables)``: run a command to its end.

    Past ``timeout`` its whole session is killed and the test fails. ``check`` fails the test, with
    all output, when the exit status is not 0. It does not see the job the tests may run in.
    """
    return _run_command


@pytest.fixture
def run_pes(tmp_path: Path, run_command: RunCommand) -> RunCommand:
    """``run_pes(n, script_or_code, args, ...)``: run a program on ``n`` PEs and return its outcome.

    ``script_or_code`` is a path, or the text of a Python program (indented as it may be).
    The result is a ``CompletedProcess`` with text; ``check=True`` fails the test if the job failed.
    """

    def run(
        n: int,
        script_or_code: str | Path,
        args: Sequence[object] = (),
        *,
        timeout: float = 60,
        device: str = "none",
        options: Sequence[str] = (),
        env: dict[str, str] | None = None,
        check: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        script = script_or_code
        if isinstance(script, str) and ("\n" in script or not Path(script).exists()):
            path = tmp_path / "program.py"
            path.write_text(textwrap.dedent(script))
            script = path
        command = [sys.executable, "-m", "pyshmem", "run", "-n", str(n), "--device", device]
        command += ["--timeout", f"{PATIENCE * timeout:g}", *options, str(script), *map(str, args)]
        return run_command(command, timeout + 15, check=check, **(env or {}))

    return run
