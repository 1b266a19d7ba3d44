# SPDX-License-Identifier: BSD-3-Clause
"""What this machine and this installation have; nothing here imports a library it reports on."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from .._core import kept_files, library, other_project
from ..host.job import joining, runtime
from ..host.tuning import gpus as tuned_gpus
from ..host.tuning import table as tuning

DISTRIBUTION = other_project.OURS
PACKAGES = ("numpy", "cffi", "numba", "numba-cuda", "greenlet", "cupy", "triton", "torch", "mpi4py")

#: Operations, and when the bits of a row do not depend on what else is in the batch
#: (``docs/semantics.md``).
BATCH_INVARIANT = (
    ("sum_reduce, sum_reduce_scatter", "always, with stream= too: in PE order"),
    ("all_reduce, reduce_scatter, expert_dispatch, expert_combine", "always"),
    ("all_to_all, low_latency_all_gather", "always: nothing is added"),
    ("ulysses_to_heads, ulysses_to_sequence", "always: nothing is added"),
    ("all_reduce_rmsnorm, flash_decode, group_matmul", "with batch_invariant=True"),
    ("all_gather_matmul, matmul_reduce_scatter, matmul_all_reduce", "with batch_invariant=True"),
    ("interop.transformers.use", "with batch_invariant=True, a model's logits"),
    ("interop.vllm", "sums, with VLLM_BATCH_INVARIANT=1"),
    ("interop.sglang", "sums and norms, in deterministic inference"),
    ("all_gather_group_matmul, group_matmul_reduce_scatter", "no"),
)

#: Plug-ins of inference engines: what turns them on, with what of theirs they ran, what was not tried.
ENGINES = (
    (
        "vLLM", "VLLM_PLUGINS=pyshmem",
        "vLLM's groups and communicators on CPUs; on GPUs classes like them",
        "a server on GPUs, its speed, pipeline parallelism, sleep mode, checkpoints",
    ),
    (
        "SGLang", "SGLANG_PLUGINS=pyshmem",
        "SGLang's plug-ins and hooks on CPUs; on GPUs classes like its own",
        "a server on GPUs, its speed, pipeline parallelism",
    ),
)  # fmt: skip


class Gpu(NamedTuple):
    """One GPU as the driver shows it."""

    name: str
    nbytes: int


class Requirement(NamedTuple):
    """One line of an extra of this package."""

    name: str
    extras: str
    versions: str  # as in pyproject.toml: ==1.2.*, >=3

    @property
    def text(self) -> str:
        """What pip takes."""
        return self.name + self.extras + self.versions


def version_of(package: str) -> str | None:
    """The installed version of a distribution; ``cupy`` finds any of its builds."""
    names = ("cupy-cuda13x", "cupy-cuda12x", "cupy") if package.startswith("cupy") else (package,)
    for name in names:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def versions() -> Iterator[tuple[str, str]]:
    """Names and versions of what takes part; what is absent is ``not installed``."""
    yield "pyshmem", library.__version__
    yield "python", platform.python_version()
    for name in PACKAGES:
        yield name, version_of(name) or "not installed"
    if theirs := version_of(other_project.THEIRS):
        yield "another pyshmem", f"{theirs}: not this project, but its import name; see doctor"
    yield "NVIDIA driver", driver_version() or "none"
    yield "system", f"{platform.system()} {platform.release()} {platform.machine()}"


def driver_version() -> str | None:
    """The version of the loaded NVIDIA kernel module."""
    try:
        return Path("/sys/module/nvidia/version").read_text().strip()
    except OSError:
        pass
    try:
        found = re.search(r"\b\d{3,}\.[\d.]+", Path("/proc/driver/nvidia/version").read_text())
    except OSError:
        return None
    return found[0] if found else None


def openshmem_library() -> tuple[str, str]:
    """The library of the openshmem conduit, or why there is none; what is not its own work."""
    text = library.ffi.new("char[]", 1024)
    if library.lib.ishmemx_openshmem_describe(text, len(text)):
        return library.ffi.string(library.lib.ishmemx_error()).decode(errors="replace"), ""
    return library.ffi.string(text).decode(errors="replace"), (
        "heaps, teams, contexts, signals, waits, barriers, collectives, scans, locks; "
        "its own: put, get, atomics, ordering"
    )


def ucx_library() -> str:
    """UCX, for the ucx conduit, or why there is none."""
    library.tell_of_ucx()
    text = library.ffi.new("char[]", 1024)
    if library.lib.ishmemx_ucx_describe(text, len(text)):
        return str(library.ffi.string(library.lib.ishmemx_error()).decode(errors="replace"))
    return str(library.ffi.string(text).decode(errors="replace"))


def joins_by() -> str:
    """How PEs of several hosts find each other in this environment."""
    if way := joining.way_here():
        return joining.told(way)
    return str(library.ffi.string(library.lib.ishmemx_join()).decode())


def gpus() -> list[Gpu]:
    """The GPUs that this process can see."""
    found = []
    for device in range(runtime.gpu_count()):
        name, nbytes = library.ffi.new("char[]", 256), library.ffi.new("int64_t *")
        library.check(library.lib.ishmemx_cuda_describe(device, name, len(name), nbytes))
        found.append(Gpu(library.ffi.string(name).decode(errors="replace"), nbytes[0]))
    return found


def can_access(device: int, peer: int) -> bool:
    """Whether GPU ``device`` can load and store memory of GPU ``peer``."""
    can = library.ffi.new("int *")
    library.check(library.lib.ishmemx_cuda_can_access(device, peer, can))
    return bool(can[0])


def can_grow(device: int) -> bool:
    """Whether a heap on GPU ``device`` can grow: its memory is mapped and shared by descriptors."""
    can = library.ffi.new("int *")
    library.check(library.lib.ishmemx_cuda_can_grow(device, can))
    return bool(can[0])


def kind_text(device: int) -> str:
    """What the rule of choices goes by: architecture, link and bandwidth of a GPU."""
    kind = tuned_gpus.ask(device).kind
    return f"sm_{kind.architecture}, {kind.link}, {kind.gbps:g} GB/s"


def choices_of(device: int, peers: int) -> str:
    """Whose rows choose between stores and copy engines on this GPU: its own, or another's by rule."""
    return describe_choices(tuned_gpus.ask(device), peers)


def describe_choices(gpu: tuned_gpus.Gpu, peers: int) -> str:
    """The same of a GPU that need not be here: by the origin of the rows of its puts by one block."""
    found = tuning.choices(gpu, peers, tuning.files()).get("put 1x1024")
    if found is None:
        return "none: all by stores"
    _, comma, rule = found.origin.partition(", by rule ")
    if comma:
        return f"by rule {rule}"
    quick = found.origin == str(tuning.quick_file())
    return f"{'calibrated by tune quick' if quick else 'measured'} ({found.origin})"


def requirements(extra: str) -> list[Requirement]:
    """What an extra of this package asks for."""
    found = []
    try:
        lines = importlib.metadata.requires(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        return []
    for line in lines:
        wanted, _, marker = line.partition(";")
        if re.search(rf"extra\s*==\s*['\"]{extra}['\"]", marker):
            match = re.fullmatch(r"([\w.-]+)(\[[\w,-]+\])?\s*\(?([^)]*)\)?", wanted.strip())
            if match:
                found.append(Requirement(match[1], match[2] or "", match[3].replace(" ", "")))
    return found


def satisfies(version: str, wanted: str) -> bool:
    """Whether a version fits ``==1.2``, ``!=1.2.*``, ``>=1.2``, ``<1.2``; commas join several."""

    def key(text: str) -> list[int]:
        return [int(part) for part in re.findall(r"\d+", text)]

    for clause in filter(None, wanted.split(",")):
        operator, number = re.fullmatch(r"([<>=!~]*)(.*)", clause).groups()  # type: ignore[union-attr]
        have, want = key(version), key(number)
        same = (have[: len(want)] if number.endswith(".*") else have) == want
        if (operator == ">=" and have < want) or (operator == "<" and have >= want):
            return False
        if (operator == "==" and not same) or (operator == "!=" and same):
            return False
    return True


def shipped(folder: Path | None = None) -> tuple[int, int, str]:
    """Device routines and objects that came with the package, bytes of their archives, a remark.

    Whether their dialect is the one here is known when a kernel is compiled.
    """
    place = folder or Path(__file__).parents[1] / "device" / "jit"
    count, nbytes, told = 0, 0, ""
    for path in sorted(place.glob("routines-*.zip")):
        try:
            with zipfile.ZipFile(path) as archive:
                index = json.loads(archive.read("index.json"))
            count += len(index.get("routines") or index["objects"])
            nbytes += path.stat().st_size
            if index["made_of"][1] != kept_files.sources():
                told = "not used: the sources have changed since"
        except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
            told = f"{path.name} cannot be read: {error}"
    return count, nbytes, told if nbytes or told else "none: built without Numba"
