# SPDX-License-Identifier: BSD-3-Clause
"""Writes pyshmem/device/__init__.pyi: what editors and type checkers see of the device library.

    python tools/device_stub.py OUTPUT [DEPFILE]

The routines are made for each scope and operation when the package is imported, so their names stand in
no source file. This imports the modules that make them, and stands in for all that those import: it
needs neither Numba nor NumPy, so that a wheel is built without them. Arguments are ``Any``: Numba gives
them their types.
"""

from __future__ import annotations

import ast
import dis
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

PACKAGE = Path(__file__).resolve().parents[1] / "pyshmem"
DEVICE = PACKAGE / "device"
HEAD = """# SPDX-License-Identifier: BSD-3-Clause
# Made by tools/device_stub.py. What the routines do is in api/, by the chapters of the specification.
from typing import Any

from pyshmem._core.values import Cmp, SignalOp

"""


class Anything:
    """Stands for a value that no name and no parameter depends on."""

    def __getattr__(self, name: str) -> Anything:
        return self

    __call__ = __getitem__ = lambda self, *args, **kwargs: self
    __add__ = __sub__ = __mul__ = __or__ = __and__ = __lshift__ = __rshift__ = __call__
    __radd__ = __rsub__ = __rmul__ = __ror__ = __rand__ = __rlshift__ = __rrshift__ = __call__

    def __iter__(self) -> Iterator[Anything]:
        """As many as the caller has targets for: the instruction that it is at says that."""
        caller = sys._getframe(1)
        opcode, count = caller.f_code.co_code[caller.f_lasti : caller.f_lasti + 2]
        if dis.opname[opcode] == "UNPACK_EX":  # a starred target takes what is over
            count = 99
        elif dis.opname[opcode] != "UNPACK_SEQUENCE":
            raise TypeError(
                f"{caller.f_code.co_filename}:{caller.f_lineno} iterates over a stand-in"
            )
        return iter([self] * count)


def itself(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator that keeps the function, so that it is known by its parameters."""
    return function


class StandIn(ModuleType):
    """A module of the package that is not loaded."""

    __path__ = ()  # type: ignore[assignment]  # any name below it is a module too
    SIM, CPU = True, False
    device_function = public_function = array_from = staticmethod(itself)

    def __getattr__(self, name: str) -> Anything:
        return Anything()


class Modules:
    """Finds the modules of the package: those that make routines, and for others stand-ins."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """``None`` for a module that is loaded from its file."""
        made_by = ("pyshmem.device.api", "pyshmem.device.routine", "pyshmem.device.groups")
        if not name.startswith("pyshmem.") or name.startswith(made_by):
            return None
        return ModuleSpec(name, self)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The stand-in."""
        return StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing to run."""


def load() -> None:
    """Imports the modules that make routines, in packages whose ``__init__`` is not run."""
    sys.dont_write_bytecode = True
    for name, folder in (("pyshmem", PACKAGE), ("pyshmem.device", DEVICE)):
        sys.modules[name] = ModuleType(name)
        sys.modules[name].__path__ = [str(folder)]
    sys.meta_path.insert(0, Modules())
    importlib.import_module("pyshmem.device.api")


def parameters_of(function: Callable[..., Any]) -> str:
    """Those of a routine."""
    parameters = inspect.signature(function).parameters.values()
    shown = ", ".join(str(parameter.replace(annotation=Any)) for parameter in parameters)
    return shown.replace("typing.", "")


def parameters_in(path: Path, name: str) -> str:
    """Those of a function of a module that is not loaded."""
    found = [
        node
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name == name
    ]
    for argument in ast.walk(found[0].args):
        if isinstance(argument, ast.arg):
            argument.annotation = ast.Name("Any")
    return ast.unparse(found[0].args)


def declarations() -> dict[str, str]:
    """The line of each public name: those that ``pyshmem.device`` imports, and the routines."""
    from pyshmem.device.groups import GRID, SCOPES
    from pyshmem.device.routine import ROUTINES

    parameters, lines = {name: parameters_of(made) for name, made in ROUTINES.items()}, {}
    for module, name in imported():
        if module == "_core.values":
            lines[name] = f"{name}: {'Cmp' if name.startswith('CMP_') else 'SignalOp'}\n"
        elif name.isupper():
            lines[name] = f"{name}: int\n"
        elif module.startswith("api."):
            made = getattr(sys.modules[f"pyshmem.device.{module}"], name)
            parameters[name] = parameters_of(made)
        else:
            parameters[name] = parameters_in(DEVICE / f"{module.replace('.', '/')}.py", name)
    for name, shown in parameters.items():
        bases = [name.removesuffix(scope.suffix) for scope in (*SCOPES, GRID) if scope.suffix]
        base = next((base for base in bases if base != name and base in parameters), "")
        lines[name] = f"{name} = {base}\n" if base else f"def {name}({shown}) -> Any: ...\n"
    return lines


def imported() -> Iterator[tuple[str, str]]:
    """Module and name of what ``pyshmem/device/__init__.py`` takes from below and lists by hand."""
    tree = ast.parse((DEVICE / "__init__.py").read_text())
    listed = next(
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    )
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, alias.name) for alias in node.names if alias.name in listed)


def escaped(path: object) -> str:
    """A path in a Makefile, as compilers write it and ninja reads it."""
    text = str(path).replace("$", "$$").replace("#", r"\#")
    return re.sub(r"(\\*) ", r"\1\1\\ ", text)


def main() -> None:
    """The stub, and a file by which ninja knows when to make it again."""
    output, *depfile = sys.argv[1:]
    load()
    lines = declarations()
    Path(output).write_text(HEAD + "".join(lines[name] for name in sorted(lines)))
    if depfile:
        sources = [*DEVICE.glob("*.py"), *DEVICE.glob("api/*.py"), *DEVICE.glob("jit/*.py")]
        Path(depfile[0]).write_text(
            f"{escaped(output)}: {' '.join(map(escaped, sorted(sources)))}\n"
        )


if __name__ == "__main__":
    main()
