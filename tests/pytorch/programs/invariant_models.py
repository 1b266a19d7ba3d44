# SPDX-License-Identifier: BSD-3-Clause
"""pyshmem.interop.transformers: a sequence's logits have the same bits whatever else is in the batch.

    invariant_models.py [KINDS] [BATCHES]

Each sequence of a pool is read alone, its prompt and then tokens one by one, and again in batches: among
up to 63 others, at other places, with padding on the left, in pieces, and on GPUs in graphs. Prints how
many logits have other bits, and how far they are from those of the whole model on one PE.
"""

from __future__ import annotations

import copy
import inspect
import json
import random
import sys
from typing import Any

import pytest
import torch
import torch.distributed as dist
import transformers
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AutoConfig, AutoModelForCausalLM, StaticCache

import pyshmem
import pyshmem.interop.transformers as interop
from pyshmem import UnsupportedError
from pyshmem.host.job.runtime import gpu_count

transformers.logging.set_verbosity_error()
COMMON = {
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "eos_token_id": None,
    "bos_token_id": None,
}
TINY = COMMON | {
    "vocab_size": 58, "hidden_size": 48, "intermediate_size": 72, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
}  # fmt: skip
#: Of Qwen3-1.7B and Llama-3.1-8B, but for the number of layers.
LARGE = COMMON | {"num_hidden_layers": 4, "vocab_size": 32000, "head_dim": 128}
HEADS = {"num_attention_heads": 16, "num_key_value_heads": 8}
SIZES = {
    "qwen3": {"hidden_size": 2048, "intermediate_size": 6144, **HEADS},
    "llama": {
        "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32,
        "num_key_value_heads": 8,
    },
    "mixtral": {"hidden_size": 2048, "intermediate_size": 4096, **HEADS},
}  # fmt: skip
KINDS: dict[str, dict[str, Any]] = {
    "llama": {"attention_bias": True, "mlp_bias": True},
    "qwen3": {"tie_word_embeddings": True},
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "qwen3_moe": {"moe_intermediate_size": 24, "num_experts": 4, "num_experts_per_tok": 2},
}
#: Logits beside one PE's, over the largest.
TOLERANCES = {torch.float32: 1e-5, torch.bfloat16: 0.05}
#: What torch adds up must not be left: products but for those of one term, sums, norms, attention.
ADDED_UP = (
    "mm",
    "addmm",
    "bmm",
    "baddbmm",
    "mean",
    "var",
    "rms_norm",
    "attention",
    "einsum",
    "dot",
    "mv",
)


def model_of(kind: str, dtype: torch.dtype) -> Any:
    sizes = TINY if device.type == "cpu" else {**LARGE, **SIZES[kind]}
    config = AutoConfig.for_model(kind, **{**sizes, **KINDS[kind]})
    torch.manual_seed(5)
    with device:
        model = AutoModelForCausalLM.from_config(
            config, dtype=dtype, experts_implementation="eager"
        )
    for name, one in model.named_parameters():
        if name.endswith("bias") or "norm" in name:
            torch.nn.init.normal_(one, mean=float("norm" in name), std=0.2)
        elif device.type == "cpu":
            one.data.mul_(5)
    return model.eval()


class Reader:
    """Reads sequences of one length with a cache: a prompt, in so many pieces, and single tokens."""

    def __init__(self, model: Any, pad: int = 0) -> None:
        self.model, self.pad, self.room = model, pad, LENGTH + STEPS + pad
        takes = inspect.signature(model.forward).parameters
        self.named = "cache" if "cache" in takes else "past_key_values"  # by the version

    def read(self, rows: torch.Tensor, pieces: int = 1, pads: Any = None) -> torch.Tensor:
        """Logits of all tokens of ``rows``; the first ``pads`` of them are padding."""
        cache = StaticCache(config=self.model.config, max_cache_len=self.room)
        prompt, found, at = rows.shape[1] - STEPS, [], 0
        ends = [prompt * piece // pieces for piece in range(1, pieces + 1)]
        for end in (*ends, *range(prompt + 1, prompt + STEPS + 1)):
            found.append(self.step(rows, torch.arange(at, end, device=device), cache, pads))
            at = end
        return torch.cat(found, 1)

    def step(self, rows: torch.Tensor, here: torch.Tensor, cache: Any, pads: Any) -> torch.Tensor:
        places = torch.arange(self.room, device=device)
        first = torch.zeros(len(rows), dtype=torch.int64, device=device) if pads is None else pads
        seen = (places <= here[:, None])[None] & (places >= first[:, None, None])
        given = {"position_ids": (here - first[:, None]).clamp(min=0), self.named: cache}
        return self.model(rows[:, here], attention_mask=seen[:, None], **given).logits


def differing(got: torch.Tensor, wanted: torch.Tensor) -> int:
    """How many logits have other bits."""
    width = torch.int16 if got.itemsize == 2 else torch.int32
    return int((got.contiguous().view(width) != wanted.contiguous().view(width)).sum())


def in_batches(model: Any, pool: torch.Tensor, alone: torch.Tensor) -> dict[str, int]:
    """Logits with other bits than each sequence's alone, for each way to be read."""
    drawn, wrong = random.Random(3), {}
    for size in batches:
        some = drawn.sample(range(len(pool)), size)
        wrong[f"batch {size}"] = differing(Reader(model).read(pool[some]), alone[some])
    some = drawn.sample(range(len(pool)), 3)
    wrong["pieces"] = differing(Reader(model).read(pool[some], pieces=2), alone[some])
    pads = torch.tensor([2, 0, 1], device=device)
    padded = torch.zeros(3, LENGTH + STEPS + 2, dtype=torch.int64, device=device)
    for row, (one, pad) in enumerate(zip(some, pads.tolist(), strict=True)):
        padded[row, pad : pad + LENGTH + STEPS] = pool[one]
    got = Reader(model, pad=2).read(padded, pads=pads)
    shifted = torch.stack([got[row, pad : pad + LENGTH] for row, pad in enumerate(pads.tolist())])
    wrong["padding"] = differing(shifted, alone[some][:, :LENGTH])
    if device.type == "cuda":
        for size in batches:
            wrong[f"graph {size}"] = in_a_graph(model, pool, alone, size)
    return wrong


def in_a_graph(model: Any, pool: torch.Tensor, alone: torch.Tensor, size: int) -> int:
    """The same of a step behind the prompt that is captured once, and replayed with other sequences."""
    stream, drawn, wrong = torch.cuda.Stream(), random.Random(size), 0
    reader, cache = Reader(model), StaticCache(config=model.config, max_cache_len=LENGTH + STEPS)
    rows, here = pool[:size].clone(), torch.tensor([LENGTH], device=device)
    start, graph = torch.arange(LENGTH, device=device), torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        reader.step(rows, start, cache, None)
        reader.step(rows, here, cache, None)
    torch.cuda.synchronize()
    pyshmem.barrier_all()
    cache.reset()
    with torch.cuda.stream(stream):
        reader.step(rows, start, cache, None)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=stream):
        got = reader.step(rows, here, cache, None)
    for _ in range(3):
        some = drawn.sample(range(len(pool)), size)
        with torch.cuda.stream(stream):
            rows.copy_(pool[some])
            cache.reset()
            reader.step(rows, start, cache, None)
            graph.replay()
        torch.cuda.synchronize()
        pyshmem.barrier_all()
        wrong += differing(got, alone[some][:, LENGTH : LENGTH + 1])
    return wrong


class Seen(TorchDispatchMode):
    """What torch is asked to add up by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.partition("::")[2]
        one_term = name == "bmm" and args[0].shape[-1] == 1  # angles of positions, in some versions
        adds_up = any(name.strip("_") == one or (len(one) > 5 and one in name) for one in ADDED_UP)
        if adds_up and not one_term and not func._schema.name.startswith("pyshmem"):
            self.found.add(name)
        return func(*args, **(kwargs or {}))


@torch.no_grad()
def compare(kind: str, dtype: torch.dtype) -> None:
    model = model_of(kind, dtype)
    whole = copy.deepcopy(model)
    interop.use(model, batch_invariant=True)
    made = torch.Generator().manual_seed(1)
    pool = torch.randint(
        1, model.config.vocab_size, (max(4, *batches), LENGTH + STEPS), generator=made
    )
    pool = pool.to(device)
    with Seen() as seen:
        alone = [Reader(model).read(pool[:1])]
    assert not seen.found, f"{kind}: torch adds up in {seen.found}"
    alone += [Reader(model).read(row[None]) for row in pool[1:]]
    wrong = in_batches(model, pool, torch.cat(alone))
    theirs = Reader(whole).read(pool).double()
    errors = (torch.cat(alone).double() - theirs).abs().amax(
        -1
    ) / theirs.abs().max()  # of each token
    error = float(errors.max())
    if device.type == "cuda" and hasattr(model.config, "num_experts_per_tok"):
        error = float(errors.median())  # some tokens of random weights are sent to other experts
    said = {"kind": kind, "dtype": str(dtype), "hidden": model.config.hidden_size, "differ": wrong}
    print(json.dumps({"pe": me, **said, "beside_one_pe": error}), flush=True)
    assert not any(wrong.values()), said
    assert error < TOLERANCES[dtype], error


def refusals() -> None:
    def told(error: type[Exception], message: str, call: Any) -> None:
        with pytest.raises(error) as found:
            call()
        assert message in str(found.value), found.value

    wide = model_of("qwen3", torch.float64)
    told(
        UnsupportedError,
        "is torch.float64; batch_inv",
        lambda: interop.use(wide, batch_invariant=True),
    )
    model = model_of("llama", torch.float32)
    told(
        ValueError,
        "leave fused=False out",
        lambda: interop.use(model, fused=False, batch_invariant=True),
    )
    model.model.layers[1].mlp.act_fn = torch.nn.GELU()
    told(
        UnsupportedError,
        "layer 1, mlp.act_fn: GELU",
        lambda: interop.use(model, batch_invariant=True),
    )
    model = model_of("llama", torch.float32)
    other = type(model)(model.config).eval()  # of the same config, which stays as it was
    interop.use(model, batch_invariant=True)
    other(torch.ones(1, 3, dtype=torch.int64), attention_mask=torch.ones(1, 1, 3, 3).bool())
    rows, gap = torch.ones(1, 3, dtype=torch.int64), torch.tensor([[1, 0, 1]])
    told(ValueError, "has gaps", lambda: model(rows, attention_mask=gap))
    told(
        UnsupportedError,
        "takes bool masks",
        lambda: model(rows, attention_mask=torch.zeros(1, 1, 3, 3)),
    )


torch.set_num_threads(1)
with pyshmem.init(device_heap_size="1G" if gpu_count() else "64M") as job:
    me = job.my_pe
    device = torch.device("cuda", job.gpu) if job.device == "cuda" else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    kinds = sys.argv[1].split(",") if len(sys.argv) > 1 else ["qwen3"]
    batches = [int(one) for one in sys.argv[2].split(",")] if len(sys.argv) > 2 else [5]
    LENGTH, STEPS = (2, 1) if device.type == "cpu" else (24, 3)  # of a prompt, and behind it
    for number, kind in enumerate(kinds):
        on_cpu = (torch.bfloat16, torch.float32)[number % 2]
        compare(kind, on_cpu if device.type == "cpu" else torch.bfloat16)
    if device.type == "cpu":
        refusals()
    dist.destroy_process_group()
print("ok", flush=True)
