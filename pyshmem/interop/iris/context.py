# SPDX-License-Identifier: BSD-3-Clause
"""``DeviceContext``: the same operations as methods of what a kernel makes of ``get_device_context()``.

ctx = DeviceContext.initialize(context_tensor, rank, ranks)
data = ctx.load(buffer + offs, from_rank=1, mask=mask)
"""

import triton
import triton.language as tl

from ..._foreign.triton import aggregate
from ...triton.interpreter.scheduler import DeviceFunction
from ...triton.primitives.backend import INTERPRETED, device_function
from . import device

if INTERPRETED:

    def _method(function):
        return lambda self, *arguments, **named: function(self, *arguments, **named)

    def _aggregate(cls):
        """Triton's interpreter has no aggregates: a class of Python's, with methods."""
        for name, function in list(vars(cls).items()):
            if type(function) is DeviceFunction:
                setattr(cls, name, _method(function))
        return cls

    def _builder(function):
        return function

    def _constant(value):
        return value
else:
    _aggregate, _builder, _constant = aggregate, triton.constexpr_function, tl.constexpr


@_aggregate
class DeviceContext:
    """Rank, ranks and heap bases; make it by ``initialize``."""

    rank: tl.constexpr
    world_size: tl.constexpr
    heap_bases: tl.tensor

    @_builder
    def __init__(self, rank, world_size, heap_bases):
        self.rank = _constant(rank)
        self.world_size = _constant(world_size)
        self.heap_bases = heap_bases

    @staticmethod
    @device_function
    def initialize(context_tensor, rank, world_size, tracing: tl.constexpr = False):
        """From the host object's ``get_device_context()``; ``rank`` and ``world_size`` are constants."""
        tl.static_assert(
            not tracing, "iris' tracing is not in pyshmem: pyshmem.profiling.trace makes timelines"
        )
        return DeviceContext(rank, world_size, context_tensor + 2)

    @device_function
    def load(
        self, pointer, from_rank, mask=None, other=None, cache_modifier: tl.constexpr = None,
        volatile: tl.constexpr = False, hint: tl.constexpr = None,
    ):  # fmt: skip
        """What ``from_rank`` keeps at ``pointer``."""
        return device.load(
            pointer,
            self.rank,
            from_rank,
            self.heap_bases,
            mask,
            other,
            cache_modifier,
            volatile,
            hint,
        )

    @device_function
    def store(
        self, pointer, value, to_rank, mask=None, cache_modifier: tl.constexpr = None,
        hint: tl.constexpr = None,
    ):  # fmt: skip
        """Store ``value`` at ``pointer`` on ``to_rank``."""
        device.store(
            pointer, value, self.rank, to_rank, self.heap_bases, mask, hint, cache_modifier
        )

    @device_function
    def get(
        self, from_ptr, to_ptr, from_rank, mask=None, other=None,
        load_cache_modifier: tl.constexpr = None, store_cache_modifier: tl.constexpr = None,
        hint: tl.constexpr = None,
    ):  # fmt: skip
        """Copy what ``from_rank`` keeps at ``from_ptr`` to ``to_ptr`` here."""
        device.get(
            from_ptr, to_ptr, self.rank, from_rank, self.heap_bases, mask, other,
            load_cache_modifier, store_cache_modifier, hint,
        )  # fmt: skip

    @device_function
    def put(
        self, from_ptr, to_ptr, to_rank, mask=None, other=None,
        load_cache_modifier: tl.constexpr = None, store_cache_modifier: tl.constexpr = None,
        hint: tl.constexpr = None,
    ):  # fmt: skip
        """Copy what is at ``from_ptr`` here to ``to_ptr`` on ``to_rank``."""
        device.put(
            from_ptr, to_ptr, self.rank, to_rank, self.heap_bases, mask, other,
            load_cache_modifier, store_cache_modifier, hint,
        )  # fmt: skip

    @device_function
    def copy(
        self, src_ptr, dst_ptr, from_rank, to_rank, mask=None, other=None,
        load_cache_modifier: tl.constexpr = None, store_cache_modifier: tl.constexpr = None,
        hint: tl.constexpr = None,
    ):  # fmt: skip
        """Copy what ``from_rank`` keeps at ``src_ptr`` to ``dst_ptr`` on ``to_rank``."""
        device.copy(
            src_ptr, dst_ptr, from_rank, to_rank, self.rank, self.heap_bases, mask, other,
            load_cache_modifier, store_cache_modifier, hint,
        )  # fmt: skip

    @device_function
    def atomic_cas(
        self, pointer, cmp, val, to_rank, sem: tl.constexpr = None, scope: tl.constexpr = None,
        hint: tl.constexpr = None,
    ):  # fmt: skip
        """Replace the elements at ``pointer`` on ``to_rank`` that equal ``cmp``; what they were."""
        return device.atomic_cas(
            pointer, cmp, val, self.rank, to_rank, self.heap_bases, sem, scope, hint
        )

    @device_function
    def atomic_add(
        self, pointer, val, to_rank, mask=None, sem: tl.constexpr = None, scope: tl.constexpr = None,
        hint: tl.constexpr = None,
    ):  # fmt: skip
        """Add to the elements at ``pointer`` on ``to_rank``; what they were."""
        return device.atomic_add(
            pointer, val, self.rank, to_rank, self.heap_bases, mask, sem, scope, hint
        )

    @device_function
    def atomic_sub(
        self, pointer, val, to_rank, mask=None, sem: tl.constexpr = None, scope: tl.constexpr = None,
        hint: tl.constexpr = None,
    ):  # fmt: skip
        """Subtract from the elements at ``pointer`` on ``to_rank``; what they were."""
        return device.atomic_sub(
            pointer, val, self.rank, to_rank, self.heap_bases, mask, sem, scope, hint
        )

    @device_function
    def atomic_xchg(
        self, pointer, val, to_rank, mask=None, sem: tl.constexpr = None, scope: tl.constexpr = None,
        hint: tl.constexpr = None,
    ):  # fmt: skip
        """Replace the elements at ``pointer`` on ``to_rank``; what they were."""
        return device.atomic_xchg(
            pointer, val, self.rank, to_rank, self.heap_bases, mask, sem, scope, hint
        )

    @device_function
    def atomic_xor(
        self, pointer, val, to_rank, mask=None, sem: tl.constexpr = None, scope: tl.constexpr = None,
        hint: tl.constexpr = None,
    ):  # fmt: skip
        """Xor into the elements at ``pointer`` on ``to_rank``; what they were."""
        return device.atomic_xor(
            pointer, val, self.rank, to_rank, self.heap_bases, mask, sem, scope, hint
        )

    @device_function
    def atomic_and(
        self, pointer, val, to_rank, mask=None, sem: tl.constexpr = None, scope: tl.constexpr = None,
        hint: tl.constexpr = None,
    ):  # fmt: skip
        """And into the elements at ``pointer`` on ``to_rank``; what they were."""
        return device.atomic_and(
            pointer, val, self.rank, to_rank, self.heap_bases, mask, sem, scope, hint
        )

    @device_function
    def atomic_or(
        self, pointer, val, to_rank, mask=None, sem: tl.constexpr = None, scope: tl.constexpr = None,
        hint: tl.constexpr = None,
    ):  # fmt: skip
        """Or into the elements at ``pointer`` on ``to_rank``; what they were."""
        return device.atomic_or(
            pointer, val, self.rank, to_rank, self.heap_bases, mask, sem, scope, hint
        )

    @device_function
    def atomic_min(
        self, pointer, val, to_rank, mask=None, sem: tl.constexpr = None, scope: tl.constexpr = None,
        hint: tl.constexpr = None,
    ):  # fmt: skip
        """Take the minimum into the elements at ``pointer`` on ``to_rank``; what they were."""
        return device.atomic_min(
            pointer, val, self.rank, to_rank, self.heap_bases, mask, sem, scope, hint
        )

    @device_function
    def atomic_max(
        self, pointer, val, to_rank, mask=None, sem: tl.constexpr = None, scope: tl.constexpr = None,
        hint: tl.constexpr = None,
    ):  # fmt: skip
        """Take the maximum into the elements at ``pointer`` on ``to_rank``; what they were."""
        return device.atomic_max(
            pointer, val, self.rank, to_rank, self.heap_bases, mask, sem, scope, hint
        )
