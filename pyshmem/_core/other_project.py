# SPDX-License-Identifier: BSD-3-Clause
"""What is imported in place of what is meant: another project (decision 21), or the program's own files.

The other project's distribution is called pyshmem, too. Where both are installed into one environment,
the files of the later one lie over those of the earlier one: both have an ``__init__.py``. Nothing here
is imported before it is known whose that is, and the build runs this file as a program.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import warnings
from pathlib import Path
from types import FrameType
from typing import NoReturn

OURS, THEIRS = "pyshmem-openshmem", "pyshmem"
#: In its package and in no version of ours.
_THEIR_FILES = ("_shared.py", "_cli.py")
#: Packages that pyshmem imports when a program needs them.
_IMPORTED = ("numba", "llvmlite", "greenlet", "cupy", "triton", "torch", "mpi4py", "ml_dtypes")
_PACKAGE = str(Path(__file__).parents[1]) + "/"
CURE = (
    f"pip uninstall -y {THEIRS} && pip install --force-reinstall --no-deps {OURS}"
    "  # or its wheel, or its sources"
)


def refuse_overwritten() -> None:
    """ImportError where the package that this file belongs to was imported by another's ``__init__``."""
    package = sys.modules[__name__.partition(".")[0]]
    if not hasattr(package, "_is_openshmem"):
        raise ImportError(
            f"{package.__file__} is not of {OURS}: the project {THEIRS}, which has the same import "
            f"name, was installed over it; {CURE}"
        )


def warn_of_leftovers(folder: str) -> None:
    """A warning where files of the other project lie between ours; a PE leaves it to its launcher."""
    if os.environ.get("PYSHMEM_PE") is None and any(
        os.path.exists(f"{folder}/{name}") for name in _THEIR_FILES
    ):
        warnings.warn(
            f"{folder} also has files of the project {THEIRS}, which has the same import name and does "
            f"not work any more; to uninstall it takes files of {OURS} away; {CURE}",
            RuntimeWarning,
            stacklevel=3,
        )


def _hiding(name: str) -> str | None:
    """The file in the program's folder that is imported as a package ``name``."""
    folder = sys.path[0] if sys.path else ""
    if folder.endswith(("-packages", ".zip")):  # where packages are, or Python's own modules
        return None
    for path in (f"{name}.py", f"{name}/__init__.py"):
        whole = os.path.join(folder or os.getcwd(), path)
        if os.path.exists(whole):
            return whole
    return None


def tell_hidden() -> None:
    """Tell of files in the program's folder that are imported where packages are meant; PE 0 does.

    Raises: ImportError (it is NumPy, without which there is nothing).
    """
    if hidden := _hiding("numpy"):
        raise ImportError(f"{hidden} hides the package numpy: rename it")
    if os.environ.get("PYSHMEM_PE", "0") != "0":
        return
    for name in _IMPORTED:
        if hidden := _hiding(name):
            told = f"{hidden} hides the package {name}: rename it"
            warnings.warn(told, RuntimeWarning, stacklevel=3)


def refuse_second_import() -> None:
    """ImportError while a file of the program's folder is imported for a module of its name.

    A program ``secrets.py`` runs once more, within what it calls, when that imports Python's; and so
    does another program that lies beside it.
    """
    program = getattr(sys.modules.get("__main__"), "__file__", None)
    folder = os.path.dirname(os.path.abspath(program)) if program else os.getcwd()
    frame: FrameType | None = sys._getframe(1)
    imported = None
    while frame is not None:
        name, file = frame.f_globals.get("__name__", "__main__"), frame.f_code.co_filename
        is_module = frame.f_code.co_name == "<module>" and name not in ("__main__", "__mp_main__")
        if is_module and os.path.dirname(os.path.abspath(file)) == folder:
            imported = (name, file)
        if imported is not None and (imported[1] == program or file.startswith(_PACKAGE)):
            raise ImportError(
                f"{imported[1]} hides the module {imported[0]}, and is imported for it: rename it"
            )
        frame = frame.f_back


def not_there_yet(name: str) -> NoReturn:
    """The ``__getattr__`` of the package while it is imported."""
    refuse_second_import()
    raise AttributeError(
        f"module pyshmem has no attribute {name!r} while it is imported", name=name
    )


def installed_beside(folder: Path) -> str | None:
    """The version of the other project that is installed in a folder for packages."""
    found = sorted(folder.glob(f"{THEIRS}-[0-9]*.dist-info"))
    return found[0].name.removesuffix(".dist-info").partition("-")[2] if found else None


if __name__ == "__main__":  # of the build
    for kind in ("purelib", "platlib"):
        version = installed_beside(Path(sysconfig.get_path(kind)))
        if version:
            print(
                f"{sysconfig.get_path(kind)} has the project {THEIRS} {version}: installed there, "
                f"{OURS} overwrites it, for both are imported as pyshmem"
            )
            break
