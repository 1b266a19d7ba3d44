# SPDX-License-Identifier: BSD-3-Clause
"""Kernels with pyshmem.triton under PyTorch: torch.compile, triton.autotune, CUDA graphs. One PE."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

pytestmark = pytest.mark.gpu

PROGRAM = """
    import numpy as np
    import pyshmem
    import pyshmem.triton as shmem
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def add_to_peer(dest, source, n, pe, ctx, B: tl.constexpr):
        offs = tl.program_id(0) * B + tl.arange(0, B)
        inside = offs < n
        there = shmem.load(dest + offs, pe, ctx, mask=inside)
        shmem.store(dest + offs, there + tl.load(source + offs, mask=inside), pe, ctx, mask=inside)

    with pyshmem.init() as job:
        n, ctx = 1000, shmem.context()
        array = pyshmem.zeros(n, dtype=np.float32, heap="device")
        dest = torch.as_tensor(array, device="cuda")
        source = torch.arange(n, dtype=torch.float32, device="cuda")
        pe = job.my_pe
{body}
        torch.cuda.synchronize()
        print(dest.cpu().numpy().sum() / source.cpu().numpy().sum())
"""

COMPILED = """
        # Inductor copies the text of kernels, without the modules that they import.
        @torch.library.custom_op("test::add_to_peer", mutates_args=("dest",))
        def add(dest: torch.Tensor, source: torch.Tensor) -> None:
            add_to_peer[(triton.cdiv(n, 256),)](dest, source, n, pe, ctx, B=256)

        @torch.compile(fullgraph=True)
        def step(dest, source):
            add(dest, source * 2)
            return dest + 0

        step(dest, source)
        step(dest, source)
"""

AUTOTUNED = """
        configs = [triton.Config({"B": block}, num_warps=4) for block in (128, 256, 512)]
        tuned = triton.autotune(configs, key=["n"], restore_value=["dest"])(add_to_peer)
        tuned[lambda meta: (triton.cdiv(n, meta["B"]),)](dest, source, n, pe, ctx)
"""

GRAPH = """
        def step():
            add_to_peer[(4,)](dest, source, n, pe, ctx, B=256)

        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            step()  # compiled outside the capture
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            step()
        for _ in range(4):
            graph.replay()
"""


@pytest.mark.parametrize(
    ("body", "times"),
    [(COMPILED, 4), (AUTOTUNED, 1), (GRAPH, 5)],
    ids=["compile", "autotune", "graph"],
)
def test_kernels_of_torch_s_users(run_pes, body: str, times: int) -> None:
    result = run_pes(1, PROGRAM.replace("{body}\n", body.lstrip("\n")), device="cuda", check=True)
    assert np.isclose(float(result.stdout.splitlines()[-1]), times)
