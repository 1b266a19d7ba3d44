# SPDX-License-Identifier: BSD-3-Clause
"""Launches that are repeated: what Triton compiled for a call is kept, and given the new addresses.

Triton looks at each argument of each launch to find the compiled kernel. That is most of a launch's host
time, and with the same sizes, dtypes and constants the outcome differs by one thing: whether addresses
are multiples of 16. Where all of them are, a launch goes to the kernel that was found before: by the
extension, in one call of the driver, or by Triton where that has more to do for it, or the kernel takes
what the extension does not know.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from triton.compiler import CompiledKernel

from .._foreign import triton as foreign
from .._foreign.torch import raw_stream
from ..host.fast_calls import LoadedKernel
from ..host.job import runtime
from ..host.observe import stages
from ..triton.runtime.context import Context

_UNIT = 16  # what Triton knows of addresses: whether they are multiples of it

_changes = 0


def current_stream() -> int | None:
    """The handle of torch's current stream of the PE's GPU; None where the host does what streams do."""
    job = runtime.current()
    if job.device != "cuda":
        return None
    if raw_stream is not None:
        return raw_stream(job.gpu)
    return int(torch.cuda.current_stream(job.gpu).cuda_stream)


def torch_stream(handle: int) -> Any:
    """A stream of the PE's GPU as torch has it. Its own ``ExternalStream(0)`` would be a new stream."""
    gpu = runtime.current().gpu
    found = _streams.get((gpu, handle))
    if found is None:
        found = torch.cuda.ExternalStream(handle, gpu) if handle else torch.cuda.default_stream(gpu)
        _streams[gpu, handle] = found
    return found


_streams: dict[tuple[int, int], Any] = {}


class Launch:
    """A kernel and its arguments but for the first ones, which differ from call to call.

    These are tensors, of the same dtypes in all calls and of sizes that the other arguments follow from,
    and behind them numbers for whose values nothing is compiled anew (``do_not_specialize``).

    Args:
        kernel: of ``triton.jit``.
        grid: programs, or their numbers in two dimensions.
        behind: the positional arguments behind those.
        constants: the others by name, and options of the launch.
    """

    def __init__(
        self, kernel: Any, grid: int | tuple[int, int], behind: Sequence[Any],
        constants: dict[str, Any],
    ) -> None:  # fmt: skip
        self._kernel, self._grid = kernel, (grid, 1, 1) if isinstance(grid, int) else (*grid, 1)
        self._behind, self._constants = tuple(behind), constants
        self._again: Callable[..., Any] | None = None  # of what was compiled
        self._direct: LoadedKernel | None = None  # the same by the driver
        self._rest: list[Any] = []
        self._asked: list[int] = []
        self._changes = _changes

    @property
    def repeats(self) -> bool:
        """Whether it has been launched, and what was compiled then is what it would be now."""
        return self._again is not None and self._changes == _changes

    def again(
        self,
        tensors: Sequence[torch.Tensor],
        numbers: Sequence[int] = (),
        stream: int | None = None,
    ) -> bool:
        """Launch it if it has been before and addresses are aligned; False: it was not launched."""
        if self._again is None or self._changes != _changes:
            return False
        where = current_stream() if stream is None else stream
        direct = self._direct
        if direct is not None and where is not None and not foreign.launches_are_watched():
            return direct(where, *tensors, *numbers)
        addresses = [one.data_ptr() for one in tensors]
        if any(address % _UNIT for address in addresses):
            return False
        rest = self._rest
        for place in self._asked:
            rest[place] = self._behind[place].data_ptr()
        assert self._again is not None
        self._again(*addresses, *numbers, *rest, stream=where)
        return True

    def __call__(
        self,
        tensors: Sequence[torch.Tensor],
        numbers: Sequence[int] = (),
        stream: int | None = None,
    ) -> None:
        """Launch it on torch's current stream, or on that of a handle."""
        if self.again(tensors, numbers, stream):
            return
        if stream is None:
            self._first(tensors, numbers)
        else:
            with torch.cuda.stream(torch_stream(stream)):
                self._first(tensors, numbers)

    def _first(self, tensors: Sequence[torch.Tensor], numbers: Sequence[int]) -> None:
        given = (*tensors, *numbers)
        compiled = self._kernel[self._grid](*given, *self._behind, **self._constants)
        if not isinstance(compiled, CompiledKernel):  # in the interpreter
            return
        if all(one.data_ptr() % _UNIT == 0 for one in tensors):
            self._rest = self._all_behind(len(given))
            self._again, self._changes = compiled[self._grid], _changes
            self._direct = self._by_driver(compiled, len(given))

    def _by_driver(self, compiled: Any, in_front: int) -> LoadedKernel | None:
        """The kernel as the extension launches it; None: Triton does.

        What a context is asked for at each launch the library looks at, too: faults, the end of the job.
        """
        asked = [self._behind[place] for place in self._asked]
        on_gpu = runtime.initialized() and runtime.device_name() == "cuda"
        if not on_gpu or not all(self._grid) or not all(isinstance(one, Context) for one in asked):
            return None
        loaded = foreign.loaded(compiled)
        if loaded is None or loaded.places[:in_front] != tuple(range(in_front)):
            return None
        rest = list(self._rest)
        for place, one in zip(self._asked, asked, strict=True):
            rest[place] = one.data_ptr()
        values = (*(rest[place - in_front] for place in loaded.places[in_front:]), 0, 0)
        made = LoadedKernel(
            loaded.function, self._grid, loaded.threads, loaded.shared, loaded.cooperative,
            loaded.early, loaded.kinds, in_front, values, compiled,
        )  # fmt: skip
        return made if made.takes() else None

    def _all_behind(self, in_front: int) -> list[Any]:
        """What is behind the first ones, in the kernel's order: tensors, which stay, by their address.

        A context is asked for it at each launch, and raises what kernels have recorded.
        """
        rest = [one.data_ptr() if isinstance(one, torch.Tensor) else one for one in self._behind]
        self._asked = [place for place, one in enumerate(rest) if hasattr(one, "data_ptr")]
        parameters = list(inspect.signature(self._kernel.fn).parameters.values())
        for parameter in parameters[in_front + len(rest) :]:
            rest.append(self._constants.get(parameter.name, parameter.default))
        return rest


def _forget() -> None:
    global _changes
    _changes += 1


stages.on_change(_forget)
runtime.on_finalize(_forget)  # contexts and addresses are those of one job
