# SPDX-License-Identifier: BSD-3-Clause
"""Plugin for pytest: ``@pytest.mark.pes(4)`` runs a test on 4 PEs of this host.

Each PE is a pytest of its own, in a process that ``pyshmem.launch`` started and after ``init``: it has
the fixtures, parameters and marks of the test, and a failure is that of the first PE that failed by
itself, with what it printed. ``pes([1, 2, 4])`` makes a test a number of PEs, and ``-k pes=4`` selects
some. The marked tests of a file share a job; after a failure the others get a new one. In a job
(``python -m pyshmem run -n 4 -m pytest``) the tests for its number of PEs run as they are, and the
others are skipped.
"""

from __future__ import annotations

import contextlib
import gc
import io
import itertools
import os
import shlex
import sys
from collections.abc import Sequence
from typing import Any

import pytest

_PARAMETER = "_pes"
_KEY = pytest.StashKey[dict[str, list[pytest.TestReport]]]()


class PEFailed(Exception):
    """A test failed on a PE: what its pytest reported up to there."""

    def __init__(self, text: str, reports: list[dict[str, Any]]) -> None:
        super().__init__(text, reports)
        self.text, self.reports = text, reports

    def __str__(self) -> str:
        """What other PEs are told of it: not all of the text."""
        failed = [report["nodeid"] for report in self.reports if report["outcome"] == "failed"]
        return ", ".join(failed) or "its pytest ended with an error"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Two settings of the ini file."""
    parser.addini("pes_timeout", "seconds that a job of tests marked pes may take", default="600")
    parser.addini("pes_arguments", "more arguments of the pytest of each PE", default="")


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known."""
    config.addinivalue_line(
        "markers",
        "pes(n, timeout=None, env=None): run on n PEs; a list of numbers makes a test of each",
    )
    try:
        shlex.split(config.getini("pes_arguments"))
    except ValueError as error:
        text = f"pes_arguments = {config.getini('pes_arguments')!r} in the ini file: {error}"
        raise pytest.UsageError(text) from None
    _default_timeout(config)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test a number of PEs; the mark is checked here, while tests are collected."""
    mark = metafunc.definition.get_closest_marker("pes")
    if mark is None:
        return
    try:
        numbers = _numbers_of(mark)
    except (TypeError, ValueError) as error:
        # One of collection: it fails this file and not the session, and is shown without a traceback.
        raise pytest.Collector.CollectError(
            f"{metafunc.definition.nodeid}: pytest.mark.pes: {error}"
        ) from None
    metafunc.fixturenames.append(_PARAMETER)
    metafunc.parametrize(_PARAMETER, numbers, ids=lambda n: f"pes={n}")


def _numbers_of(mark: pytest.Mark) -> list[int]:
    """The numbers of PEs that a mark asks for.

    Raises: TypeError, ValueError: for whatever is wrong in it, the arguments by name too.
    """
    from pyshmem.launcher.call import arguments

    if len(mark.args) != 1:
        raise TypeError(f"{len(mark.args)} arguments; give pes(n) or pes([n, ...])")
    if unknown := sorted(mark.kwargs.keys() - {"timeout", "env"}):
        raise TypeError(f"there is no {unknown[0]}=; it takes timeout= and env=")
    if mark.kwargs.get("timeout") is not None:
        arguments.seconds(mark.kwargs["timeout"], "timeout")
    if mark.kwargs.get("env") is not None:
        arguments.environment(mark.kwargs["env"])
    several = isinstance(mark.args[0], Sequence) and not isinstance(mark.args[0], (str, bytes))
    given = list(mark.args[0]) if several else [mark.args[0]]
    if not given:
        raise ValueError("an empty list of numbers; give pes(n) or pes([n, ...])")
    numbers = [arguments.number_of_pes(number, "n") for number in given]
    if len(set(numbers)) < len(numbers):
        raise ValueError(f"{numbers} has a number twice")
    return numbers


def _default_timeout(config: pytest.Config) -> float:
    """What the ini file says.

    Raises: pytest.UsageError.
    """
    text = config.getini("pes_timeout")
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:  # NaN neither
        raise pytest.UsageError(f"pes_timeout = {text!r} in the ini file; give seconds, as 600")
    return seconds


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(name: str, obj: object) -> list[pytest.Item] | None:
    """``from pyshmem import *`` brings routines called ``test_...``, which are no tests."""
    package = str(getattr(obj, "__module__", "")).partition(".")[0]
    return [] if package == "pyshmem" and getattr(obj, "__test__", None) is False else None


def _pes_of(item: pytest.Item) -> int | None:
    callspec = getattr(item, "callspec", None)
    return None if callspec is None else callspec.params.get(_PARAMETER)


def _in_a_job() -> bool:
    return "PYSHMEM_PE" in os.environ


def pytest_runtest_setup(item: pytest.Item) -> None:
    """In a job a test runs as it is, if it is for that number of PEs."""
    wanted = _pes_of(item)
    if wanted is None or not _in_a_job():
        return
    import pyshmem

    if not pyshmem.initialized():
        pyshmem.init()
    if pyshmem.n_pes() != wanted:
        pytest.skip(f"for {wanted} PEs; the job has {pyshmem.n_pes()}")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> None:
    """What a test failed by is shown in its lines, and what an unmarked one lacks is told."""
    tracebacks = sys.modules.get("pyshmem.host.job.tracebacks")
    if call.excinfo is None or tracebacks is None or item.config.getoption("fulltrace", False):
        return
    error = call.excinfo.value
    import pyshmem

    if isinstance(error, pyshmem.NotInitialized) and not _in_a_job():
        error.add_note("a test on PEs is marked, and runs in a job then: @pytest.mark.pes(2)")
    tracebacks.shorten(error)
    call.excinfo = pytest.ExceptionInfo.from_exception(error)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Outside a job: have the PEs run the test, and report what they reported."""
    if _pes_of(item) is None or _in_a_job():
        return None
    hook = item.ihook
    hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    known = item.session.stash.setdefault(_KEY, {})
    if item.nodeid not in known:
        known |= _run(_company_of(item, known))
    for report in known[item.nodeid]:
        hook.pytest_runtest_logreport(report=report)
    _end_what_is_not_needed(item, nextitem)
    hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _end_what_is_not_needed(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End the fixtures of this process that the test before kept for this file, if it is the last.

    The hook ``pytest_runtest_teardown`` is for items that were set up in this process; the state of
    the fixtures has no public way in, and other plugins that run items themselves take this one.
    """
    state = item.session._setupstate
    call = pytest.CallInfo.from_call(lambda: state.teardown_exact(nextitem), when="teardown")
    if call.excinfo is not None:
        report = pytest.TestReport.from_item_and_call(item, call)
        item.ihook.pytest_runtest_logreport(report=report)


def _company_of(item: pytest.Item, known: dict[str, Any]) -> list[pytest.Item]:
    """The tests that share a job with ``item``: of its file, for as many PEs, not run yet."""
    if hasattr(item.config, "workerinput"):  # of xdist, which gives tests out one by one
        return [item]
    own = _mark_of(item)
    return [
        other
        for other in item.session.items
        if other.path == item.path
        and _pes_of(other) == _pes_of(item)
        and other.get_closest_marker("pes") == own
        and other.nodeid not in known
    ]


# ---- the side of the caller ------------------------------------------------------------------


def _run(items: Sequence[pytest.Item]) -> dict[str, list[pytest.TestReport]]:
    """Run tests for the same number of PEs; return the reports of each."""
    import pyshmem

    found: dict[str, list[pytest.TestReport]] = {}
    waiting = list(items)
    while waiting:
        nodeids = [item.nodeid for item in waiting]
        config = waiting[0].config
        try:
            by_pe = pyshmem.launch(
                _on_a_pe,
                _pes_of(waiting[0]) or 1,
                _arguments(config),
                str(config.rootpath),
                nodeids,
                timeout=_timeout(waiting[0]),
                output="none",
                env=_mark_of(waiting[0]).kwargs.get("env"),
            )
            reports = _merged(by_pe)
        except pyshmem.LaunchError as error:
            cause = error.failures[0].exception if error.failures else None
            if isinstance(cause, PEFailed) and cause.reports:
                where = f"PE {error.failures[0].pe} of {_pes_of(waiting[0])}"
                standing = _standing(error)
                reports = [
                    report | {"sections": _sections(report, where, standing)}
                    for report in cause.reports
                ]
            elif len(waiting) > 1:  # it is not known which test it was
                return found | {k: v for item in waiting for k, v in _run([item]).items()}
            else:
                text = cause.text if isinstance(cause, PEFailed) else str(error)
                return found | {nodeids[0]: [_crash(waiting[0], text)]}
        except (OSError, ValueError) as error:  # no job could be started: of these tests alone
            text = f"{type(error).__name__}: {error}"
            return found | {item.nodeid: [_crash(item, text)] for item in waiting}
        for data in reports:
            report = config.hook.pytest_report_from_serializable(config=config, data=data)
            found.setdefault(report.nodeid, []).append(report)
        missing = [item for item in waiting if item.nodeid not in found]
        if len(missing) == len(waiting):
            return found | {
                item.nodeid: [_crash(item, "the PEs' pytest did not find it")] for item in missing
            }
        waiting = missing
    return found


def _mark_of(item: pytest.Item) -> pytest.Mark:
    mark = item.get_closest_marker("pes")
    assert mark is not None
    return mark


def _timeout(item: pytest.Item) -> float:
    return float(_mark_of(item).kwargs.get("timeout") or _default_timeout(item.config))


def _arguments(config: pytest.Config) -> list[str]:
    """The arguments of the PEs' pytest: where the tests are, how they are imported and shown."""
    option = config.option
    found = [f"--rootdir={config.rootpath}", f"--import-mode={option.importmode}", "--maxfail=1"]
    found += ["-c", str(config.inipath)] if config.inipath else []
    for ini in option.override_ini or ():
        found += ["-o", ini]
    # Hypothesis' plugin is about its summary, and takes a second that a failing job does not have.
    found += ["-v"] * max(option.verbose, 0)
    found += ["-p", "no:cacheprovider", "-p", "no:hypothesispytest"]
    return found + shlex.split(config.getini("pes_arguments"))


def _merged(by_pe: Sequence[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Of reports of PEs on which nothing failed: skipped is what all have skipped."""
    return [
        next((report for report in same if report["outcome"] != "skipped"), same[0])
        for same in zip(*by_pe, strict=True)
    ]


def _standing(error: Any) -> str:
    """Of a job that was ended as its time was over: that, and where its PEs stood."""
    lines = str(error).splitlines()
    told = itertools.takewhile(lambda line: line.startswith("  "), lines[1:])
    return "\n".join([lines[0], *told]) if lines[0].startswith("job still running") else ""


def _sections(report: dict[str, Any], where: str, standing: str) -> list[Any]:
    sections = [(f"{title} ({where})", text) for title, text in report["sections"]]
    if report["outcome"] != "failed":
        return sections
    return [*sections, ("failed on", where), *([("the job", standing)] if standing else [])]


def _crash(item: pytest.Item, text: str) -> pytest.TestReport:
    return pytest.TestReport(item.nodeid, item.location, {}, "failed", text, "call")


# ---- the side of a PE ------------------------------------------------------------------------


class _Recorder:
    """Keeps the reports of this PE as plain data."""

    def __init__(self) -> None:
        self.reports: list[dict[str, Any]] = []
        self.failed = False
        self.skipped = ""  # the first test that was, by itself
        self.cause: BaseException | None = None

    def pytest_configure(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self.reports.append(data)
        if report.skipped and report.when == "call" and not self.skipped:
            self.skipped = report.nodeid.rpartition("::")[2]
        if report.failed and not self.failed:
            self.failed = True
            # A job that is over its time gives its PEs a second to say where they were, and pytest
            # collects garbage some times at its end: this process has none that anybody needs.
            gc.freeze()

    def pytest_exception_interact(self, call: pytest.CallInfo[Any]) -> None:
        if call.excinfo is not None:
            self.cause = self.cause or call.excinfo.value


def _name_end(skipped: str) -> None:
    """Have other PEs, which may wait in the test ``skipped`` for this one, told why it is at its end."""
    from pyshmem._core.library import lib

    lib.ishmemx_name_waits(f"finalize, having skipped {skipped}".encode())


def _on_a_pe(arguments: list[str], folder: str, nodeids: list[str]) -> list[dict[str, Any]]:
    """Run tests in this PE; a failure here ends the job, for the other PEs may wait for this one."""
    os.chdir(folder)
    recorder, text = _Recorder(), io.StringIO()
    with contextlib.redirect_stdout(text):
        status = pytest.main([*arguments, *nodeids], plugins=[recorder])
    if recorder.failed or status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        # With its cause, by which a PE that only heard of a failure is told from the one that failed.
        raise PEFailed(text.getvalue(), recorder.reports) from recorder.cause
    if recorder.skipped:
        _name_end(recorder.skipped)
    return recorder.reports
