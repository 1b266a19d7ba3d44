# SPDX-License-Identifier: BSD-3-Clause
"""The program of a PE that ``pyshmem.launch`` started: call the function, send its result back.

It is run as a file, and imports nothing of the package before it has the caller's ``sys.path``.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import io
import json
import linecache
import mmap
import os
import pickle
import signal
import sys
import traceback
from functools import partial
from typing import Any

_PR_SET_PDEATHSIG = 1


def main() -> int:
    """Call the function of descriptor ``call``; return the exit status."""
    call, result, launcher = map(int, os.environ.pop("PYSHMEM_CALL").split(","))
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != launcher:  # it died before we asked
        return 1
    for fd in (call, result):
        os.set_inheritable(fd, False)  # nothing for programs that the function starts
    # A PE that the launcher ends while it hangs says where it was, instead of an answer.
    faulthandler.register(signal.SIGTERM, file=result, all_threads=False, chain=True)
    os.register_at_fork(after_in_child=partial(_be_no_pe, signal.getsignal(signal.SIGTERM)))
    pe = os.getpid()
    try:
        answer, status = _call(call)
    except BaseException as error:
        answer, status = _failure(error), _status_of(error)
    if os.getpid() != pe:  # a child of fork() that came out of the function: the answer is not its
        sys.stderr.write(answer.get("traceback", ""))
        return status
    os.ftruncate(result, 0)  # the offset is that of all children, whatever they wrote
    os.lseek(result, 0, os.SEEK_SET)
    with open(result, "wb", closefd=False) as file:
        pickle.dump(answer, file)
    return status


def _be_no_pe(before: Any) -> None:
    """In a child of fork: SIGTERM does what it did before ours, of which Python itself knows nothing.

    What the function has set in its place stays: taking ours back would take that away.
    """
    if signal.getsignal(signal.SIGTERM) == before:
        faulthandler.unregister(signal.SIGTERM)


def _call(call: int) -> tuple[dict[str, Any], int]:
    with mmap.mmap(call, 0, access=mmap.ACCESS_READ) as data:  # the offset is all PEs' together
        place = json.loads(data.readline())
        sys.path[:], sys.argv = place["path"], place["argv"]
        for name, lines in place["sources"].items():
            linecache.cache[name] = (sum(map(len, lines)), None, lines, name)
        import cloudpickle

        from pyshmem.host.job import runtime

        with runtime.init():
            function, args = pickle.load(data)
            value = function(*args)
            try:
                # Before finalize, which takes symmetric arrays away.
                return {"value": cloudpickle.dumps(value)}, 0
            except Exception as error:
                kind = type(value).__name__
                raise TypeError(
                    f"the result, a {kind}, cannot be sent back: {type(error).__name__}: {error}"
                ) from None


def _failure(error: BaseException) -> dict[str, Any]:
    """What the launcher is told of an exception; it may not be able to unpickle it."""
    if isinstance(error, SystemExit) and error.code in (None, 0):
        return {"value": pickle.dumps(None)}
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename == __file__:
        frames = frames.tb_next  # what is of this file is not the user's
    text = io.StringIO()
    error.__traceback__ = frames or error.__traceback__
    errors = sys.modules.get("pyshmem._core.errors")  # not there when its import failed
    tracebacks = sys.modules.get("pyshmem.host.job.tracebacks")
    with contextlib.nullcontext() if tracebacks is None else tracebacks.shortened(error):
        traceback.print_exception(error, file=text)
    answer: dict[str, Any] = {
        "error": "".join(traceback.format_exception_only(error)).strip(),
        "traceback": text.getvalue(),
        "secondary": errors is not None and errors.is_hearsay(error),
        "exception": pickle.dumps(None),
    }
    try:
        import cloudpickle

        pickled = cloudpickle.dumps(error.with_traceback(None))
        pickle.loads(pickled)
    except Exception:
        return answer
    return answer | {"exception": pickled}


def _status_of(error: BaseException) -> int:
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    return 128 + signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1


if __name__ == "__main__":
    sys.exit(main())
