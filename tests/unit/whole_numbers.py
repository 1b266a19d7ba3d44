# SPDX-License-Identifier: BSD-3-Clause
"""Types calls of device routines for sm_90 with other numbers than whole ones, and prints what is said.

A script of its own, because numba must be imported without its simulator. A JSON line a call.
"""

import json
import types as python_types

import numba.cuda.dispatcher as dispatcher
from numba import cuda
from numba.core import errors
from numba.cuda import types

from pyshmem import device as shmem

dispatcher.get_current_device = lambda: python_types.SimpleNamespace(compute_capability=(9, 0))

#: By routine and parameter: a call with the number ``n``.
CALLS = {
    ("put", "pe"): lambda a, b, n: shmem.put(a, b, n),
    ("put", "nelems"): lambda a, b, n: shmem.put(a, b, 0, n),
    ("put", "ctx"): lambda a, b, n: shmem.put(a, b, 0, ctx=n),
    ("atomic_add", "ctx"): lambda a, b, n: shmem.atomic_add(a, 1, 0, n),
    ("iget", "dst"): lambda a, b, n: shmem.iget(a, b, n, 1, 1, 0),
    ("ibput", "nblocks"): lambda a, b, n: shmem.ibput(a, b, 1, 1, 1, n, 0),
    ("broadcast_work_group", "root"): lambda a, b, n: shmem.broadcast_work_group(0, a, b, 1, n),
    ("sum_reduce_warp", "team"): lambda a, b, n: shmem.sum_reduce_warp(n, a, b, 1),
    ("wait_until_any", "nelems"): lambda a, b, n: shmem.wait_until_any(a, n, None, 1, 0),
    ("put_signal", "sig_op"): lambda a, b, n: shmem.put_signal(a, a, b, 1, n, 0),
    ("call", "c"): lambda a, b, n: shmem.call(0, 1, 2, n, 4),
}


def main() -> None:
    array = types.uint64[::1]
    for (routine, name), call in CALLS.items():
        for number in (types.float64, types.float32, types.complex128):
            try:
                cuda.compile(call, (array, array, number), cc=(9, 0), output="ptx")
                said = "compiles"
            except errors.TypingError as error:
                said = " ".join(str(error).split())
            wanted = f"{routine}: {name} is a whole number, not {number}"
            print(
                json.dumps(
                    {"call": [routine, name, str(number)], "right": wanted in said, "said": said}
                )
            )


if __name__ == "__main__":
    main()
