# SPDX-License-Identifier: BSD-3-Clause
"""Forms of expressions and statements that compilers for GPUs refuse for the types that are in them.

As far as the source says the types: constants, global tuples, what a name is bound to once.
"""

from __future__ import annotations

import ast
import enum
import functools
import inspect
import textwrap
import types
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from .callees import is_callable

#: What a node of the source is when the kernel is launched; None: not known.
Value = Callable[[ast.AST], Any]

_LITERAL = "kernels print numbers, and texts as they are"
_MEMORY = ("local.array", "shared.array")
_SHAPE = "its shape is a number, or a global constant"


class Names(NamedTuple):
    """Of a function: its parameters, its variables that get one value, and the tuples of these."""

    parameters: frozenset[str]
    tuples: dict[str, ast.Tuple]
    once: dict[str, ast.AST]
    #: What it calls by name.
    called: frozenset[str]


def _assigned(tree: ast.AST) -> dict[str, list[ast.AST]]:
    """What each name is given by ``=``."""
    bound: dict[str, list[ast.AST]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    bound.setdefault(target.id, []).append(node.value)
    return bound


def names_of(tree: ast.FunctionDef) -> Names:
    given = tree.args
    parameters = {one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)}
    bound, stores, called = _assigned(tree), Counter[str](), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            stores[node.id] += 1
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            called.add(node.func.id)
    once = {
        name: values[0]
        for name, values in bound.items()
        if len(values) == 1 and name not in parameters
    }
    tuples = {name: one for name, one in once.items() if isinstance(one, ast.Tuple)}
    once = {name: one for name, one in once.items() if stores[name] == 1}
    return Names(frozenset(parameters), tuples, once, frozenset(called))


def _is_constant(node: ast.AST) -> bool:
    """A number or text, or what Python makes of some."""
    return not any(isinstance(one, (ast.Name, ast.Call, ast.Attribute)) for one in ast.walk(node))


def _is_known(node: ast.AST, names: Names, value: Value) -> bool:
    """Is it a constant by itself, or a name of one: what an exception may tell?"""
    while isinstance(node, ast.Name) and node.id in names.once:
        node = names.once[node.id]
    if isinstance(node, ast.Attribute) and isinstance(value(node.value), enum.EnumType):
        return True
    return _is_constant(node) or (
        isinstance(node, (ast.Name, ast.Attribute)) and value(node) is not None
    )


def _kind(value: Any) -> Any:
    """A stand-in for Numba's type of a constant."""
    if isinstance(value, tuple):
        return tuple(map(_kind, value))
    return id(value) if is_callable(value) else type(value)


def _kinds(of: ast.AST, names: Names, value: Value) -> list[Any]:
    """Of the items of a tuple, as far as they are known; empty: it is none, or not known."""
    if isinstance(of, ast.Name) and of.id in names.tuples:
        of = names.tuples[of.id]
    if isinstance(of, ast.Tuple):
        found = [_kind_of(item, value) for item in of.elts]
        return [] if None in found else found
    known = value(of)
    return [_kind(item) for item in known] if isinstance(known, tuple) else []


def _kind_of(item: ast.AST, value: Value) -> Any:
    if isinstance(item, ast.Constant):
        return _kind(item.value)
    if isinstance(item, ast.Tuple):
        found = [_kind_of(one, value) for one in item.elts]
        return None if None in found else tuple(found)
    known = value(item)
    return _kind(known) if is_callable(known) else None


def _of_index(node: ast.Subscript, names: Names, value: Value) -> str:
    kinds, index = _kinds(node.value, names, value), node.slice
    if not kinds or _is_constant(index):
        if isinstance(node.value, ast.Call) and value(node.value.func) is range:
            return "a part of a range(...)"
        return "a part of a global text" if isinstance(value(node.value), str) else ""
    if isinstance(index, ast.Slice):
        return "a part of a tuple whose length is not known when it is compiled"
    if len(set(kinds)) > 1:
        return "a tuple of several types with an index that is no constant"
    return ""


def _of_loop(node: ast.For, names: Names, value: Value) -> str:
    if isinstance(node.iter, ast.Constant) and isinstance(node.iter.value, str):
        return "a loop over a text"
    if isinstance(node.iter, ast.Tuple) and len(set(_kinds(node.iter, names, value))) > 1:
        return "a loop over a tuple of several types"
    return ""


def _of_choice(node: ast.IfExp, names: Names, value: Value) -> str:
    both = node.body, node.orelse
    if any(map(is_callable, map(value, both))):
        return "a function that is chosen when it runs: call each in its branch"
    texts = [isinstance(one, ast.Constant) and isinstance(one.value, str) for one in both]
    if any(texts) and not all(texts) and all(isinstance(one, ast.Constant) for one in both):
        return "a value that is a text or none"
    return ""


def _of_raise(node: ast.Raise, names: Names, value: Value) -> str:
    if node.cause is not None:
        return "raise ... from: kernels keep no causes"
    given = node.exc.args if isinstance(node.exc, ast.Call) else ()
    known = all(_is_known(one, names, value) for one in given)
    return "" if known else "an exception with a value: kernels raise constants"


def _of_assert(node: ast.Assert, names: Names, value: Value) -> str:
    known = node.msg is None or _is_known(node.msg, names, value)
    return "" if known else "an assertion that tells a value"


def _of_attribute(node: ast.Attribute, names: Names, value: Value) -> str:
    """Of a dtype kernels know little."""
    owner = node.value
    if node.attr == "dtype" and isinstance(node.ctx, ast.Store):
        return "an array's dtype that is set: array.view(dtype) is another one"
    if (
        isinstance(owner, ast.Attribute)
        and owner.attr == "dtype"
        and node.attr not in ("type", "kind")
    ):
        return f"dtype.{node.attr}: kernels know dtype.type and dtype.kind"
    return ""


def _of_comparison(node: ast.Compare, names: Names, value: Value) -> str:
    sides = (node.left, *node.comparators)
    if any(isinstance(one, ast.Attribute) and one.attr == "dtype" for one in sides):
        known = [value(one) for one in sides]
        if any(
            isinstance(one, type) and issubclass(one, (np.generic, int, float)) for one in known
        ):
            return "a dtype that is compared with a type: kernels compare dtypes with one another"
    return ""


def _of_product(node: ast.BinOp, names: Names, value: Value) -> str:
    repeated = isinstance(node.op, ast.Mult) and isinstance(node.left, ast.Tuple)
    return (
        "a tuple of a length that is not constant"
        if repeated and not _is_constant(node.right)
        else ""
    )


def _of_function(node: ast.FunctionDef, names: Names, value: Value) -> str:
    """Numba passes such a function on, and puts the code of one that is called in place of the call."""
    if node.args.kwarg or (node.args.vararg and node.name in names.called):
        return "a function with *arguments within, which it calls"
    return ""


def _of_named(node: ast.AST, names: Names, value: Value) -> str:
    where = node.test if isinstance(node, (ast.If, ast.While)) else node
    named = any(isinstance(one, ast.NamedExpr) for one in ast.walk(where))
    return (
        ":= in a condition or an index, which Numba has no type for: assign it before"
        if named
        else ""
    )


def _of_part(node: ast.Subscript, names: Names, value: Value) -> str:
    return _of_index(node, names, value) or _of_named(node.slice, names, value)


def _of_call(node: ast.Call, names: Names, value: Value) -> str:
    called = node.func
    if isinstance(called, ast.Name) and called.id == "print":
        return _of_print(node, value)
    if not isinstance(called, ast.Attribute):
        return ""
    text = ast.unparse(called)
    if text.endswith(_MEMORY):
        return _of_memory(node, names, value)
    if ".atomic." in text and len(node.args) > 1:
        index = node.args[1]
        if isinstance(index, ast.Tuple) and len(index.elts) == 1:
            return "an atomic with an index in a tuple of one: give the number"
    return ""


def _of_print(node: ast.Call, value: Value) -> str:
    for one in node.args:
        if isinstance(one, ast.Constant) and (
            one.value is None or isinstance(one.value, (complex, bytes))
        ):
            return f"a print of {one.value!r}: {_LITERAL}"
        if isinstance(one, ast.Attribute) and one.attr == "dtype":
            return f"a print of a dtype: {_LITERAL}"
        if isinstance(one, ast.IfExp) and any(
            isinstance(part, ast.Constant) and isinstance(part.value, str)
            for part in (one.body, one.orelse)
        ):
            return f"a print of a text that is chosen: {_LITERAL}"
    return ""


def _of_memory(node: ast.Call, names: Names, value: Value) -> str:
    named = {one.arg: one.value for one in node.keywords}
    shape = node.args[0] if node.args else named.get("shape")
    dtype = node.args[1] if len(node.args) > 1 else named.get("dtype")
    if dtype is not None and value(dtype) in (int, float, bool, complex):
        return f"{ast.unparse(node)}: its dtype is one of NumPy's or Numba's"
    if _is_no_shape(shape, names, value):
        return f"{ast.unparse(node)}: {_SHAPE}"
    return ""


def _is_no_shape(shape: ast.AST | None, names: Names, value: Value) -> bool:
    """Does it name a length that no compiler knows?"""
    for one in shape.elts if isinstance(shape, (ast.Tuple, ast.List)) else [shape]:
        parts = [] if one is None else list(ast.walk(one))
        known = isinstance(one, ast.Attribute) and value(one) is not None
        if (
            (isinstance(one, ast.BinOp) and not _is_constant(one))
            or (isinstance(one, ast.Constant) and type(one.value) is not int)
            or any(isinstance(part, ast.USub) for part in parts)
            or (isinstance(one, ast.Attribute) and not known)
            or (isinstance(one, ast.Name) and one.id in names.parameters)
        ):
            return True
    return False


def shapes_given(tree: ast.FunctionDef) -> list[tuple[int, str]]:
    """Parameters of a function for kernels, with their places, that are lengths of its memory.

    They are constants where all callers give such: the compiler makes a function of each.
    """
    parameters = [one.arg for one in (*tree.args.posonlyargs, *tree.args.args)]
    lengths = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(_MEMORY):
            given = [*node.args[:1], *(one.value for one in node.keywords if one.arg == "shape")]
            parts = (part for one in given for part in getattr(one, "elts", [one]))
            lengths |= {one.id for one in parts if isinstance(one, ast.Name)}
    return [(k, name) for k, name in enumerate(parameters) if name in lengths]


def of_shapes(node: ast.Call, shapes: list[tuple[int, str]], names: Names, value: Value) -> str:
    """What is said of a call of a function that has ``shapes_given``."""
    named = {one.arg: one.value for one in node.keywords}
    for place, name in shapes:
        given = node.args[place] if place < len(node.args) else named.get(name)
        computed = isinstance(given, (ast.Call, ast.Subscript))
        if given is not None and (computed or _is_no_shape(given, names, value)):
            return f"{ast.unparse(given)} for {name}, a length of memory: {_SHAPE}"
    return ""


_FORMS: dict[type[ast.AST], Callable[..., str]] = {
    ast.Assert: _of_assert,
    ast.Attribute: _of_attribute,
    ast.BinOp: _of_product,
    ast.Call: _of_call,
    ast.Compare: _of_comparison,
    ast.For: _of_loop,
    ast.FunctionDef: _of_function,
    ast.If: _of_named,
    ast.IfExp: _of_choice,
    ast.Raise: _of_raise,
    ast.Subscript: _of_part,
    ast.While: _of_named,
}


def said_of(node: ast.AST, names: Names, value: Value) -> str:
    """What is said of a node; empty: nothing."""
    form = _FORMS.get(type(node))
    return form(node, names, value) if form else ""


# ---- /= of integers ------------------------------------------------------------------------------


def _divisions(tree: ast.AST) -> Iterator[tuple[ast.AugAssign, bool]]:
    """Each ``/=``, and whether it is within a loop."""
    todo = [(tree, False)]
    while todo:
        node, looped = todo.pop()
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Div):
            yield node, looped
        inside = looped or isinstance(node, (ast.For, ast.While))
        todo += [(one, inside) for one in ast.iter_child_nodes(node)]


def divided(tree: ast.FunctionDef) -> Iterator[tuple[str, int, set[str]]]:
    """Variables that ``/=`` changes in a loop, whose type parameters and constants say.

    Yields the name, the line, and the parameters; without any it is an integer for sure.
    """
    bound, parameters = _assigned(tree), names_of(tree).parameters
    for node, looped in _divisions(tree):
        if not looped or not isinstance(node.target, ast.Name):
            continue
        values = bound.get(node.target.id, [])
        of = {one for one in map(_begins, values) if one in parameters}
        whole = [one for one in values if isinstance(one, ast.Constant) and type(one.value) is int]
        if node.target.id in parameters:
            of.add(node.target.id)
        known = [one for one in values if _begins(one) in parameters]
        if len(whole) + len(known) == len(values) and (values or of):
            yield node.target.id, node.lineno, of


def _begins(node: ast.AST) -> str:
    """The name whose value, or element, this is; empty: it is something else."""
    if isinstance(node, ast.Subscript) and _elements(node.slice):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


@functools.lru_cache(maxsize=256)
def elements_divided(code: types.CodeType) -> dict[int, types.CodeType | None]:
    """Where code stores what ``/=`` made of an element: offsets of its instructions.

    With each what computes the divisor once more; None: that is not to be done twice, or not known.
    """
    import dis

    found, before = [], None
    for one in dis.get_instructions(code):
        if one.opname == "STORE_SUBSCR" and before == "/=":
            found.append(one.offset)
        if one.opname == "BINARY_OP":
            before = one.argrepr
        elif one.opname not in ("SWAP", "CACHE"):
            before = None
    divisors = _divisors(code)
    return dict(
        zip(found, divisors if len(divisors) == len(found) else [None] * len(found), strict=True)
    )


def _divisors(code: types.CodeType) -> list[types.CodeType | None]:
    """Of each ``/=`` of an element, in the order of the source."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(code)))
    except (OSError, TypeError, SyntaxError, ValueError):
        return []
    places = sorted(
        (node.lineno, node.col_offset, node)
        for node, _ in _divisions(tree)
        if isinstance(node.target, ast.Subscript)
    )
    return [_divisor(node.value) for _, _, node in places]


def _divisor(node: ast.expr) -> types.CodeType | None:
    """Of a call only ``float(...)`` and its kin are known: others may do something."""
    if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2].startswith("float"):
        node = ast.copy_location(ast.Constant(1.0), node)
    if any(isinstance(one, (ast.Call, ast.NamedExpr)) for one in ast.walk(node)):
        return None
    return compile(ast.Expression(node), "<divisor>", "eval")


# ---- reductions of numbers -----------------------------------------------------------------------


class Reduced(NamedTuple):
    """A call that reduces a number, if all ``arrays`` are given with as many dimensions as here."""

    name: str
    line: int
    arrays: dict[str, int]


def _elements(index: ast.AST) -> int:
    """How many dimensions the index of an element has; 0: it is of a part, or not known."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    for one in parts:
        if isinstance(one, (ast.Slice, ast.Starred)):
            return 0
        if isinstance(one, ast.Constant) and type(one.value) is not int:
            return 0
    return len(parts)


def reduced(tree: ast.FunctionDef, value: Value, reductions: tuple[Any, ...]) -> Iterator[Reduced]:
    """Calls of ``reductions`` with a number: a constant, an element, or what is made of such alone."""
    bound, parameters = _assigned(tree), names_of(tree).parameters
    stored = {
        one.id
        for one in ast.walk(tree)
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
    }

    def numbers(node: ast.AST, within: frozenset[str]) -> Iterator[tuple[str, int] | None]:
        """The elements that it is made of; None: of something else."""
        if isinstance(node, ast.BinOp):
            for side in (node.left, node.right):
                yield from numbers(side, within)
        elif isinstance(node, ast.UnaryOp):
            yield from numbers(node.operand, within)
        elif isinstance(node, ast.Subscript) and _begins(node) in parameters - stored:
            yield _begins(node), _elements(node.slice)
        elif isinstance(node, ast.Name) and node.id in parameters - stored:
            yield node.id, 0
        elif isinstance(node, ast.Name) and node.id in bound.keys() - within - parameters:
            for one in bound[node.id]:
                yield from numbers(one, within | {node.id})
        elif not (isinstance(node, ast.Constant) and isinstance(node.value, (int, float))):
            yield None

    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and len(node.args) == 1 and value(node.func) in reductions:
            of = set(numbers(node.args[0], frozenset()))
            if None not in of and len({one[0] for one in of if one}) == len(of):
                yield Reduced(
                    value(node.func).__name__, node.lineno, dict(one for one in of if one)
                )
