# SPDX-License-Identifier: BSD-3-Clause
"""The ``LaunchError`` of a job that ``pyshmem.launch`` started and that failed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..._core.errors import Failure, LaunchError
from ..job import Job
from ..output import report
from ..process import Process

_FRAMES = 12  # of a PE that hung, the innermost first


def error_of(job: Job, found: Sequence[dict[str, Any]]) -> LaunchError:
    """The exception of a job that failed; its cause is that of the PE that failed first."""
    places = dict(job.ending.standing) if job.ending is not None else {}
    died = {process.pe: number for number, process in enumerate(job.failed)}
    timed_out = job.ending is not None and bool(job.ending.what)
    failures = [
        _failure_of(
            process, answer, places.get(process.pe, "unknown"), process.pe in died, timed_out
        )
        for process, answer in zip(job.processes, found, strict=True)
        if process.returncode or "value" not in answer
    ]
    failures.sort(key=lambda one: (one.secondary, died.get(one.pe, len(died)), one.pe))
    error = LaunchError("\n".join(_text_of(job, failures, found, places)), failures)
    error.__cause__ = failures[0].exception
    return error


def _failure_of(
    process: Process, answer: dict[str, Any], where: str, by_itself: bool, timed_out: bool
) -> Failure:
    lines = tuple(process.last_lines())
    if "error" in answer:
        secondary = bool(answer["secondary"])
    elif by_itself:
        secondary = report.is_secondary(lines)
    else:  # a signal of ours ended it: it hung, or there was a failure before
        secondary = not timed_out
    its_own = (by_itself and not process.cut_short) or (process.returncode or 0) >= 0
    its_own = its_own and process.returncode != report.UNKNOWN
    return Failure(
        pe=process.pe,
        exit_code=process.returncode if its_own else None,
        exception=answer.get("exception"),
        traceback=answer.get("traceback", ""),
        where=where,
        output=lines,
        secondary=secondary,
    )


def _text_of(
    job: Job,
    failures: Sequence[Failure],
    found: Sequence[dict[str, Any]],
    places: Mapping[int, str],
) -> Iterator[str]:
    first = failures[0]
    n_pes = job.spec.n_pes
    if job.ending is not None and job.ending.what:  # it was not a PE that failed
        yield f"{job.ending.what}, {n_pes} PEs"
        yield from (f"  {line}" for line in report.standing(job.ending.standing))
        for failure in failures:
            if failure.traceback:
                lines = failure.traceback.rstrip().splitlines()
                yield f"PE {failure.pe}:"
                yield from _of_program(lines) if failure.exit_code is None else lines
        return
    # Who has heard of the failure may have finalised by the time we look.
    others = {pe: at for pe, at in places.items() if pe != first.pe and at != "finalised"}
    if error := found[first.pe].get("error"):
        yield f"PE {first.pe} of {n_pes} failed: {error}"
        yield from first.traceback.rstrip().splitlines()
    elif first.exit_code == 0:
        yield f"PE {first.pe} of {n_pes} ended with exit code 0 before its function returned"
    else:
        yield f"PE {first.pe} of {n_pes} {job.processes[first.pe].how_it_ended()}"
        yield from (f"    {line.strip()}" for line in report.last_words(first.output))
    yield from (f"  {line}" for line in report.standing(list(others.items())))
    more = [
        (failure.pe, f"failed too: {found[failure.pe].get('error', 'it ended')}")
        for failure in failures[1:]
        if not failure.secondary
    ]
    yield from (f"  {line}" for line in report.alike(more))


def _of_program(stack: Sequence[str]) -> list[str]:
    """Of the stack of a PE that hung: the program's frames; all where it has none there."""
    head = [line for line in stack[:1] if "most recent call first" in line]
    own = [line for line in stack[len(head) :] if not report.is_of_others(line)]
    return [*head, *own][:_FRAMES] if own else list(stack[:_FRAMES])
