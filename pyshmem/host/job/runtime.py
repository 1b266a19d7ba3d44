# SPDX-License-Identifier: BSD-3-Clause
"""Setup and query: init, finalize, my_pe, n_pes; and what happens when a script ends or fails."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import sys
import threading
import warnings
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from ..._core import errors, library, log, other_names, other_project
from ..._core.arrays import cupy_arrays
from ..._core.dtypes import integer
from ..._core.library import (
    ACCELERATORS,
    ThreadLevel,
    check,
    ffi,
    lib,
    not_initialized,
    parse_size,
    setting,
    setting_number,
    take_fault,
)
from ..._core.settings import tell_misspelt
from ..._foreign import environment
from . import communicator, joining, output, tracebacks

_lock = threading.RLock()
_job: Job | None = None
_count = 0  # inits without their finalize
_fails = False  # the job ends by a failure, which the user is being told
#: ``init`` or ``finalize`` while a thread is in it. That thread holds ``_lock``, so who finds a name
#: here with ``_lock`` held is a signal's handler, or a callback, of the same thread.
_inside = ""
_on_init: list[Callable[[], None]] = []
_on_finalize: list[Callable[[], None]] = []
_on_state: list[Callable[[], None]] = []


class Job:
    """The running job, as seen by one PE. A context manager: leaving the block finalizes.

    Leaving it by an exception ends the whole job: the calls of the other PEs fail with ``PeerDied``
    and this exception's text.

    Attributes:
        my_pe: number of this PE.
        n_pes: number of PEs.
        device: where the device heap lives: ``"cuda"``, ``"sim"``, ``"cpu"`` or ``"none"``.
        gpu: ordinal of the GPU this PE drives, -1 without one.
        checks: whether it is in checking mode.
    """

    def __init__(self, device: str, gpu: int) -> None:
        self.my_pe: int = lib.ishmemx_my_pe()
        self.n_pes: int = lib.ishmemx_n_pes()
        self.device = device
        self.gpu = gpu
        self.checks = library.checks_args()

    if not TYPE_CHECKING:  # who would take any name for one that there is

        def __getattr__(self, name: str) -> NoReturn:
            raise other_names.no_attribute("the job", name, other_names.OF_JOB)

        # Python's own, by name: while kernels run as Python another is in its place (host_only.py).
        __getattribute__ = object.__getattribute__

    def finalize(self) -> None:
        """The same as ``pyshmem.finalize``.

        Example: ``pyshmem.finalize()``
        """
        finalize()

    def __enter__(self) -> Job:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None or (isinstance(error, SystemExit) and not error.code):
            finalize()
        elif _job is not None:
            _abort_for(error)
            _finish(quietly=True)

    def __repr__(self) -> str:
        return f"<pyshmem job: PE {self.my_pe} of {self.n_pes}, device {self.device}>"


# ---- init and finalize -------------------------------------------------------------------------


def init(
    *,
    heap_size: int | str | None = None,
    device_heap_size: int | str | None = None,
    device: str | None = None,
    comm: Any = None,
    thread_level: int = ThreadLevel.MULTIPLE,
) -> Job:
    """Join the job. Collective.

    Calls are counted, as in OpenSHMEM 1.6: a second ``init`` returns the same job, and the last
    ``finalize`` ends it. All PEs give equal sizes and the same ``device``.

    Args:
        heap_size: bytes of the host heap of each PE, or a text such as ``"512M"``; default
            ``PYSHMEM_HEAP_SIZE``.
        device_heap_size: the same; default ``PYSHMEM_DEVICE_HEAP_SIZE``, or as its arrays need.
        device: ``"cuda"``, ``"sim"``, ``"cpu"``, ``"none"`` or ``"auto"``; default
            ``PYSHMEM_DEVICE``. Auto takes cuda where there is a GPU and CuPy and Numba are installed,
            else sim where Numba is installed and the job has at most 128 PEs, else none. With cpu, an
            experiment, kernels are compiled for the CPU. Without kernels sim costs next to nothing.
        comm: communicator of mpi4py, or an object with its Get_rank, Get_size, bcast and allgather:
            the job's PEs are its processes, numbered alike; past one host only ``MPI.COMM_WORLD``.
            Default: what the launcher says.
        thread_level: which threads will call routines: ``THREAD_SINGLE``, ``THREAD_FUNNELED``,
            ``THREAD_SERIALIZED`` or ``THREAD_MULTIPLE``; ``query_thread`` tells what was provided.

    Returns:
        The job, a context manager that finalizes.

    Raises: ValueError (sizes, device, comm, thread_level), TypeError (comm), MismatchError (PEs
        differ), ShmemTimeout (a PE did not come within ``PYSHMEM_INIT_TIMEOUT``), UnsupportedError
        (no such accelerator, a comm of several hosts that is not the launcher's job), ShmemError.
    Example: ``with pyshmem.init() as job: print(job.my_pe, job.n_pes)``
    Spec: shmem_init, shmem_init_thread (OpenSHMEM 1.6).
    """
    with _lock:
        _refuse_inside("init", "start the job")
        if _job is not None:
            _check_running(device, heap=heap_size, device_heap=device_heap_size)
            if comm is not None:
                communicator.check_same(comm)
            return _counted(_job)
        try:
            level = ThreadLevel(thread_level)
        except ValueError:
            levels = ", ".join(f"THREAD_{one.name} ({one.value})" for one in ThreadLevel)
            raise ValueError(f"thread_level is {thread_level!r}; the levels are {levels}") from None
        return _begin(functools.partial(_start, heap_size, device_heap_size, device, comm, level))


def _counted(job: Job) -> Job:
    """The job with one ``init`` more."""
    global _count
    _count += 1
    return job


def _begin(start: Callable[[], Job]) -> Job:
    """Start the job, or leave none: whatever is raised behind the C call ends what that has started."""
    global _job, _count, _fails, _inside
    joins = lib.ishmemx_initialized()  # what C code of the program has started, and goes on with
    try:
        _inside = "init"
        _count, _fails = 1, False
        _job = start()
        log.info("PE %d of %d joined, device %s", _job.my_pe, _job.n_pes, _job.device)
        for callback in tuple(_on_init):
            callback()
        return _job
    except BaseException as error:
        if lib.ishmemx_initialized() and not joins:
            _abort_for(error)
            _finish(quietly=True)
        raise
    finally:
        _inside = ""


def _refuse_inside(routine: str, what: str) -> None:
    """With ``_lock`` held: what this thread has half started, or half ended, is not entered again."""
    if _inside:
        other_project.refuse_second_import()
        raise errors.ShmemError(
            f"{routine}: this thread is in `{_inside}`; a signal's handler cannot {what} inside of it: "
            f"let it raise an exception or set a flag, and call {routine} behind the call"
        )


def _check_running(device: str | None, **sizes: int | str | None) -> None:
    """Raise ValueError for what the job, which another ``init`` began, has not got."""
    assert _job is not None
    if device not in (None, "auto", _job.device):
        raise ValueError(f"device is {device!r}, but the job runs with {_job.device!r}")
    for number, (name, size) in enumerate(sizes.items()):
        stats = ffi.new("ishmemx_heap_stats_t *")
        status = lib.ishmemx_heap_stats(number, stats)
        if status != lib.ISHMEMX_ERR_UNSUPPORTED:  # a job without a device heap
            check(status)
        if size is not None and parse_size(size) > stats.nbytes > 0:
            raise ValueError(
                f"{name}_size is {size!r}, but the job runs, and its heap has {stats.nbytes} bytes: "
                "the first init decides"
            )


def _has_no_place(config: Any) -> bool:
    """No launcher's variables say which PE this is: they name the job, too."""
    return "PYSHMEM_PE" not in os.environ and (not config.job or not ffi.string(config.job))


def _tell_lone_child() -> None:
    """A process that multiprocessing starts is a job by itself, though several may have been meant."""
    processes = sys.modules.get("multiprocessing.process")
    if processes is not None and processes.parent_process() is not None:
        text = (
            "this process of multiprocessing is a job of one PE: pyshmem.launch(function, 4) starts "
            "four in one job, and so do RANK and WORLD_SIZE in the environment of each"
        )
        warnings.warn(text, RuntimeWarning, stacklevel=5)


def _start(
    heap_size: int | str | None,
    device_heap_size: int | str | None,
    device: str | None,
    comm: Any,
    level: ThreadLevel,
) -> Job:
    install_excepthook()
    config = ffi.new("ishmemx_config_t *")
    check(lib.ishmemx_config_from_environment(config))
    if comm is None and _has_no_place(config) and joining.find_place():
        check(lib.ishmemx_config_from_environment(config))
    if comm is None and _has_no_place(config):
        _tell_lone_child()
    library.check_texts()
    library.check_cache_folder()
    if config.control_fd < 0 and config.pe <= 0:  # else our launcher has told, or another PE does
        tell_misspelt(os.environ)
    kept = None if comm is None else communicator.place_in(comm, config)
    if heap_size is not None:
        config.heap_bytes = parse_size(heap_size, "heap_size")
    if device_heap_size is not None:
        config.device_heap_bytes = parse_size(device_heap_size, "device_heap_size")
        config.device_heap_given = 1
    if comm is None:
        joining.join(config.pe, config.n_pes, config.init_timeout_ns * 1e-9)
    chosen = choose_device(device, config.n_pes)
    config.accelerator = ACCELERATORS[chosen]
    if chosen == "cuda" and config.device < 0:
        config.device = config.local_pe % max(gpu_count(), 1)
    if chosen in library.SIMULATED:
        environment.arrange_simulator(chosen)
    lib.heed_signals(threading.main_thread().ident)
    library.tell_of_ucx()
    check(lib.ishmemx_init_thread(config, level, ffi.new("int *")))
    del kept
    lib.attach_to_interpreter()
    _see_to_the_end()
    if lib.ishmemx_n_pes() > 1:
        output.keep_lines_whole()
    if chosen == "cuda" and environment.has_module("cupy"):
        cupy_arrays.use_gpu(config.device)
    return Job(chosen, config.device if chosen == "cuda" else -1)


def choose_device(device: str | None = None, n_pes: int = 1) -> str:
    """The accelerator that ``init(device=device)`` takes on this machine, for a job of ``n_pes``.

    Raises: TypeError (no name), ValueError (of no device).
    Example: ``print(pyshmem.choose_device())``
    """
    wanted = device
    if device is None:
        setting_number("DEVICE")  # refuses what is no device, by the name of the variable
        wanted = setting("DEVICE")[0].lower()
    if not isinstance(wanted, str):
        raise TypeError(f"device is {wanted!r} ({type(wanted).__name__}), not a name")
    if wanted in ACCELERATORS:
        return wanted
    if wanted != "auto":
        raise ValueError(f"device is {wanted!r}; the devices are auto, cuda, sim, cpu and none")
    kernels = environment.has_compiler()
    simulated = "sim" if kernels and n_pes <= lib.ISHMEMX_MAX_NEAR_PES else "none"
    if kernels and environment.simulator_requested():
        return "cpu" if simulated == "sim" and environment.compiles_for_cpu() else simulated
    if gpu_count() and kernels and environment.has_module("cupy"):
        return "cuda"
    return simulated


def gpu_count() -> int:
    """The number of GPUs that the driver shows; 0 without a driver."""
    count = ffi.new("int *")
    check(lib.ishmemx_cuda_count(count))
    return int(count[0])


#: Kernels that run on the thread that has launched it, as simulated ones do: by thread, the innermost.
_kernels: dict[int, str] = {}


def as_kernel(name: str, run: Callable[[], None]) -> None:
    """``run`` is the kernel ``name``: the job cannot be ended inside of it."""
    here = threading.get_ident()
    outer = _kernels.get(here)
    try:
        _kernels[here] = name
        run()
    finally:
        if outer is None:
            _kernels.pop(here, None)
        else:
            _kernels[here] = outer


def _refuse_inside_a_kernel() -> None:
    """A signal's handler may run inside of a kernel, whose memory the end of the job would take."""
    name = _kernels.get(threading.get_ident())
    if name is not None:
        raise errors.ShmemError(
            f"finalize: this thread is in kernel `{name}`; a signal's handler cannot end the job inside "
            "of it: let it raise an exception or set a flag, and finalize behind the launch"
        )


def finalize() -> None:
    """Leave the job: complete everything outstanding and wait for the other PEs. Collective.

    Ends the job when it is the last of as many calls as there were of ``init``; after that, and
    before ``init``, it does nothing. Called at exit for those who forget.

    Raises: ShmemTimeout, PeerDied, KernelFault (of a kernel whose fault no call has told yet),
        ShmemError (in a signal's handler that runs inside of a wait, or of a kernel of the
        simulator: the job goes on).
    Example: ``pyshmem.finalize()``
    Spec: shmem_finalize (OpenSHMEM 1.6).
    """
    global _count
    with _lock:
        _refuse_inside("finalize", "end the job")
        if _job is None:
            return
        if _count <= 1:
            _refuse_inside_a_kernel()
            check(lib.ishmemx_finalize_check())
        _count -= 1
        if _count <= 0:
            _finish(quietly=False)


def _finish(*, quietly: bool) -> None:
    """End the job here; ``quietly`` after a failure that the user is being told anyway."""
    global _job, _count, _fails, _inside
    if _job is not None:
        log.info("PE %d leaves", _job.my_pe)
    _fails = _fails or quietly
    fault = take_fault()
    try:
        _inside = _inside or "finalize"
        _job, _count = None, 0
        library.has_ended = True
        for callback in tuple(_on_finalize):
            callback()
    finally:
        try:
            status = lib.ishmemx_finalize()
        finally:
            _inside = ""
    if quietly:
        return
    if fault:
        raise fault
    check(status)


def _forget_in_child() -> None:
    """A child of fork is no PE: neither it nor its end may touch the job."""
    global _job, _count, _inside
    _inside = ""
    if _job is not None:
        library.forked_by = _job.my_pe
        _job, _count = None, 0
        tracebacks.install_in_children()


os.register_at_fork(after_in_child=_forget_in_child)


# ---- query -------------------------------------------------------------------------------------


def initialized() -> bool:
    """Whether the job runs: between ``init`` and the last ``finalize``.

    Example: ``here = pyshmem.my_pe() if pyshmem.initialized() else 0``
    """
    return _job is not None


def inits() -> int:
    """How many calls of ``init`` there were without their ``finalize``."""
    return _count


def my_pe() -> int:
    """The number of this PE.

    Raises: NotInitialized.
    Example: ``right = (pyshmem.my_pe() + 1) % pyshmem.n_pes()``
    Spec: shmem_my_pe (OpenSHMEM 1.5).
    """
    return current().my_pe if _job is None else _job.my_pe  # a call less than current()


def n_pes() -> int:
    """The number of PEs of the job.

    Raises: NotInitialized.
    Example: ``share = 1024 // pyshmem.n_pes()``
    Spec: shmem_n_pes (OpenSHMEM 1.5).
    """
    return current().n_pes if _job is None else _job.n_pes


def current() -> Job:
    """The running job."""
    if _job is None:
        raise not_initialized("the call needs a running job")
    return _job


def device_name() -> str:
    """Where the device heap of the running job lives: ``"cuda"``, ``"sim"``, ``"cpu"`` or ``"none"``."""
    return current().device


def on_init(callback: Callable[[], None]) -> None:
    """Call ``callback`` at the end of every ``init``; now too, if the job runs."""
    _on_init.append(callback)
    if _job is not None:
        callback()


def on_finalize(callback: Callable[[], None], *, first: bool = False) -> None:
    """Call ``callback`` at the start of every last ``finalize``; ``first``: while arrays can be used."""
    _on_finalize.insert(0 if first else len(_on_finalize), callback)


def on_state_change(callback: Callable[[], None]) -> None:
    """Call ``callback`` when words of the state block that kernels read have changed."""
    _on_state.append(callback)


def state_changed() -> None:
    """Words of the state block have changed: who gave them to kernels gives them again."""
    for callback in tuple(_on_state):
        callback()


# ---- the end of a job that fails ---------------------------------------------------------------


def abort(code: int = 1, message: str = "") -> NoReturn:
    """End the whole job now, from one PE.

    The other PEs' current or next calls fail with ``PeerDied`` and ``message``.

    Args:
        code: exit status of this process.
        message: what the others are told.

    Example: ``pyshmem.abort(2, "no input file")``
    Extension.
    """
    _leave(integer("code", code), message)


def _leave(code: int, message: str | None) -> NoReturn:
    """Tell the others and end; ``message`` None: it is ``global_exit``."""
    if _job is not None:
        _tell_others(code, message)
    for stream in (sys.stdout, sys.stderr):
        # Closed, gone, or on a full disk: the job ends all the same.
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(code)


def global_exit(status: int) -> NoReturn:
    """End the whole job with ``status``, from one PE.

    Example: ``pyshmem.global_exit(0)``
    Spec: shmem_global_exit (OpenSHMEM 1.5).
    """
    _leave(integer("status", status), None)


def ends_in_order() -> bool:
    """Whether the job that ends does so by no failure that this PE knows of."""
    return not _fails


def _tell_others(code: int, text: str | None) -> None:
    global _fails
    _fails = True
    lib.ishmemx_abort(code, ffi.NULL if text is None else text.encode(errors="replace"))
    lib.forget_exit_status()


def _abort_for(error: BaseException) -> None:
    """Tell the other PEs of an exception that ends this one, if it began here."""
    global _fails
    _fails = True
    if lib.ishmemx_n_pes() > 1 and not errors.is_hearsay(error):
        first_line = str(error).partition("\n")[0].removesuffix("; the PEs stand:")
        code = error.code if isinstance(error, SystemExit) and isinstance(error.code, int) else 1
        _tell_others(code, f"{type(error).__name__}: {first_line}" if first_line else repr(error))


def install_excepthook() -> None:
    """Uncaught exceptions are told in the program's lines, and leave no other PE waiting."""
    tracebacks.install_in_threads()
    if getattr(sys.excepthook, "_pyshmem", False):
        return
    previous = sys.excepthook

    def excepthook(kind: type[BaseException], error: BaseException, traceback: Any) -> None:
        interactive = hasattr(sys, "ps1") or sys.flags.interactive
        if _job is not None and not interactive:
            _abort_for(error)
        own = traceback is error.__traceback__
        with tracebacks.shortened(error) as short:
            previous(kind, error, short if own else traceback)

    excepthook._pyshmem = True  # type: ignore[attr-defined]
    sys.excepthook = excepthook


@functools.cache  # once: what a program registers later still finds the job
def _see_to_the_end() -> None:
    atexit.register(_at_exit)


def _at_exit() -> None:
    """What of finalize needs the interpreter; the extension does the rest, knowing the status."""
    if _job is None:
        lib.ishmemx_openshmem_leave()  # before mpi4py finalizes MPI, on which that library stands
        return
    if fault := take_fault():
        print(f"pyshmem: {fault}", file=sys.stderr)
        _tell_others(1, str(fault))
    for callback in tuple(_on_finalize):
        callback()
