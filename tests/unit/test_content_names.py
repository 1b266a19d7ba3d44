# SPDX-License-Identifier: BSD-3-Clause
"""Functions under names made of their content: equal ones meet, different ones never do."""

from __future__ import annotations

import pytest

pytest.importorskip("numba")

from pyshmem.device.jit import content_names
from pyshmem.device.jit.content_names import Function, Routine, freeze


def module(name: str, *calls: str, value: int = 0, linkage: str = "linkonce_odr ") -> str:
    """Text as Numba writes it, with a name of the module and an environment of its own."""
    declared = "".join(f'declare i32 @"{callee}"(i8*)\n' for callee in calls)
    body = "".join(f'  %r{k} = call i32 @"{callee}"(i8* null)\n' for k, callee in enumerate(calls))
    return (
        f'; ModuleID = "{name}"\n@"_ZN08NumbaEnv{name}" = common global i8* null\n{declared}'
        f'define {linkage}i32 @"{name}"(i8* %p)\n{{\n{body}  ret i32 {value}\n}}\n'
    )


def test_the_counters_in_numbas_names_do_not_count() -> None:
    one = freeze([module("_ZN1fB2v40", "_ZN1gB2v41"), module("_ZN1gB2v41")], "_ZN1fB2v40")
    two = freeze([module("_ZN1gB1v7"), module("_ZN1fB1v9", "_ZN1gB1v7")], "_ZN1fB1v9")
    assert one == two
    root, *_ = one.functions
    assert root == one.root
    assert [name[:-32] for name in one.functions] == ["_ZN1f_", "_ZN1g_"]
    assert one.functions[root].calls == tuple(name for name in one.functions if name != root)


def test_a_name_is_of_the_text_and_of_all_that_it_calls() -> None:
    texts = [module("f", "g"), module("g", value=1)]
    one = freeze(texts, "f")
    for other in (
        [module("f", "g", value=2), module("g", value=1)],
        [module("f", "g"), module("g", value=3)],
    ):
        assert freeze(other, "f").root != one.root
    alone = freeze([module("h", value=1)], "h")
    assert alone.root in one.functions  # f's callee, under another name there


def test_what_was_renamed_keeps_its_name_and_linkage_does_not_count() -> None:
    one = freeze([module("f", "g"), module("g")], "f")
    again = freeze([function.text for function in one.functions.values()], one.root)
    assert again == one
    for linkage in ("", "weak_odr "):
        assert freeze([module("f", "g", linkage=linkage), module("g")], "f") == one


def test_two_equal_callees_become_one_which_is_declared_once() -> None:
    """NVVM refuses a module that declares a function twice; Numba compiles some twice."""
    texts = [module("f", "g", "h", value=3), module("g"), module("h")]
    frozen = freeze(texts, "f")
    root, callee = frozen.functions
    text, calls = frozen.functions[root]
    assert calls == (callee,)
    assert text.count("declare ") == 1
    assert text.count(f'call i32 @"{callee}"') == 2


def test_callers_come_before_their_callees() -> None:
    texts = [module("d"), module("b", "d"), module("c", "d", "b"), module("a", "b", "c")]
    functions = freeze(texts, "a").functions
    order = list(functions)
    for place, name in enumerate(order):
        assert all(order.index(callee) > place for callee in functions[name].calls)


def test_functions_that_are_not_asked_for_are_left_out() -> None:
    assert len(freeze([module("a", value=1), module("b", value=2)], "a").functions) == 1


@pytest.mark.parametrize(
    ("texts", "root", "why"),
    [
        ([module("f") + module("g")], "f", "defines 2 functions"),
        (["; nothing\n"], "f", "defines 0 functions"),
        ([module("f")], "g", "g is not among 1"),
        ([module("f", "g"), module("g", "f")], "f", "f calls itself"),
        ([module("f", "g", "vprintf")], "f", "g is not among them"),
    ],
)
def test_modules_of_another_kind_are_refused(texts: list[str], root: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        freeze(texts, root)


def test_a_text_that_is_not_that_of_its_name_is_noticed() -> None:
    routine = freeze([module("f", "g"), module("g")], "f")
    content_names.check(routine)
    name, callee = routine.functions
    text, calls = routine.functions[name]
    for functions in (
        routine.functions | {name: Function(text.replace("ret i32 0", "ret i32 1"), calls)},
        {name: routine.functions[name]},
        {callee: routine.functions[callee]},
    ):
        with pytest.raises(ValueError, match="pyshmem_"):
            content_names.check(Routine(routine.root, functions))


def test_a_digest_of_modules_is_of_all_but_their_numbers() -> None:
    digest = content_names.digest
    one = [module("_ZN1fB2v4", "_ZN1gB2v5"), module("_ZN1gB2v5", value=1)]
    assert digest(one) == digest([module("_ZN1fB1v9", "_ZN1gB1v7"), module("_ZN1gB1v7", value=1)])
    for other in (
        [module("_ZN1hB2v4", "_ZN1gB2v5"), one[1]],  # another name, which profilers show
        [one[0], module("_ZN1gB2v5", value=2)],
        [module("_ZN1fB2v4", "_ZN1kB2v5"), one[1]],  # a function of elsewhere
    ):
        assert digest(other) != digest(one)
