# SPDX-License-Identifier: BSD-3-Clause
"""Task graphs: device functions of Triton, communication included, as one persistent kernel.

    import pyshmem.triton as shmem
    from pyshmem.triton import tasks

    @triton.jit
    def scale(tile, x, y, ctx, B: tl.constexpr):
        offs = tile * B + tl.arange(0, B)
        tl.store(y + offs, tl.load(x + offs) * 2)

    graph = tasks.Graph("step")
    first = graph.add(scale, tiles=8, args=(x, y), constants={"B": 256})
    graph.add(total, tiles=1, args=(y, z, words), after=[first])
    step = graph.build()
    step()                                     # as often as wanted, in CUDA graphs too

A task is a function of a tile's number, its arguments, the context and constants. Tiles are given to
programs when the graph is built, by their costs, in an order in which each tile stands behind what it
needs; so with all programs resident somebody can always go on. A scoreboard in device memory counts the
tiles that are done. It only grows: launch number e waits for counts of e - 1 launches and its own part,
so nothing is ever set back.

All PEs build the same graph: the tile that talks to a peer is run by the program of the same number
there, which is what channels ask for. A channel has a place for each program: make it for as many as the
graph is built with.

Extension.
"""

from __future__ import annotations

import hashlib
import heapq
import itertools
import keyword
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import triton

from ..host.job import runtime
from .ll_channels import Channel
from .primitives.backend import prefetch
from .runtime import context as job
from .runtime.context import resident_programs
from .task_source import END, ROW, compiled, is_taken, source

__all__ = ["Graph", "Step", "Task", "prefetch", "resident_programs"]

_NEED = 3  # words of a need: where the count is, how much a launch adds to it, how much is enough

TilesOf = Callable[[int], Iterable[int]]


@dataclass(frozen=True, eq=False)
class Task:
    """What ``Graph.add`` returns: a function with its tiles, for ``after=`` of later ones.

    Attributes:
        name: the function's name.
        tiles: how many there are.
        cost: of one tile, in any unit that all tasks of the graph share.
    """

    name: str
    number: int
    function: Any
    tiles: int
    args: tuple[Any, ...]
    constants: Mapping[str, Any]
    needs: tuple[tuple[Task, TilesOf | None], ...]
    cost: float
    ahead: Any = None

    def __repr__(self) -> str:
        return f"<task {self.number} {self.name}, {self.tiles} tiles>"


@dataclass(frozen=True)
class Plan:
    """Who runs which tile when: for each program a list of (task's number, tile), and a time to end."""

    programs: tuple[tuple[tuple[int, int], ...], ...]
    length: float


def _need(given: Any) -> tuple[Task, TilesOf | None]:
    """An entry of ``after``, checked."""
    task, *of_tile = given if isinstance(given, (tuple, list)) and given else (given,)
    function = of_tile[0] if of_tile else None
    known = function is None or callable(function)
    if not isinstance(task, Task) or len(of_tile) > 1 or not known:
        raise TypeError(f"after has {given!r}; its entries are tasks or (task, function)")
    return task, function


def _tiles_of(of_tile: TilesOf, tile: int) -> Iterable[int]:
    needed = of_tile(tile)
    if not isinstance(needed, Iterable):
        raise TypeError(
            f"a tile's function gives {needed!r} for tile {tile}; it gives a list of tiles"
        )
    return needed


class Graph:
    """Tasks and what they wait for."""

    def __init__(self, name: str = "graph") -> None:
        """``name``: of the kernel, in reports and traces; an identifier that its text has no use for.

        Raises: ValueError.
        """
        if not name.isidentifier() or keyword.iskeyword(name):
            raise ValueError(f"name is {name!r}; a kernel's name is an identifier")
        if is_taken(name):
            raise ValueError(f"name is {name!r}, which a graph's kernel calls something else by")
        self.name = name
        self.tasks: list[Task] = []

    def add(
        self, function: Any, *, tiles: int = 1, args: Sequence[Any] = (),
        constants: Mapping[str, Any] | None = None,
        after: Iterable[Task | tuple[Task, TilesOf]] = (), cost: float = 1.0, ahead: Any = None,
    ) -> Task:  # fmt: skip
        """Add a task.

        Args:
            function: of ``triton.jit``; called with a tile's number, ``args``, the context, and by name
                ``constants``. It returns nothing.
            tiles: how many times it is called, with tile numbers from 0 on.
            args: arguments of kernels: tensors, arrays or ``wrap(array)``, numbers.
            constants: arguments that are ``tl.constexpr``.
            after: tasks all of whose tiles have to be done before; or (task, function), where the
                function gives the tiles of that task that a tile of this one needs.
            cost: of a tile, in any unit: by it the programs are evenly loaded.
            ahead: of ``triton.jit``, with the parameters of ``function``: called before the tile waits
                for what it needs, to ``prefetch`` what nobody writes, such as weights.

        Raises: ValueError (tiles, cost, a task of another graph, a tile that there is not), TypeError
            (the function is not of Triton, ``after`` is no list of tasks or of (task, function)).
        Extension.
        """
        for one in (function, ahead) if ahead is not None else (function,):
            if not isinstance(one, triton.runtime.jit.KernelInterface):
                raise TypeError(f"{one!r} is no function of triton.jit")
        if tiles < 1 or not cost > 0:
            raise ValueError(f"{tiles} tiles of cost {cost}: there is at least one, and it costs")
        if isinstance(after, (Task, str)) or not isinstance(after, Iterable):
            raise TypeError(f"after is {after!r}; it is a list of tasks or of (task, function)")
        needs = tuple(map(_need, after))
        for other, of_tile in needs:
            if not any(other is task for task in self.tasks):
                raise ValueError(f"{other!r} is no task of this graph, so nothing can wait for it")
            wrong = {n for t in range(tiles) for n in (_tiles_of(of_tile, t) if of_tile else ())}
            wrong -= set(range(other.tiles))
            if wrong:
                raise ValueError(f"{other!r} has no tile {min(wrong)}")
        name = getattr(function, "__name__", None) or function.fn.__name__
        task = Task(
            name,
            len(self.tasks),
            function,
            tiles,
            tuple(args),
            dict(constants or {}),
            needs,
            cost,
            ahead,
        )
        self.tasks.append(task)
        return task

    def plan(self, programs: int) -> Plan:
        """Give tiles to programs: each tile, in order of the tasks, to the one that can begin it first.

        Tiles of a task follow the order in which what they need is done. Extension.
        """
        ended: dict[tuple[int, int], float] = {}
        free = [(0.0, program) for program in range(programs)]
        lists: list[list[tuple[int, int]]] = [[] for _ in range(programs)]
        for task in self.tasks:
            ready = {
                tile: max((ended[need] for need in _needed(task, tile)), default=0.0)
                for tile in range(task.tiles)
            }
            for tile in sorted(ready, key=lambda t: (ready[t], t)):
                start, program = heapq.heappop(free)
                lists[program].append((task.number, tile))
                ended[task.number, tile] = max(start, ready[tile]) + task.cost
                heapq.heappush(free, (ended[task.number, tile], program))
        return Plan(tuple(map(tuple, lists)), max(ended.values(), default=0.0))

    def build(
        self, programs: int | None = None, *, num_warps: int = 4, num_stages: int = 3
    ) -> Step:
        """Make the kernel. Collective over all PEs of the job, which have added the same tasks.

        Args:
            programs: of the grid; all have to run at once: as many as a GPU has threads for
                at most, 1024 in the interpreter. Default: ``resident_programs()``.
            num_warps, num_stages: as of any kernel; they are the same for all tasks.

        Raises: ValueError (no task, more programs than run at once, a channel of fewer programs than run
            its task), MismatchError (the PEs have different graphs), HeapExhausted.
        Extension.
        """
        if not self.tasks:
            raise ValueError("the graph has no task")
        count = resident_programs() if programs is None else programs
        if count < 1:
            raise ValueError(f"programs is {count}; there is at least one")
        if count > (most := job.most_programs(num_warps)):
            raise ValueError(f"programs is {count}; no more than {most} can run at once here")
        plan = self.plan(count)
        _check_channels(self.tasks, plan)
        said = repr([(t.name, t.tiles) for t in self.tasks]) + repr(plan.programs)
        digest = hashlib.blake2b(said.encode(), digest_size=12).hexdigest()
        names = ", ".join(f"{task.name} x {task.tiles}" for task in self.tasks)
        job.must_agree(f"task graph {digest} on {count} programs: {names}")
        return Step(self, plan, {"num_warps": num_warps, "num_stages": num_stages})


def _check_channels(tasks: Sequence[Task], plan: Plan) -> None:
    """A program without a place in a channel would end, and whoever waits for its tile with it."""
    for program, steps in enumerate(plan.programs):
        for number in {number for number, _ in steps}:
            for argument in tasks[number].args:
                if isinstance(argument, Channel) and program >= argument.programs:
                    raise ValueError(
                        f"{tasks[number]!r} is run by program {program} of {len(plan.programs)}, and "
                        f"its channel has places for {argument.programs}; make one for all"
                    )


def _needed(task: Task, tile: int) -> Iterable[tuple[int, int]]:
    for other, of_tile in task.needs:
        for number in range(other.tiles) if of_tile is None else of_tile(tile):
            yield other.number, number


class Step:
    """What ``Graph.build`` returns: call it to launch the kernel on the current stream.

    After a ``KernelFault`` the counts are no longer right: build it anew.

    Attributes:
        plan: who runs which tile when.
        source: the text of the kernel.
    """

    def __init__(self, graph: Graph, plan: Plan, options: Mapping[str, int]) -> None:
        self.plan, self._tasks, self._options = plan, tuple(graph.tasks), dict(options)
        flags = _places_of_flags(self._tasks)
        rows, needs = _tables(self._tasks, plan, flags)
        counts = max(flags.values(), default=0) + max(t.tiles for t in self._tasks)
        self._tables = [
            job.symmetric(np.array(values or [0], np.int64))
            for values in (rows, needs, [0] * (len(self._tasks) + counts), [0] * len(plan.programs))
        ]
        self.source = source(graph.name, self._tasks, flags, _steps(plan))
        self._kernel = compiled(graph.name, self.source, self._tasks)
        self._args = [arg for task in self._tasks for arg in task.args]
        self._constants = {
            f"c{task.number}_{name}": value
            for task in self._tasks
            for name, value in task.constants.items()
        }
        self._context = job.context()
        self._looked_at = runtime.device_name() != "cuda"

    def __call__(self) -> None:
        """Launch it. It is done in the order of the stream; in the interpreter, on return.

        Raises: KernelFault (of an earlier kernel), NotInitialized, ValueError (the kernel needs so much
            shared memory that its programs cannot all run at once; nothing is launched).
        """
        grid = (len(self.plan.programs),)
        args = (*self._tables, self._context, *self._args)
        if not self._looked_at:
            made = self._kernel.warmup(*args, grid=grid, **self._constants, **self._options)
            room, processors = _shared_memory()
            refuse_what_does_not_fit(grid[0], made.metadata.shared, room, processors)
            self._looked_at = True
        self._kernel[grid](*args, **self._constants, **self._options)

    def __repr__(self) -> str:
        tiles = sum(map(len, self.plan.programs))
        return f"<{len(self._tasks)} tasks, {tiles} tiles on {len(self.plan.programs)} programs>"


def _shared_memory() -> tuple[int, int]:
    """Bytes of shared memory in a multiprocessor of the PE's GPU, and how many there are."""
    import cupy

    attributes = cupy.cuda.Device(runtime.current().gpu).attributes
    return int(attributes["MaxSharedMemoryPerMultiprocessor"]), resident_programs()


def refuse_what_does_not_fit(programs: int, shared: int, room: int, processors: int) -> None:
    """Programs wait for each other's tiles: one that finds no room would never start.

    Args:
        shared: bytes of shared memory that a program takes; the driver adds 1 KiB.
        room: bytes in each of the GPU's ``processors``.

    Raises: ValueError.
    """
    fit = processors * (room // (shared + 1024))
    if programs > fit:
        raise ValueError(
            f"{programs} programs with {shared} bytes of shared memory each do not run at once: "
            f"{fit} do on this GPU. Build the graph for fewer, or with smaller tiles or num_stages"
        )


# ---- tables --------------------------------------------------------------------------------------


def _places_of_flags(tasks: Sequence[Task]) -> dict[int, int]:
    """For tasks that others wait for tile by tile: where on the board their tiles' counts begin."""
    single = {other.number for task in tasks for other, of_tile in task.needs if of_tile}
    sizes = [tasks[number].tiles for number in sorted(single)]
    starts = itertools.accumulate(sizes, initial=len(tasks))
    return dict(zip(sorted(single), starts, strict=False))


def _tables(
    tasks: Sequence[Task], plan: Plan, flags: Mapping[int, int]
) -> tuple[list[int], list[int]]:
    """The programs' steps, as many rows for each, and the needs."""
    rows: list[int] = []
    needs: list[int] = []
    for steps in plan.programs:
        for number, tile in steps:
            begin = len(needs) // _NEED
            wanted: list[list[int]] = []
            for other, of_tile in tasks[number].needs:
                if of_tile is None:
                    wanted.append([other.number, other.tiles, other.tiles])
                else:
                    places = sorted(set(of_tile(tile)))
                    wanted += [[flags[other.number] + one, 1, 1] for one in places]
            first, *others = wanted or [[0, 0, 0]]
            rows += [number, tile, begin, begin + len(others), *first, 0]
            needs += itertools.chain.from_iterable(others)
        rows += [END, *[0] * (ROW - 1)] * (_steps(plan) - len(steps))
    return rows, needs


def _steps(plan: Plan) -> int:
    """Rows for a program: its steps, and an end."""
    return max(map(len, plan.programs)) + 1
