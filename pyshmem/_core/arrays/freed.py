# SPDX-License-Identifier: BSD-3-Clause
"""Arrays that were freed: the heap may have given their memory to another array.

What allocated an array holds it by a reference that nobody can take away, so ``free`` changes its class:
live arrays pay nothing for it. Views of it and tensors over its memory are other objects, and what takes
its buffer, as ``np.asarray`` does, asks no method: these are not seen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from .checks import SymmetricArray, gone

#: What tells of the array and touches no element, beside names with underscores.
_LOOKING = frozenset(
    (
        *("shape", "ndim", "size", "nbytes", "itemsize", "dtype", "strides", "base", "heap"),
        *("flags", "setflags"),  # NumPy asks for the second where a flag is set
    )
)

#: Python calls these by the class, without asking for the attribute.
_TOUCHING = (
    "__getitem__", "__setitem__", "__iter__", "__contains__", "__bool__", "__int__", "__float__",
    "__complex__", "__index__", "__copy__", "__deepcopy__", "__reduce__", "__reduce_ex__", "__array__",
    "__array_ufunc__", "__array_function__", "__dlpack__", "__format__",
)  # fmt: skip


class FreedArray(SymmetricArray):
    """A ``SymmetricArray`` whose memory the heap has back: its elements can no longer be used."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("_") or name in _LOOKING:
            return super().__getattribute__(name)
        raise _refused(self)

    def __repr__(self) -> str:
        return f"<SymmetricArray of shape {self.shape}, {self.dtype}: {gone(self)}>"

    __str__ = __repr__


def close(array: SymmetricArray) -> None:
    """From now on uses of ``array``'s elements raise ValueError."""
    object.__setattr__(array, "__class__", FreedArray)


def _refused(array: SymmetricArray) -> ValueError:
    return ValueError(f"the array cannot be used any more: {gone(array)}")


def _refusing(name: str) -> Callable[..., NoReturn]:
    def refuse(self: FreedArray, *_: Any, **__: Any) -> NoReturn:
        raise _refused(self)

    refuse.__name__ = refuse.__qualname__ = name
    return refuse


for _name in _TOUCHING:
    setattr(FreedArray, _name, _refusing(_name))
