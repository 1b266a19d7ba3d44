# SPDX-License-Identifier: BSD-3-Clause
"""Compiles kernels for streams to sm_90 and prints what the machine code shows, a JSON line each.

A script of its own, because numba must be imported without its simulator. No GPU is needed.
"""

from __future__ import annotations

import json
import sys
import types as python_types

import numpy as np

from pyshmem._core.contract import STREAM_KERNEL, STREAM_KEY
from pyshmem.host.kernels import stream_kernels

# isort: split
import numba.cuda.dispatcher as dispatcher

from pyshmem.device.jit import images
from pyshmem.device.jit.cubin import Cubin
from pyshmem.device.state import SYMBOL
from pyshmem.stream_kernels.table import kernel_of

# Numba asks the driver for the GPU of device functions even when told the architecture.
dispatcher.get_current_device = lambda: python_types.SimpleNamespace(compute_capability=(9, 0))

#: Every way in which a kernel is made: of the routines, at least one of each kind.
CASES = (
    ("barrier_all", None), ("sync_all", None), ("quiet", None), ("collect", None),
    ("broadcast", None), ("alltoalls", np.complex128), ("sum_reduce", np.float32),
    ("prod_reduce", "bfloat16"), ("sum_exscan", np.float16), ("xor_reduce_scatter", np.bool_),
    ("wait_until", np.uint32), ("wait_until_any", np.int64), ("wait_until_some", np.int32),
    ("signal_wait_until", None), ("put", None),
)  # fmt: skip
#: Those with rows of their own: see ``host/tuning/streams.py``.
BY_ROWS = {"broadcast", "sum_reduce", "prod_reduce", "xor_reduce_scatter"}
_PARAMETERS = 0x19  # of .nv.info: EIATTR_CBANK_PARAM_SIZE, whose value is in the record's head


def parameter_bytes(cubin: Cubin, entry: str) -> int:
    """How large the kernel's arguments are together."""
    row = cubin._sections[f".nv.info.{entry}"]
    at, end = row[4], row[4] + row[5]
    while at < end:
        form, attribute = cubin.code[at : at + 2]
        value = int.from_bytes(cubin.code[at + 2 : at + 4], "little")
        if attribute == _PARAMETERS:
            return value
        at += 4 + (value if form == 4 else 0)
    return 0  # a kernel without arguments has no such record


def way_of(name: str, key: int) -> str:
    """Of those with rows: with flags in the data, or by direct stores; else nothing."""
    meeting = key == STREAM_KERNEL.TEAM_SYNC  # of copy engines
    if name not in BY_ROWS or meeting or key & STREAM_KEY.FAR:
        return ""
    return "direct" if key & STREAM_KEY.WIDE else "ll"


def before_store(ptx: str) -> int:
    """Instructions of the kernel that stand in front of its first unit, without loads of arguments."""
    body = (
        ptx[ptx.index(".visible .entry") :]
        .partition("\n{")[2]
        .partition("st.relaxed.sys.global.b128")[0]
    )
    lines = [line.strip() for line in body.splitlines()]
    return sum(1 for line in lines if line[:1].isalpha() and not line.startswith("ld.param"))


def main(share: int, of: int) -> None:
    """Compile one of ``of`` shares of the cases."""
    for name, dtype in CASES[share::of]:
        for key in stream_kernels._keys(name, dtype, by_proxy=True):
            kernel = kernel_of(key)
            library, cc = images.library_of(kernel, 90)
            image = images.linked(library, cc)
            ptx = library.get_asm_str(cc=cc)
            cubin = Cubin(image.code)
            facts = {
                "kernel": stream_kernels.describe(key),
                "cooperative": kernel.cooperative,
                "words": sum(1 if letter == "i" else 7 for letter in kernel.arguments),
                "parameter_bytes": parameter_bytes(cubin, image.entry),
                "state": SYMBOL.encode() in image.code,
                "stack": image.stack,
                "way": way_of(name, key),
                "units": ptx.count("ld.relaxed.sys.global.b128"),
                "pieces": ptx.count("ld.global.L1::no_allocate.v2.u64"),
                "meetings": ptx.count("st.release.sys.global.u64"),
                "grid_barriers": ptx.count("%envreg1"),
                "lean": bool(key & STREAM_KEY.LEAN),
                "before_store": before_store(ptx),
            }
            print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
