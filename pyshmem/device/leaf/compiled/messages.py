# SPDX-License-Identifier: BSD-3-Clause
"""What messages to the host are made of, compiled: labels as constants, values as 64 bits."""

from numba.core import errors
from numba.cuda import types
from numba.cuda.typing import signature

from ...families import PRINT_FLOAT, PRINT_INT, PRINT_TEXT, label_words
from .llvm import I64, i64, intrinsic

__all__ = ["label_word", "print_bits", "print_kind"]


def words_of(label) -> tuple[int, ...]:
    """The bytes of a label, eight a word."""
    if not isinstance(label, types.StringLiteral):
        raise errors.TypingError(
            f"a label is text that stands in the call, such as 'load', not {label}"
        )
    try:
        return label_words(label.literal_value)
    except ValueError as error:
        raise errors.TypingError(str(error)) from error


@intrinsic
def label_word(_context, label, index):
    """Eight of the label's bytes, a constant."""
    word = words_of(label)[index.literal_value]
    return signature(i64, label, index), lambda _c, _b, _s, _a: I64(word)


def _kind(value) -> int:
    value = types.unliteral(value)
    if isinstance(value, (types.NoneType, types.Omitted)):
        return PRINT_TEXT
    if isinstance(value, (types.Integer, types.Boolean)):
        return PRINT_INT
    if isinstance(value, types.Float):
        return PRINT_FLOAT
    raise errors.TypingError(f"kernels print an integer, a float or nothing, not {value}")


@intrinsic
def print_kind(_context, value):
    """``enum pysh_print_kind``, a constant."""
    kind = _kind(value)
    return signature(i64, value), lambda _c, _b, _s, _a: I64(kind)


@intrinsic
def print_bits(_context, value):
    """The value as int64, or the bits of it as float64."""
    kind, given = _kind(value), types.unliteral(value)

    def codegen(context, builder, sig, args):
        if kind == PRINT_TEXT:
            return I64(0)
        if kind == PRINT_INT:
            return context.cast(builder, args[0], given, i64)
        return builder.bitcast(context.cast(builder, args[0], given, types.float64), I64)

    return signature(i64, given), codegen
