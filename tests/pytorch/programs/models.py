# SPDX-License-Identifier: BSD-3-Clause
"""pyshmem.interop.transformers: tiny models of random weights beside the same model on one PE.

    models.py [all]

``all``: every kind of model; else those that differ in what is shared out.
"""

from __future__ import annotations

import copy
import sys
from typing import Any

import pytest
import torch
import torch.distributed as dist
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

import pyshmem
import pyshmem.interop.transformers as interop
from pyshmem import UnsupportedError

transformers.logging.set_verbosity_error()
SIZES = {
    "vocab_size": 58, "hidden_size": 48, "intermediate_size": 72, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
    "max_position_embeddings": 64, "pad_token_id": 0, "eos_token_id": None, "bos_token_id": None,
}  # fmt: skip
EXPERTS = {"moe_intermediate_size": 24, "num_experts": 4, "num_experts_per_tok": 2}
KINDS: dict[str, dict[str, Any]] = {
    "llama": {"attention_bias": True, "mlp_bias": True},
    "mistral": {},
    "qwen2": {},  # biases of queries, keys and values
    "qwen3": {"tie_word_embeddings": True},
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "qwen3_moe": EXPERTS,
}
#: How far logits and hidden states may be from one PE's, over the largest. In float64 what differs
#: is the order of sums over the members, a few units in the last place; norms and softmax, in which
#: transformers rounds to float32, round the same.
TOLERANCES = {torch.float64: 1e-13, torch.float32: 1e-5, torch.bfloat16: 0.05}


def model_of(kind: str, dtype: torch.dtype, **changed: Any) -> Any:
    config = AutoConfig.for_model(kind, **{**SIZES, **KINDS.get(kind, {}), **changed})
    torch.manual_seed(5)
    model = AutoModelForCausalLM.from_config(config, experts_implementation="eager").eval()
    for (
        name,
        one,
    ) in model.named_parameters():  # transformers begins biases with 0, and norms with 1
        if name.endswith("bias") or "norm" in name:
            torch.nn.init.normal_(one, mean=float("norm" in name), std=0.2)
        else:
            one.data.mul_(5)
    return model.to(dtype).to(device)


@torch.no_grad()
def compare(kind: str, dtype: torch.dtype, **options: Any) -> None:
    model = model_of(kind, dtype)
    whole, tokens = copy.deepcopy(model), torch.arange(12, device=device).view(2, 6) + 1
    n_whole = sum(one.numel() for one in model.parameters())
    assert interop.use(model, **options) is model
    if n > 1:
        assert sum(one.numel() for one in model.parameters()) < n_whole
    got, wanted = (
        one(tokens, output_hidden_states=True, use_cache=False) for one in (model, whole)
    )
    least = TOLERANCES[dtype]
    for mine, theirs in zip(
        (got.logits, *got.hidden_states), (wanted.logits, *wanted.hidden_states), strict=True
    ):
        error = float((mine.double() - theirs.double()).abs().max() / theirs.double().abs().max())
        assert error < least, (kind, dtype, options, error)
    if kind == "qwen3":  # with the cache, token after token
        given = {"max_new_tokens": 3, "do_sample": False, "attention_mask": torch.ones_like(tokens)}
        assert torch.equal(model.generate(tokens, **given), whole.generate(tokens, **given)), kind


def refused(error: type[Exception], message: str, model: Any, **options: Any) -> None:
    before = {name: one.clone() for name, one in model.named_parameters()}
    with pytest.raises(error) as told:
        interop.use(model, **options)
    assert message in str(told.value), told.value
    after = dict(model.named_parameters())
    assert all(torch.equal(one, after[name]) for name, one in before.items())  # nothing was cut


def refusals() -> None:
    few = {"hidden_size": 48, "num_attention_heads": 3, "num_key_value_heads": 3}
    cases = [
        (TypeError, "give a model of transformers", torch.nn.Linear(2, 2)),
        (ValueError, "call model.eval() before", model_of("qwen3", torch.float32).train()),
        (UnsupportedError, "decoder layers GPTNeoXLayer are not", model_of("gpt_neox", torch.float32)),
        (ValueError, "3 heads of keys do not divide", model_of("llama", torch.float32, **few)),
        (
            ValueError, "extent 71 does not divide",
            model_of("llama", torch.float32, intermediate_size=71),
        ),
    ]  # fmt: skip
    for error, message, model in cases:
        refused(error, message, model)
    model = model_of("llama", torch.float32)
    model.lm_head.weight.data[0, 0] = me
    refused(ValueError, "members 0 and 1 have other weights (lm_head.weight)", model)
    model = interop.use(model_of("llama", torch.float32))
    refused(ValueError, "has been given to use() before", model)


torch.set_num_threads(1)
with pyshmem.init() as job:
    me, n = job.my_pe, job.n_pes
    device = torch.device("cuda", job.gpu) if job.device == "cuda" else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    for kind in KINDS if "all" in sys.argv else ("llama", "qwen2"):
        compare(kind, torch.float64)
    compare("mixtral", torch.float64)
    compare("qwen3", torch.float32)
    compare("qwen3", torch.float64)
    compare("mixtral", torch.bfloat16, batch_invariant=True)
    compare("llama", torch.float32, fused=False)
    if n == 2:
        refusals()
    dist.destroy_process_group()
print("ok", flush=True)
