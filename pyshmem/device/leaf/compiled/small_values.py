# SPDX-License-Identifier: BSD-3-Clause
"""Few bytes of any memory of the thread, as int64."""

from numba.cuda import types

from .llvm import BITS, I64, by_width, i64, leaf


def make_near(load_bits, store_bits) -> tuple:
    """``load_near`` and ``store_near``, of a compiler's load and store of 8, 4, 2 or 1 bytes."""

    @leaf(i64)
    def load_near(_context, builder, address, nbytes):
        """8, 4, 2 or 1 bytes, as int64."""
        found = []

        def load(width: int) -> None:
            found.append((builder.zext(load_bits(builder, width, address), I64), builder.block))

        by_width(builder, nbytes, load)
        result = builder.phi(I64)
        for value, block in found:
            result.add_incoming(value, block)
        return result

    @leaf(types.void)
    def store_near(_context, builder, address, nbytes, bits) -> None:
        """The other way."""

        def store(width: int) -> None:
            store_bits(builder, width, address, builder.trunc(bits, BITS[width]))

        by_width(builder, nbytes, store)

    return load_near, store_near
