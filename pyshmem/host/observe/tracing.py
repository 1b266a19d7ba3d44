# SPDX-License-Identifier: BSD-3-Clause
"""Timelines: what all PEs' hosts, proxies, copy engines and kernels did, on one clock, in one file.

All PEs of a host have one clock, CLOCK_MONOTONIC. A GPU's is measured against it when a timeline
begins and when it ends, and taken to drift evenly in between.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Protocol

from ..._core import library, log
from ..._core.errors import ShmemError, UnsupportedError
from ..._core.library import check, ffi, lib, setting, setting_number
from .. import faults
from ..job import runtime
from ..messages import OPERATIONS
from ..teams.contexts import CTX_DEFAULT
from . import stages, trace_file
from .trace_file import Instant, Slice

_REQUESTS = 1 << 16  # that the library keeps
_PATIENCE_S = 0.05  # for copies that are complete, but not noted yet

_running: Trace | None = None


class HostCall(Protocol):
    """A call as ``profiling`` records it."""

    @property
    def name(self) -> str: ...
    @property
    def begin_ns(self) -> int: ...
    @property
    def end_ns(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def thread(self) -> int: ...


class Clock(NamedTuple):
    """The kernels' clock at one moment: what to add to it, and how far off that may be, in ns."""

    at_ns: int
    offset_ns: int
    within_ns: int


def _look_at_clock() -> Clock:
    offset, within = stages.clock()
    return Clock(time.monotonic_ns(), offset, within)


def to_host_clock(kernel_ns: int, first: Clock, last: Clock) -> int:
    """A time of kernels on the host's clock, by two measurements around it."""
    near = kernel_ns + first.offset_ns
    drift, span = last.offset_ns - first.offset_ns, last.at_ns - first.at_ns
    return near + (drift * (near - first.at_ns) // span if span > 0 else 0)


class Trace:
    """A timeline in the making; ``profiling.trace`` makes it. A context manager.

    Attributes:
        path: the file, which is there when ``stop`` returns.
    """

    def __init__(
        self, path: Path, *, kernels: bool, record: Callable[[], Callable[[], list[Any]]]
    ) -> None:
        """``record`` begins to record calls; what it returns ends that and gives them."""
        self.path = path
        self._kernels, self._record = kernels, record
        self._calls: Callable[[], list[HostCall]] | None = None
        self._instants: list[Instant] = []
        self._first = Clock(0, 0, 0)
        self._base_ns = 0
        self._job: Any = None

    def start(self) -> None:
        """Begin; kernels compiled before without labels are compiled again. Collective.

        Raises: ShmemError (another timeline is being made), UnsupportedError (PEs on several hosts,
            whose clocks differ), HeapExhausted (no room for the stages on the device heap), OSError.
        """
        global _running
        job = runtime.current()
        if _running is not None:
            raise ShmemError(
                f"a timeline is being made already, {_running.path}: stop that one first"
            )
        if lib.ishmemx_several_hosts():
            raise UnsupportedError(
                "a timeline of PEs on several hosts would need one clock for them, which there is "
                "not: record each PE by profiling.start, stop and write_trace"
            )
        if self._kernels and job.device != "none":
            stages.open_buffer(setting_number("TRACE_STAGES"))
        try:
            if job.device != "none":
                self._first = _look_at_clock()
            if job.my_pe == 0:
                about = {"pyshmem": library.__version__, "n_pes": job.n_pes, "device": job.device}
                trace_file.begin(self.path, time.monotonic_ns(), about)
        except BaseException:
            if stages.compiled_in():
                stages.close_buffer(together=False)
            raise
        self._job, _running = job, self
        library.fault_watchers.append(self._note_fault)
        check(lib.ishmemx_trace_requests(1))
        CTX_DEFAULT.complete_by(lib.ishmemx_barrier_all)
        self._base_ns = trace_file.base_of(self.path)
        self._calls = self._record()

    def stop(self) -> None:
        """End, and write the file: all PEs together, or, after a failure, each for itself. Collective.

        Kernels are not waited for: synchronise their streams before, as the stages that they have not
        ended are counted and left out.

        Raises: the failure that keeps the PEs from meeting, after this PE's part has been written.
        """
        self._stop(alone=False)

    def __enter__(self) -> Trace:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self.stop()
        elif failure := _failure_of(lambda: self._stop(alone=True)):
            error.add_note(f"the timeline {self.path} was not written: {failure}")

    def _note_fault(self, error: Exception) -> None:
        args = {"text": str(error), "error": type(error).__name__}
        self._instants.append(Instant("fault", time.monotonic_ns(), args))

    def _stop(self, *, alone: bool) -> None:
        global _running
        if _running is not self or self._calls is None:
            return
        calls = self._calls()
        _running, failure = None, None
        if not alone:
            failure = _failure_of(lambda: CTX_DEFAULT.complete_by(lib.ishmemx_barrier_all))
        slices, about = self._host_slices(calls), {"host_calls": len(calls)}
        with _noted(about, "requests"):
            slices += _request_slices(about)
        lib.ishmemx_trace_requests(0)
        if stages.compiled_in():
            with _noted(about, "stages"):
                slices += self._stage_slices(about)
            together = not alone and failure is None
            failure = _failure_of(lambda: stages.close_buffer(together=together)) or failure
        library.fault_watchers.remove(self._note_fault)
        self._write(slices, about, alone or failure is not None)
        if failure is not None:
            raise failure

    # -- the events ------------------------------------------------------------------------------------

    def _host_slices(self, calls: list[HostCall]) -> list[Slice]:
        main = threading.main_thread().native_id
        others = sorted({call.thread for call in calls} - {main})
        tracks = {main: (0, "host")}
        tracks |= {thread: (1, f"host, thread {k}") for k, thread in enumerate(others, 1)}
        return [
            Slice(
                "host", tracks[call.thread], call.name, call.begin_ns, call.end_ns,
                {"nbytes": call.nbytes},
            )
            for call in calls
        ]  # fmt: skip

    def _stage_slices(self, about: dict[str, Any]) -> list[Slice]:
        found, lost = stages.read()
        first = last = self._first
        with _noted(about, "clock"):
            last = _look_at_clock()
        about |= {
            "stages": len(found), "stages_lost": lost,
            "kernel_clock_within_ns": max(first.within_ns, last.within_ns),
        }  # fmt: skip
        names = {number: faults.kernel_name(number) for number in {one.kernel for one in found}}
        return [
            Slice(
                "stage",
                (one.processor, f"SM {one.processor}") if one.processor >= 0
                else (one.block, f"block {one.block}"),
                one.label,
                to_host_clock(one.begin_ns, first, last),
                to_host_clock(one.end_ns, first, last),
                {"kernel": names[one.kernel], "block": one.block, "priority": one.priority},
            )
            for one in found
        ]  # fmt: skip

    # -- the file --------------------------------------------------------------------------------------

    def _write(self, slices: list[Slice], about: dict[str, Any], alone: bool) -> None:
        me, n_pes = self._job.my_pe, self._job.n_pes
        events = trace_file.events_of(me, slices, self._instants, self._base_ns)
        if lost := about.get("stages_lost", 0):
            log.info(
                "timeline of PE %d: %d stages of kernels found no room or had not ended", me, lost
            )
        if alone:
            trace_file.add(self.path, [(me, events, about)])
            return
        trace_file.part_of(self.path, me).write_text(json.dumps([events, about]), encoding="utf-8")
        CTX_DEFAULT.complete_by(lib.ishmemx_barrier_all)
        if me == 0:
            parts = [trace_file.part_of(self.path, pe) for pe in range(n_pes)]
            read = (json.loads(part.read_text(encoding="utf-8")) for part in parts)
            trace_file.add(self.path, ((pe, *part) for pe, part in enumerate(read)))
            for part in parts:
                part.unlink()
        CTX_DEFAULT.complete_by(lib.ishmemx_barrier_all)


def _failure_of(action: Callable[[], object]) -> Exception | None:
    try:
        action()
    except Exception as error:  # the job may be in any state: what is there is written all the same
        return error
    return None


@contextlib.contextmanager
def _noted(about: dict[str, Any], what: str) -> Iterator[None]:
    """What cannot be had after a failure is said in the file."""
    try:
        yield
    except ShmemError as error:
        about[f"{what}_error"] = str(error)


def _request_slices(about: dict[str, Any]) -> list[Slice]:
    array = ffi.new("ishmemx_traced_request_t[]", _REQUESTS)
    count, dropped = ffi.new("int64_t *"), ffi.new("int64_t *")
    patience = time.monotonic() + _PATIENCE_S
    while True:
        check(lib.ishmemx_traced_requests(array, _REQUESTS, count, dropped))
        if not dropped[0] or time.monotonic() > patience:
            break
        time.sleep(1e-3)
    about |= {"requests": int(count[0]), "requests_lost": int(dropped[0])}
    return [_request_slice(array[k]) for k in range(count[0])]


def _request_slice(one: Any) -> Slice:
    args = {"ticket": int(one.ticket), "nbytes": int(one.nbytes)}
    if one.pe >= 0:
        args["pe"] = int(one.pe)
    track = (one.pe, f"copies, PE {one.pe}") if one.copy else (one.ring, f"proxy, ring {one.ring}")
    return Slice(
        "copy" if one.copy else "proxy", track, OPERATIONS[one.op], one.begin_ns, one.end_ns, args
    )


# ---- the setting PYSHMEM_TRACE -----------------------------------------------------------------------


def follow_setting(make: Callable[[Path], Trace]) -> None:
    """Have every job make a timeline by ``make`` when PYSHMEM_TRACE names a file."""
    runtime.on_init(lambda: _begin(make))
    runtime.on_finalize(_end)


def _begin(make: Callable[[Path], Trace]) -> None:
    if path := setting("TRACE")[0]:
        try:
            make(Path(path)).start()
        except OSError as error:
            folder = Path(path).absolute().parent
            way = "" if folder.is_dir() else f"; there is no folder {folder}: make it, on each host"
            raise ValueError(
                f"PYSHMEM_TRACE names a file that cannot be written, {path!r}: {error.strerror}{way}"
            ) from None


def _end() -> None:
    """The job ends, and with it a timeline that was not stopped."""
    if (trace := _running) is not None and (failure := _failure_of(trace.stop)) is not None:
        log.info("the timeline %s ended with: %s", trace.path, failure)
