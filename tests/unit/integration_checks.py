# SPDX-License-Identifier: BSD-3-Clause
"""What the library does to Numba, on a driver that only writes down what it is asked for.

A script of its own, because numba must be imported without its simulator; ``test_integration.py`` runs
each function.
"""

from __future__ import annotations

import contextlib
import dis
import logging
import sys
import threading
from types import SimpleNamespace

import pytest

import pyshmem

# isort: split
from numba.cuda import codegen
from numba.cuda.core.compiler_lock import global_compiler_lock
from numba.cuda.cudadrv import devices, driver

from pyshmem.device.jit import numba_cuda, running
from pyshmem.device.state import ABI, HEAP_BASE, HEAP_BYTES, WORDS

assert pyshmem.__version__
REAL = driver.binding
CUresult, OK = REAL.CUresult, REAL.CUresult.CUDA_SUCCESS


class Driver:
    """Calls by name; each returns success and what ``answers`` has for it."""

    def __init__(self) -> None:
        self.calls: list[tuple] = []
        self.status = {}
        self.answers = {
            "cuLibraryGetGlobal": (4096, 8 * WORDS), "cuStreamCreate": (77,),
            "cuThreadExchangeStreamCaptureMode": (REAL.CUstreamCaptureMode(0),),
            "cuLibraryGetKernelCount": (1,), "cuLibraryEnumerateKernels": (["kernel"],),
            "cuKernelGetFunction": ("function",), "cuEventCreate": ("event",),
            "cuStreamIsCapturing": (REAL.CUstreamCaptureStatus(0),),
        }  # fmt: skip

    def __getattr__(self, name):
        if not name.startswith("cu"):
            return getattr(REAL, name)

        def call(*arguments):
            self.calls.append((name, *arguments))
            return self.status.get(name, OK), *self.answers.get(name, ())

        return call

    def names(self):
        return [name for name, *_ in self.calls]


class Module(SimpleNamespace):
    """What Numba keeps of a loaded kernel; there are weak references to it."""

    __slots__ = ("__weakref__",)


def started(gpu=0):
    """An integration with a running job, and the driver beneath it."""
    fake = driver.binding = running._binding = Driver()
    numba_cuda._reserve_stack = lambda code: None
    found = numba_cuda.Integration()
    words = [0] * WORDS
    words[ABI] = 1
    found.push(words, gpu)
    return found, fake


def module(gpu=0):
    context = SimpleNamespace(handle=f"context{gpu}", device=SimpleNamespace(id=gpu))
    code = SimpleNamespace(code=b"", handle="library")
    return Module(handle="library", context=context, object_code=code)


def a_module_is_filled_beside_everything_else():
    found, fake = started()
    numba_cuda.integration = found
    found.install()
    loaded = driver.CudaPythonModule(module().context, module().object_code)
    names = fake.names()
    assert loaded.pyshmem_module == 1
    assert names[0] == "cuThreadExchangeStreamCaptureMode"
    assert not {"cuMemcpyHtoD", "cuCtxSynchronize"} & set(names), names
    (create,) = (call for call in fake.calls if call[0] == "cuStreamCreate")
    assert create[1] == REAL.CUstream_flags.CU_STREAM_NON_BLOCKING.value
    (copy,) = (call for call in fake.calls if call[0] == "cuMemcpyHtoDAsync")
    assert copy[1] == 4096
    assert copy[-1] == 77
    before = names[: names.index("cuMemcpyHtoDAsync")]
    # Twice entered here, and once entered and left by what pyshmem.device has installed.
    assert before.count("cuThreadExchangeStreamCaptureMode") == 4
    assert ("cuCtxPushCurrent", "context0") in fake.calls
    assert names.index("cuFuncLoad") < names.index("cuMemcpyHtoDAsync")


def modules_of_many_threads_have_numbers_of_their_own():
    found, _ = started()
    modules = [module() for _ in range(200)]
    parts = [modules[k::8] for k in range(8)]
    threads = [threading.Thread(target=lambda p=p: [found.adopt(m) for m in p]) for p in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(m.pyshmem_module for m in modules) == list(range(1, 201))


def a_dead_context_does_not_hide_the_users_error():
    found, fake = started()
    kept = module()
    found.adopt(kept)
    fake.status["cuMemcpyHtoDAsync"] = CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    found.forget()


def a_kernel_on_another_gpu_is_refused():
    found, _ = started(gpu=1)
    kept = module(gpu=0)
    found.adopt(kept)
    found._names[kept.pyshmem_module] = "k"
    function = SimpleNamespace(module=kept)
    with pytest.raises(pyshmem.ShmemError, match="on GPU 0, but this PE drives GPU 1"):
        found.before_launch(kept.pyshmem_module, None, function, (), 0)


def a_thread_without_a_context_gets_the_pes():
    found, _ = started(gpu=3)
    asked = []
    runtime = SimpleNamespace(_lock=threading.RLock(), _activate_context_for=asked.append)

    class Nobody:
        def get_active_context(self):
            return self

        def __enter__(self):
            return None

        def __exit__(self, *_):
            pass

    driver.driver = Nobody()
    found.context_of_thread(lambda runtime, number: asked.append("plain"), runtime, None)
    assert asked == [3]
    found.context_of_thread(lambda runtime, number: asked.append(number), runtime, 2)
    assert asked == [3, 2]
    assert (
        devices._Runtime._get_or_create_context_uncached.__name__
        == "_get_or_create_context_uncached"
    )


def frees_wait_for_running_kernels():
    found, fake = started()
    driver._logger = logging.getLogger("numba")
    running.hold_frees(found.running)
    freed = []
    queue = driver._PendingDeallocs(10**9)

    def free(handle):
        freed.append(handle)

    fake.status["cuEventQuery"] = CUresult.CUDA_ERROR_NOT_READY
    with found.running.launch(7):
        for handle in range(30):  # what a launch drops itself
            queue.add_item(free, handle)
    for handle in range(30, 60):
        queue.add_item(free, handle)
    assert not freed
    fake.status["cuEventQuery"] = OK
    queue.add_item(free, 60)
    assert freed == list(range(61))
    fake.answers["cuStreamIsCapturing"] = (REAL.CUstreamCaptureStatus(1),)
    with found.running.launch(8):
        pass
    assert found.running.captured
    assert fake.names().count("cuEventRecord") == 1


def a_freed_array_is_refused():
    found, _ = started()
    kept = module()
    found.adopt(kept)
    found._names[kept.pyshmem_module] = "k"
    owner = SimpleNamespace(gone="it was freed")
    array = SimpleNamespace(data=SimpleNamespace(mem=SimpleNamespace(_owner=owner)))
    wrapped = SimpleNamespace(gpu_data=SimpleNamespace(owner=array))
    function = SimpleNamespace(module=kept)
    for argument in (array, wrapped, (1, ((array,), 2))):
        with pytest.raises(ValueError, match="argument 1 of kernel k cannot be used: it was freed"):
            found.before_launch(kept.pyshmem_module, None, function, (1, argument), 0)


def a_launch_beside_a_kernel_waits_for_no_other_stream():
    """Arrays of the heap go in without the order that DLPack asks for; others keep it."""
    found, fake = started()
    found._words[HEAP_BASE], found._words[HEAP_BYTES] = 4096, 4096
    orders = []
    numba_cuda.StridedMemoryView = SimpleNamespace(
        from_dlpack=lambda array, stream_ptr: orders.append(stream_ptr) or "view"
    )
    ours = SimpleNamespace(data=SimpleNamespace(ptr=5000))
    tensor = SimpleNamespace(data=None, data_ptr=lambda: 4096, __dlpack__=None)
    others = [SimpleNamespace(data=SimpleNamespace(ptr=9000)), 3, None]
    assert [found._as_it_is(one) for one in (ours, tensor, *others)] == ["view", "view", *others]
    assert orders == [-1, -1]

    assert not found.running.forbids_waits(5)
    fake.status["cuEventQuery"] = CUresult.CUDA_ERROR_NOT_READY
    with found.running.launch(5):
        pass
    assert found.running.forbids_waits(6)
    fake.status["cuEventQuery"] = OK
    assert not found.running.forbids_waits(6)
    fake.answers["cuStreamIsCapturing"] = (REAL.CUstreamCaptureStatus(1),)
    assert found.running.forbids_waits(6)


def an_interrupt_anywhere_leaves_the_mode_and_the_context():
    """Ctrl-C comes where Python looks for signals: behind calls, where functions begin, in loops."""
    _, fake = started()
    modes, contexts = [0], []

    def exchange(mode):
        modes.append(mode)
        return OK, modes.pop(0)

    def use():
        with running.beside_captures(), numba_cuda._current(SimpleNamespace(handle="context")):
            assert (modes, contexts) == ([running._RELAXED], ["context"])

    fake.cuThreadExchangeStreamCaptureMode = exchange
    fake.cuCtxPushCurrent = lambda context: contexts.append(context) or (OK,)
    fake.cuCtxPopCurrent = lambda: (OK, contexts.pop())
    places = 1
    while interrupted(use, places):
        assert (modes, contexts) == ([0], []), places
        places += 1
    assert places > 15


LOOKS = {dis.opmap[name] for name in ("RESUME", "CALL", "CALL_FUNCTION_EX", "JUMP_BACKWARD")}
FILES = {running.__file__, numba_cuda.__file__, contextlib.__file__}


def interrupted(call, place):
    """Call it, and interrupt it at the ``place``-th of those; False: it has fewer."""
    left = place

    def begin(frame, event, arg):
        last = None

        def step(frame, event, arg):
            nonlocal left, last
            if event == "opcode":
                looks, last = last in LOOKS, frame.f_code.co_code[frame.f_lasti]
                left -= looks
                if looks and left == 0:
                    raise KeyboardInterrupt
            return step

        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return step if frame.f_code.co_filename in FILES else None

    sys.settrace(begin)
    try:
        call()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)
    return left <= 0


def a_kernel_of_the_cache_is_loaded_once():
    """By whatever asks for it: launches, ``bind``, and pushes of the state block meanwhile."""
    found, _ = started()
    loads, loading, go_on = [], threading.Event(), threading.Event()

    class Context:
        device = SimpleNamespace(id=0)

        def create_module_image(self, *_):
            """A load that the others come upon."""
            loads.append(threading.get_ident())
            loading.set()
            assert go_on.wait(60)
            with found._lock:  # as ``adopt`` takes it within a load
                return SimpleNamespace(get_function=lambda _name: SimpleNamespace(module=None))

    context = Context()
    devices.get_context = lambda *_: context
    library = object.__new__(codegen.CUDACodeLibrary)
    library._entry_name, library._cufunc_cache = "kernel", {}
    library._setup_functions = library._teardown_functions = []
    library.get_cubin = lambda cc=None: None
    kernel = SimpleNamespace(_codelibrary=library)

    def launch():
        found.launch(lambda *_: None, kernel, (), (1,), (1,), 0, 0)

    def push():
        words = [0] * WORDS
        words[ABI] = 1
        found.push(words, 0)

    threads = [threading.Thread(target=one) for one in (launch, launch, library.get_cufunc, push)]
    threads[0].start()
    assert loading.wait(60)
    for thread in threads[1:]:
        thread.start()
    go_on.set()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert len(loads) == 1
    with global_compiler_lock:  # who finds it loaded needs no lock
        late = threading.Thread(target=launch)
        late.start()
        late.join(60)
        assert not late.is_alive()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
