# SPDX-License-Identifier: BSD-3-Clause
"""Arrays: their addresses, and what is refused of them while a kernel is compiled."""

from collections.abc import Callable

from numba.core import errors
from numba.cuda import types
from numba.cuda.typing import signature

from ....host.kernels.host_only import of_kernels
from ...families import mismatch, outside_family
from . import llvm
from .llvm import I64, array_type, arrayobj, i64, intrinsic

__all__ = ["address_of", "array_from", "match", "require"]


@intrinsic
def address_of(_context, array):
    """Address of the first element."""
    array_type(array)

    def codegen(context, builder, _s, args):
        return builder.ptrtoint(arrayobj.make_array(array)(context, builder, args[0]).data, I64)

    return signature(i64, array), codegen


def array_from(locate: Callable[..., int]):
    """``f(array, pe)``: an array like ``array`` whose first element is at ``locate(array, pe)``.

    An intrinsic, since Numba lets no ordinary device function return an array it was not given.
    """

    def typing(_context, array, pe):
        kind = types.unliteral(pe)

        def codegen(context, builder, _s, args):
            address = context.compile_internal(
                builder, locate, signature(i64, array_type(array), kind), args
            )
            view = arrayobj.make_array(array)(context, builder, value=args[0])
            view.data = builder.inttoptr(address, view.data.type)
            return view._getvalue()

        return signature(array, array, kind), codegen

    return of_kernels(intrinsic(typing), locate.__doc__)


def _kind(array) -> tuple[str, int, str]:
    return str(array_type(array).dtype), array.ndim, array.layout


@intrinsic
def match(_context, dest, source):
    """Compiles to nothing, or fails to compile where dtypes or orders differ."""
    if message := mismatch(_kind(dest), _kind(source)):
        raise errors.TypingError(message)
    return signature(types.void, dest, source), lambda c, _b, _s, _a: c.get_dummy_value()


def require(family: str):
    """A device function that fails to compile for arrays outside the family's table of types."""

    def check(_context, array):
        if message := outside_family(llvm.dtype_name(array), family):
            raise errors.TypingError(message)
        return signature(types.void, array), lambda c, _b, _s, _a: c.get_dummy_value()

    return intrinsic(check)
