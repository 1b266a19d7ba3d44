# SPDX-License-Identifier: BSD-3-Clause
"""What may help a program that failed, where its own last words do not say it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from ..._core.other_names import OF_FUSED, OF_PACKAGE, OF_TORCH

_MISSING = re.compile(r"ModuleNotFoundError: No module named '(\w+)")

#: Packages, and the extra of pyshmem's own that brings them.
_EXTRAS = {
    "numba": "sim",
    "numba_cuda": "sim",
    "greenlet": "sim",
    "cupy": "cuda",
    "triton": "triton",
    "torch": "torch",
    "mpi4py": "mpi",
    "matplotlib": "demo",
}

_NO_SUCH_CHARACTER = re.compile(r"UnicodeEncodeError: '(?:ascii|latin-1)' codec")

#: A text that was given to torch as ``op``.
_NO_REDUCE_OP = re.compile(r"arg0: torch\S*ReduceOp\) -> None.*Invoked with: .*, '\w+'$")

#: What torch says of an argument of ours, and what is given in its place.
_OF_OPERATOR = re.compile(
    r"RuntimeError: pyshmem::\w+\(\) Expected a value of type .* for argument '(\w+)'"
)
_GIVEN_TO_OPERATOR = {
    "team": "team is a number: pyshmem.interop.torch.register_team(team) gives it, 0 is TEAM_WORLD",
    "op": "op is a text: 'sum', 'prod', 'min', 'max', 'and', 'or', 'xor' or 'avg'",
}
_NO_CONTEXT = re.compile(r"TypeError: \w+\(\) missing .*positional arguments?: .*'(ctx|context)'")

#: A result that was expected of a routine that has none.
_NO_RESULT = re.compile(
    r"(?:AttributeError|TypeError): 'NoneType' object (?:has no attribute|is not|does not support item)"
)
#: The same of an expression with ``await``.
_NO_AWAITABLE = re.compile(r"TypeError: object NoneType can't be used in 'await' expression")

#: A name of another library, imported from ours: Python drops what our ``__getattr__`` says.
_NO_SUCH_NAME = re.compile(r"ImportError: cannot import name '(\w+)' from 'pyshmem(?:\.([\w.]+))?'")
#: What there is of a package's names, by the package in ``pyshmem``; it is the package itself: nothing.
_NAMES_OF = {"": OF_PACKAGE, "fused": OF_FUSED, "interop.torch": OF_TORCH}

#: The same of a module, as ``pyshmem.core`` and ``pyshmem.device.numba`` of nvshmem4py.
_NO_SUCH_MODULE = re.compile(r"ModuleNotFoundError: No module named 'pyshmem\.(\w+)(\.\w+)*'")

#: A constant that is the package's, asked of one of its enumerations.
_NO_MEMBER = re.compile(r"AttributeError: .*?\b((?:SIGNAL|CMP|TEAM|THREAD)_[A-Z]+)'?$")

#: A number of the job's, called as the package's functions are.
_NUMBER_CALLED = re.compile(r"\.(?:my_pe|n_pes|local_pe)\(")

#: What Numba says of our routines in a function for the host.
_OF_KERNELS = "of type Module(<module 'pyshmem.device'"

#: A plain function that is launched as a kernel is.
_SUBSCRIPTED = re.compile(r"TypeError: 'function' object is not subscriptable")
_LAUNCHED = re.compile(r"\w+\[.*\]\(")

#: Of a module that is not the one that was meant, in words of Python's.
_STRANGE_MODULE = re.compile(r"(?:module|from) '(\w+)[.']")


def ways_out(lines: Sequence[str], command: Sequence[str]) -> list[str]:
    """What may help.

    Args:
        lines: what the PE wrote to stderr last.
        command: the program.
    """
    last = lines[-1] if lines else ""
    found = []
    missing = _MISSING.search(last)
    if missing and missing[1] in _EXTRAS:
        extra = _EXTRAS[missing[1]]
        with_gpu = " without a GPU, 'pyshmem-openshmem[cuda]' with one" if extra == "sim" else ""
        found.append(f"pip install 'pyshmem-openshmem[{extra}]'{with_gpu}")
    found += _from_torch(last, " ".join(lines[-8:]))
    if context := _NO_CONTEXT.search(last):
        found.append(f"if it is a kernel of Triton, {context[1]} is pyshmem.triton.context()")
    if _NO_SUCH_CHARACTER.search(last):
        way = "PYTHONUTF8=1 in the environment has PEs write UTF-8, whatever the locale is"
        if "PYTHONIOENCODING" in os.environ:  # it counts for more
            way = f"PYTHONIOENCODING is {os.environ['PYTHONIOENCODING']!r}: unset it, or make it utf-8"
        found.append(way)
    if _NO_RESULT.search(last):
        found.append(
            "if the None is a routine's of pyshmem: results are in dest, quiet() completes what "
            "*_nbi began, a PE outside a new team gets None for it, and ptr() is None for a PE whose "
            "memory is not reached by loads, as on another host: put and get go there"
        )
    if name := _NO_SUCH_NAME.search(last):
        told = _NAMES_OF.get(name[2] or "", {}).get(name[1])
        package = f"pyshmem.{name[2]}" if name[2] else "pyshmem"
        found += [f"{package} has no {name[1]}: {told}"] if told else []
    if name := _NO_SUCH_MODULE.search(last):
        found += _module_instead(name[1])
    if constant := _NO_MEMBER.search(last):
        found.append(f"the constants of this kind are the package's: pyshmem.{constant[1]}")
    if _NO_AWAITABLE.search(last):
        found.append(
            "if it is a collective of pyshmem: what can be awaited is a request, `await "
            "pyshmem.sum_reduce_nb(dest, source)`"
        )
    found += _managed(last)
    if any("Unknown attribute" in line and _OF_KERNELS in line for line in lines):
        found.append(
            "pyshmem.device is for kernels and what they call: @cuda.jit, not @numba.njit, which "
            "compiles for the host"
        )
    if _SUBSCRIPTED.search(last) and _LAUNCHED.search(" ".join(lines[-4:])):
        found.append(
            "if it is a kernel, it is decorated: @cuda.jit of Numba, @triton.jit of Triton"
        )
    if "'int' object is not callable" in last and _NUMBER_CALLED.search(" ".join(lines[-3:])):
        found.append("of a job, my_pe and n_pes are numbers: leave the () out, or pyshmem.my_pe()")
    if strange := _STRANGE_MODULE.search(last):
        found += _hidden_module(strange[1], command)
    return found


def _managed(last: str) -> list[str]:
    """What may help where ``with`` was given what it does not take."""
    found = []
    if "'Stream' object does not support the context manager protocol" in last:
        found.append("if it is a stream of pyshmem: routines are given it, put(..., stream=s)")
    if "'function' object does not support the context manager protocol" in last:
        found.append("if it is pyshmem.init: it is called, `with pyshmem.init() as job:`")
    if "'NoneType' object does not support the context manager protocol" in last:
        found.append(
            "if it is a lock's: `with pyshmem.Lock() as lock:` makes and holds one, `with lock:` holds "
            "it again; set_lock() and clear_lock() have no result"
        )
    return found


def _from_torch(last: str, lately: str) -> list[str]:
    """What may help where torch has raised, from the last line and the few before it."""
    found = []
    if "Unknown backend type pyshmem" in last:
        found.append("import pyshmem.interop.torch registers the backend: add it before the call")
    if "'_OpNamespace' 'pyshmem' object has no attribute" in last:
        found.append(
            "import pyshmem.interop.torch registers the operators: add it before the call; where it is "
            "there, docs/torch.md lists them: all_reduce, all_reduce_, all_gather, ..."
        )
    if "ProcessGroupNCCL is only supported with GPUs" in last:
        found.append(
            "pyshmem's process groups are on CPUs too: pyshmem.interop.torch.init_process_group() "
            'without "nccl"'
        )
    if _NO_REDUCE_OP.search(lately):
        found.append("op is a member of torch.distributed.ReduceOp: dist.ReduceOp.SUM, not a text")
    if given := _OF_OPERATOR.search(lately):
        found += [_GIVEN_TO_OPERATOR[given[1]]] if given[1] in _GIVEN_TO_OPERATOR else []
    if "SymmetricMemory does not support device type cpu" in last:
        found.append(
            "pyshmem's symmetric memory is on CPUs too: pyshmem.interop.torch.use_symmetric_memory() "
            "before the call"
        )
    return found


def _module_instead(name: str) -> list[str]:
    """What there is in place of a module ``pyshmem.NAME``, or of one in it."""
    if name == "device":
        return ["routines for kernels of Numba are pyshmem.device itself, of Triton pyshmem.triton"]
    return [f"pyshmem has no {name}: {OF_PACKAGE[name]}"] if name in OF_PACKAGE else []


def _hidden_module(name: str, command: Sequence[str]) -> list[str]:
    """A module of Python's, or a package, that a file in the program's folder hides."""
    own = name in sys.stdlib_module_names
    if not (own or name in (*_EXTRAS, "numpy", "pyshmem")):
        return []
    if len(command) < 2 or command[0] != sys.executable:
        return []
    in_current = command[1] in ("-m", "-c")
    path = (Path.cwd() if in_current else Path(command[1]).absolute().parent) / f"{name}.py"
    hidden = f"Python's own module {name}" if own else f"the package {name}"
    return [f"{path} hides {hidden}: rename it"] if path.is_file() else []
