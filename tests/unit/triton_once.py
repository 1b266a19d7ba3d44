# SPDX-License-Identifier: BSD-3-Clause
"""Compiles a kernel of Triton as a PE does, when the file ``go`` is there, and prints how often.

Without a GPU: for sm_90. ``python triton_once.py FOLDER``.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import triton
import triton.language as tl
from triton import compiler
from triton.backends.compiler import GPUTarget

import pyshmem
from pyshmem._foreign import triton as foreign
from pyshmem.triton.runtime import context


@triton.jit
def scale(data, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(data + at, tl.load(data + at, mask=at < n) * 2, mask=at < n)


if __name__ == "__main__":
    assert pyshmem.__version__
    folder = Path(sys.argv[1])
    for _ in range(2):
        foreign.compile_one_at_a_time(context.compiling)
    source = compiler.ASTSource(
        scale, {"data": "*fp32", "n": "i32", "B": "constexpr"}, {(2,): 128}, {}
    )
    made = []
    make_ir = source.make_ir

    def counted(*args, **options):
        made.append(1)
        time.sleep(0.3)  # the other one comes meanwhile
        return make_ir(*args, **options)

    source.make_ir = counted
    (folder / f"ready{sys.argv[2]}").touch()
    while not (folder / "go").exists():
        time.sleep(0.002)
    code = compiler.compile(source, target=GPUTarget("cuda", 90, 32))
    assert code.asm["cubin"]
    print(len(made))
