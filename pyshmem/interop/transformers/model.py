# SPDX-License-Identifier: BSD-3-Clause
"""A model's sums over the members, its residuals and its norms, as fused operations."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from ..._torch.process_groups import from_process_group
from ...fused.all_reduce_norm.api import all_reduce_rmsnorm
from ...fused.exchange.all_to_all import low_latency_all_gather
from ...host.job import runtime
from ...host.teams.team import TEAM_WORLD, Team
from ..engine import FUSED, fusible
from ..torch.start import init_process_group
from . import invariant
from .shares import Cut, Share, compare_weights, cuts_of, parts_of


def use(model: Any, *, group: Any = None, fused: bool = True, batch_invariant: bool = False) -> Any:
    """Shard a model over the members of a process group, and fuse its sums, residuals and norms.

    The plan is transformers' own, ``model.config.base_model_tp_plan``: heads and rows of the MLPs, or
    of each expert, are shared out, and so is the vocabulary of the last layer where it divides. Each
    decoder layer's two sums over the members, its residuals and the norms behind them, that of the next
    layer among them, are two calls of ``all_reduce_rmsnorm``. The model's own methods go on,
    ``generate`` among them; what they return is the same on all members.

    For inference: parameters need no gradients then. float64, which ``all_reduce_rmsnorm`` does not
    have, and sizes that it does not take are summed by the group and normalised by the model's norms.

    Args:
        model: a causal language model, or its base, whose weights are whole, the same on all members,
            and on this member's device. It is changed in place. Its decoder layers are those of
            Llama, Mistral, Mixtral, Qwen2, Qwen3 or Qwen3-MoE.
        group: process group of any backend; default: the default one, which is begun, of backend
            ``"pyshmem"``, where there is none. ``destroy_process_group`` is left to the caller.
        fused: False, to compare with: the group's ``all_reduce``, then on GPUs one kernel of
            ``torch.compile`` for residual and norm, else the model's own norms.
        batch_invariant: the bits of a sequence's logits depend on its tokens, and not on the sequences
            beside it, their number, or its place; nor on whether its prompt is read at once or in
            pieces, in eager calls or in a graph (``docs/semantics.md``). Products are Triton's, by fixed
            tiles; long prompts take longer. bfloat16, float16 and float32; masks of 4 dimensions are
            bool, and each token's keys lie behind each other.

    Returns: ``model``.
    Completes: collective over the group; calls of the model are, too, in the order of the stream.
    Raises: UnsupportedError (a layer or a style that is not known, or that is not batch invariant),
        ValueError (heads or rows that do not divide, other weights on other members, a model that
        trains, or has been given before; ``batch_invariant`` without ``fused``), TypeError (no model of
        transformers). Calls with ``batch_invariant`` raise ValueError for masks with gaps.
    Extension.
    """
    if batch_invariant and not fused:
        raise ValueError("batch_invariant=True is of fused sums; leave fused=False out")
    if not dist.is_initialized():
        if group is not None:
            raise ValueError("group is given, and torch.distributed has no groups yet")
        init_process_group()
    base, layers = parts_of(model)
    if batch_invariant:
        invariant.check(model, layers)
    share = Share(dist.get_rank(group), dist.get_world_size(group))
    cuts = cuts_of(model, base, layers, share)
    compare_weights(model, group)
    for cut in cuts:
        cut.make(share)
    model.requires_grad_(False)
    sums = _Sums(group, _team_of(group) if fused else None, batch_invariant)
    if batch_invariant:
        invariant.replace(model, base, layers)
    _share_vocabulary(model, share, sums)
    _replace_forwards(base, layers, sums)
    base.tensor_parallel_of_pyshmem = share.size
    return model


# ---- what is called ----------------------------------------------------------------------------------


def _team_of(group: Any) -> Team:
    actual = dist.group.WORLD if group is None else group
    everybody = runtime.initialized() and (
        (dist.get_rank(actual), dist.get_world_size(actual)) == (runtime.my_pe(), runtime.n_pes())
    )
    if actual is dist.group.WORLD and everybody:
        return TEAM_WORLD
    team: Team = getattr(actual, "team", None) or from_process_group(actual)
    return team


class _Sums:
    """Sums over the members with what comes behind them; ``team`` is None where nothing is fused."""

    def __init__(self, group: Any, team: Team | None, batch_invariant: bool) -> None:
        self.group, self.team = group, team
        self.options = {"batch_invariant": True} if batch_invariant else {}
        self._ready: tuple[Any, Any] = None, None

    def behind(self, part: torch.Tensor, residual: torch.Tensor, norm: Any) -> tuple[Any, Any]:
        """The normalised sum of the parts and the residual, and the sum."""
        if self.team is not None and fusible(part, norm.weight):
            normed, total, _ = all_reduce_rmsnorm(
                part.contiguous(), norm.weight, residual=residual.contiguous(),
                eps=norm.variance_epsilon, team=self.team, **self.options,
            )  # fmt: skip
            return normed, total
        part = part.contiguous()
        dist.all_reduce(part, group=self.group)
        if self.team is None and part.is_cuda and part.dtype in FUSED:
            return _compiled()(residual, part, norm.weight, norm.variance_epsilon)
        total = residual + part
        return norm(total), total

    def gather(self, part: torch.Tensor) -> torch.Tensor:
        """The members' last extents behind each other."""
        size = dist.get_world_size(self.group)
        if self.team is not None:
            every = low_latency_all_gather(part.contiguous()[None], team=self.team)
        else:
            every = part.new_empty(size, *part.shape)
            dist.all_gather_into_tensor(every, part.contiguous()[None], group=self.group)
        return every.movedim(0, -2).reshape(*part.shape[:-1], size * part.shape[-1])

    def keep(self, total: torch.Tensor, normed: torch.Tensor) -> None:
        """For the norm that comes next: what it would make of ``total``."""
        self._ready = total, normed

    def take(self, total: torch.Tensor, norm: Callable[[torch.Tensor], Any]) -> Any:
        """``norm(total)``, from the layer before where that has made it."""
        (known, normed), self._ready = self._ready, (None, None)
        return normed if known is total else norm(total)


@functools.cache
def _compiled() -> Callable[..., tuple[Any, Any]]:
    """Residual and norm as one kernel of torch's compiler."""

    def add_and_norm(residual: Any, part: Any, weight: Any, eps: float) -> tuple[Any, Any]:
        total = residual + part
        return torch.nn.functional.rms_norm(total, total.shape[-1:], weight, eps), total

    compiled: Callable[..., tuple[Any, Any]] = torch.compile(add_and_norm)
    return compiled


def _replace_forwards(base: Any, layers: Any, sums: _Sums) -> None:
    behind = [*(layer.input_layernorm for layer in list(layers)[1:]), base.norm]
    for layer, following in zip(layers, behind, strict=True):
        layer.forward = _forward_of(layer, following, sums)
    normalise = base.norm.forward
    base.norm.forward = lambda hidden_states: sums.take(hidden_states, normalise)


def _forward_of(layer: Any, following: Any, sums: _Sums) -> Callable[..., torch.Tensor]:
    """A decoder layer's ``forward``; ``following`` is the norm behind it."""

    def forward(hidden_states: torch.Tensor, *args: Any, **options: Any) -> torch.Tensor:
        if args:
            raise TypeError("a decoder layer takes all but its hidden states by name")
        normed = sums.take(hidden_states, layer.input_layernorm)
        part = layer.self_attn(hidden_states=normed, **options)[0]
        normed, total = sums.behind(part, hidden_states, layer.post_attention_layernorm)
        part = layer.mlp(normed)
        part = part[0] if isinstance(part, tuple) else part
        normed, total = sums.behind(part, total, following)
        sums.keep(total, normed)
        return total

    return forward


def _share_vocabulary(model: Any, share: Share, sums: _Sums) -> None:
    """The layer behind the base, by rows: it reads as many bytes as some decoder layers."""
    head = model.get_output_embeddings()
    if not isinstance(head, torch.nn.Linear) or head.out_features % share.size:
        return
    multiply = invariant.linear if sums.options else torch.nn.functional.linear
    cuts = [Cut(head, name, 0) for name in ("weight", "bias") if getattr(head, name) is not None]
    for cut in cuts:
        cut.make(share)

    def forward(x: torch.Tensor) -> torch.Tensor:
        return sums.gather(multiply(x, head.weight, head.bias))

    head.forward = forward
