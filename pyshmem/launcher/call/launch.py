# SPDX-License-Identifier: BSD-3-Clause
"""``pyshmem.launch``: a function on N PEs, from a script, a test or a notebook."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, SupportsIndex, TypeVar

Result = TypeVar("Result")


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

    Example: ``numbers = pyshmem.launch(pyshmem.my_pe, 2)``
    Extension.
    """
    from . import (
        job as call_job,
    )  # late, for what it imports is much, and most programs launch nothing

    return call_job.results_of(function, n_pes, args, timeout, output, env, bind)
