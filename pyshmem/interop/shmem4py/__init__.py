# SPDX-License-Identifier: BSD-3-Clause
"""Programs written for shmem4py, on pyshmem: its modules, names, argument orders and defaults.

    from pyshmem.interop.shmem4py import shmem    # was: from shmem4py import shmem

Importing ``shmem`` joins the job, as ``rc`` and the variables ``SHMEM4PY_RC_...`` say. This package
answers for that module, too: ``from pyshmem.interop import shmem4py as shmem``.

What differs: errors are pyshmem's exceptions, of which most are RuntimeErrors, too, where shmem4py
asserts; signals and locks are arrays of one word; a job that is still there at exit is finalized,
whatever ``rc.finalize`` says; there is no ``shmem4py.api``.

Extension.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

import pyshmem


class Rc:
    """What importing ``shmem`` does.

    Attributes:
        initialize: join the job.
        threads: ask for ``thread_level`` then.
        thread_level: "multiple", "serialized", "funneled" or "single".
        finalize: leave the job at exit; pyshmem does so anyway.
    """

    initialize: bool = True
    threads: bool = False
    thread_level: str = "multiple"
    finalize: bool | None = None

    def __init__(self, **options: Any) -> None:
        self(**options)

    def __setattr__(self, name: str, value: Any) -> None:
        if not hasattr(self, name):
            raise TypeError(f"rc has no option {name!r}")
        super().__setattr__(name, value)

    def __call__(self, **options: Any) -> None:
        """Set options."""
        if unknown := [name for name in options if not hasattr(self, name)]:
            raise TypeError(f"rc has no option {unknown[0]!r}")
        for name, value in options.items():
            setattr(self, name, value)

    def __repr__(self) -> str:
        return f"<{__name__}.rc>"


rc = Rc()
sys.modules[__name__ + ".rc"] = rc  # type: ignore[assignment]


def _option(name: str) -> Any:
    """An option of ``rc``, after its environment variable, if that is set."""
    text = os.environ.get(f"SHMEM4PY_RC_{name.upper()}", "").lower()
    if text:
        truth: dict[str, Any] = dict.fromkeys(("true", "yes", "on", "y", "1"), True)
        truth |= dict.fromkeys(("false", "no", "off", "n", "0"), False)
        setattr(rc, name, truth.get(text, text))
    return getattr(rc, name)


def join() -> None:
    """Join the job, unless ``rc`` says not to; ``shmem`` calls it at its end."""
    wanted, threads, level = _option("initialize"), _option("threads"), _option("thread_level")
    finalizes = _option("finalize")
    if not wanted:
        return
    if finalizes is None:
        rc.finalize = True
    if threads and not pyshmem.initialized():
        pyshmem.init(thread_level=pyshmem.ThreadLevel[level.upper()])
    elif not pyshmem.initialized():
        pyshmem.init()


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"{__name__}.shmem")
    return module if name == "shmem" else getattr(module, name)
