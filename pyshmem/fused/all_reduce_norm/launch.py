# SPDX-License-Identifier: BSD-3-Clause
"""Launches of the kernels of ``all_reduce_rmsnorm``: grids, workspace, constants."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
import torch

import pyshmem.triton as shmem

from ..._torch.launches import Launch
from ..._torch.tensors import over
from ...host.job import runtime
from ...host.memory import creation
from .._shared.powers import power_of_2
from .._shared.workspace import Workspace, device_heap_is_p2p
from ..formats.table import BLOCK_FORMATS, global_scale_tensor
from .one_shot_channel_kernels import one_shot as one_shot_by_channel
from .one_shot_ll_kernels import PacketsRow
from .one_shot_ll_kernels import one_shot as one_shot_ll
from .pull_kernels import SLOTS, Ring, pull
from .push_kernels import SLOTS as PUSH_SLOTS
from .push_kernels import push
from .row_kernels import NO_BLOCKS, Blocks, Row, local
from .two_shot_kernels import two_shot

NORMS = ("rms", "layer")
#: Elements that have one scale; 0 is without, None a row.
GROUP: dict[str | None, int | None] = {None: 0, "row": None, "group": 128}
GROUP |= {name: one.group for name, one in BLOCK_FORMATS.items()}
_LEAST_TILE = 32  # elements: a block of any format
_MOST_FOR_CHANNEL = 128 << 20  # bytes of the device heap
_SIMULATED = 3  # programs, where there are no multiprocessors to count


class Request(NamedTuple):
    """A call: tensors that are contiguous and of sizes that go together, or None."""

    x: Any
    weight: Any
    residual: Any
    bias: Any
    eps: float
    norm: str
    quantize: str | None
    out: Any
    residual_out: Any
    scales: Any = None
    global_scale: Any = None

    @property
    def hidden(self) -> int:
        """Elements of a row."""
        return int(self.x.shape[-1])

    @property
    def tokens(self) -> int:
        """Rows."""
        return int(self.x.numel()) // self.hidden


@functools.cache
def _multiprocessors(gpu: int) -> int:
    count: int = torch.cuda.get_device_properties(gpu).multi_processor_count
    return count


def _programs(space: Workspace) -> int:
    """Programs of the largest grid: all are resident. The first call of a team is collective."""
    job = runtime.current()
    count = _SIMULATED
    if job.device == "cuda":
        count = _multiprocessors(job.gpu)
    space.thing("norm.programs", count, lambda: space.must_agree(f"{count} programs of norms"))
    return count


def _tile(given: Request) -> int:
    """Elements of the tile of a row."""
    return power_of_2(given.hidden, _LEAST_TILE)


def _row_packets(given: Request) -> int:
    return _tile(given) * int(given.x.itemsize) // 4


def _packets(given: Request) -> tuple[int, int]:
    """Words of the first two thirds of a row, and the tile that holds them."""
    return _thirds(given.hidden, int(given.x.itemsize), GROUP[given.quantize] or 1)


@functools.cache
def _thirds(hidden: int, itemsize: int, elements: int) -> tuple[int, int]:
    words, group = hidden * itemsize // 4, max(elements * itemsize // 4, 1)
    third = (words + 2) // 3 + group - 1
    third -= third % group  # a group has one third to itself
    return third, power_of_2(third)


def _senders(space: Workspace, given: Request) -> int:
    """Programs of ``one_shot`` by packets: two a multiprocessor, if registers are enough."""
    return _programs(space) * (2 if _packets(given)[1] <= 1024 else 1)


def why_not_one_shot(space: Workspace, given: Request) -> str | None:
    """None, or why there is no channel for rows of this size."""
    if device_heap_is_p2p():
        nbytes = 32 * _senders(space, given) * _packets(given)[1] * runtime.n_pes()
    else:
        nbytes = 16 * _programs(space) * _row_packets(given) * (runtime.n_pes() + 1)
    return None if nbytes <= _MOST_FOR_CHANNEL else _too_large(given, nbytes)


def _fills(given: Request) -> bool:
    """Whether a program for a row of this size has a multiprocessor to itself."""
    return _slot(given) > 16 << 10


def _pullers(space: Workspace, given: Request) -> int:
    """Programs of ``pull``: two a multiprocessor, for one loads while the other reduces."""
    return _programs(space) * (1 if _fills(given) else 2)


def _slot(given: Request) -> int:
    """Bytes of the tile of a row."""
    return _tile(given) * int(given.x.itemsize)


def why_not_pull(space: Workspace, given: Request) -> str | None:
    """None, or why peers' rows are not loaded."""
    if runtime.n_pes() > 1 and not device_heap_is_p2p():
        return "peers are out of reach of loads"
    nbytes = SLOTS.value * _pullers(space, given) * _slot(given)
    return None if nbytes <= _MOST_FOR_CHANNEL else _too_large(given, nbytes)


def _pushers(space: Workspace, given: Request) -> int:
    """Programs of ``push``: those of a multiprocessor have 32 KiB of rows at a time."""
    return _programs(space) * min(max((32 << 10) // _slot(given), 1), 16)


def _ring_of_pushes(given: Request) -> int:
    """Bytes that a program keeps for the rows of its peers. By the PEs of the job, as all allocate."""
    return PUSH_SLOTS.value * _slot(given) * max(runtime.n_pes() - 1, 1)


def why_not_push(space: Workspace, given: Request) -> str | None:
    """None, or why rows are not stored to peers."""
    if runtime.n_pes() > 1 and not device_heap_is_p2p():
        return "peers are out of reach of stores"
    if runtime.n_pes() > 32:
        return "a warp waits for at most 32 PEs"
    nbytes = _pushers(space, given) * _ring_of_pushes(given)
    return None if nbytes <= _MOST_FOR_CHANNEL else _too_large(given, nbytes)


def _too_large(given: Request, nbytes: int) -> str:
    return (
        f"a row of {given.hidden} elements needs {nbytes >> 20} MiB of workspace, "
        f"more than {_MOST_FOR_CHANNEL >> 20}"
    )


def _blocks(given: Request) -> Blocks:
    """How kernels make blocks that have scales."""
    found = BLOCK_FORMATS.get(given.quantize or "")
    if found is None:
        return NO_BLOCKS
    return Blocks(found.kind, found.per_byte, found.swizzled, given.global_scale is not None)


def _constants(given: Request) -> dict[str, Any]:
    block = _tile(given)
    group = GROUP[given.quantize]
    row = Row(
        given.hidden, block, given.norm, given.residual is not None, given.bias is not None,
        block if group is None else min(group, block), _blocks(given),
    )  # fmt: skip
    return {"ROW": row, "num_warps": min(max(block // 512, 1), 16)}


class _Plan(NamedTuple):
    """How a call is launched: what of it does not depend on where its tensors are."""

    kernel: Any
    programs: int
    where: tuple[Any, ...]
    constants: dict[str, Any]


def _plan(space: Workspace, given: Request, algorithm: str, invariant: bool) -> _Plan:
    """That of a call; the workspace grows here.

    ``invariant``: constants, and so the order of sums in a row, do not depend on the number of rows.
    They are those of programs that share multiprocessors, which all grids may have.
    """
    tokens, programs, all_p2p = given.tokens, _programs(space), device_heap_is_p2p()
    # Also a team of one PE has its workspace: the job's other PEs take part in making it.
    where: Any = ()
    if runtime.n_pes() > 1 and algorithm == "one_shot":
        in_parts = all_p2p and _parts(space, given, invariant) > 1
        where = (_parts_where if in_parts else _packets_where if all_p2p else _one_shot_where)(
            space, given
        )
    elif runtime.n_pes() > 1 and algorithm == "pull":
        where = _pull_where(space, given)
    elif runtime.n_pes() > 1 and algorithm == "push":
        where = _push_where(space, given)
    elif runtime.n_pes() > 1:
        where = _two_shot_where(space, given, programs)
    count, constants = min(programs, tokens), _constants(given)
    if space.n_pes == 1:
        return _Plan(local, count, (), constants)
    if algorithm == "one_shot" and all_p2p:
        parts = _parts(space, given, invariant)
        count = min(parts * tokens, _senders(space, given))
        constants = _constants_of_packets(given, invariant or count > programs)
        _in_row(constants, TEAM=shmem.team_number(space.team), MEMBERS=space.n_pes, PARTS=parts)
        return _Plan(one_shot_ll, count, (*where, space.me), constants)
    if algorithm == "one_shot":
        _in_row(constants, TEAM=shmem.team_number(space.team))
        return _Plan(one_shot_by_channel, count, (where,), constants)
    if algorithm == "pull":
        count = min(tokens, _pullers(space, given))
        shared = None if invariant else count > programs
        if count:
            constants |= _constants_of_pull(space, given, shared, count)
            _in_row(constants, RING=constants.pop("RING"))
        return _Plan(pull, count, (*where, space.me), constants)
    if algorithm == "push":
        count = min(tokens, _pushers(space, given))
        constants |= _constants_of_push(space, given, invariant or count > programs)
        _in_row(constants, RING=constants.pop("RING"))
        return _Plan(push, count, (*where, space.me), constants)
    _in_row(constants, TEAM=shmem.team_number(space.team))
    return _Plan(two_shot, count, where, constants)


def _in_row(constants: dict[str, Any], **fields: Any) -> None:
    """What kernels know of the team stands in ``ROW``: they have as many parameters as they may."""
    constants["ROW"] = constants["ROW"]._replace(**fields)


def launches(
    space: Workspace, given: Request, algorithm: str, invariant: bool = False
) -> tuple[Launch, ...]:
    """The launch of a call where the words of all tensors are whole, and another where they are not.

    Calls that differ by the addresses of their tensors alone have the same. Empty: there are no rows.
    """
    kernel, count, where, constants = _plan(space, given, algorithm, invariant)
    if not count:
        return ()
    behind: tuple[Any, ...] = given.tokens, given.eps
    if space.n_pes > 1:
        behind = (*behind, *where, shmem.context())
    if kernel is not one_shot_ll:
        return (Launch(kernel, count, behind, constants),) * 2
    row = constants["ROW"]
    both = (constants | {"ROW": row._replace(WIDE=wide)} for wide in (True, False))
    return tuple(Launch(kernel, count, behind, each) for each in both)


def launch_of_one(given: Request) -> Launch:
    """That of a PE by itself, in no team. The number of rows is not compiled in."""
    count = min(
        given.tokens, _multiprocessors(given.x.device.index or 0) if given.x.is_cuda else _SIMULATED
    )
    return Launch(local, count, (given.tokens, given.eps), _constants(given))


def again(
    made: tuple[Launch, ...], x: Any, weight: Any, residual: Any, bias: Any, out: Any, total: Any
) -> bool:
    """Launch it for tensors like those of a launch before; False: it is for ``launch`` to do.

    What there is not, kernels are given another tensor for.
    """
    second = x if residual is None else residual
    return made[0].again((x, second, weight, weight if bias is None else bias, out, total, x, x))


def launch(made: tuple[Launch, ...], given: Request) -> None:
    """Runs the kernel of an algorithm; results are in ``out``, ``residual_out`` and ``scales``."""
    if not made:
        return
    x = given.x
    weight, residual, bias, scales = given.weight, given.residual, given.bias, given.scales
    unit = global_scale_tensor(given.global_scale, x)
    blocks = given.quantize in BLOCK_FORMATS
    # What there is not, kernels are given another tensor for.
    tensors = (
        x, x if residual is None else residual, weight, weight if bias is None else bias,
        given.out.view(torch.uint8) if given.quantize else given.out, given.residual_out,
        x if scales is None else scales.view(torch.uint8) if blocks else scales,
        x if unit is None else unit,
    )  # fmt: skip
    if made[0].again(tensors):
        return
    together = 0
    for one in tensors:
        together |= one.data_ptr()
    made[together % 4 != 0](tensors)


def _rows_in_turn(space: Workspace, name: str, programs: int, words: int, nbytes: int) -> Any:
    """``words`` words and ``nbytes`` bytes for each program, zeros at first."""
    first = 8 * programs * words + 255 & -256

    def make() -> Any:
        memory = over(creation.zeros(first + programs * nbytes, np.uint8, heap="device"))
        return memory[:first].view(torch.int64), memory[first:]

    return space.thing(name, programs, make)


def _packets_where(space: Workspace, given: Request) -> Any:
    """Counts and packets of ``one_shot`` by packets, for rows whose tile is of this size."""
    programs, tile = _senders(space, given), _packets(given)[1]
    nbytes = 32 * tile * runtime.n_pes()
    counts, packets = _rows_in_turn(space, f"norm.packets.{tile}", programs, 1, nbytes)
    return counts, packets.view(torch.int64)


def _parts(space: Workspace, given: Request, invariant: bool) -> int:
    """Programs of a row by packets: three of few rows in blocks: each third is made by one of them."""
    if given.quantize not in BLOCK_FORMATS or invariant or 3 * given.tokens > _programs(space):
        return 1
    return 3


def _parts_where(space: Workspace, given: Request) -> Any:
    """Counts of three programs a row, and the packets that they share."""
    tile, rows = _packets(given)[1], max(_programs(space) // 3, 1)
    nbytes = 32 * tile * runtime.n_pes()
    counts, packets = _rows_in_turn(space, f"norm.parts.{tile}", rows, 3, nbytes)
    return counts, packets.view(torch.int64)


def _constants_of_packets(given: Request, shared: bool) -> dict[str, Any]:
    """Those of ``one_shot`` by packets; ``shared``: programs share multiprocessors."""
    third, tile = _packets(given)
    group = GROUP[given.quantize]
    row = PacketsRow(
        given.hidden, third, tile, given.norm, given.residual is not None, given.bias is not None,
        -1 if group is None else group, BLOCKS=_blocks(given),
    )  # fmt: skip
    return {
        "ROW": row,
        "num_warps": min(max(tile // (128 if shared else 64), 1), 16),
        "maxnreg": 128,
    }


def _one_shot_where(space: Workspace, given: Request) -> Any:
    programs = _programs(space)
    nbytes = 4 * _row_packets(given)
    return space.thing(f"norm.channel.{nbytes}", programs, lambda: shmem.channel(programs, nbytes))


def _pull_where(space: Workspace, given: Request) -> Any:
    """Ring, counts and flags of ``pull``, for rows of this size."""
    programs, slot, n_pes = _pullers(space, given), _slot(given), runtime.n_pes()
    words, ring = _rows_in_turn(space, f"norm.ring.{slot}", programs, 1 + n_pes, SLOTS.value * slot)
    return ring.view(given.x.dtype), words[:programs], words[programs:]


def _push_where(space: Workspace, given: Request) -> Any:
    """Ring, counts and flags of ``push``, for rows of this size."""
    programs, name = _pushers(space, given), f"norm.pushed.{_slot(given)}"
    ring_bytes = _ring_of_pushes(given)
    words, ring = _rows_in_turn(space, name, programs, 1 + runtime.n_pes(), ring_bytes)
    return ring.view(given.x.dtype), words[:programs], words[programs:]


def _constants_of_push(space: Workspace, given: Request, shared: bool) -> dict[str, Any]:
    """Those of ``push``; ``shared``: 512 threads of 128 registers share a multiprocessor."""
    warps = min(max(_slot(given) // (2048 if shared else 1024), 1), 16)
    ring = Ring(shmem.team_number(space.team), space.n_pes, 32 * warps)
    return {"num_warps": warps, "RING": ring, "maxnreg": 128}


def _constants_of_pull(
    space: Workspace, given: Request, shared: bool | None, count: int
) -> dict[str, Any]:
    """Those of ``pull``, by ``count`` programs; ``shared``: programs share multiprocessors.

    ``shared`` is None: the same for all counts, also where programs share.

    512 threads of 128 registers share a multiprocessor, in one program or in two. Who has rows in turn
    says seldom that there are more, for a release waits for all that was stored. Many rows of up to
    12 KiB were faster with more of them on the way, larger ones slower.
    """
    width = 512 if shared is False else 1024
    warps = min(max(_tile(given) // width, 1), 16)
    every, ahead = 2, 4
    if shared is not None and given.tokens <= count:
        every, ahead = 1, 1
    elif (
        shared is not None
        and given.tokens >= 8 * count
        and given.hidden * given.x.itemsize <= 12 << 10
    ):
        every, ahead = 4, 6
    ring = Ring(shmem.team_number(space.team), space.n_pes, 32 * warps, every, ahead)
    return {"num_warps": warps, "RING": ring, "maxnreg": 128}


def _two_shot_where(space: Workspace, given: Request, programs: int) -> Any:
    """Inbox, sums, counts and flags of ``two_shot``.

    Sizes go by the PEs of the job, not of the team, as all PEs allocate together.
    """
    x, n_pes = given.x, runtime.n_pes()
    most = (given.tokens + n_pes) * given.hidden  # each member's share may be rounded up
    inbox = space.block("norm.inbox", most * x.itemsize).view(x.dtype)
    sums = space.block("norm.sums", x.nbytes).view(x.dtype)
    words = space.block("norm.flags", 8 * programs * (1 + 2 * n_pes), zeroed=True)
    words = words.view(torch.int64)
    return inbox, sums, words[:programs], words[programs:]
