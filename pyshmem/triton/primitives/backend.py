# SPDX-License-Identifier: BSD-3-Clause
"""Chooses the bodies of the leaf primitives: inline PTX, or Python for the interpreter.

Everything above is written once and imports them from here.
"""

from triton import knobs

from ..._core.library import checks_order

INTERPRETED = bool(knobs.runtime.interpret)

if INTERPRETED:
    from ..interpreter.scheduler import install

    if checks_order():
        from ..interpreter import record as order

        install(order)
    else:
        install()
    from ..interpreter.bodies import (
        await_host,
        await_packet_pairs,
        await_packets,
        await_quads,
        await_wide_packets,
        device_function,
        distance_to,
        end_with,
        fence_all,
        fetch,
        fixed,
        load_here,
        now,
        poll,
        poll_ring,
        prefetch,
        program_barrier,
        reach,
        reach_pe,
        read_words,
        record,
        relaxed_word,
        release_add,
        release_set,
        scan,
        set_words,
        state,
        store_quads,
        store_requests,
        store_wide_packets,
        threads,
        touch,
        wait,
        wait_ring,
        write_stage,
        yield_turn,
    )
else:
    from .gpu import (
        await_host,
        device_function,
        distance_to,
        end_with,
        fence_all,
        fetch,
        fixed,
        load_here,
        now,
        poll,
        poll_ring,
        prefetch,
        program_barrier,
        reach,
        reach_pe,
        read_words,
        record,
        relaxed_word,
        release_add,
        release_set,
        scan,
        set_words,
        state,
        store_requests,
        threads,
        touch,
        wait,
        wait_ring,
        write_stage,
        yield_turn,
    )
    from .gpu_packets import (
        await_packet_pairs,
        await_packets,
        await_quads,
        await_wide_packets,
        store_quads,
        store_wide_packets,
    )

__all__ = [
    "INTERPRETED",
    "await_host",
    "await_packet_pairs",
    "await_packets",
    "await_quads",
    "await_wide_packets",
    "device_function",
    "distance_to",
    "end_with",
    "fence_all",
    "fetch",
    "fixed",
    "load_here",
    "now",
    "poll",
    "poll_ring",
    "prefetch",
    "program_barrier",
    "reach",
    "reach_pe",
    "read_words",
    "record",
    "relaxed_word",
    "release_add",
    "release_set",
    "scan",
    "set_words",
    "state",
    "store_quads",
    "store_requests",
    "store_wide_packets",
    "threads",
    "touch",
    "wait",
    "wait_ring",
    "write_stage",
    "yield_turn",
]  # fmt: skip
