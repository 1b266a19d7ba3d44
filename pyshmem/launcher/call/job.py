# SPDX-License-Identifier: BSD-3-Clause
"""What ``pyshmem.launch`` does: the job, and what comes back.

The PEs are fresh interpreters (``pe.py``): a process that has used CUDA cannot be forked, and one
that imports the caller's main module again would run an unguarded script again. Function, arguments
and results travel by cloudpickle (``answers.py``). While the job runs, signals of the program wait
(``signals.Held``): its PEs, and all that the launcher opened, are gone before anything is raised.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..._core.errors import LaunchError
from ..._core.settings import tell_misspelt
from ...check import files
from ..binding import shares
from ..control import NativeControl
from ..job import Job
from ..output.streams import sinks_of
from ..process import files_of
from ..settings import check_conduit, check_settings, settle_device
from ..signals import Held
from . import answers, arguments
from .failures import error_of
from .spec import CallSpec

_GRACE = 2.0  # seconds from Ctrl-C to the end of PEs that do not end by themselves


def results_of(
    function: Callable[..., Any],
    n_pes: Any,
    args: tuple[Any, ...],
    timeout: Any,
    output: Any,
    env: Any,
    bind: Any,
) -> list[Any]:
    """What ``launch`` returns, by PE; the arguments are its own, not yet checked."""
    wanted = arguments.checked(function, n_pes, timeout, output, env, bind)
    call = answers.call_of(function, args)
    spec = _spec_of(wanted)
    with Held() as held:  # nothing interrupts what begins here, until it has ended
        job, packed, races, waits = _run(spec, call, held)
    if held.raised is not None:
        raise held.raised.with_traceback(None)
    found = [answers.unpacked(answer) for answer in packed]
    if all(
        process.returncode == 0 and "value" in answer
        for process, answer in zip(job.processes, found, strict=True)
    ):
        if races:
            raise LaunchError("\n".join(races))
        return [answer["value"] for answer in found]
    error = error_of(job, found)
    for note in (*races, *waits):
        error.add_note(note)
    raise error


def _spec_of(wanted: arguments.Wanted) -> CallSpec:
    """The job, but for what it has open while it runs."""
    check_settings()
    tell_misspelt({*os.environ, *wanted.env})
    check_conduit(wanted.env.get("PYSHMEM_CONDUIT", ""))
    asked = wanted.env.get("PYSHMEM_DEVICE", "").lower()  # nothing: as of this program
    device = settle_device(wanted.n_pes, asked or None)
    if wanted.folder is not None:
        try:
            wanted.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OSError(error.errno, f"output: {error.strerror}", str(wanted.folder)) from None
    return CallSpec(
        n_pes=wanted.n_pes,
        command=[sys.executable, "-P", str(Path(__file__).with_name("pe.py"))],
        device=device,
        timeout=wanted.timeout,
        grace=_GRACE,
        tag=wanted.output == "prefix",
        output_dir=wanted.folder,
        shares=shares(wanted.n_pes, wanted.bind, device),
        sinks=None if wanted.folder is not None else sinks_of(wanted.output),
        variables=wanted.env,
    )


def _run(spec: CallSpec, call: bytes, held: Held) -> tuple[Job, list[Any], list[str], list[str]]:
    """Run the job to its end: its PEs' answers, pickled still; what PYSHMEM_CHECK=order found; waits."""
    with ExitStack() as stack:
        stack.enter_context(files_of(spec.n_pes))
        results = [
            stack.enter_context(answers.memory_file(f"result-{pe}")) for pe in range(spec.n_pes)
        ]
        opened = stack.enter_context(answers.memory_file("call", call))
        control = stack.enter_context(closing(NativeControl(spec.n_pes)))
        records = stack.enter_context(files.records(spec.n_pes, spec.variables))
        spec = replace(spec, call=opened, results=results, records=records.descriptors)
        spec = replace(spec, turns=records.turns)
        job = Job(spec, control, held)
        job.run()
        answered = [answers.answer_in(result) for result in results]
        return job, answered, *records.found(failed=job.conclusion()[0] != 0)
