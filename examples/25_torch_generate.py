# SPDX-License-Identifier: BSD-3-Clause
"""A model of transformers writes text on all PEs: one line shares it out and fuses its sums and norms.

You learn: pyshmem.interop.transformers.use; decoding in CUDA graphs, a step a graph.
Run: python -m pyshmem run -n 2 --device sim examples/25_torch_generate.py  (with transformers)
     python -m pyshmem run -n 2 examples/25_torch_generate.py [2048|4096] [LAYERS]    (GPUs)
Output: 2 PEs wrote 8 tokens, as one PE writes them: ok          (GPUs: tokens a second, beside NCCL)
"""

import copy
import inspect
import statistics
import sys
import time
from typing import Any

import torch
import torch.distributed as dist
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen3Config, StaticCache

import pyshmem
import pyshmem.interop.torch as symmetric
from pyshmem.interop.transformers import use

ROUNDS, EAGER = 5, 24  # eager steps take longer
#: Of Qwen3-1.7B and Llama-3.1-8B; weights are random.
CONFIGS = {
    2048: Qwen3Config(
        hidden_size=2048, intermediate_size=6144, num_hidden_layers=28, num_attention_heads=16,
        num_key_value_heads=8, head_dim=128, vocab_size=151936, tie_word_embeddings=True,
    ),
    4096: LlamaConfig(
        hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32,
        num_key_value_heads=8, head_dim=128, vocab_size=128256,
    ),
    64: Qwen3Config(
        hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, vocab_size=100, max_position_embeddings=64,
    ),
}  # fmt: skip


def model_of(hidden: int, device: torch.device, layers: int | None) -> Any:
    config = CONFIGS[hidden]
    config.num_hidden_layers = layers or config.num_hidden_layers
    torch.manual_seed(0)  # the same weights on all PEs
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    with device:
        return AutoModelForCausalLM.from_config(config, dtype=dtype).eval()


class Writer:
    """Writes the most likely tokens behind a prompt, one sequence, one token a step."""

    def __init__(self, model: Any, prompt: torch.Tensor, steps: int) -> None:
        self.model, self.prompt, room = model, prompt, prompt.shape[1] + steps
        self.cache = StaticCache(config=model.config, max_cache_len=room)
        takes = inspect.signature(model.forward).parameters
        self.named = "cache" if "cache" in takes else "past_key_values"  # by the version
        self.places = torch.arange(room, device=prompt.device)
        # A step reads and writes these tensors, so that it may be a graph.
        self.token = torch.zeros(1, 1, dtype=torch.int64, device=prompt.device)
        self.place = torch.zeros(1, 1, dtype=torch.int64, device=prompt.device)
        self.graph: Any = None

    def begin(self) -> None:
        """Read the prompt, and write the first token."""
        self.cache.reset()
        self.place.fill_(self.prompt.shape[1])
        self.token.copy_(self._next(self.prompt, self.places[None, : self.prompt.shape[1]]))

    def step(self) -> None:
        self.token.copy_(self._next(self.token, self.place))
        self.place.add_(1)

    def _next(self, tokens: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        seen = (self.places <= places[..., None])[None]  # (1, 1, tokens, room)
        given = {"attention_mask": seen, "position_ids": places, self.named: self.cache}
        return self.model(tokens, **given).logits[:, -1:].argmax(-1)

    def capture(self) -> None:
        """Make a graph of a step; the steps before it have made what it needs."""
        stream = torch.cuda.Stream()
        self.begin()
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            self.step()
        torch.cuda.synchronize()
        pyshmem.barrier_all()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.step()

    def write(self, steps: int) -> tuple[list[int], float]:
        """The tokens, and tokens a second without the prompt's."""
        self.begin()
        written, step = [self.token.clone()], self.graph.replay if self.graph else self.step
        if self.token.is_cuda:
            torch.cuda.synchronize()
        pyshmem.barrier_all()
        begin = time.perf_counter()
        for _ in range(steps - 1):
            step()
            written.append(self.token.clone())
        if self.token.is_cuda:
            torch.cuda.synchronize()
        rate = (steps - 1) / (time.perf_counter() - begin)
        return torch.cat(written).flatten().tolist(), rate


def compare(
    hidden: int, layers: int | None, device: torch.device, steps: int, invariant: bool = False
) -> dict[str, list[float]]:
    """Tokens a second of both ways, eager and in graphs, in turn. A graph writes what eager calls do.

    ``invariant``: of the batch-invariant one, too.
    """
    prompt, writers, texts = torch.arange(16, device=device)[None], {}, {}
    rates: dict[str, list[float]] = {}
    ways: dict[str, dict[str, bool]] = {"pyshmem": {}, dist.get_backend(): {"fused": False}}
    if invariant:
        ways["pyshmem, batch_invariant"] = {"batch_invariant": True}
    for name, options in ways.items():
        model = use(model_of(hidden, device, layers), **options)
        writers[name] = Writer(model, prompt, steps)
        writers[name].write(min(4, steps))
        texts[name], eager = writers[name].write(min(EAGER, steps))
        rates[f"{name}, eager"] = [eager]
        if device.type == "cuda":
            writers[name].capture()
    for _ in range(ROUNDS if device.type == "cuda" else 0):
        for name, writer in writers.items():
            text, rate = writer.write(steps)
            rates.setdefault(f"{name}, graph", []).append(rate)
            assert text[:EAGER] == texts[name], f"{name}: a graph wrote {text}, eager {texts[name]}"
    return rates


def main() -> None:
    torch.set_num_threads(1)  # of each PE
    with pyshmem.init(device_heap_size="1G") as job, torch.no_grad():
        if job.device == "cuda":
            here = torch.device("cuda", job.gpu)
            torch.cuda.set_device(here)
            symmetric.init_process_group("nccl")
            hidden = int(sys.argv[1]) if len(sys.argv) > 1 else 2048
            rates = compare(hidden, int(sys.argv[2]) if len(sys.argv) > 2 else None, here, 128)
            medians = {name: round(statistics.median(found), 1) for name, found in rates.items()}
            ratio = medians["pyshmem, graph"] / medians["nccl, graph"]
            if job.my_pe == 0:
                print(f"hidden {hidden}, tokens a second: {medians}; in graphs {ratio:.3f} x NCCL")
            told = "in graphs as without"
        else:
            steps, here = 8, torch.device("cpu")
            model = model_of(64, here, None)
            alone, prompt = copy.deepcopy(model), torch.arange(5)[None]
            theirs, _ = Writer(alone, prompt, steps).write(steps)
            ours, _ = Writer(use(model), prompt, steps).write(steps)
            assert ours == theirs, (ours, theirs)
            told = f"{steps} tokens, as one PE writes them"
        dist.destroy_process_group()
        if job.my_pe == 0:
            print(f"{job.n_pes} PEs wrote {told}: ok", flush=True)


if __name__ == "__main__":
    main()
