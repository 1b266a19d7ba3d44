# SPDX-License-Identifier: BSD-3-Clause
"""When a transfer is better left to a copy engine: the thresholds of the state block."""

from ..leaf.backend import device_function, grid_blocks, in_global, state
from ..state import CUTOVER_GET, CUTOVER_GET_MIN, CUTOVER_PUT, CUTOVER_PUT_MIN


@device_function
def _shape(size: int) -> int:
    """Which threshold of a table is that of ``size`` threads in such a grid."""
    blocks = grid_blocks()
    threads = (size > 1) + (size > 32) + (size > 128)
    return 4 * threads + (blocks > 1) + (blocks > 8) + (blocks > 32)


def _make(table: int, least: int):
    may_offload = device_function(lambda nbytes: nbytes >= state(least))

    @device_function
    def offloads(nbytes: int, size: int, address: int) -> bool:
        return may_offload(nbytes) and in_global(address) and nbytes >= state(table + _shape(size))

    return may_offload, offloads


#: ``f(nbytes)``: has a put (get) reached the least threshold of all? Most have not, and pay for one
#: comparison. ``g(nbytes, size, address)``: does it, by ``size`` threads, leave the store path?
#: ``address`` is that of the caller's side: shared and local memory no engine sees.
may_offload_put, offloads_put = _make(CUTOVER_PUT, CUTOVER_PUT_MIN)
may_offload_get, offloads_get = _make(CUTOVER_GET, CUTOVER_GET_MIN)
