# SPDX-License-Identifier: BSD-3-Clause
"""What the driver says of a GPU and of its link to others, which rows of choices go by.

The driver's library is in the process already where there is a GPU; NVML is loaded only where a single
GPU is visible, of which the driver tells no link. The name alone does not tell: a card with a bridge and
one without have the same.
"""

from __future__ import annotations

import ctypes
import functools
from typing import NamedTuple

from ..._core.library import check, ffi, lib
from ..job import runtime
from . import kinds

_MAJOR, _MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR
_ACCESS, _ATOMICS = 2, 3  # CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, _NATIVE_ATOMIC_SUPPORTED
_MOST_LINKS = 18  # NVML_NVLINK_MAX_LINKS


class Gpu(NamedTuple):
    """A GPU as tables know it: ``name`` by the driver, and its kind."""

    name: str
    kind: kinds.Kind


#: Without a GPU: no table of one counts.
SIMULATOR = Gpu("simulator", kinds.Kind(0, "none", 1))


def of_this_pe() -> Gpu:
    """The GPU that this PE drives; the simulator's where there is none."""
    job = runtime.current()
    return ask(job.gpu) if job.device == "cuda" else SIMULATOR


@functools.cache  # it does not change while the process lives
def ask(ordinal: int) -> Gpu:
    """A visible GPU.

    Raises: ShmemError, RuntimeError (the driver refuses).
    """
    text = ffi.new("char[]", 256)
    check(lib.ishmemx_cuda_describe(ordinal, text, 256, ffi.new("int64_t *")))
    name = ffi.string(text).decode(errors="replace")
    major, minor = architecture(ordinal)
    return Gpu(name, kind(name, 10 * major + minor, _link(ordinal, name, 10 * major + minor)))


def kind(name: str, architecture: int, link: str | None) -> kinds.Kind:
    """The kind of a GPU with this name, by the link that it has; None: nobody could tell."""
    listed = kinds.listed(name)
    if link is None:
        link = listed.link if listed else kinds.nvlink_of(architecture)
    if listed and listed.link == link:
        return listed._replace(architecture=architecture)
    return kinds.Kind(architecture, link, kinds.bandwidth(architecture, link))


def architecture(ordinal: int) -> tuple[int, int]:
    """The compute capability of a GPU, as (9, 0), which compilers call sm_90; by the driver itself.

    Raises: OSError (no driver), RuntimeError (the driver refuses).
    """
    driver, number, values = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), []
    if driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(number), ordinal):
        raise RuntimeError(f"the driver does not show GPU {ordinal}")
    for attribute in (_MAJOR, _MINOR):
        value = ctypes.c_int()
        if driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, number):
            raise RuntimeError(f"the driver does not tell the architecture of GPU {ordinal}")
        values.append(value.value)
    return values[0], values[1]


def _link(ordinal: int, name: str, sm: int) -> str | None:
    """``"NVLink 4"``, ``"PCIe"`` (peers are reached by P2P), ``"none"``; None: nobody can tell."""
    if " MIG " in name:  # slices reach neither other slices nor other GPUs
        return "none"
    peers = [peer for peer in range(runtime.gpu_count()) if peer != ordinal]
    if not peers:
        return _link_by_nvml(ordinal, sm)
    # Atomic operations of the hardware go over NVLink, and never over PCIe.
    if any(_p2p(_ATOMICS, ordinal, peer) for peer in peers):
        return kinds.nvlink_of(sm)
    return "PCIe" if any(_p2p(_ACCESS, ordinal, peer) for peer in peers) else "none"


def _p2p(attribute: int, ordinal: int, peer: int) -> bool:
    driver, value = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
    ours, theirs = ctypes.c_int(), ctypes.c_int()
    failed = (
        driver.cuInit(0)
        or driver.cuDeviceGet(ctypes.byref(ours), ordinal)
        or driver.cuDeviceGet(ctypes.byref(theirs), peer)
        or driver.cuDeviceGetP2PAttribute(ctypes.byref(value), attribute, ours, theirs)
    )
    return not failed and bool(value.value)


def bus_address(ordinal: int) -> str:
    """Where a visible GPU is on PCI, as ``/sys`` writes it; empty where the driver does not tell."""
    driver, device = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
    text = ctypes.create_string_buffer(32)
    failed = (
        driver.cuInit(0)
        or driver.cuDeviceGet(ctypes.byref(device), ordinal)
        or driver.cuDeviceGetPCIBusId(text, len(text), device)
    )
    return "" if failed else text.value.decode().lower()


def _link_by_nvml(ordinal: int, sm: int) -> str | None:
    """Of a GPU that is visible alone: whether one of its NVLinks is up."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    handle, state = ctypes.c_void_p(), ctypes.c_uint()
    if nvml.nvmlInit_v2():
        return None
    try:
        address = bus_address(ordinal).encode()
        if nvml.nvmlDeviceGetHandleByPciBusId_v2(address, ctypes.byref(handle)):
            return None
        for number in range(_MOST_LINKS):
            unknown = nvml.nvmlDeviceGetNvLinkState(handle, number, ctypes.byref(state))
            if not unknown and state.value:
                return kinds.nvlink_of(sm)
        return "PCIe"
    finally:
        nvml.nvmlShutdown()
