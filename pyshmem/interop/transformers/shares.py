# SPDX-License-Identifier: BSD-3-Clause
"""Which parameters of a model are shared out, by transformers' own plan, and how each is cut."""

from __future__ import annotations

import re
import zlib
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from ..._core.errors import UnsupportedError

#: Decoder layers that do: x += attention(norm(x)); x += mlp(norm(x)), where both sums are partial.
LAYERS = (
    "LlamaDecoderLayer", "MistralDecoderLayer", "MixtralDecoderLayer", "Qwen2DecoderLayer",
    "Qwen3DecoderLayer", "Qwen3MoeDecoderLayer",
)  # fmt: skip
_WHOLE = ("replicated_with_grad_allreduce", "moe_tp_experts")  # styles that shard nothing
_COMPARED = 64  # elements of each parameter


class Share(NamedTuple):
    """Which part of each tensor is this member's."""

    rank: int
    size: int

    def of(self, tensor: torch.Tensor, dim: int, packed: int) -> torch.Tensor:
        pieces = tensor.chunk(packed, dim)
        mine = [piece.chunk(self.size, dim)[self.rank] for piece in pieces]
        return torch.cat(mine, dim).contiguous()


class Cut(NamedTuple):
    """A parameter to be cut; ``packed`` such tensors lie one behind the other in it.

    ``dim`` is None for a bias that is added to a sum: one member has it.
    """

    module: Any
    parameter: str
    dim: int | None
    packed: int = 1

    def make(self, share: Share) -> None:
        whole = getattr(self.module, self.parameter)
        if self.dim is None:
            if share.rank:
                setattr(self.module, self.parameter, None)
            return
        part = share.of(whole.data, self.dim, self.packed)
        setattr(self.module, self.parameter, torch.nn.Parameter(part, requires_grad=False))
        if self.parameter == "weight":
            self.module.out_features, self.module.in_features = part.shape


def parts_of(model: Any) -> tuple[Any, Any]:
    """The base model and its decoder layers."""
    base = getattr(model, "base_model", None)
    layers = getattr(base, "layers", None)
    if layers is None or not getattr(getattr(model, "config", None), "base_model_tp_plan", None):
        raise TypeError(
            f"model is {type(model).__name__}; give a model of transformers that has layers and whose "
            "config has a base_model_tp_plan"
        )
    if hasattr(base, "tensor_parallel_of_pyshmem"):
        raise ValueError(
            "the model has been given to use() before; give one whose weights are whole"
        )
    if model.training:
        raise ValueError("the model trains, and use() is for inference; call model.eval() before")
    unknown = {type(layer).__name__ for layer in layers} - set(LAYERS)
    if unknown:
        raise UnsupportedError(
            f"decoder layers {', '.join(sorted(unknown))} are not known; those that are: "
            f"{', '.join(LAYERS)}"
        )
    return base, layers


def cuts_of(model: Any, base: Any, layers: Any, share: Share) -> list[Cut]:
    """All parameters that are shared out. Raises what cannot be, before anything is changed."""
    plan, found = dict(model.config.base_model_tp_plan), []
    modules = dict(base.named_modules())
    parameters = dict(base.named_parameters())
    for name in (*modules, *parameters):
        style = plan.get(re.sub(r"\.\d+(?=\.|$)", ".*", name))
        if style is None or style in _WHOLE:
            continue
        if isinstance(modules.get(name.removesuffix(".weight")), torch.nn.Embedding):
            continue  # whole on all members
        if name in parameters:
            owner, _, parameter = name.rpartition(".")
            found += _cuts_of_parameter(name, modules[owner], parameter, style)
        elif isinstance(modules[name], torch.nn.Linear):
            found += _cuts_of_linear(name, modules[name], style)
        else:
            raise UnsupportedError(
                f"{name} is {type(modules[name]).__name__}; only plain linear layers are shared out"
            )
    cut = {id(one.module) for one in found}
    for number, layer in enumerate(layers):
        experts = getattr(layer.mlp, "experts", None)
        last = getattr(layer.mlp, "down_proj", None) if experts is None else experts
        if id(layer.self_attn.o_proj) not in cut or id(last) not in cut:
            raise UnsupportedError(f"the plan does not share out both sums of layer {number}")
        head, keys = layer.self_attn.head_dim, layer.self_attn.k_proj.out_features
        if keys // head % share.size:
            raise ValueError(
                f"{keys // head} heads of keys do not divide among {share.size} members"
            )
    for one in found:
        if one.dim is not None:
            extent = getattr(one.module, one.parameter).shape[one.dim]
            if extent % (share.size * one.packed):
                raise ValueError(
                    f"{one.parameter} of {type(one.module).__name__}: extent {extent} does not divide "
                    f"among {share.size} members"
                )
    return found


def _cuts_of_linear(name: str, linear: Any, style: str) -> list[Cut]:
    if style not in ("colwise", "rowwise"):
        raise UnsupportedError(f"{name}: style {style!r} of a layer is not known")
    cuts = [Cut(linear, "weight", 0 if style == "colwise" else 1)]
    if linear.bias is not None:
        cuts.append(Cut(linear, "bias", 0 if style == "colwise" else None))
    return cuts


def _cuts_of_parameter(name: str, module: Any, parameter: str, style: str) -> list[Cut]:
    """Weights of experts: (experts, rows, columns)."""
    dims = {"packed_colwise": (1, 2), "colwise": (1, 1), "rowwise": (2, 1)}
    if style not in dims or getattr(module, parameter).dim() != 3:
        raise UnsupportedError(f"{name}: style {style!r} of a parameter is not known")
    return [Cut(module, parameter, *dims[style])]


def compare_weights(model: Any, group: Any) -> None:
    """Raises where members have other weights: a model of random weights that is not seeded."""
    mine = {}
    for name, one in model.named_parameters():
        if one.is_meta:
            raise ValueError(f"{name} has no memory; load the weights first")
        some = one.detach().flatten()[:_COMPARED].double().cpu().numpy().tobytes()
        mine[name] = tuple(one.shape), str(one.dtype), zlib.crc32(some)
    every: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(every, mine, group=group)
    for rank, theirs in enumerate(every):
        if theirs != every[0]:
            name = next(
                name for name in {**every[0], **theirs} if every[0].get(name) != theirs.get(name)
            )
            raise ValueError(
                f"members 0 and {rank} have other weights ({name}); random ones are the same behind "
                "torch.manual_seed"
            )
