# SPDX-License-Identifier: BSD-3-Clause
"""An expert that there is not, found by a kernel."""

import triton.language as tl

from ...triton.primitives.backend import device_function
from ...triton.requests import abort_with


@device_function
def refuse_experts(wrong, ids, at, ctx, K: tl.constexpr):
    """End the job if one of ``ids`` is ``wrong``, and name the first, and its token.

    ``at``: places in a list of ``K`` experts a token.
    """
    if tl.max(wrong.to(tl.int32)) != 0:
        first = tl.min(tl.where(wrong, at, 0x7FFFFFFF), 0)
        number = tl.sum(tl.where(wrong & (at == first), ids.to(tl.int64), 0), 0)
        abort_with(1, ctx, "topk_ids[#]: no expert #", first // K, number)
