# SPDX-License-Identifier: BSD-3-Clause
"""A place inside another package, and what its function is known to take."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

#: Makes a function that calls the one that it is given.
Around = Callable[[Callable[..., Any]], Callable[..., Any]]


class Hook(NamedTuple):
    """``owner.name``, a function, a property or a module; what pyshmem puts around it or in its place.

    ``parameters``: those that our functions rely on, which are its first ones; ``...``: all of one
    argument or more; None: it is no function.
    """

    owner: Any
    name: str
    parameters: str | None = None

    def value(self) -> Any:
        """What is there now. Raises: AttributeError."""
        return inspect.getattr_static(self.owner, self.name)

    def replace(self, value: Any) -> None:
        """Put ``value`` there."""
        setattr(self.owner, self.name, value)

    def offer(self, value: Any) -> None:
        """Put ``value`` there if there is nothing."""
        if not hasattr(self.owner, self.name):
            self.replace(value)

    def wrap(self, around: Around) -> None:
        """Put there what ``around`` makes of the function that is there, under the same name."""
        plain = getattr(self.owner, self.name)
        self.replace(functools.wraps(plain)(around(plain)))

    def complaint(self) -> str:
        """What is not as pyshmem knows it; empty when all is."""
        where = f"{getattr(self.owner, '__qualname__', self.owner)}.{self.name}"
        try:
            found = self.value()
        except AttributeError:
            return f"{where} is not there"
        if self.parameters is None:
            return ""
        if not callable(found):
            return f"{where} is no function"
        given = list(inspect.signature(found).parameters)
        wanted = self.parameters.split()
        if given[: len(wanted)] != wanted:
            return f"{where} takes ({', '.join(given)}), not ({', '.join(wanted)}, ...)"
        return ""
