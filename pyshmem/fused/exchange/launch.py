# SPDX-License-Identifier: BSD-3-Clause
"""How parts of tensors move between the members of a team: the launches behind the operations."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from ..._torch.arguments import as_bytes
from ...triton import Channel, channel, context
from ...triton.primitives.backend import INTERPRETED
from .._shared.algorithm import NEVER, choose
from .._shared.powers import power_of_2
from .._shared.slots import LAUNCH, number_of, programs, slots
from .._shared.workspace import Workspace
from . import kernels

#: Programs and units of 4 bytes of the channel for small parts.
_LL_PROGRAMS, _LL_UNITS = (4, 128) if INTERPRETED else (64, 1024)
_TILE = 1024 if INTERPRETED else 8192  # elements that a program has in registers
#: Up to how many bytes flags in data are the faster algorithm, where nobody has measured it.
_DEFAULT = ((64 << 10, "ll"), (NEVER, "simple"))
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32}


class Rows(NamedTuple):
    """How a part's rows lie: ``stride`` elements apart, and after each ``inner`` of them ``outer``."""

    inner: int
    outer: int
    stride: int


class Parts(NamedTuple):
    """The members' parts of a tensor: where each starts, and how many elements it has."""

    firsts: tuple[int, ...]
    elems: tuple[int, ...]


def even(n_pes: int, elems: int, distance: int | None = None) -> Parts:
    """As many elements for each member, ``distance`` apart, by default one part behind the other."""
    step = elems if distance is None else distance
    return Parts(tuple(step * pe for pe in range(n_pes)), (elems,) * n_pes)


def in_turn(counts: Sequence[int], width: int) -> Parts:
    """Parts of ``counts`` rows of ``width`` elements, one behind the other."""
    elems = tuple(count * width for count in counts)
    return Parts(tuple(sum(elems[:pe]) for pe in range(len(elems))), elems)


def as_units(nbytes: int, *tensors: torch.Tensor) -> list[torch.Tensor]:
    """The tensors, flat, as the widest integers, up to 4 bytes, that ``nbytes`` is a multiple of."""
    starts = [one.data_ptr() for one in tensors if one.numel()]
    width = next(w for w in (4, 2, 1) if not any(number % w for number in (nbytes, *starts)))
    return [as_bytes(one).view(_INTEGERS[width]) for one in tensors]


@functools.lru_cache(maxsize=256)
def _table(parts_out: Parts, parts_in: Parts, device: torch.device) -> torch.Tensor:
    """What kernels know of the parts. Kept: a capture cannot copy from the host."""
    rows = [*parts_out, *parts_in]
    return torch.tensor(rows, dtype=torch.int64).to(device)


def _alignment(*numbers: int) -> int:
    """The largest power of two up to 16 that all numbers are multiples of."""
    return math.gcd(16, *numbers)


def move(
    space: Workspace, out: torch.Tensor, x: torch.Tensor, to: Parts, come: Parts,
    width: int | None = None, x_rows: Rows | None = None, out_rows: Rows | None = None,
) -> None:  # fmt: skip
    """Move the parts ``to`` of ``x`` to the members, and those that ``come`` into ``out``, by slots.

    All numbers are in elements of ``x``, which is flat, as ``out`` is.

    Args:
        width: elements of a row; default: a part is one piece of memory, and rows are what a slot has
            room for.
        x_rows, out_rows: how rows lie, where they do not lie one behind the other.
    """
    room = slots(space, (width or 1) * x.itemsize)
    per_slot = room.nbytes // x.itemsize
    wide = per_slot & -_alignment(per_slot) if width is None else width
    rows = 1 if width is None else per_slot // wide
    flat = Rows(1 << 30, 0, wide)
    x_rows, out_rows = x_rows or flat, out_rows or flat
    chunk = rows * wide
    most_out, most_in = (max(-(-elems // chunk) for elems in parts.elems) for parts in (to, come))
    columns = min(_TILE, power_of_2(wide))
    lines = min(_TILE // columns, power_of_2(rows))
    vector = _alignment(*to.firsts, *to.elems, *come.firsts, *come.elems)
    many = programs()
    kernels.exchange_rows[(2 * many,)](
        out, x, _table(to, come, x.device), room, most_out, most_in, out_rows, x_rows, wide, rows,
        context(), TILE=kernels.Tile(number_of(space), many, lines, columns, vector), **LAUNCH,
    )  # fmt: skip


def algorithm_of(
    space: Workspace, operation: str, part: torch.Tensor | None, nbytes: int, algorithm: str | None
) -> str:
    """The algorithm of a call that sends ``nbytes`` to each member; ``part`` is None if uneven."""
    small = _LL_PROGRAMS * _LL_UNITS * (4 if nbytes % 4 == 0 else 2 if nbytes % 2 == 0 else 1)
    why = None
    if part is None:
        why = "parts are not equal"
    elif nbytes > small:
        why = f"parts have {nbytes} bytes, and there is room for {small}"
    can = {"ll": why, "simple": None}
    return choose(space, operation, nbytes, can, _DEFAULT, algorithm)


def _channel(space: Workspace) -> Channel:
    made: Channel = space.thing("exchange", 0, lambda: channel(_LL_PROGRAMS, 4 * _LL_UNITS))
    return made


def by_flags(
    space: Workspace, kernel: Any, out: torch.Tensor, x: torch.Tensor, nbytes: int
) -> None:
    """A kernel whose data are the flags, on parts of ``nbytes`` bytes.

    Bytes that begin at odd addresses are copied: one by one they travel in another form than in words,
    and the other members' may begin at even ones.
    """
    odd = nbytes % 2 == 0 and x.data_ptr() % 2
    place = torch.empty_like(out) if nbytes % 2 == 0 and out.data_ptr() % 2 else out
    given, result = as_units(nbytes, x.clone() if odd else x, place)
    part = nbytes // given.itemsize
    block = _LL_UNITS * (2 if given.itemsize == 2 else 1)
    kernel[(-(-part // block),)](
        result, given, part, _channel(space), context(), TEAM=number_of(space), BLOCK=block
    )
    if place is not out:
        out.copy_(place)
