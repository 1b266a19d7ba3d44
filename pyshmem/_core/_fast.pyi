# SPDX-License-Identifier: BSD-3-Clause
# The extension of native/python: the short way into the library for the routines called most.
from collections.abc import Callable
from types import ModuleType
from typing import Any, Generic, NoReturn, ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")

class Call(Generic[_P, _R]):
    """A routine that takes the short way where it can, and else calls ``slow``."""

    __wrapped__: Callable[_P, _R]
    def __init__(self, slow: Callable[_P, _R], family: str, op: int = 0, /) -> None: ...
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R: ...

class Launch:
    """A kernel that another library has loaded, with its arguments but the first ``in_front``."""

    def __init__(
        self,
        function: int,
        grid: tuple[int, int, int],
        threads: int,
        shared: int,
        cooperative: bool,
        early: bool,
        kinds: str,
        in_front: int,
        rest: tuple[Any, ...],
        kept: object,
        /,
    ) -> None: ...
    def __call__(self, stream: int, /, *in_front: Any) -> bool: ...
    def takes(self) -> bool: ...

def setup(
    symmetric_array: type,
    ndarray: type,
    kind: type,
    context: type,
    team: type,
    ctx_default: object,
    fail: Callable[[int], NoReturn],
    integer: type,
    float32: type,
    float64: type,
    choice: type,
    cmp: type,
    sig_op: type,
    /,
) -> None: ...
def know_streams(stream_class: type, /) -> None: ...
def know_tensors(capsule: object, tensor: type, parameter: type, /) -> bool: ...
def tensor(object: Any, /) -> tuple[int, int, int] | None: ...
def look(grad: bool, /, *tensors: Any) -> bytes | None: ...
def know_job(asks_keep: bool, /) -> None: ...
def tell_missing(package: ModuleType, function: Callable[[str], NoReturn], /) -> None: ...
def know_gpu_arrays(array_class: type, kind_of: Callable[[Any], Any], /) -> None: ...
