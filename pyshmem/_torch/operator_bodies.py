# SPDX-License-Identifier: BSD-3-Clause
"""What the operators do to tensors that have memory; ``operators`` declares them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .._core.arrays.checks import StreamLike, pending
from .._core.library import check, check_value, lib
from ..host import ordering
from ..host.collectives.dispatch import do
from ..host.job import runtime
from ..host.kernels.stream_kernels import run, wait_on_stream
from ..host.teams.contexts import CTX_DEFAULT
from . import tensors
from .arguments import check_apart, check_plain, view_of_other_elements
from .staging import Reduction
from .teams import staging_of, team_of


def _stream(tensor: torch.Tensor) -> StreamLike:
    return torch.cuda.current_stream(tensor.device).cuda_stream if tensor.is_cuda else None


def _at(tensor: torch.Tensor, name: str) -> int:
    """The address of a contiguous tensor on a heap."""
    check_plain(tensor)
    if lazy := view_of_other_elements(tensor):
        raise ValueError(f"{name} is {lazy}")
    if not tensor.is_contiguous():
        raise ValueError(
            f"{name} is not contiguous (size {tuple(tensor.shape)}, strides {tensor.stride()}); pass a "
            "contiguous part or a copy"
        )
    _check_on_heap(tensor, name)
    return int(tensor.data_ptr())


def _check_on_heap(tensor: torch.Tensor, name: str, copy: bool = False) -> None:
    runtime.current()
    check_plain(tensor)
    tensors.check_not_freed(tensor, name)
    if not copy and tensor.numel() and tensors.heap_of(tensor) is None:
        if told := pending(name, tensor.data_ptr(), tensor.nbytes):
            raise told
        raise ValueError(
            f"{name} ({tuple(tensor.shape)} on {tensor.device}) is not on a symmetric heap: make it "
            "with pyshmem.interop.torch.empty, zeros, ... (x * 2 makes an ordinary tensor, x.mul_(2) "
            "stays there); collectives take any tensor with copy=True, "
            "after register_team(team)"
        )


def _check_pair(out: torch.Tensor, input: torch.Tensor, up: int, down: int, n_pes: int) -> None:
    """``out`` has ``input``'s dtype and device, ``up / down`` times its elements, and other memory."""
    check_plain(out, input)
    if out.dtype != input.dtype or out.device != input.device:
        raise TypeError(
            f"out is {out.dtype} on {out.device}, input is {input.dtype} on {input.device}"
        )
    if out.numel() * down != input.numel() * up:
        raise ValueError(
            f"out has {out.numel()} elements, it needs {input.numel() * up // down}: input has "
            f"{input.numel()}, for a team of {n_pes} PEs"
        )
    check_apart((("out", out),), (("input", input),))


def _share(input: torch.Tensor, n_pes: int) -> int:
    if not input.dim() or input.shape[0] % n_pes:
        raise ValueError(
            f"the first extent of input {tuple(input.shape)} is not a multiple of {n_pes} PEs"
        )
    return int(input.shape[0]) // n_pes


def _rows(tensor: torch.Tensor, n_pes: int) -> Sequence[torch.Tensor]:
    rows: Sequence[torch.Tensor] = tensor.contiguous().view(n_pes, -1).unbind(0)
    return rows


def _new(input: torch.Tensor, first: int | None = None) -> torch.Tensor:
    """A new tensor of ``input``'s size, or with another first extent."""
    size = input.shape if first is None else (first, *input.shape[1:])
    return input.new_empty(size)


# ---- collectives ---------------------------------------------------------------------------------


def _all_reduce(input: Any, op: str = "sum", team: int = 0, copy: bool = False) -> Any:
    _check_on_heap(input, "input", copy)
    out = _new(input)
    what = Reduction(op, input.dtype)
    staging_of(team, input).all_reduce(out, input, what, _stream(input))
    return out


def _all_reduce_inplace(tensor: Any, op: str = "sum", team: int = 0, copy: bool = False) -> None:
    what = Reduction(op, tensor.dtype)
    if copy:
        check_plain(tensor)
        staging_of(team, tensor).all_reduce(tensor, tensor, what, _stream(tensor))
        return
    at, members = _at(tensor, "tensor"), team_of(team)
    given = members.handle, what.number, what.element, at, at, tensor.numel()
    do("reduce", 3, given, _stream(tensor))
    if what.mean:
        tensor.data.div_(members.n_pes())


def _all_gather(input: Any, team: int = 0, copy: bool = False) -> Any:
    _check_on_heap(input, "input", copy)
    staging = staging_of(team, input)
    out = _new(input, staging.n_pes * (input.shape[0] if input.dim() else 1))
    staging.all_gather(_rows(out, staging.n_pes), input, _stream(input))
    return out


def _all_gather_out(out: Any, input: Any, team: int = 0, copy: bool = False) -> None:
    n_pes = team_of(team).n_pes()
    _check_pair(out, input, n_pes, 1, n_pes)
    if copy:
        whole = out.data.contiguous()
        staging_of(team, out).all_gather(_rows(whole, n_pes), input, _stream(out))
        if whole.data_ptr() != out.data_ptr():
            out.data.copy_(whole)
        return
    where = _at(out, "out"), _at(input, "input"), input.nbytes
    do("fcollect", 1, (team_of(team).handle, *where), _stream(out))


def _reduce_scatter(input: Any, op: str = "sum", team: int = 0, copy: bool = False) -> Any:
    _check_on_heap(input, "input", copy)
    staging, what = staging_of(team, input), Reduction(op, input.dtype)
    out = _new(input, _share(input, staging.n_pes))
    staging.reduce_scatter(out, _rows(input, staging.n_pes), what, _stream(input))
    return out


def _reduce_scatter_out(
    out: Any, input: Any, op: str = "sum", team: int = 0, copy: bool = False
) -> None:
    members, what = team_of(team), Reduction(op, input.dtype)
    n_pes = members.n_pes()
    _check_pair(out, input, 1, n_pes, n_pes)
    if copy:
        staging_of(team, out).reduce_scatter(out, _rows(input, n_pes), what, _stream(out))
        return
    where = _at(out, "out"), _at(input, "input"), out.numel()
    do("reduce_scatter", 3, (members.handle, what.number, what.element, *where), _stream(out))
    if what.mean:
        out.data.div_(n_pes)


def _all_to_all(input: Any, team: int = 0, copy: bool = False) -> Any:
    _check_on_heap(input, "input", copy)
    staging = staging_of(team, input)
    _share(input, staging.n_pes)
    out = _new(input)
    rows = _rows(out, staging.n_pes), _rows(input, staging.n_pes)
    staging.all_to_all(*rows, _stream(input))
    return out


def _all_to_all_out(out: Any, input: Any, team: int = 0, copy: bool = False) -> None:
    n_pes = team_of(team).n_pes()
    _check_pair(out, input, 1, 1, n_pes)
    _share(input, n_pes)
    if copy:
        whole = out.data.contiguous()
        rows = _rows(whole, n_pes), _rows(input, n_pes)
        staging_of(team, out).all_to_all(*rows, _stream(out))
        if whole.data_ptr() != out.data_ptr():
            out.data.copy_(whole)
        return
    where = _at(out, "out"), _at(input, "input"), input.nbytes // n_pes
    do("alltoall", 1, (team_of(team).handle, *where), _stream(out))


def _broadcast(input: Any, root: int, team: int = 0, copy: bool = False) -> Any:
    _check_on_heap(input, "input", copy)
    _check_root(root, team)
    out = _new(input)
    staging_of(team, input).broadcast(out, input, root, _stream(input))
    return out


def _broadcast_inplace(tensor: Any, root: int, team: int = 0, copy: bool = False) -> None:
    _check_root(root, team)
    if copy:
        check_plain(tensor)
        staging_of(team, tensor).broadcast(tensor, tensor, root, _stream(tensor))
        return
    at = _at(tensor, "tensor")
    do("broadcast", 1, (team_of(team).handle, at, at, tensor.nbytes, root), _stream(tensor))


def _check_root(root: int, team: int) -> None:
    n_pes = team_of(team).n_pes()
    if not 0 <= root < n_pes:
        raise ValueError(f"root {root} is outside the team of {n_pes} PEs (0..{n_pes - 1})")


# ---- signals, barrier ----------------------------------------------------------------------------


def _word(sig: torch.Tensor) -> int:
    if sig.dtype not in (torch.uint64, torch.int64) or not sig.numel():
        raise TypeError(
            f"sig is {sig.dtype} of {sig.numel()} elements; a signal is element 0 of uint64"
        )
    _check_on_heap(sig, "sig")
    return int(sig.data_ptr())


def _put_signal(dest: Any, source: Any, sig: Any, signal: int, sig_op: int, pe: int) -> None:
    if dest.dtype != source.dtype or dest.numel() < source.numel():
        raise TypeError(
            f"dest is {dest.dtype} of {dest.numel()} elements, source {source.dtype} of "
            f"{source.numel()}"
        )
    check_plain(source)
    given = source.resolve_conj().resolve_neg().contiguous()
    word, stream = _word(sig), _stream(dest)
    where = _at(dest, "dest"), given.data_ptr(), given.nbytes, word, signal, sig_op, pe
    if stream is None:
        check(lib.ishmemx_put_signal(CTX_DEFAULT.handle, *where))
    else:
        run(lib.ishmemx_put_signal_on_stream, CTX_DEFAULT.handle, *where, stream)


def _wait_signal(sig: Any, cmp: int, value: int, data: Any = None) -> None:
    word, stream = _word(sig), _stream(sig)
    if stream is not None:
        wait_on_stream("uint64", word, cmp, value, stream)
    elif lib.signal_wait_until(word, cmp, value) == lib.failed_signal:
        check_value()


def _barrier(tensor: Any, team: int = 0) -> None:
    stream = _stream(tensor)
    ordering.quiet(stream=stream) if stream is not None else ordering.quiet()
    team_of(team).sync(stream=stream)


#: By the operators' names.
BODIES = {
    "all_reduce": _all_reduce, "all_reduce_": _all_reduce_inplace, "all_gather": _all_gather,
    "all_gather_out": _all_gather_out, "reduce_scatter": _reduce_scatter,
    "reduce_scatter_out": _reduce_scatter_out, "all_to_all": _all_to_all,
    "all_to_all_out": _all_to_all_out, "broadcast": _broadcast, "broadcast_": _broadcast_inplace,
    "put_signal": _put_signal, "wait_signal": _wait_signal, "barrier": _barrier,
}  # fmt: skip
