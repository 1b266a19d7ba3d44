# SPDX-License-Identifier: BSD-3-Clause
"""``batch_invariant=True``: the bits of a row do not depend on what else is in the batch.

Compilers, and who chooses algorithms and tiles, look at how many rows there are. A batch-invariant call
has one kernel for all numbers of rows, with the same tiles, threads and splits; ``docs/semantics.md``
says what each operation promises.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

#: What operators and plans have in the place of an algorithm's name.
INVARIANT = "batch_invariant"
#: Addresses that are multiples of so many bytes are the same to Triton.
_UNIT = 16


def takes_batch_invariant(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, which takes an ``algorithm``, with the option ``batch_invariant`` beside it."""
    seen = inspect.signature(function)
    option = inspect.Parameter(
        "batch_invariant", inspect.Parameter.KEYWORD_ONLY, default=False, annotation="bool"
    )

    @functools.wraps(function)
    def call(*given: Any, batch_invariant: bool = False, **options: Any) -> Any:
        if batch_invariant:
            if options.get("algorithm") not in (None, INVARIANT):
                raise ValueError(
                    f"{function.__name__} with batch_invariant=True chooses among algorithms that give "
                    f"the same bits by itself; leave algorithm={options['algorithm']!r} out"
                )
            options["algorithm"] = INVARIANT
        return function(*given, **options)

    setattr(call, "__signature__", seen.replace(parameters=[*seen.parameters.values(), option]))  # noqa: B010
    return call


def check_units(**tensors: Any) -> None:
    """Raises where a tensor does not begin at a unit.

    Triton compiles another kernel for such an address: wide loads spread a row over threads otherwise,
    which then add it up in another order.
    """
    for name, tensor in tensors.items():
        if tensor is not None and tensor.data_ptr() % _UNIT:
            raise ValueError(
                f"{name} begins at an address that is no multiple of {_UNIT}, and with "
                f"batch_invariant=True it has to: pass {name}.clone()"
            )
