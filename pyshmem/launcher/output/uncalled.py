# SPDX-License-Identifier: BSD-3-Clause
"""What a program's text has that Python runs without a word: ``pyshmem.my_pe == 0`` is never true.

A comparison with a function is no error of Python's, and our functions cannot hear of it. So the
launcher reads the program before it starts it, at the cost of parsing one file. Told is only what is
never meant.
"""

from __future__ import annotations

import ast
import inspect
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

_PACKAGE = __name__.partition(".")[0]

#: Routines whose number or truth is meant wherever they stand without being called.
_NUMBERS = frozenset(("my_pe", "n_pes", "team_my_pe", "team_n_pes", "initialized"))

#: What begins a team in the text, and the name that stands for any of them here.
_TEAM = f"{_PACKAGE}.TEAM"
_OF_TEAM = frozenset(("my_pe", "n_pes", "sync", "destroy"))

_KERNELS = (f"{_PACKAGE}.device", f"{_PACKAGE}.triton", f"{_PACKAGE}.gluon")
_OF_KERNELS = f"kernels of Numba call {_PACKAGE}.device, of Triton {_PACKAGE}.triton"
_SCOPES = ("_work_group", "_warp", "_grid")

#: Functions of Python's that take a number or a text, and no function.
_OF_VALUES = frozenset(("range", "print", "int", "float", "bool", "str", "repr", "format"))

_NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler)

_MOST_BYTES = 1 << 20  # of a program that is read: larger ones are data
_MOST_LINES = 5  # that are told


def told(command: Sequence[str]) -> list[str]:
    """Lines for the user about the program that ``command`` runs; none where it cannot be read."""
    name, text = _program(command)
    found = [f"{name}:{line}: {what}" for line, what in uncalled(text)]
    more = len(found) - _MOST_LINES
    return found if more <= 0 else [*found[:_MOST_LINES], f"and {more} more of the kind"]


def uncalled(text: bytes) -> list[tuple[int, str]]:
    """Line numbers, and what is wrong there, of a program's text."""
    if _PACKAGE.encode() not in text:
        return []
    try:
        with warnings.catch_warnings(action="ignore"):  # Python tells them when it runs the program
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []  # Python says so itself
    paths = _paths(tree)
    found = [
        (node.lineno, what)
        for node in ast.walk(tree)
        if isinstance(node, (ast.expr, ast.stmt))
        for what in (*_not_called(node, paths), *_host_in_kernel(node, paths))
    ]
    return sorted(set(found))


def _program(command: Sequence[str]) -> tuple[str, bytes]:
    """The name and the text of the program of Python that ``command`` runs."""
    if len(command) < 2 or not Path(command[0]).name.startswith("python"):
        return "", b""
    if command[1] == "-c":
        return "-c", command[2].encode(errors="replace") if len(command) > 2 else b""
    path = Path(command[1])
    if command[1] == "-m":
        path = Path("".join(command[2:3]).replace(".", "/") + ".py")
    try:
        if path.suffix != ".py" or path.stat().st_size > _MOST_BYTES:
            return "", b""
        return str(path), path.read_bytes()
    except OSError:
        return "", b""


# ---- names ---------------------------------------------------------------------------------------


def _paths(tree: ast.AST) -> dict[str, str]:
    """What the program's names stand for: ``{"shmem": "pyshmem.device", "me": "pyshmem.my_pe"}``.

    Names that are given another value too are left out: which one counts where, is not looked at.
    """
    paths: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                if one.name.partition(".")[0] == _PACKAGE:
                    paths[one.asname or _PACKAGE] = one.name if one.asname else _PACKAGE
        elif isinstance(node, ast.ImportFrom) and not node.level:
            module = node.module or ""
            if module.partition(".")[0] == _PACKAGE:
                paths |= {one.asname or one.name: f"{module}.{one.name}" for one in node.names}
    given = Counter(_given(tree))
    paths = {name: path for name, path in paths.items() if not given[name]}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            new = dict(_assigned(node.targets[0], node.value, paths))
            paths |= {name: path for name, path in new.items() if given[name] == 1}
    return paths


def _given(tree: ast.AST) -> Iterator[str]:
    """Names that the program gives a value, other than by an import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, _NAMED):
            yield node.name or ""


def _assigned(
    target: ast.expr, value: ast.expr, paths: dict[str, str]
) -> Iterator[tuple[str, str]]:
    """Names that stand for a routine of ours, or for a team, behind ``target = value``."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for one, its in zip(target.elts, value.elts, strict=False):
            yield from _assigned(one, its, paths)
    elif isinstance(value, ast.Call) and _makes_team(_path(value.func, paths)):
        names = target.elts if isinstance(target, ast.Tuple) else [target]
        yield from ((one.id, _TEAM) for one in names if isinstance(one, ast.Name))
    elif isinstance(target, ast.Name) and _is_number(path := _path(value, paths)):
        yield target.id, path


def _path(node: ast.AST, paths: dict[str, str]) -> str:
    """``pyshmem.device.my_pe`` for what stands in the text; empty where it is none of ours."""
    if isinstance(node, ast.Name):
        return paths.get(node.id, "")
    if isinstance(node, ast.Attribute) and (of := _path(node.value, paths)):
        return f"{of}.{node.attr}"
    return ""


def _makes_team(path: str) -> bool:
    of, _, name = path.rpartition(".")
    return name == "from_pes" or (of.startswith(_TEAM) and name.startswith("split"))


def _is_number(path: str) -> bool:
    return bool(path) and path.rpartition(".")[2] in _NUMBERS


def _is_routine(path: str) -> bool:
    of, _, name = path.rpartition(".")
    if of.startswith(_TEAM):
        return name in _OF_TEAM
    if of in _KERNELS:
        for scope in _SCOPES:
            name = name.removesuffix(scope)
    elif of != _PACKAGE:
        return False
    return inspect.isroutine(getattr(sys.modules[_PACKAGE], name, None))


# ---- what is wrong -------------------------------------------------------------------------------


def _not_called(node: ast.expr | ast.stmt, paths: dict[str, str]) -> Iterator[str]:
    """Functions of ours that stand where what they return is meant."""
    if isinstance(node, ast.Expr):
        if _is_routine(path := _path(node.value, paths)):
            called = _called(node.value, path)
            yield f"{ast.unparse(node)} alone does nothing: call it, {called}"
        return
    for part in _values_of(node):
        if _is_number(path := _path(part, paths)):
            text, called = ast.unparse(part), _called(part, path)
            yield f"{text} is a function, not what it returns, in `{_short(node)}`: call it, {called}"


def _called(node: ast.expr, path: str) -> str:
    arguments = "ctx" if path.startswith(f"{_PACKAGE}.triton") else ""
    return f"{ast.unparse(node)}({arguments})"


def _short(node: ast.expr | ast.stmt) -> str:
    """The text of an expression, or the first line of a statement."""
    return ast.unparse(node).partition("\n")[0]


def _values_of(node: ast.expr | ast.stmt) -> Iterator[ast.expr]:
    """The parts of ``node`` of which a number, a truth or a text is meant."""
    match node:
        case ast.Compare(left=left, ops=ops, comparators=others):
            if not all(isinstance(op, (ast.Is, ast.IsNot)) for op in ops):
                yield from (left, *others)
        case ast.BoolOp(values=values):
            yield from values
        case ast.BinOp(left=left, right=right):
            yield from (left, right)
        case ast.UnaryOp(operand=part) | ast.FormattedValue(value=part) | ast.AugAssign(value=part):
            yield part
        case (
            ast.If(test=part) | ast.While(test=part) | ast.IfExp(test=part) | ast.Assert(test=part)
        ):
            yield part
        case ast.Slice(lower=lower, upper=upper, step=step):
            yield from (part for part in (lower, upper, step) if part is not None)
        case ast.Subscript(slice=part):
            yield from part.elts if isinstance(part, ast.Tuple) else (part,)
        case ast.Call(func=ast.Name(id=name), args=arguments) if name in _OF_VALUES:
            yield from arguments


def _host_in_kernel(node: ast.expr | ast.stmt, paths: dict[str, str]) -> Iterator[str]:
    """Calls of routines of the host in a kernel: a simulator runs some, compilers none."""
    if not (isinstance(node, ast.FunctionDef) and any(map(_is_jit, node.decorator_list))):
        return
    for part in ast.walk(node):
        if isinstance(part, ast.Call):
            path = _path(part.func, paths)
            if path.rpartition(".")[0] == _PACKAGE and _is_routine(path):
                what = f"kernel {node.name} calls {ast.unparse(part.func)}, a routine of the host"
                yield f"{what}, in line {part.lineno}: {_OF_KERNELS}"


def _is_jit(decorator: ast.expr) -> bool:
    """``cuda.jit``, ``cuda.jit(device=True)``, ``triton.jit``; ``numba.njit`` is of the host."""
    function = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(function) in ("cuda.jit", "numba.cuda.jit", "triton.jit", "gluon.jit")
