# SPDX-License-Identifier: BSD-3-Clause
"""The modules of ``pyshmem.triton`` once more, compiled as Gluon.

Gluon and Triton do not call each other's functions, but they share their syntax and almost all names. So
each module is loaded a second time, with ``language`` of this folder in the place of
``triton.language``. Lines stay where they are: Triton reads a function's source from its file.
"""

from __future__ import annotations

import importlib.util
import sys
import types
from pathlib import Path
from typing import Any

from .. import triton as shmem
from .._core.errors import UnsupportedError
from ..triton.primitives import ptx, ptx_pairs, ptx_wide
from ..triton.runtime import constants as words
from ..triton.runtime import context as job

_REPLACED = {
    "import triton.language as tl\n": "from pyshmem.gluon import language as tl\n",
    "from triton.language.extra import cuda\n": "cuda = tl\n",
    "triton.jit": "tl.jit",
    "_IN_GLUON = tl.constexpr(False)": "_IN_GLUON = tl.constexpr(True)",
}
#: Each before those that import it.
_MODULES = (
    "primitives.gpu", "primitives.gpu_packets", "primitives.backend", "primitives.job_constants",
    "primitives.ring", "primitives.by_proxy", "teams", "tile", "signals", "ordering", "requests",
    "stages", "swizzle",
)  # fmt: skip
#: They find these as they are.
_KEPT = {
    "runtime.context": job, "runtime.constants": words, "primitives.ptx": ptx,
    "primitives.ptx_pairs": ptx_pairs, "primitives.ptx_wide": ptx_wide,
}  # fmt: skip
_FOLDERS = ("runtime", "primitives")
_SPECIFICATION = ("CMP_", "SIGNAL_", "TEAM_")


class _Loader:
    """Reads a module's source with the replacements made."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def create_module(self, spec: Any) -> None:
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        text = self.path.read_text()
        for old, new in _REPLACED.items():
            text = text.replace(old, new)
        exec(compile(text, self.path, "exec"), module.__dict__)


def _load(name: str) -> types.ModuleType:
    full, path = (
        _name(name),
        Path(shmem.__file__).parent.joinpath(*name.split(".")).with_suffix(".py"),
    )
    spec = importlib.util.spec_from_file_location(full, path, loader=_Loader(path))  # type: ignore[arg-type]
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    _put(name, module)
    _Loader(path).exec_module(module)
    return module


def _name(name: str) -> str:
    return f"{__package__}.{name}"


def _put(name: str, module: types.ModuleType) -> None:
    """Where relative imports look: among the modules, and in the folder if it has one."""
    sys.modules[_name(name)] = module
    folder, _, last = name.rpartition(".")
    if folder:
        setattr(sys.modules[_name(folder)], last, module)


def functions() -> dict[str, Any]:
    """The public functions and constants, by name."""
    for folder in _FOLDERS:
        sys.modules[_name(folder)] = types.ModuleType(_name(folder))
    for name, module in _KEPT.items():
        _put(name, module)
    modules = [_load(name) for name in _MODULES]
    found = {
        name: getattr(module, name)
        for module in modules
        for name in getattr(module, "__all__", ())
        if name in shmem.__all__
    }
    found |= {
        name: getattr(words, name) for name in shmem.__all__ if name.startswith(_SPECIFICATION)
    }
    return found


def require_p2p() -> None:
    """Raises UnsupportedError where peers are not reached by loads and stores."""
    if not job.settings()[0]:
        raise UnsupportedError(
            "kernels of Gluon reach peers by loads and stores only, and PYSHMEM_P2P is 0: "
            "write the kernel in Triton (pyshmem.triton)"
        )
