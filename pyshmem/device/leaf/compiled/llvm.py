# SPDX-License-Identifier: BSD-3-Clause
"""What leaf primitives are made of when Numba compiles them, for GPUs and for the CPU alike."""

import inspect
from collections.abc import Callable

from llvmlite import ir
from numba.core import errors
from numba.cuda import cgutils, types
from numba.cuda.np import numpy_support
from numba.cuda.typing import signature

from ...._core.values import WHOLE_NUMBERS, bound, misplaced, not_whole
from ...._foreign import environment
from ....host.kernels.host_only import name_in_kernels
from ...families import BY_NUMBER, layout_message, not_an_array

FOR_CPU = environment.compiles_for_cpu()
if FOR_CPU:  # numba-cuda has its own, for its own target
    from numba.extending import intrinsic as intrinsic
    from numba.extending import overload
    from numba.extending import register_jitable as register_jitable
    from numba.np import arrayobj as arrayobj
else:
    from numba.cuda.extending import intrinsic as intrinsic
    from numba.cuda.extending import overload
    from numba.cuda.extending import register_jitable as register_jitable
    from numba.cuda.np import arrayobj as arrayobj

I8, I16, I32, I64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))
BITS = {1: I8, 2: I16, 4: I32, 8: I64, 16: ir.IntType(128)}
VOID = ir.VoidType()
i64 = types.int64
PAIR = types.UniTuple(i64, 2)


def with_arity(arity: int, typing: Callable):
    """An intrinsic of ``arity`` arguments: Numba reads the number from the function's signature."""

    def routine(_context, *arguments):
        return typing(*arguments)

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    names = ["context", *(f"a{i}" for i in range(arity))]
    shown = inspect.Signature([inspect.Parameter(name, kind) for name in names])
    setattr(routine, "__signature__", shown)  # noqa: B010  (no attribute that type checkers know)
    return intrinsic(routine)


def _emitted(emit: Callable, context, builder, args):
    """What ``emit`` makes; TypingError where it has nothing for a type.

    Numba may make the code of a function before it refuses what its caller gives to it, and what is not
    an error of its own would end the compilation before the refusal is told.
    """
    try:
        return emit(context, builder, *args)
    except errors.NumbaError:
        raise
    except Exception as error:
        raise errors.TypingError(
            f"{emit.__name__} has no code for these types: {error!r}"
        ) from error


def leaf(kinds) -> Callable:
    """Makes an intrinsic of ``emit(context, builder, *arguments)``, which returns an LLVM value or None.

    ``kinds`` is the type of the result when all arguments are int64; else a function, from the types of
    the arguments to that of the result and those that Numba casts the arguments to. An argument called
    ``like`` is an array whose dtype counts: ``emit`` gets its type.
    """

    def decorate(emit: Callable):
        names = list(inspect.signature(emit).parameters)[2:]

        def typing(*given):
            plain = [array_type if name == "like" else types.unliteral for name in names]
            given = tuple(kind(k) for kind, k in zip(plain, given, strict=True))
            all_int64 = isinstance(kinds, types.Type)
            result, *wanted = (kinds, *([i64] * len(names))) if all_int64 else kinds(*given)

            def codegen(context, builder, _sig, args):
                rows = zip(names, given, args, strict=True)
                args = [kind if name == "like" else value for name, kind, value in rows]
                value = _emitted(emit, context, builder, args)
                return context.get_dummy_value() if value is None else value

            return signature(result, *wanted), codegen

        return with_arity(len(names), typing)

    return decorate


def _is_whole(kind) -> bool:
    """Of the type of an argument, which may have been left out, or be None."""
    if isinstance(kind, types.Omitted):
        return kind.value is None or isinstance(kind.value, int)
    if isinstance(kind, types.Optional):
        kind = kind.type
    whole = (types.Integer, types.Boolean, types.IntEnumMember, types.NoneType)
    return isinstance(types.unliteral(kind), whole)


def checked_routine(function: Callable) -> Callable:
    """A public routine, for the integers that a kernel has; a float in place of one is refused.

    What is returned is the routine's name in kernels, which the host cannot call.
    """
    shown, routine = inspect.signature(function), name_in_kernels(function)

    @overload(routine, strict=False)
    @overload(function, strict=False)
    def with_whole_numbers(*given, **named):
        for name, kind in bound(function.__name__, shown, given, named).items():
            if name in WHOLE_NUMBERS and not _is_whole(kind):
                raise errors.TypingError(
                    not_whole(function.__name__, name, str(kind), shown.parameters)
                )
            if told := misplaced(name, getattr(kind, "instance_class", None)):
                raise errors.TypingError(f"{function.__name__}: {told}")
        return function

    return routine


def array_type(kind):
    if not isinstance(kind, types.Array):
        raise errors.TypingError(not_an_array(kind))
    if kind.layout not in "CF" and kind.ndim > 0:
        raise errors.TypingError(layout_message(f"strides ({kind})"))
    return kind


def dtype_name(array) -> str:
    """The name of an array's dtype in the type table, or NumPy's; Numba has its own for bfloat16."""
    dtype = array_type(array).dtype
    name = str(dtype).removeprefix("__nv_")
    return name if name in BY_NUMBER else str(numpy_support.as_dtype(dtype))


def reinterpret(builder, value, kind):
    """The bits of ``value`` as LLVM type ``kind`` of the same size."""
    if value.type == kind:
        return value
    slot = cgutils.alloca_once(builder, value.type)
    builder.store(value, slot)
    return builder.load(builder.bitcast(slot, kind.as_pointer()))


def from_bits(context, builder, dtype, bits):
    model = context.data_model_manager[dtype]
    return model.from_data(builder, reinterpret(builder, bits, model.get_data_type()))


def to_bits(context, builder, dtype, value):
    data = context.data_model_manager[dtype].as_data(builder, value)
    return reinterpret(builder, data, BITS[context.get_abi_sizeof(data.type)])


def split(builder, bits) -> tuple:
    """The lower 8 bytes, and the upper ones of 16, as int64."""
    if bits.type.width <= 64:
        return builder.zext(bits, I64), I64(0)
    return builder.trunc(bits, I64), builder.trunc(builder.lshr(bits, bits.type(64)), I64)


def join(builder, nbytes: int, low, high):
    """The other way."""
    if nbytes <= 8:
        return builder.trunc(low, BITS[nbytes])
    low, high = (builder.zext(word, BITS[16]) for word in (low, high))
    return builder.or_(low, builder.shl(high, BITS[16](64)))


def load_constant(builder, pointer):
    """A load of what changes between kernels only: it may stand before a barrier or a loop."""
    word = builder.load(pointer)
    word.set_metadata("invariant.load", builder.module.add_metadata([]))
    return word


def by_width(builder, nbytes, emit) -> None:
    """``emit(width)`` for the one of 8, 4, 2 and 1 that ``nbytes`` is when it runs."""
    done = builder.append_basic_block("done")
    other = builder.append_basic_block("other")
    choice = builder.switch(nbytes, other)
    for width in (8, 4, 2, 1):
        block = builder.append_basic_block(f"width{width}")
        choice.add_case(I64(width), block)
        builder.position_at_end(block)
        emit(width)
        builder.branch(done)
    builder.position_at_end(other)
    builder.unreachable()
    builder.position_at_end(done)
