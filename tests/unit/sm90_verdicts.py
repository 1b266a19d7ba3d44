# SPDX-License-Identifier: BSD-3-Clause
"""Compiles the table of ``kernel_verdicts`` for sm_90 and prints where the compiler says otherwise.

A script of its own, because numba must be imported without its simulator. One JSON line a case that
differs, and a last one with the number of cases.
"""

from __future__ import annotations

import json
import os
import sys
import types as python_types
from pathlib import Path

import numba.cuda.dispatcher as dispatcher
from numba import cuda
from numba.core import errors
from numba.cuda import types
from numba.cuda.np.numpy_support import from_dtype
from numba.cuda.types.ext_types import bfloat16

sys.path.insert(0, str(Path(__file__).parents[1] / "spmd" / "device"))
import kernel_verdicts as table

dispatcher.get_current_device = lambda: python_types.SimpleNamespace(compute_capability=(9, 0))
WHOLE = bool(os.environ.get("COMPILE_ALL"))
_U8, _I8 = types.uint64[::1], types.int64[::1]


def said(kernel, dtype: str) -> str:
    """What the compiler says; empty: it compiles."""
    try:
        element = bfloat16 if dtype == "bfloat16" else from_dtype(table.numpy_dtype(dtype))
    except errors.NumbaError:
        return table.UNKNOWN
    array = types.Array(element, 2, "C")
    try:
        cuda.compile(kernel, (array, array, _U8, _I8), cc=(9, 0), output="ptx")
    except errors.TypingError as error:
        return " ".join(str(error).split())
    except Exception as error:  # an error of no use to users, as KeyError
        return f"{type(error).__name__}: {error}"
    return ""


def cases(routine: str, turn: int):
    """Without COMPILE_ALL of the dtypes in turn: what is refused says so at the same place for all."""
    dtypes = (*table.OF_THE_TABLE, *table.TEXT_AND_RECORDS, *table.OF_NO_KERNEL)
    few = dtypes if WHOLE or routine in ("p", "g") else dtypes[turn % 9 :: 9]
    for dtype in few:
        yield dtype, "whole", "whole"
    pairs = (
        table.PAIRS
        if WHOLE or routine in ("put", "p", "sum_reduce")
        else table.PAIRS[turn % 5 :: 5]
    )
    for dest, source in pairs:
        yield table.a_dtype_of(routine), dest, source


def main(share: int, of: int) -> None:
    """Compile one of ``of`` shares."""
    count = 0
    for turn, routine in list(enumerate(table.CASES))[share::of]:
        for dtype, dest, source in cases(routine, turn):
            wanted = table.verdict(routine, dtype, dest, source)
            found = said(table.kernel_of(routine, dest, source), dtype)
            count += 1
            if (wanted not in found) if wanted else found:
                row = {"routine": routine, "dtype": dtype, "forms": (dest, source)}
                print(json.dumps(row | {"said": found[-800:], "wanted": wanted}), flush=True)
    print(json.dumps({"cases": count}), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
