# SPDX-License-Identifier: BSD-3-Clause
"""Vector types of ``numba.cuda`` (``float32x4``, ``int2`` ...) in kernels that are compiled for the CPU.

Made of numbers and other vectors, read by ``.x`` .. ``.w``; they go to device functions and back.
"""

from __future__ import annotations

import functools
from typing import Any

from numba import types
from numba.core import cgutils, errors
from numba.core.typing import signature
from numba.cuda.simulator.vector_types import SimulatedVectorType
from numba.extending import intrinsic, make_attribute_wrapper, models, overload, register_model

from .target import MEANINGS, KernelDispatcher

_AXES = "xyzw"


class VectorType(types.Type):
    def __init__(self, name: str, base: Any, count: int) -> None:
        self.base, self.count = base, count
        super().__init__(name)


@register_model(VectorType)
class _Model(models.StructModel):
    def __init__(self, manager: Any, kind: VectorType) -> None:
        super().__init__(manager, kind, [(axis, kind.base) for axis in _AXES[: kind.count]])


@functools.cache
def type_of(name: str) -> VectorType:
    """``float32x4`` as a type: its attributes are those of a class of its own."""
    base, _, count = name.rpartition("x")
    own = type(f"VectorType_{name}", (VectorType,), {})
    register_model(own)(_Model)
    KernelDispatcher.targetdescr.target_context.data_model_manager.register(own, _Model)
    for axis in _AXES[: int(count)]:
        make_attribute_wrapper(own, axis, axis)
    made: VectorType = own(name, getattr(types, base), int(count))
    return made


def _parts(kind: Any) -> list[Any]:
    return [kind.base] * kind.count if isinstance(kind, VectorType) else [types.unliteral(kind)]


@functools.cache
def constructor_of(name: str) -> Any:
    """``cuda.<name>(...)``, of numbers and vectors with as many elements together."""
    kind = type_of(name)

    @intrinsic
    def make(_context: Any, given: Any) -> Any:
        parts = [part for one in given for part in _parts(one)]
        if len(parts) != kind.count or not all(isinstance(part, types.Number) for part in parts):
            raise errors.TypingError(f"{name} takes {kind.count} numbers, not {given}")

        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            values: list[Any] = []
            for one, value in zip(given, cgutils.unpack_tuple(builder, args[0]), strict=True):
                if isinstance(one, VectorType):
                    held = cgutils.create_struct_proxy(one)(context, builder, value=value)
                    values.extend(getattr(held, axis) for axis in _AXES[: one.count])
                else:
                    values.append(value)
            made = cgutils.create_struct_proxy(kind)(context, builder)
            for axis, part, value in zip(_AXES, parts, values, strict=False):
                setattr(made, axis, context.cast(builder, value, part, kind.base))
            return made._getvalue()

        return signature(kind, given), codegen

    def marker(*_given: Any) -> Any:
        raise RuntimeError(f"cuda.{name} is made in kernels")

    @overload(marker)
    def typing(*given):  # as the signature of what it returns
        return lambda *given: make(given)

    return marker


def _meaning(value: Any) -> Any:
    """What makes a vector in kernels, by the simulator's class."""
    if not isinstance(value, type) or not issubclass(value, SimulatedVectorType):
        return None
    return constructor_of(str(value.__name__))


MEANINGS.append(_meaning)
