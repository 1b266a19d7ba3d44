# SPDX-License-Identifier: BSD-3-Clause
"""What ``contract`` is made of: groups of numbers that become C enumerations.

Standard library only: the build runs ``contract.py``, which imports this, before the package exists.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple


class Constant(NamedTuple):
    """A number, and what C readers are told of it."""

    name: str
    value: int
    comment: str


class Group:
    """Numbers of one kind. An entry is a name, or a name with a comment; it follows the one before.

    ``at`` gives entries numbers of their own, from which the next ones count on.
    """

    def __init__(
        self,
        c_name: str,
        prefix: str,
        comment: str,
        entries: tuple[tuple[str, str], ...],
        *,
        first: int = 0,
        at: dict[str, int] | None = None,
        public: bool = True,
    ) -> None:
        self.c_name, self.prefix, self.comment, self.public = c_name, prefix, comment, public
        self._constants: dict[str, Constant] = {}
        number = first
        for name, text in entries:
            number = (at or {}).get(name, number)
            self._constants[name] = Constant(name, number, text)
            number += 1

    def __iter__(self) -> Iterator[Constant]:
        return iter(self._constants.values())

    def __getattr__(self, name: str) -> int:
        try:
            return int(self.__dict__["_constants"][name].value)
        except KeyError:
            raise AttributeError(f"{self.prefix}{name} is not in the contract") from None

    def names(self) -> tuple[str, ...]:
        """The names, in order."""
        return tuple(self._constants)

    def c_text(self) -> str:
        """The enumeration; C wants its values to be ints."""
        lines = [f"/* {self.comment} */", f"enum {self.c_name} {{"]
        for name, value, text in self:
            number = hex(value) if value > 1 << 20 else str(value)
            lines.append(
                f"    {self.prefix}{name} = {number}, " + (f"/* {text} */" if text else "")
            )
        return "\n".join(line.rstrip() for line in [*lines, "};"])
