# SPDX-License-Identifier: BSD-3-Clause
"""The text of a task graph's kernel, and the functions that it begins, waits and ends with."""

from __future__ import annotations

import hashlib
import linecache
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import triton
import triton.language as tl

from .primitives.backend import device_function, program_barrier, wait
from .runtime.constants import CMP_GE, TASK_WAIT

if TYPE_CHECKING:
    from .tasks import Task

#: Words of a step of a program: task, tile, first and end of what else it waits for, what it waits for
#: first (where the count is, how much a launch adds to it, how much is enough), and one that is 0.
ROW = 8
#: Stands for a task behind a program's last step.
END = -1


@device_function
def begin(launches):
    """How many launches of this graph the program has behind it."""
    place = launches + tl.program_id(0)
    earlier = tl.load(place, volatile=True)
    program_barrier()
    tl.store(place, earlier + 1)
    return earlier


@device_function
def await_needs(needs, need, end, place, each, enough, board, earlier, ctx):
    """Wait for what a step needs, nothing if ``each`` is 0; what was stored before is seen then."""
    if each > 0:
        wait(board + place, CMP_GE, earlier * each + enough, -1, TASK_WAIT, ctx)
    while need < end:
        at = needs + 3 * need
        least = earlier * tl.load(at + 1) + tl.load(at + 2)
        wait(board + tl.load(at), CMP_GE, least, -1, TASK_WAIT, ctx)
        need += 1


@device_function
def finish(board, place, flags, tile):
    """Count a tile as done: of its task, and by itself where other tiles wait for it alone."""
    program_barrier()
    tl.atomic_add(board + place, 1, sem="release", scope="gpu")
    if flags >= 0:
        tl.atomic_add(board + flags + tile, 1, sem="release", scope="gpu")


def source(name: str, tasks: Sequence[Task], flags: Mapping[int, int], steps: int) -> str:
    """A branch for each kind of task. Triton compiles functions from their text, so it has one.

    Branches stand one behind the other: those in each other's ``else`` would have shared memory of
    their own each. A step's row is loaded before the step in front of it is done: other tiles may have
    driven it out of the caches. For the same reason a program knows where its ``steps`` rows are.
    """
    parameters = [f"a{t.number}_{k}" for t in tasks for k in range(len(t.args))]
    parameters += [f"c{t.number}_{key}: tl.constexpr" for t in tasks for key in t.constants]
    words = "task", "tile", "need", "last", "place", "each", "enough"
    loads = [f"{word} = tl.load(row + {k})" for k, word in enumerate(words)]
    lines = [
        "@triton.jit",
        f"def {name}({', '.join(['rows', 'needs', 'board', 'launches', 'ctx', *parameters])}):",
        f"    row = rows + {ROW * steps} * tl.program_id(0)",
        *(f"    next_{load}" for load in loads),
        "    earlier = begin(launches)",
        "    while next_task >= 0:",
        *(f"        {word} = next_{word}" for word in words),
        "        tile = tile.to(tl.int32)",
    ]
    groups = _alike(tasks)
    for group in groups:
        lines += _chosen(group, flags)
    for group in groups:
        if group[0].ahead is not None:
            lines += [_if(group), f"            p{group[0].number}({_call(group)})"]
    lines.append("        await_needs(needs, need, last, place, each, enough, board, earlier, ctx)")
    lines.append(f"        row += {ROW}")
    lines += [f"        next_{load}" for load in loads]
    for group in groups:
        place = group[0].number
        lines += [_if(group), f"            f{place}({_call(group)})"]
        own = f"g{place}_flags" if len(group) > 1 else flags.get(place, -1)
        lines.append(f"            finish(board, task, {own}, tile)")
    return "\n".join([*lines, ""])


def _alike(tasks: Sequence[Task]) -> list[list[Task]]:
    """Tasks that differ by their arguments alone: these share code, which is fetched once for all."""
    groups: dict[Any, list[Task]] = {}
    for task in tasks:
        kinds = tuple(_kind(value) for value in task.args)
        apart = task.number if None in kinds else -1
        key = task.function, task.ahead, repr(sorted(task.constants.items())), kinds, apart
        groups.setdefault(key, []).append(task)
    return list(groups.values())


def _kind(value: Any) -> Any:
    """What arguments of one type have in common; None: Triton may make a constant of it."""
    if isinstance(value, int):
        return "int" if value > 1 and value < 1 << 31 else None
    if isinstance(value, float):
        return "float"
    return type(value), str(getattr(value, "dtype", ""))


def _if(group: Sequence[Task]) -> str:
    return f"        if {' | '.join(f'(task == {task.number})' for task in group)}:"


def _chosen(group: Sequence[Task], flags: Mapping[int, int]) -> list[str]:
    """The arguments, and the place of the flags, of whichever of tasks that share a branch it is."""
    first, *others = group
    lines: list[str] = []
    for task in group if others else ():
        if task is not first:
            lines.append(f"        if task == {task.number}:")
        indent = " " * (8 if task is first else 12)
        own = f"{indent}g{first.number}_"
        lines += [f"{own}{k} = a{task.number}_{k}" for k in range(len(task.args))]
        lines.append(f"{own}flags = {flags.get(task.number, -1)}")
    return lines


def _call(group: Sequence[Task]) -> str:
    """What the functions of a branch are called with."""
    first, own = group[0], "g" if len(group) > 1 else "a"
    given = [f"{own}{first.number}_{k}" for k in range(len(first.args))]
    named = [f"{key}=c{first.number}_{key}" for key in first.constants]
    return ", ".join(["tile", *given, "ctx", *named])


#: What the text of a kernel calls by name, but for the tasks' functions.
_NAMES = {
    "triton": triton, "tl": tl, "begin": begin, "await_needs": await_needs, "finish": finish,
}  # fmt: skip


def compiled(name: str, source: str, tasks: Sequence[Task]) -> Any:
    """The kernel of a text. Triton looks for the text where Python keeps that of files."""
    digest = hashlib.blake2b(source.encode(), digest_size=6).hexdigest()
    file = f"<pyshmem.triton.tasks {name} {digest}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    namespace: dict[str, Any] = {
        "__name__": __name__,
        **_NAMES,
        **{f"f{task.number}": task.function for task in tasks},
        **{f"p{task.number}": task.ahead for task in tasks if task.ahead is not None},
    }  # fmt: skip
    exec(compile(source, file, "exec"), namespace)
    return namespace[name]


def is_taken(name: str) -> bool:
    """Whether the text of a kernel calls a function or a module by this name."""
    return name in _NAMES or re.fullmatch("[fp][0-9]+", name) is not None
