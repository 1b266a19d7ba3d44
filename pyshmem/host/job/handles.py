# SPDX-License-Identifier: BSD-3-Clause
"""What objects that stand for something of the library have in common."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NoReturn, Self

from ..._core import other_names


def _refuse(handle: Any) -> NoReturn:
    kind = type(handle).__name__.lower()
    raise TypeError(
        f"a kernel takes no {kind} as it is; pass pyshmem.device.as_argument({kind}), an integer"
    )


#: Where Numba looks for the type of a kernel's argument, and the simulator of kernels too.
kernels_refuse = property(_refuse)


class _Kind(type):
    """The class of classes of handles: says of names that they do not have what does the same."""

    if not TYPE_CHECKING:

        def __getattr__(cls, name: str) -> NoReturn:
            raise other_names.not_in_class(cls.__name__, name)


class Handle(metaclass=_Kind):
    """Stands for something of this PE that ends with it: a copy would end it for the original, too.

    Copies, also within what is copied deeply, are the object itself. Predefined ones are pickled by
    their name.
    """

    __slots__ = ()

    if not TYPE_CHECKING:  # who would take any name for one that there is

        def __getattr__(self, name: str) -> NoReturn:
            raise other_names.not_in_handle(type(self).__name__.lower(), name)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> str:
        for name, value in vars(sys.modules[type(self).__module__]).items():
            if value is self:
                return name
        raise TypeError(f"{self!r} is of this process and cannot be pickled")
