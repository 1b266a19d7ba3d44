# SPDX-License-Identifier: BSD-3-Clause
"""What CUDA itself leaves of a GPU's memory: the control of ``grown_heap.py``, without this library.

    python tests/gpu/left_by_cuda.py

Two processes with two GPUs do by the driver alone what a job with a heap that grows does: streams,
a kernel of text, pinned memory, copies from and to it by several streams, memory that is mapped, lent
by a descriptor, mapped by the other and by its owner in the other's process, and unmapped. A JSON line
of the first process: KiB of its GPU that are gone since its context was made, behind each step; before
that, behind each of some streams that are there at a time, as those of a job are: the driver takes
2 MiB with the first and with a later one, and keeps them when the streams have gone.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
from ctypes import Structure, byref, c_char_p, c_int, c_size_t, c_uint64, c_void_p
from typing import Any

NBYTES, RESERVED, STREAMS = 1 << 30, 64 << 30, 16
PTX = b""".version 7.0
.target sm_70
.address_size 64
.visible .entry nothing() { ret; }
"""


class Location(Structure):
    _fields_ = (("type", c_int), ("id", c_int))


class Kind(Structure):
    """CUmemAllocationProp."""

    _fields_ = (("type", c_int), ("handles", c_int), ("location", Location), ("unused", c_void_p),
                ("flags", c_uint64))  # fmt: skip


class Access(Structure):
    _fields_ = (("location", Location), ("flags", c_int))


class Process:
    """One of the two, with its GPU; ``other`` is a socket to the other one."""

    def __init__(self, gpu: int, other: socket.socket) -> None:
        self.gpu, self.other, self.cuda = gpu, other, ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        context = c_void_p()
        self.call("cuDevicePrimaryCtxRetain", byref(context), gpu)
        self.call("cuCtxSetCurrent", context)
        self.meet()
        self.before = self.free_kib()
        self.meet()

    def call(self, name: str, *arguments: Any) -> None:
        result = getattr(self.cuda, name)(*arguments)
        if result:
            text = c_char_p()
            self.cuda.cuGetErrorName(result, byref(text))
            raise SystemExit(f"{name}: {(text.value or b'?').decode()}")

    def meet(self) -> None:
        self.other.sendall(b"x")
        if self.other.recv(1) != b"x":
            raise SystemExit("the other process has ended")

    def free_kib(self) -> int:
        free, total = c_size_t(), c_size_t()
        self.call("cuCtxSynchronize")
        self.call("cuMemGetInfo_v2", byref(free), byref(total))
        return free.value >> 10

    def gone(self) -> int:
        self.meet()
        kib = self.before - self.free_kib()
        self.meet()
        return kib

    def streams(self) -> list[int]:
        """Many at a time, as a job has: what is gone behind each, and when all have gone."""
        streams, found = [c_void_p() for _ in range(STREAMS)], []
        for stream in streams:
            self.call("cuStreamCreate", byref(stream), 1)
            found.append(self.gone())
        for stream in streams:
            self.call("cuStreamDestroy_v2", stream)
        return [*found, self.gone()]

    def kernel(self) -> None:
        module, kernel = c_void_p(), c_void_p()
        self.call("cuModuleLoadData", byref(module), PTX)
        self.call("cuModuleGetFunction", byref(kernel), module, b"nothing")
        self.call("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, None, None, None)
        self.call("cuCtxSynchronize")
        self.call("cuModuleUnload", module)

    def pinned(self) -> None:
        host = c_void_p()
        self.call("cuMemHostAlloc", byref(host), c_size_t(1 << 20), 3)
        self.call("cuMemFreeHost", host)

    def copies(self) -> None:
        """Four streams that are there at a time, each with copies both ways and a kernel."""
        host, at, streams = c_void_p(), c_uint64(), [c_void_p() for _ in range(4)]
        module, kernel, half = c_void_p(), c_void_p(), c_size_t(1 << 20)
        self.call("cuMemHostAlloc", byref(host), c_size_t(2 << 20), 3)
        self.call("cuMemAlloc_v2", byref(at), c_size_t(2 << 20))
        self.call("cuModuleLoadData", byref(module), PTX)
        self.call("cuModuleGetFunction", byref(kernel), module, b"nothing")
        for stream in streams:
            self.call("cuStreamCreate", byref(stream), 1)
        for stream in streams:
            self.call("cuMemcpyHtoDAsync_v2", at, host, half, stream)
            self.call("cuMemcpyDtoHAsync_v2", host, at, half, stream)
            self.call("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, stream, None, None)
        self.call("cuCtxSynchronize")
        for stream in streams:
            self.call("cuStreamDestroy_v2", stream)
        self.call("cuModuleUnload", module)
        self.call("cuMemFree_v2", at)
        self.call("cuMemFreeHost", host)

    def map_one(self, handle: c_uint64, gpus: tuple[int, ...]) -> c_uint64:
        at = c_uint64()
        self.call("cuMemAddressReserve", byref(at), c_size_t(RESERVED), c_size_t(2 << 20), c_uint64(0),
                  c_uint64(0))  # fmt: skip
        self.call("cuMemMap", at, c_size_t(NBYTES), c_size_t(0), handle, c_uint64(0))
        for gpu in gpus:
            access = Access(Location(1, gpu), 3)
            self.call("cuMemSetAccess", at, c_size_t(NBYTES), byref(access), c_size_t(1))
        self.call("cuMemRelease", handle)
        return at

    def mapped(self, by_owner: bool) -> None:
        """``by_owner``: the other's memory also for the GPU that has it, in this process."""
        kind, handle, lent = Kind(1, 1, Location(1, self.gpu)), c_uint64(), c_int()
        self.call("cuMemCreate", byref(handle), c_size_t(NBYTES), byref(kind), c_uint64(0))
        self.call("cuMemExportToShareableHandle", byref(lent), handle, 1, c_uint64(0))
        socket.send_fds(self.other, [b"f"], [lent.value])
        taken, theirs = socket.recv_fds(self.other, 1, 1)[1][0], c_uint64()
        self.call("cuMemImportFromShareableHandle", byref(theirs), c_void_p(taken), 1)
        places = [self.map_one(handle, (self.gpu,))]
        gpus = (self.gpu, 1 - self.gpu) if by_owner else (self.gpu,)
        places.append(self.map_one(theirs, gpus))
        self.meet()
        for at in places:
            self.call("cuMemsetD8_v2", at, 0, c_size_t(NBYTES))
        self.call("cuCtxSynchronize")
        self.meet()
        for at in places:
            self.call("cuMemUnmap", at, c_size_t(NBYTES))
            self.call("cuMemAddressFree", at, c_size_t(RESERVED))
        os.close(taken)
        os.close(lent.value)


def main() -> None:
    ends = socket.socketpair()
    child = os.fork()  # before CUDA
    one = Process(0 if child else 1, ends[0 if child else 1])
    streams = one.streams()
    found: dict[str, int] = {"streams": streams[-1]}
    for name, step in (
        ("kernel", one.kernel),
        ("pinned", one.pinned),
        ("copies", one.copies),
        ("mapped", lambda: one.mapped(by_owner=False)),
        ("mapped again", lambda: one.mapped(by_owner=False)),
        ("mapped by the owner too", lambda: one.mapped(by_owner=True)),
        ("and again", lambda: one.mapped(by_owner=True)),
    ):
        step()
        found[name] = one.gone()
    if child:
        row = {"KiB_gone_behind_each_stream": streams, "KiB_gone_since_the_context": found}
        print(json.dumps(row), flush=True)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
