# SPDX-License-Identifier: BSD-3-Clause
"""``pyshmem.launch``: a function on N PEs, from a script, a test or a notebook.

The PEs are fresh interpreters (``pe.py``): a process that has used CUDA cannot be forked, and one
that imports the caller's main module again would run an unguarded script again. Function, arguments
and results travel by cloudpickle in memory files, which have no name and so leave nothing behind.
"""

from __future__ import annotations

import codecs
import json
import linecache
import operator
import os
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar

from .._core.errors import Failure, LaunchError

if TYPE_CHECKING:
    from .job import Job
    from .process import Process
    from .streams import Sink

Result = TypeVar("Result")

OUTPUTS = ("prefix", "plain", "none")

_GRACE = 2.0  # seconds from Ctrl-C to the end of PEs that do not end by themselves
_FRAMES = 12  # of a PE that hung, the innermost first
_NOEXEC_SEAL = 8  # Linux 6.3; some systems refuse memory files without it


def launch(
    function: Callable[..., Result],
    n_pes: SupportsIndex,
    *args: Any,
    timeout: float | None = None,
    output: str | os.PathLike[str] = "prefix",
    env: Mapping[str, str] | None = None,
    bind: str | None = None,
) -> list[Result]:
    """Call ``function(*args)`` on each of ``n_pes`` new PEs of this host and return their results.

    Each PE is a new Python process in which ``pyshmem.init()`` has been called; a call of ``init`` in
    the function is counted, as any further one is. Functions of a script's main module or of a
    notebook are sent whole, with the globals that they use; those of other modules by name.

    Args:
        function: what each PE calls.
        n_pes: number of PEs.
        args: its arguments, the same on all PEs.
        timeout: seconds after which the job is ended; None: never.
        output: what becomes of what PEs print: ``"prefix"`` shows it with the number of the PE before
            each line, ``"plain"`` without, ``"none"`` drops it; a ``pathlib.Path`` is a folder that
            gets a file a PE.
        env: more environment variables of the PEs, such as ``{"PYSHMEM_DEVICE": "sim"}``.
        bind: which CPUs a PE has, as ``run --bind``: ``"core"``, ``"numa"``, ``"gpu"``, ``"none"``.

    Returns:
        What ``function`` returned, by PE. Symmetric arrays come back as NumPy arrays.

    Raises: LaunchError (a PE failed, or the job outlasted ``timeout``: its text has the traceback of
        the PE that was the cause, its ``failures`` all, and its cause is that PE's exception),
        TypeError, ValueError (arguments), KeyboardInterrupt (Ctrl-C; the PEs have been ended).

    Extension.
    """
    count = _checked(function, n_pes, timeout, output)
    with ExitStack() as stack:
        call = stack.enter_context(_memory_file("call"))
        _write_call(call, function, args)
        results = [stack.enter_context(_memory_file(f"result-{pe}")) for pe in range(count)]
        job = _run(call, results, timeout, output, dict(env or {}), bind)
        answers = [_answer_in(result) for result in results]
    if all(
        process.returncode == 0 and "value" in answer
        for process, answer in zip(job.processes, answers, strict=True)
    ):
        return [answer["value"] for answer in answers]
    if job.ending is not None and job.ending.asked:
        raise KeyboardInterrupt
    raise _error_of(job, answers)


def _checked(
    function: Callable[..., Any],
    n_pes: SupportsIndex,
    timeout: float | None,
    output: str | os.PathLike[str],
) -> int:
    """``n_pes`` as an integer, when it and the other arguments of a launch are right."""
    try:
        count = operator.index(n_pes)
    except TypeError:
        kind = type(n_pes).__name__
        raise TypeError(f"n_pes is {n_pes!r} ({kind}), not an integer") from None
    if count < 1:
        raise ValueError(f"n_pes is {count}; give 1 or more")
    if not callable(function):
        raise TypeError(f"function is a {type(function).__name__}; give one that can be called")
    if timeout is not None and not timeout > 0:  # NaN neither
        raise ValueError(f"timeout is {timeout}; give seconds, or None for none")
    if isinstance(output, str) and output not in OUTPUTS:
        raise ValueError(
            f"output is {output!r}; give {', '.join(map(repr, OUTPUTS))}, or a pathlib.Path of a folder"
        )
    return count


def _run(
    call: int,
    results: Sequence[int],
    timeout: float | None,
    output: str | os.PathLike[str],
    env: dict[str, str],
    bind: str | None,
) -> Job:
    from .binding import shares
    from .call_spec import CallSpec
    from .control import NativeControl
    from .job import Job
    from .settings import check_settings, settle_device
    from .signals import Unheard

    check_settings()
    n_pes = len(results)
    device = settle_device(n_pes, env.get("PYSHMEM_DEVICE"))
    folder = None if isinstance(output, str) else Path(output)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    spec = CallSpec(
        n_pes=n_pes,
        command=[sys.executable, "-P", str(Path(__file__).with_name("pe.py"))],
        device=device,
        timeout=timeout or 0.0,
        grace=_GRACE,
        tag=output == "prefix",
        output_dir=folder,
        shares=shares(n_pes, bind, device),
        sinks=None if folder is not None else _sinks(str(output)),
        call=call,
        results=results,
        variables=env,
    )
    control = NativeControl(n_pes)
    try:
        job = Job(spec, control, Unheard())
        job.run()
    finally:
        control.close()
    return job


# ---- the way there and back ------------------------------------------------------------------


@contextmanager
def _memory_file(name: str) -> Iterator[int]:
    try:
        fd = os.memfd_create(f"pyshmem-{name}", os.MFD_CLOEXEC | _NOEXEC_SEAL)
    except OSError:  # a kernel that does not know the flag
        fd = os.memfd_create(f"pyshmem-{name}", os.MFD_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


def _write_call(fd: int, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """What a PE needs before it can unpickle, as a line of JSON, and the call."""
    from . import pickling

    place = {"path": sys.path, "argv": getattr(sys, "argv", [""]), "sources": _cells()}
    try:
        pickled = pickling.dumps((function, args))
    except Exception as error:
        name = getattr(function, "__qualname__", repr(function))
        raise LaunchError(
            f"{name} or its arguments cannot be sent to the PEs: {type(error).__name__}: {error}; "
            "make inside the function what cannot be pickled"
        ) from error
    with open(fd, "wb", closefd=False) as file:
        file.write(json.dumps(place).encode() + b"\n" + pickled)


def _cells() -> dict[str, list[str]]:
    """The lines of code that no file has, such as a notebook's, for tracebacks of the PEs."""
    return {
        name: entry[2]
        for name, entry in linecache.cache.items()
        if len(entry) == 4 and entry[1] is None and not os.path.exists(name)
    }


def _answer_in(fd: int) -> dict[str, Any]:
    """What a PE wrote: ``value``, or ``error``, ``traceback`` and perhaps ``exception``."""
    with open(fd, "rb", closefd=False) as file:
        file.seek(0)
        try:
            answer: dict[str, Any] = pickle.load(file)
        except (EOFError, pickle.UnpicklingError):  # it ended before; perhaps it says where it was
            file.seek(0)
            return {"traceback": file.read().decode(errors="replace")}
        part = "value" if "value" in answer else "exception"
        try:
            return answer | {part: pickle.loads(answer[part])}
        except Exception as error:
            if part == "exception":  # its text says what there is to say
                return answer | {part: None}
            text = f"the result cannot be made here: {type(error).__name__}: {error}"
            return {"error": text, "traceback": "", "exception": error, "secondary": False}


def _sinks(output: str) -> tuple[Sink, Sink]:
    """Where stdout and stderr go: to ``sys.stdout`` and ``sys.stderr``, a notebook's cell, say."""
    if output == "none":
        return (lambda data: None), (lambda data: None)

    def sink(name: str) -> Sink:
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode

        def write(data: bytes) -> None:
            stream = getattr(sys, name)
            if stream is not None:
                stream.write(decode(data))
                stream.flush()

        return write

    return sink("stdout"), sink("stderr")


# ---- failures --------------------------------------------------------------------------------


def _error_of(job: Job, answers: Sequence[dict[str, Any]]) -> LaunchError:
    """The exception of a job that failed; its cause is that of the PE that failed first."""
    places = dict(job.ending.standing) if job.ending is not None else {}
    died = {process.pe: number for number, process in enumerate(job.failed)}
    timed_out = job.ending is not None and bool(job.ending.what)
    failures = [
        _failure_of(
            process, answer, places.get(process.pe, "unknown"), process.pe in died, timed_out
        )
        for process, answer in zip(job.processes, answers, strict=True)
        if process.returncode or "value" not in answer
    ]
    failures.sort(key=lambda one: (one.secondary, died.get(one.pe, len(died)), one.pe))
    error = LaunchError("\n".join(_text_of(job, failures, answers, places)), failures)
    error.__cause__ = failures[0].exception
    return error


def _failure_of(
    process: Process, answer: dict[str, Any], where: str, by_itself: bool, timed_out: bool
) -> Failure:
    from .report import is_secondary

    lines = tuple(process.last_lines())
    if "error" in answer:
        secondary = bool(answer["secondary"])
    elif by_itself:
        secondary = is_secondary(lines)
    else:  # a signal of ours ended it: it hung, or there was a failure before
        secondary = not timed_out
    its_own = (by_itself and not process.cut_short) or (process.returncode or 0) >= 0
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
    answers: Sequence[dict[str, Any]],
    places: Mapping[int, str],
) -> Iterator[str]:
    from . import report

    first = failures[0]
    n_pes = job.spec.n_pes
    if job.ending is not None and job.ending.what:  # it was not a PE that failed
        yield f"{job.ending.what}, {n_pes} PEs"
        yield from (f"  {line}" for line in report.standing(job.ending.standing))
        for failure in failures:
            if failure.traceback:
                lines = failure.traceback.rstrip().splitlines()
                yield f"PE {failure.pe}:"
                yield from lines[:_FRAMES] if failure.exit_code is None else lines
        return
    # Who has heard of the failure may have finalised by the time we look.
    others = {pe: at for pe, at in places.items() if pe != first.pe and at != "finalised"}
    if error := answers[first.pe].get("error"):
        yield f"PE {first.pe} of {n_pes} failed: {error}"
        yield from first.traceback.rstrip().splitlines()
    elif first.exit_code == 0:
        yield f"PE {first.pe} of {n_pes} ended with exit code 0 before its function returned"
    else:
        yield f"PE {first.pe} of {n_pes} {job.processes[first.pe].how_it_ended()}"
        yield from (f"    {line.strip()}" for line in report.last_words(first.output))
    yield from (f"  {line}" for line in report.standing(list(others.items())))
    for failure in failures[1:]:
        if not failure.secondary:
            yield f"  PE {failure.pe} failed too: {answers[failure.pe].get('error', 'it ended')}"
