# SPDX-License-Identifier: BSD-3-Clause
"""``use(model, batch_invariant=True)``: what of a model adds up goes by operators whose rows are alone.

Linear layers, norms, attention, routers and experts are replaced here; what is left to torch takes
elements one by one, looks them up, or moves them.
"""

from __future__ import annotations

import copy
from typing import Any

import torch

from ..._core.errors import UnsupportedError
from ...fused._shared.powers import power_of_2
from ...fused.flash_decode.local import bounds_of
from ...fused.grouped_matmul import sharded_layout_kernels
from ...fused.grouped_matmul.api import multiply_groups
from ...triton.primitives.backend import INTERPRETED
from ..engine import FUSED
from . import operators as _operators  # noqa: F401  (it makes them)

NAME = "pyshmem_batch_invariant"  # of attention and masks, in transformers' tables
_PARTS = {"gate_proj", "up_proj", "down_proj", "act_fn"}  # of an MLP
_ROUTED = {"gate", "experts"}  # of a block of experts


def linear(x: torch.Tensor, weight: torch.Tensor, bias: Any = None, act: Any = None) -> Any:
    """``torch.nn.functional.linear``, and an activation behind it."""
    return torch.ops.pyshmem.batch_invariant_linear(x, weight, bias, act)


def check(model: Any, layers: Any) -> None:
    """Raises what of a model is not batch invariant, before anything is changed.

    Raises: UnsupportedError.
    """
    for name, one in model.named_parameters():
        if one.dtype not in FUSED:
            raise UnsupportedError(
                f"{name} is {one.dtype}; batch_invariant=True has bfloat16, float16 and float32"
            )
    if model.config.hidden_size % 8:
        raise UnsupportedError(
            f"hidden_size is {model.config.hidden_size}; batch_invariant=True takes multiples of 8"
        )
    for number, layer in enumerate(layers):
        head = layer.self_attn.head_dim
        if head > 256 or head % 8:
            raise UnsupportedError(
                f"head_dim is {head}; batch_invariant=True takes multiples of 8 up to 256"
            )
        for name, one in layer.named_modules():
            if why := _why_not(one):
                raise UnsupportedError(
                    f"layer {number}, {name or 'itself'}: {type(one).__name__} {why}; "
                    "batch_invariant=True does not cover it"
                )


def _why_not(module: Any) -> str | None:
    """None, or why a module of a decoder layer is not batch invariant."""
    parts = {name for name, _ in module.named_children()}
    if parts >= {"gate_proj", "down_proj"}:
        if parts != _PARTS:
            return f"has the parts {', '.join(sorted(parts))}"
    elif parts >= {"experts"}:
        if parts != _ROUTED:
            return f"has the parts {', '.join(sorted(parts))}"
    elif type(module).__name__ in ("SiLUActivation", "SiLU"):
        return None
    elif not parts and not _is_known(module):
        return "is none of the layers that are replaced"
    return None


def _is_known(module: Any) -> bool:
    if isinstance(module, torch.nn.Linear):
        return type(module) is torch.nn.Linear
    is_norm = hasattr(module, "variance_epsilon") and module.weight.dim() == 1
    return is_norm or hasattr(module, "top_k") or isinstance(module, (torch.nn.Identity,))


def replace(model: Any, base: Any, layers: Any) -> None:
    """Give the modules of a model, whose weights are cut already, their forwards."""
    for one in (base.norm, *(part for layer in layers for part in layer.modules())):
        parts = {name for name, _ in one.named_children()}
        if hasattr(one, "variance_epsilon"):
            one.forward = _norm_of(one)
        elif isinstance(one, torch.nn.Linear):
            one.forward = _linear_of(one)
        elif parts == _PARTS:
            one.forward = _mlp_of(one)
        elif parts == _ROUTED:
            one.forward = _experts_of(one)
    head = model.get_output_embeddings()
    if isinstance(head, torch.nn.Linear):
        head.forward = _linear_of(head)
    _register()
    theirs, own = model.config, copy.deepcopy(model.config)  # other models may have the same one
    for one in model.modules():
        if getattr(one, "config", None) is theirs:
            one.config = own
    own._attn_implementation = NAME
    base.register_forward_pre_hook(_bounded, with_kwargs=True)


def _norm_of(norm: Any) -> Any:
    def forward(x: torch.Tensor) -> Any:
        return torch.ops.pyshmem.batch_invariant_rmsnorm(x, norm.weight, norm.variance_epsilon)

    return forward


def _linear_of(layer: Any) -> Any:
    return lambda x: linear(x, layer.weight, layer.bias)


def _mlp_of(mlp: Any) -> Any:
    """SiLU belongs to the product before it."""
    gate = mlp.gate_proj

    def forward(x: torch.Tensor) -> Any:
        return mlp.down_proj(linear(x, gate.weight, gate.bias, "silu") * mlp.up_proj(x))

    return forward


# ---- experts -----------------------------------------------------------------------------------------


def _experts_of(block: Any) -> Any:
    """Pairs of a token and an expert, sorted by expert, in two products; then their sums in order."""
    gate, experts = block.gate, block.experts

    def forward(x: torch.Tensor) -> Any:
        rows = x.reshape(-1, x.shape[-1])
        probable = linear(rows, gate.weight).float().softmax(-1)
        weights, ids = probable.topk(gate.top_k, -1)
        if getattr(gate, "norm_topk_prob", True):
            weights = weights / sum(weights.split(1, -1))
        ordered, order = ids.flatten().sort(stable=True)
        sizes = torch.arange(probable.shape[-1] + 1, device=x.device)
        offsets = torch.searchsorted(ordered, sizes).int()
        number = torch.arange(order.numel(), dtype=torch.int32, device=x.device)
        place = torch.empty_like(number).scatter_(0, order, number)
        up = _groups(rows, (order // gate.top_k).int(), offsets, experts.gate_up_proj)
        first, second = up.chunk(2, -1)
        held = torch.nn.functional.silu(first) * second
        down = _groups(held, None, offsets, experts.down_proj)
        out = torch.empty_like(rows)
        block_size = min(power_of_2(out.shape[-1]), 64 if INTERPRETED else 2048)
        sharded_layout_kernels.sum_of_choices[(min(len(rows), 2 if INTERPRETED else 1024),)](
            out, down, place, weights.contiguous(), offsets, 0, len(rows), out.shape[-1],
            K=gate.top_k, B=block_size, BASED=False,
        )  # fmt: skip
        return out.view(x.shape)

    return forward


def _groups(x: torch.Tensor, rows: Any, offsets: torch.Tensor, weights: torch.Tensor) -> Any:
    """Rows of pairs times their experts' weights (experts, n, k), transposed."""
    pairs = len(x) if rows is None else len(rows)
    out = x.new_empty((pairs, weights.shape[1]))
    x = x.contiguous()
    multiply_groups(out, x, rows, offsets, weights, pairs, turned=True, batch_invariant=True)
    return out


# ---- attention ---------------------------------------------------------------------------------------


def _register() -> None:
    """Tell transformers of our attention; what a model's masks are then is ``bounds_of`` them."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    def bounds(**given: Any) -> torch.Tensor:
        given["allow_is_causal_skip"] = False
        return _checked(sdpa_mask(**given))

    AttentionInterface.register(NAME, attend)
    AttentionMaskInterface.register(NAME, bounds)


def _bounded(base: Any, args: Any, options: dict[str, Any]) -> Any:
    """A caller's own mask as bounds, once for all layers."""
    mask = options.get("attention_mask")
    if not isinstance(mask, torch.Tensor) or mask.dim() != 4 or mask.dtype == torch.int32:
        return None
    if mask.dtype != torch.bool:
        raise UnsupportedError(
            f"attention_mask is {mask.dtype}; batch_invariant=True takes bool masks of 4 dimensions, "
            "in which True is a key that counts"
        )
    return args, {**options, "attention_mask": _checked(mask)}


def _checked(mask: torch.Tensor) -> torch.Tensor:
    """Bounds of a mask, (batch, 1, tokens, 2). In a capture nobody can look: such tokens become NaN."""
    if mask.shape[1] != 1:
        raise UnsupportedError(
            "attention_mask has heads; batch_invariant=True takes one for all heads"
        )
    bounds = bounds_of(mask)
    capturing = mask.is_cuda and torch.cuda.is_current_stream_capturing()
    if not capturing and bool((bounds < 0).any()):
        raise ValueError(
            "attention_mask has gaps: with batch_invariant=True the keys that a token sees lie behind "
            "each other; padding on the left is fine"
        )
    return bounds


def attend(
    module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attention_mask: Any,
    dropout: float = 0.0, scaling: float | None = None, **options: Any,
) -> tuple[torch.Tensor, None]:  # fmt: skip
    """Attention as transformers calls it: query is (batch, heads, tokens, d), bounds are the mask."""
    more = [name for name in ("softcap", "position_bias", "s_aux") if options.get(name) is not None]
    if more or dropout:
        raise UnsupportedError(f"batch_invariant=True has no {', '.join(more) or 'dropout'}")
    if attention_mask is None or attention_mask.dtype != torch.int32:
        raise UnsupportedError(
            "batch_invariant=True makes its own masks: call the model, not a layer"
        )
    batch, _, tokens, d = query.shape
    bounds = attention_mask[:, 0].expand(batch, tokens, 2).contiguous()
    given = query.transpose(1, 2).contiguous(), key.contiguous(), value.contiguous(), bounds
    scale = d**-0.5 if scaling is None else scaling
    return torch.ops.pyshmem.batch_invariant_attention(*given, scale), None
