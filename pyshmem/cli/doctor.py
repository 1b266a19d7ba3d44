# SPDX-License-Identifier: BSD-3-Clause
"""``python -m pyshmem doctor``: what is missing for what, and the command that fixes it."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import NamedTuple

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .._core import kept_files, library, other_project
from .._core.errors import ShmemError
from ..host.job import runtime
from ..host.tuning.gpus import architecture
from ..launcher.control import NativeControl
from ..launcher.settings import check_settings, settle_device
from . import facts, places

_LEAST_ARCHITECTURE = (8, 0)  # that kernels are compiled for
_BULK_ARCHITECTURE = (9, 0)  # from which on the hardware has bulk copies

_MARKS = {"ok": "[green]ok[/]", "missing": "[yellow]missing[/]", "wrong": "[red]wrong[/]"}


class Finding(NamedTuple):
    """One thing that was looked at."""

    purpose: str  # what it is needed for: host, simulator, triton, torch, cuda, mpi
    what: str
    state: str  # ok, missing or wrong
    detail: str = ""
    fix: str = ""  # a command, or what to do


@click.command()
@click.option(
    "-n",
    "--n-pes",
    type=click.IntRange(min=1, max=4096),
    help="Of a job with so many PEs: which GPU, link, cores and table each gets; default: one a GPU.",
)
def doctor(n_pes: int | None) -> None:
    """Say what is missing for what, and the command that fixes it; run a job of 2 PEs.

    Where there are GPUs, or with -n, it shows which GPU, link and cores each PE of a job gets, and
    whether its rows of measured choices were measured on such a GPU or are by rule. The exit status is
    0 when jobs on this host work, with or without accelerators.
    """
    console = Console()
    findings = [*_host(), *_simulator(), *_triton(), *_torch(), *_cuda(), *_mpi(), _self_test()]
    table = Table("for", "what", "state", header_style="bold")
    table.add_column("detail", overflow="fold")
    for finding in findings:
        mark = _MARKS[finding.state]
        table.add_row(finding.purpose, finding.what, mark, escape(finding.detail))
    console.print(table)
    for finding in findings:
        if finding.fix:
            # One line each, never wrapped: they are there to be copied.
            console.print(f"{finding.purpose}: {finding.what}:", style="bold", highlight=False)
            console.print(f"    {escape(finding.fix)}", soft_wrap=True, highlight=False)
    for purpose, extra in _EXTRAS.items():
        if sum(finding.purpose == purpose and finding.state != "ok" for finding in findings) > 1:
            console.print(f"{purpose}: all that it needs:", style="bold", highlight=False)
            way = escape(_pip(f"pyshmem-openshmem[{extra}]"))
            console.print(f"    {way}", soft_wrap=True, highlight=False)
    if n_pes or runtime.gpu_count():
        console.print(_places(n_pes or max(2, runtime.gpu_count())))
    usable = _usable(findings)
    console.print("works: " + (", ".join(usable) or "nothing"), style="bold")
    sys.exit(0 if "host" in usable else 1)


#: What brings all packages of a purpose.
_EXTRAS = {"simulator": "sim", "triton": "triton", "torch": "torch", "cuda": "cuda", "mpi": "mpi"}


def _places(n_pes: int) -> Table | str:
    try:
        return places.table(n_pes, settle_device(n_pes))
    except (ShmemError, ValueError, RuntimeError) as error:
        return escape(f"what PEs get cannot be told: {error}")


def _usable(findings: list[Finding]) -> list[str]:
    purposes = dict.fromkeys(finding.purpose for finding in findings)
    bad = {finding.purpose for finding in findings if finding.state != "ok"}
    return [purpose for purpose in purposes if purpose not in bad]


def _pip(*wanted: str) -> str:
    return shlex.join([sys.executable, "-m", "pip", "install", *wanted])


def _package(purpose: str, wanted: facts.Requirement) -> Finding:
    version = facts.version_of(wanted.name)
    if version is None:
        return Finding(purpose, wanted.name, "missing", fix=_pip(wanted.text))
    if not facts.satisfies(version, wanted.versions):
        detail = f"{version} is installed, {wanted.versions} is needed"
        return Finding(purpose, wanted.name, "wrong", detail, _pip(wanted.text))
    return Finding(purpose, wanted.name, "ok", version)


# ---- host ----------------------------------------------------------------------------------


def _host() -> Iterator[Finding]:
    # Without it this command could not have been imported.
    yield Finding("host", "native library", "ok", library.__version__)
    yield from _other_project()
    yield _memfd()
    yield _socket()
    yield _settings()


def _other_project() -> Iterator[Finding]:
    """A row only where the other project of this import name is installed."""
    version = facts.version_of(other_project.THEIRS)
    if version is not None:
        detail = (
            f"{version}: another project, also imported as pyshmem; one of the two is overwritten"
        )
        yield Finding("host", "project pyshmem", "wrong", detail, other_project.CURE)


def _memfd() -> Finding:
    try:
        NativeControl(1).close()  # made as a job's is
    except ShmemError as error:
        return Finding(
            "host",
            "memfd",
            "wrong",
            str(error),
            "allow memfd_create in the container's seccomp profile",
        )
    return Finding("host", "memfd", "ok", "shared memory; the size of /dev/shm does not matter")


def _socket() -> Finding:
    """Abstract Unix sockets, with descriptors passed over them."""
    name = f"\0pyshmem-doctor.{os.getpid()}"
    try:
        with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
            server.bind(name)
            server.listen(1)
            client.connect(name)
            peer, _ = server.accept()
            with peer:
                socket.send_fds(client, [b"x"], [0])
                _, passed, _, _ = socket.recv_fds(peer, 1, 1)
                for fd in passed:
                    os.close(fd)
    except OSError as error:
        return Finding(
            "host", "Unix sockets", "wrong", str(error), "allow AF_UNIX sockets in this container"
        )
    return Finding("host", "Unix sockets", "ok", "descriptors can be passed")


def _settings() -> Finding:
    try:
        check_settings()
    except ValueError as error:
        return Finding("host", "settings", "wrong", str(error), "unset or correct the variable")
    return Finding("host", "settings", "ok")


def _self_test() -> Finding:
    """A job of 2 PEs through the launcher."""
    command = [sys.executable, "-m", "pyshmem", "run", "-n", "2", "--device", "none"]
    command += ["--timeout", "60", "-m", "pyshmem.cli.selftest"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("host", "job of 2 PEs", "wrong", str(error))
    if done.returncode:
        return Finding(
            "host", "job of 2 PEs", "wrong", done.stderr.strip()[-1500:], shlex.join(command)
        )
    return Finding("host", "job of 2 PEs", "ok", "put and barrier_all")


# ---- accelerators and MPI --------------------------------------------------------------------


def _simulator() -> Iterator[Finding]:
    found = [_package("simulator", wanted) for wanted in facts.requirements("sim")]
    yield from found
    if all(finding.state == "ok" for finding in found) and not runtime.gpu_count():
        yield Finding(
            "simulator",
            "without a GPU",
            "ok",
            "kernels are interpreted (sim): they begin at once, and pdb steps into them; --device cpu "
            "compiles them, seconds for each routine the first time: for large grids and long runs",
        )


def _triton() -> Iterator[Finding]:
    """Kernels of Triton, which need no Numba."""
    for wanted in facts.requirements("triton"):
        yield _package("triton", wanted)
    if facts.version_of("triton") and not facts.version_of("numba"):
        yield Finding(
            "triton",
            "without Numba",
            "ok",
            "pyshmem.triton works; pyshmem.device, and collectives, atomics and barriers with stream=, "
            "need what [sim] brings, on GPUs [cuda]",
            _pip(*(wanted.text for wanted in facts.requirements("sim"))),
        )


def _torch() -> Iterator[Finding]:
    """PyTorch: optional, as all but the host."""
    for wanted in facts.requirements("torch"):
        yield _package("torch", wanted)


def _cuda() -> Iterator[Finding]:
    yield from _driver()
    for wanted in facts.requirements("cuda"):
        yield _package("cuda", wanted)
    yield from _numpy_with_numba()
    yield _nvvm()
    yield _compiled()
    yield from _peers()
    yield from _growth()


def _driver() -> Iterator[Finding]:
    install = (
        "install the NVIDIA driver, 580 or newer, for GPUs of sm_80 (bulk copies: sm_90) or newer "
        "(in a container: start it with --gpus all)"
    )
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        yield Finding("cuda", "driver", "missing", "libcuda.so.1 cannot be opened", install)
        return
    version = facts.driver_version() or "version unknown"
    yield Finding("cuda", "driver", "ok", version)
    count = runtime.gpu_count()
    if not count:
        hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
        detail = "the driver shows none" + (
            f"; CUDA_VISIBLE_DEVICES={hidden}" if hidden is not None else ""
        )
        fix = "unset CUDA_VISIBLE_DEVICES" if hidden is not None else "nvidia-smi -L"
        yield Finding("cuda", "GPUs", "missing", detail, fix)
    else:
        yield Finding("cuda", "GPUs", "ok", str(count))
        yield _architecture(count)


def _architecture(n_gpus: int) -> Finding:
    """Whether kernels run on every GPU: by the oldest."""
    try:
        oldest = min(architecture(device) for device in range(n_gpus))
    except (OSError, RuntimeError) as error:
        return Finding("cuda", "architecture", "wrong", str(error), "nvidia-smi")
    name = "sm_{}{}".format(*oldest)
    if oldest < _LEAST_ARCHITECTURE:
        return Finding(
            "cuda",
            "architecture",
            "wrong",
            f"{name}; kernels need sm_80 or newer",
            "set CUDA_VISIBLE_DEVICES to GPUs of sm_80 or newer, or run with --device sim",
        )
    without = "" if oldest >= _BULK_ARCHITECTURE else "; all but bulk copies, which need sm_90"
    return Finding("cuda", "architecture", "ok", name + without)


def _numpy_with_numba() -> Iterator[Finding]:
    """NumPy 2.5 has dropped ``row_stack``, which numba-cuda 0.30 looks up at its first compile."""
    numpy, numba = facts.version_of("numpy"), facts.version_of("numba-cuda")
    if numpy is None or numba is None:
        return
    if facts.satisfies(numpy, ">=2.5") and facts.satisfies(numba, "==0.30.*"):
        yield Finding(
            "cuda",
            "NumPy with numba-cuda",
            "ok",
            f"NumPy {numpy} lacks row_stack, without which numba-cuda {numba} compiles nothing; "
            "pyshmem, once imported, lends it to numba-cuda while that loads, and to nobody else",
            "import pyshmem and pyshmem.device before any kernel is compiled, those without "
            f"pyshmem too; or {_pip('numpy<2.5')}",
        )


def _nvvm() -> Finding:
    """The compiler library that numba-cuda loads."""
    spec = importlib.util.find_spec("nvidia")
    places = list(spec.submodule_search_locations or ()) if spec else []
    roots = [*places, *filter(None, [os.environ.get("CUDA_HOME"), "/usr/local/cuda"])]
    for root in roots:
        for folder, _, names in os.walk(root) if os.path.isdir(root) else ():
            if any(name.startswith("libnvvm.so") for name in names):
                return Finding("cuda", "NVVM", "ok", folder)
    wanted = [
        r.text
        for r in facts.requirements("cuda")
        if r.name.startswith(("numba-cuda", "cuda-toolkit"))
    ]
    return Finding("cuda", "NVVM", "missing", "libnvvm.so not found", _pip(*wanted))


def _compiled() -> Finding:
    """Where compiled code is kept. Without a folder all works, and compiles again in each process."""
    place, (count, nbytes, why) = kept_files.folder(), kept_files.state()
    if why:
        detail = f"{place} cannot be written ({why}): each process compiles its kernels"
        fix = "set PYSHMEM_CACHE_DIR to a folder that can be written"
        return Finding("cuda", "compiled code", "ok", detail, fix)
    return Finding(
        "cuda", "compiled code", "ok", f"{count} files, {library.size_text(nbytes)}, in {place}"
    )


def _peers() -> Iterator[Finding]:
    """Pairs of GPUs that cannot reach each other's memory."""
    count = runtime.gpu_count()
    pairs = [(a, b) for a in range(count) for b in range(count) if a != b]
    if not pairs:
        return
    apart = [f"{a} to {b}" for a, b in pairs if not facts.can_access(a, b)]
    if apart:
        fix = "set CUDA_VISIBLE_DEVICES to GPUs that reach each other: nvidia-smi topo -p2p r"
        yield Finding("cuda", "P2P", "wrong", "no access: " + ", ".join(apart), fix)
    else:
        yield Finding("cuda", "P2P", "ok", f"all {len(pairs)} pairs")


def _growth() -> Iterator[Finding]:
    """Whether device heaps grow; without, all works in a heap of a fixed size."""
    fixed = [str(gpu) for gpu in range(runtime.gpu_count()) if not facts.can_grow(gpu)]
    if fixed:
        detail = f"of a fixed size: GPU {', '.join(fixed)} shares no memory by descriptors"
        fix = "export PYSHMEM_DEVICE_HEAP_SIZE=4G  # or what your arrays need; 1G without"
        yield Finding("cuda", "device heap", "ok", detail, fix)
    elif runtime.gpu_count():
        detail = "grows as arrays are made, where its size is not given"
        yield Finding("cuda", "device heap", "ok", detail)


def _mpi() -> Iterator[Finding]:
    for wanted in facts.requirements("mpi"):
        yield _package("mpi", wanted)
    path = shutil.which("mpirun")
    if path:
        yield Finding("mpi", "mpirun", "ok", path)
    else:
        fix = "apt-get install openmpi-bin libopenmpi-dev (Debian, Ubuntu; as root)"
        yield Finding("mpi", "mpirun", "missing", "not in PATH", fix)
