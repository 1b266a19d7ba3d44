# SPDX-License-Identifier: BSD-3-Clause
"""Builds files of ``cpp/`` for the torch that is there, once on a host, and loads them.

C++ of torch has another layout in each of its versions, so there is no binary of it in the package. The
first use of a user compiles one, while the other PEs of the host wait; it is kept beside the kernels.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from ..._core import kept_files
from ..._core.errors import ShmemError, ShmemTimeout, UnsupportedError
from ..._core.library import checks_order, ffi, lib, setting
from ..._foreign import torch as foreign
from ..._torch.arguments import check_plain
from . import worker_queues

_FOLDER = Path(__file__).with_name("cpp")
#: Modules by the file that each is made of, and what they are to who waits for the compiler.
_NAMES = {"backend": "_torch_backend", "symmetric_memory": "_torch_symmetric_memory"}
_WORDS = {"backend": "process group", "symmetric_memory": "symmetric memory"}
_SECONDS = 600.0  # for the compiler
_AT_EXIT = 2.0  # seconds for all queues; a call that waits for ever does not keep the process


def queues() -> Any:
    """What makes queues: the module in C++, or the one in Python where that is chosen.

    So is it, with a warning, where the one in C++ cannot be had; and where the checker of order is on,
    which sees calls in Python alone.
    """
    return (None if checks_order() else _module()) or worker_queues


@functools.cache
def _module() -> ModuleType | None:
    if setting("TORCH_GROUPS")[0] == "python":
        return None
    try:
        module = _load("backend")
    except (OSError, ImportError, subprocess.SubprocessError) as error:
        why = getattr(error, "stderr", None) or str(error)
        warnings.warn(
            "the process group in C++ cannot be had, and one in Python does its work, which "
            f"torch.compile and the profiler do not see (docs/torch.md): {_first_error(why)}",
            stacklevel=2,
        )
        return None
    module.set_hooks(
        _future_of, worker_queues.callers.take, ShmemTimeout, ShmemError, foreign.set_eval_frame,
        _stream_handle, address_of("ishmemx_stream_capturing"),
    )  # fmt: skip
    worker_queues.callers.told = module.set_depth
    foreign.take_nested_tensors(lambda backend: isinstance(backend, module.Backend), check_plain)
    atexit.register(module.close_all, _AT_EXIT)  # before finalize, which was registered earlier
    return module


@functools.cache
def symmetric_memory() -> ModuleType:
    """The module that gives torch an allocator. Raises: UnsupportedError (it cannot be compiled)."""
    try:
        return _load("symmetric_memory")
    except (OSError, ImportError, subprocess.SubprocessError) as error:
        why = getattr(error, "stderr", None) or str(error)
        raise UnsupportedError(
            f"torch takes memory from C++, which cannot be had: {_first_error(why)}"
        ) from None


def _first_error(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line), lines[0] if lines else "")[:300]


def _future_of(work: Any) -> worker_queues.HostFuture:
    future = worker_queues.HostFuture()
    future.work = work
    return future


def _stream_handle(number: int, device: int, kind: int) -> int:
    """What the library knows a stream of torch by."""
    stream = torch.cuda.Stream(stream_id=number, device_index=device, device_type=kind)
    return int(stream.cuda_stream)


def address_of(routine: str) -> int:
    """Where a routine of the library in C is."""
    return int(ffi.cast("uintptr_t", ffi.addressof(lib, routine)))


def _compiler(source: str) -> list[str]:
    """The command, without files. Raises: FileNotFoundError."""
    name = os.environ.get("CXX") or next(filter(shutil.which, ("c++", "g++", "clang++")), "")
    if not name:
        raise FileNotFoundError("there is no C++ compiler: none of c++, g++, clang++ is found")
    root = Path(torch.__file__).parent
    folders = (
        root / "include",
        root / "include/torch/csrc/api/include",
        sysconfig.get_path("include"),
    )
    libraries = "c10", "torch_cpu", "torch_python"
    return [
        *name.split(), "-std=c++20", "-O1", "-fPIC", "-shared", "-fvisibility=hidden", "-w",
        f"-DTORCH_EXTENSION_NAME={_NAMES[source]}",
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
        *(f"-I{folder}" for folder in folders), f"-L{root / 'lib'}",
        *(f"-l{library}" for library in libraries),
    ]  # fmt: skip


def _built(source: str = "backend") -> Path:
    """The module made of ``source``, which is compiled if nobody has.

    Raises: OSError, subprocess.SubprocessError (no compiler, or it fails).
    """
    version = f"{torch.__version__} {torch.version.git_version} {torch.__file__} {sys.version}"
    files = [_FOLDER / f"{source}.cpp", *sorted(_FOLDER.glob("*.hpp"))]
    text = b"".join(path.read_bytes() for path in files)
    digest = hashlib.sha256(version.encode() + text).hexdigest()[:16]
    path = kept_files.folder() / "torch" / f"{_NAMES[source]}-{digest}.so"
    if not _is_ours(path):
        # A compiler at work is waited for as long as it may take: minutes on a busy host.
        with kept_files.one_at_a_time(path, _SECONDS) as alone:
            if not _is_ours(path):
                _compile(source, path, alone)
    return path


def _is_ours(path: Path) -> bool:
    """Whether it is there, and nobody else could have written it."""
    try:
        return path.stat().st_uid in (os.geteuid(), 0)
    except FileNotFoundError:
        return False


def _compile(source: str, path: Path, alone: bool = True) -> None:
    """Under another name, and renamed: a reader sees all of it or nothing.

    ``alone``: the caller has the lock, so what lies there under such a name is of one that was killed.
    """
    command = _compiler(source)
    path.parent.mkdir(parents=True, exist_ok=True)
    print(
        f"pyshmem: compiles its {_WORDS[source]} for torch {torch.__version__}, once, in half a minute "
        f"or, on a busy machine, some: {path}",
        file=sys.stderr,
        flush=True,
    )
    prefix = f"{path.stem}-making-"
    for left in path.parent.glob(f"{prefix}*") if alone else ():
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=prefix) as folder:
        made = Path(folder, path.name)
        # The libraries behind the file that uses them.
        link = [part for part in command if part.startswith("-l")]
        rest = [part for part in command if not part.startswith("-l")]
        subprocess.run(
            [*rest, str(_FOLDER / f"{source}.cpp"), "-o", str(made), *link],
            check=True, capture_output=True, text=True, timeout=_SECONDS,
        )  # fmt: skip
        os.replace(made, path)


def _load(source: str) -> ModuleType:
    """Raises: OSError, ImportError, subprocess.SubprocessError."""
    path, name = _built(source), _NAMES[source]
    loader = importlib.machinery.ExtensionFileLoader(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module
