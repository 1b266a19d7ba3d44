# SPDX-License-Identifier: BSD-3-Clause
"""pyshmem.interop.transformers: models of several PEs have the bits of one PE that adds as they do.

    ordered_models.py [KINDS]

The model of one PE has, in the place of each attention and each MLP, those of all members one behind
another, cut here by columns and rows of the weights, and adds what they give in PE order, as
docs/semantics.md has it: ((PE 0 + PE 1) + PE 2) + ... The rest of it is transformers'. Logits and
hidden states are compared to the bit.
"""

from __future__ import annotations

import copy
import functools
import operator
import sys
from typing import Any

import torch
import torch.distributed as dist
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

import pyshmem
import pyshmem.interop.transformers as interop
from pyshmem import fused

transformers.logging.set_verbosity_error()
#: Divides among 2, 3 and 4 members.
SIZES = {
    "vocab_size": 60, "hidden_size": 48, "intermediate_size": 72, "num_hidden_layers": 2,
    "num_attention_heads": 24, "num_key_value_heads": 12, "head_dim": 8,
    "max_position_embeddings": 64, "pad_token_id": 0, "eos_token_id": None, "bos_token_id": None,
}  # fmt: skip
KINDS: dict[str, dict[str, Any]] = {
    "llama": {"attention_bias": True, "mlp_bias": True},
    "qwen3": {"tie_word_embeddings": True},
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
}
BY_ROWS = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj")
BY_COLUMNS = ("o_proj", "down_proj")


def model_of(kind: str, dtype: torch.dtype) -> Any:
    config = AutoConfig.for_model(kind, **{**SIZES, **KINDS[kind]})
    torch.manual_seed(5)
    model = AutoModelForCausalLM.from_config(config, experts_implementation="eager").eval()
    for name, one in model.named_parameters():
        if name.endswith("bias") or "norm" in name:
            torch.nn.init.normal_(one, mean=float("norm" in name), std=0.2)
        else:
            one.data.mul_(5)
    return model.to(dtype)


def piece(tensor: torch.Tensor, dim: int, pe: int) -> torch.nn.Parameter:
    """In memory of its own, for products of other alignments may add in another order."""
    return torch.nn.Parameter(
        tensor.data.chunk(n, dim)[pe].clone(memory_format=torch.contiguous_format)
    )


def share_of(module: Any, pe: int) -> Any:
    """A copy of an attention or an MLP with what member ``pe`` has of its weights."""
    mine = copy.deepcopy(module)
    for name, one in mine.named_modules():
        last = name.rpartition(".")[2]
        if last in BY_ROWS:
            one.weight = piece(one.weight, 0, pe)
            one.bias = None if one.bias is None else piece(one.bias, 0, pe)
        elif last in BY_COLUMNS:
            one.weight = piece(one.weight, 1, pe)
            one.bias = one.bias if pe == 0 else None  # added once, by PE 0
        elif last == "experts":
            both = one.gate_up_proj.data.chunk(2, 1)
            one.gate_up_proj = torch.nn.Parameter(
                torch.cat([half.chunk(n, 1)[pe] for half in both], 1)
            )
            one.down_proj = piece(one.down_proj, 2, pe)
    return mine


class InOrder(torch.nn.Module):
    """All members' parts, added in the order of the PEs; what comes beside a part is the first's."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.members = torch.nn.ModuleList(share_of(module, pe) for pe in range(n))

    def forward(self, *args: Any, **options: Any) -> Any:
        found = [one(*args, **options) for one in self.members]
        if not isinstance(found[0], tuple):
            return functools.reduce(operator.add, found)
        return functools.reduce(operator.add, (one[0] for one in found)), *found[0][1:]


def on_one_pe(model: Any, by_the_operation: bool) -> Any:
    """``model`` as one PE of all members' parts.

    ``by_the_operation``: rows behind a sum are normalised by ``all_reduce_rmsnorm``, which adds up their
    squares in another order than torch; what it sums is PE 0's rows and zeros.
    """
    head, layers = model.get_output_embeddings(), model.base_model.layers
    rows = [piece(head.weight, 0, pe) for pe in range(n)]
    head.forward = lambda x: torch.cat([torch.nn.functional.linear(x, one) for one in rows], -1)
    for layer in layers:
        layer.self_attn, layer.mlp = InOrder(layer.self_attn), InOrder(layer.mlp)
    if by_the_operation:
        firsts = [layer.input_layernorm for layer in layers[1:]]
        for norm in (
            *firsts,
            *(one.post_attention_layernorm for one in layers),
            model.base_model.norm,
        ):
            norm.forward = functools.partial(normalised, norm)
    return model


def normalised(norm: Any, x: torch.Tensor) -> torch.Tensor:
    part = x if me == 0 else torch.zeros_like(x)
    return fused.all_reduce_rmsnorm(part, norm.weight, eps=norm.variance_epsilon).output


@torch.no_grad()
def compare(kind: str, dtype: torch.dtype, **options: Any) -> None:
    model, by_the_operation = model_of(kind, dtype), dtype != torch.float64 and not options
    wanted = on_one_pe(copy.deepcopy(model), by_the_operation)
    interop.use(model, **options)
    tokens = torch.arange(12).view(2, 6) + 1
    got, theirs = (
        one(tokens, output_hidden_states=True, use_cache=False) for one in (model, wanted)
    )
    named = [("logits", got.logits, theirs.logits)]
    pairs = zip(got.hidden_states, theirs.hidden_states, strict=True)
    named += ((f"hidden states {number}", *pair) for number, pair in enumerate(pairs))
    assert len(named) == 2 + model.config.num_hidden_layers
    for what, mine, other in named:
        count = int((mine != other).sum())
        assert mine.dtype == dtype
        assert torch.equal(mine, other), f"{kind}, {dtype}, {options}: {count} of {what} differ"


torch.set_num_threads(1)
with pyshmem.init() as job:
    me, n = job.my_pe, job.n_pes
    for kind in sys.argv[1].split(",") if len(sys.argv) > 1 else KINDS:
        compare(kind, torch.float64)
        compare(kind, torch.float32, fused=False)
        compare(kind, torch.float32)
    dist.destroy_process_group()
print("ok", flush=True)
