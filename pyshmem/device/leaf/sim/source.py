# SPDX-License-Identifier: BSD-3-Clause
"""What kernels cannot say on a GPU, told before the simulator runs them as Python.

The simulator would run it, and a compiler for GPUs refuses it later, on another machine and in other
words. Each rule was tried with Numba-CUDA's compiler (``tests/unit/test_kernel_source.py`` tries them
again); what only the types of values say is left to it.
"""

from __future__ import annotations

import ast
import builtins
import dis
import functools
import inspect
import textwrap
import types
from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np

from ...._core.values import is_integer
from ...._foreign import numba_simulator
from . import callees, forms
from .callees import REDUCTIONS

_PRINT = 'kernels print numbers and texts as they are: print("x is", x)'
_VALUES = "kernels have numbers, tuples and arrays; cuda.local.array(4, dtype) is one of a thread"

#: Statements and expressions by their class, and what is said of them.
_NODES: dict[type[ast.AST], str] = {
    ast.Dict: f"a dict: {_VALUES}",
    ast.DictComp: f"a dict: {_VALUES}",
    ast.Set: f"a set: {_VALUES}",
    ast.SetComp: f"a set: {_VALUES}",
    ast.ListComp: f"a list: {_VALUES}",
    ast.GeneratorExp: f"a generator: {_VALUES}",
    ast.Try: "try: kernels catch nothing",
    ast.With: "with: kernels have no context managers",
    ast.Import: "import: it belongs at the head of the program",
    ast.ImportFrom: "import: it belongs at the head of the program",
    ast.Global: "global: kernels write into arrays that they are given",
    ast.Delete: "del: kernels free nothing",
    ast.ClassDef: "a class: kernels make no objects",
    ast.Yield: "yield: kernels are no generators",
    ast.YieldFrom: "yield: kernels are no generators",
    ast.Await: "await: kernels are no coroutines",
}

#: Functions of NumPy that make an array, whatever they are given.
_MAKERS = (
    "array ascontiguousarray asfortranarray arange concatenate copy cumsum diff empty empty_like "
    "eye full full_like hstack identity linspace ones ones_like outer repeat roll sort stack "
    "tile unique vstack where zeros zeros_like"
)
#: Of these, what no kernel makes though it may allocate.
_NEVER = "outer sort unique where"
#: Methods of arrays that make another one.
_COPIES = frozenset(("copy", "flatten", "ravel"))
_ARRAYS = (
    "kernels make arrays by cuda.local.array and cuda.shared.array alone, with a constant shape, "
    "but for NUMBA_CUDA_ENABLE_NRT=1"
)


@functools.cache
def _makers(refused: str) -> dict[int, str]:
    return {id(getattr(np, name)): name for name in refused.split()}


def _value(node: ast.AST, names: dict[str, Any]) -> Any:
    """What a name, or an attribute of a module, is when the kernel is launched; None: not known."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = _value(node.value, names)
        if isinstance(owner, types.ModuleType):
            return getattr(owner, node.attr, None)
    return None


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _copies(called: ast.AST, names: dict[str, Any]) -> bool:
    """Is it a method of a variable, or of a part of one, that makes an array?"""
    if not isinstance(called, ast.Attribute) or called.attr not in _COPIES:
        return False
    of = called.value
    if isinstance(of, ast.Name):  # one of the function's own has no value here
        return of.id not in names or isinstance(names[of.id], np.ndarray)
    return isinstance(of, ast.Subscript)


def _of_call(node: ast.Call, names: dict[str, Any]) -> str:
    called = _value(node.func, names)
    if called is str or (
        isinstance(node.func, ast.Attribute)
        and _is_text(node.func.value)
        and node.func.attr == "format"
    ):
        return f"a text that is made: {_PRINT}"
    if called in (list, sorted):
        return f"{called.__name__}(...): {_VALUES}"
    made = ast.unparse(node.func).endswith(("local.array", "shared.array"))
    if made and node.args and any(isinstance(one, ast.Call) for one in ast.walk(node.args[0])):
        return f"{ast.unparse(node)}: its shape is a number, or a global constant"
    if isinstance(called, np.ufunc) and node.keywords:
        return (
            f"numpy.{called.__name__}({node.keywords[0].arg}=...): its arguments have no names here"
        )
    allocates = numba_simulator.allocates()
    if maker := _makers(_NEVER if allocates else _MAKERS).get(id(called)):
        return f"numpy.{maker}: {_ARRAYS}"
    if not allocates and _copies(node.func, names):
        return f"an array's {ast.unparse(node.func).rpartition('.')[2]}(): {_ARRAYS}"
    if isinstance(getattr(called, "__self__", None), np.random.RandomState):
        return "numpy.random: numba.cuda.random has generators for kernels"
    return (
        callees.of_math(called, node) or callees.of_builtin(called, node) or callees.of_method(node)
    )


def _of(node: ast.AST, parent: ast.AST, names: dict[str, Any]) -> str:
    """What is said of a node; empty: nothing."""
    if isinstance(node, ast.Call):
        return _of_call(node, names)
    if isinstance(node, ast.FormattedValue):
        return f"an f-string with a value: {_PRINT}"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and _is_text(node.left):
        return f"a text that is made: {_PRINT}"
    if isinstance(node, ast.List):
        # Python makes tuples of these.
        constant = all(isinstance(one, ast.Constant) for one in node.elts) and bool(node.elts)
        looped = isinstance(parent, (ast.For, ast.Compare)) and constant
        return "" if looped or not isinstance(node.ctx, ast.Load) else f"a list: {_VALUES}"
    if isinstance(node, ast.Starred) and isinstance(node.ctx, ast.Store):
        return "a starred name: kernels unpack into as many names as there are"
    if isinstance(node, ast.Subscript) and (told := _of_part(node, names)):
        return told
    if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
        return callees.of_value(_value(node, names), ast.unparse(node))
    return _NODES.get(type(node), "")


def _of_part(node: ast.Subscript, names: dict[str, Any]) -> str:
    """What is said of a part of a global: a list is none of a kernel, and an array is a constant."""
    of = _value(node.value, names)
    if isinstance(of, (list, dict)):
        return f"a part of a global {type(of).__name__}: make it a tuple, or an array of NumPy"
    if type(of) is np.ndarray and isinstance(node.ctx, ast.Store):
        return "a global array is written, which is a constant of a kernel: give it as an argument"
    return ""


def _nodes(tree: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    for parent in ast.walk(tree):
        for node in ast.iter_child_nodes(parent):
            yield node, parent


def _returned(body: ast.FunctionDef) -> Iterator[ast.Return]:
    """``return`` with a value, of the function itself."""
    todo: list[ast.AST] = list(body.body)
    while todo:
        node = todo.pop()
        if isinstance(node, (ast.FunctionDef, ast.Lambda)):
            continue
        if isinstance(node, ast.Return) and not (
            node.value is None
            or (isinstance(node.value, ast.Constant) and node.value.value is None)
        ):
            yield node
        todo += ast.iter_child_nodes(node)


def _names(function: types.FunctionType) -> dict[str, Any]:
    names = vars(builtins) | function.__globals__
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            names[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            names.pop(name, None)
    for name in function.__code__.co_varnames:  # its own variables
        names.pop(name, None)
    return names


@functools.lru_cache(maxsize=64)  # a first launch asks some times, one behind the other
def _tree(function: types.FunctionType) -> ast.FunctionDef | None:
    """Its source; None: there is none to read, or not of a function alone."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    first = tree.body[0] if len(tree.body) == 1 else None
    return first if isinstance(first, ast.FunctionDef) else None


def refused(function: types.FunctionType, returns: bool) -> Iterator[tuple[int, str]]:
    """Lines of a kernel, or of a function for kernels, that no GPU compiles, and what they have.

    Args:
        function: the Python function.
        returns: may it return a value, as functions that kernels call do?
    """
    tree = _tree(function)
    if tree is None:
        return
    before = function.__code__.co_firstlineno - 1
    names, inner = _names(function), forms.names_of(tree)
    if returns:  # what it is given may be constants: its callers are looked at
        inner = inner._replace(parameters=frozenset())
    value = functools.partial(_value, names=names)
    for statement in tree.body:
        for node, parent in ((statement, tree), *_nodes(statement)):
            if told := (
                _of(node, parent, names)
                or forms.said_of(node, inner, value)
                or _of_shapes(node, inner, value)
            ):
                yield before + getattr(node, "lineno", 1), told
    yield from ((line, "an integer of more than 64 bits") for line in _wide(function.__code__))
    for name, line, parameters in forms.divided(tree):
        if not parameters:
            yield before + line, _divided(name)
    if not returns:
        for node in _returned(tree):
            yield (
                before + node.lineno,
                "return with a value: kernels return nothing, they write into arrays",
            )


def _wide(code: types.CodeType) -> Iterator[int]:
    """Lines with a constant that needs more than 64 bits, as Python has computed it: ``1 << 70``."""
    line = code.co_firstlineno
    begins = dict(dis.findlinestarts(code))
    for one in dis.get_instructions(code):
        line = begins.get(one.offset) or line
        if (
            type(one.argval) is int
            and one.opname == "LOAD_CONST"
            and not -(2**63) <= one.argval < 2**64
        ):
            yield line


def _of_shapes(node: ast.AST, names: forms.Names, value: forms.Value) -> str:
    """What is said of a call of a function for kernels that takes memory as long as it is told."""
    if not isinstance(node, ast.Call):
        return ""
    called = value(node.func)
    function = getattr(called, "fn", None) or getattr(called, "py_func", None)
    if not isinstance(function, types.FunctionType):
        return ""
    return forms.of_shapes(node, _shapes_given(function), names, value)


@functools.lru_cache(maxsize=1024)
def _shapes_given(function: types.FunctionType) -> list[tuple[int, str]]:
    tree = _tree(function)
    return forms.shapes_given(tree) if tree else []


def _divided(name: str) -> str:
    return f"{name} /= ... of an integer in a loop, which changes its type: write {name} = {name} / ..."


@functools.lru_cache(maxsize=1024)
def _divided_parameters(function: types.FunctionType) -> tuple[tuple[str, int, list[int]], ...]:
    """Variables that ``/=`` changes in a loop, the line, and the places of their parameters."""
    tree = _tree(function)
    before = function.__code__.co_firstlineno - 1
    places = {name: k for k, name in enumerate(function.__code__.co_varnames)}
    return tuple(
        (name, before + line, [places[one] for one in parameters])
        for name, line, parameters in (forms.divided(tree) if tree else ())
        if parameters
    )


@functools.lru_cache(maxsize=1024)
def _reduced_parameters(
    function: types.FunctionType,
) -> tuple[tuple[str, int, dict[int, int]], ...]:
    """Calls that reduce a number if the parameters at these places have as many dimensions."""
    tree = _tree(function)
    before = function.__code__.co_firstlineno - 1
    places = {name: k for k, name in enumerate(function.__code__.co_varnames)}
    value = functools.partial(_value, names=_names(function))
    return tuple(
        (one.name, before + one.line, {places[name]: n for name, n in one.arrays.items()})
        for one in (forms.reduced(tree, value, REDUCTIONS) if tree else ())
    )


def _is_whole(given: Any) -> bool:
    """Is it an integer, or an array of such?"""
    kind = getattr(getattr(given, "dtype", None), "kind", "")
    return kind in ("i", "u") or is_integer(given)


def check_arguments(function: types.FunctionType, arguments: tuple[Any, ...]) -> None:
    """Raise what no GPU compiles for these arguments."""
    for name, line, places in _divided_parameters(function):
        if all(k < len(arguments) and _is_whole(arguments[k]) for k in places):
            _refuse(function, line, _divided(name))
    for name, line, dimensions in _reduced_parameters(function):
        if all(
            k < len(arguments) and getattr(arguments[k], "ndim", 0) == n
            for k, n in dimensions.items()
        ):
            _refuse(function, line, f"numpy.{name} of a number, which no compiler for GPUs has")


def _refuse(function: types.FunctionType, line: int, told: str) -> NoReturn:
    file = function.__code__.co_filename.rpartition("/")[2]
    raise TypeError(
        f"kernel {function.__qualname__} ({file}:{line}) cannot be compiled for a GPU, it has {told}"
    )


@functools.lru_cache(maxsize=1024)
def check(function: types.FunctionType, returns: bool) -> None:
    """Raise what no GPU compiles. TypeError: the first line of such, and what is in it."""
    for line, told in sorted(refused(function, returns)):
        _refuse(function, line, told)
