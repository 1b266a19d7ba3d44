# SPDX-License-Identifier: BSD-3-Clause
"""Functions as cloudpickle sends them, and the files that they are from, for tracebacks of the PEs.

From 3.1.3 on cloudpickle leaves the files out, so that a function has the same bytes wherever it is.
"""

from __future__ import annotations

import io
from collections import ChainMap
from collections.abc import Callable
from types import CodeType
from typing import Any, ClassVar

import cloudpickle

_TABLE: Any = cloudpickle.Pickler.dispatch_table


def dumps(value: Any) -> bytes:
    """``value`` for ``pickle.loads``."""
    file = io.BytesIO()
    _Pickler(file).dump(value)
    return file.getvalue()


def _code_of_file(name: str, make: Callable[..., CodeType], parts: tuple[Any, ...]) -> CodeType:
    return make(*parts).replace(co_filename=name)


def _reduce_code(code: CodeType) -> tuple[Any, ...]:
    make, parts = _TABLE[CodeType](code)
    return _code_of_file, (code.co_filename, make, parts)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    dispatch_table: ClassVar = ChainMap({CodeType: _reduce_code}, _TABLE)
