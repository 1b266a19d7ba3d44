# SPDX-License-Identifier: BSD-3-Clause
"""The creators of an ``Iris`` object: torch's, or without torch NumPy's, on the symmetric heap.

All PEs call the same ones in the same order with the same sizes. Arguments and defaults are Iris':
``out`` is an array of the symmetric heap, ``device`` the PE's own, ``layout`` strided; ``pin_memory``
means nothing for memory of a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...host.memory import creation

_ALIGN = 1024


def shape_of(size: Any) -> tuple[int, ...]:
    """The extents of ``2, 3``, ``(2, 3)``, ``((2, 3),)`` or ``5``."""
    while isinstance(size, (tuple, list)) and len(size) == 1 and isinstance(size[0], (tuple, list)):
        size = size[0]
    return tuple(int(extent) for extent in (size if isinstance(size, (tuple, list)) else (size,)))


def _default_of(*values: Any) -> np.dtype[Any]:
    """As torch has it: float32 for floats, int64 for integers."""
    found = np.result_type(*map(np.asarray, values))
    return np.dtype(np.float32) if found == np.float64 else found


def _numpy_values(name: str, arguments: Any, dtype: Any) -> np.ndarray:
    if name in ("rand", "randn", "randint"):
        generator = np.random.default_rng()
        draw: dict[str, Callable[..., Any]] = {
            "rand": generator.random, "randn": generator.standard_normal, "randint": generator.integers,
        }  # fmt: skip
        return np.asarray(draw[name](*arguments)).astype(dtype)
    return np.asarray(getattr(np, name)(*arguments)).astype(dtype)


class Creators:
    """What ``Iris`` inherits; ``_torch`` is torch or None, ``device`` where arrays live."""

    _torch: Any
    device: str
    barrier: Callable[[], None]
    check_device: Callable[[Any], None]
    check_output: Callable[[Any, int, Any], None]

    def _symmetric(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """A new array on the device heap; torch's dtypes are bytes to us."""
        if self._torch is None:
            return creation.empty(shape, dtype, heap="device")
        nbytes = math.prod(shape) * self._torch.empty(0, dtype=dtype).element_size()
        array = creation.empty(max(nbytes, 1), np.uint8, heap="device", align=_ALIGN)
        if self.device == "cpu":
            flat = self._torch.from_numpy(np.asarray(array))
        else:
            flat = self._torch.as_tensor(array, device=self.device)
        return flat[:nbytes].view(dtype).reshape(shape)

    def allocate(self, num_elements: int, dtype: Any) -> Any:
        """An array of one dimension, not filled."""
        return self._symmetric((int(num_elements),), dtype)

    def _filled(
        self,
        values: Any,
        out: Any,
        device: Any,
        layout: Any,
        requires_grad: bool,
        keeps: bool = False,
    ) -> Any:
        """``values`` on the heap; ``keeps`` their strides."""
        self.check_device(device)
        if layout is not None and (self._torch is None or layout != self._torch.strided):
            raise ValueError(f"layout is {layout}; arrays are strided")
        shape = tuple(values.shape)
        if out is not None:
            self.check_output(out, math.prod(shape), values.dtype)
            array = out.reshape(shape)
        else:
            array = self._symmetric(shape, values.dtype)
        if self._torch is None:
            array[...] = values
        else:
            if keeps:
                array = array.as_strided(shape, values.stride())
            array.copy_(values)
            if requires_grad:
                array.requires_grad_()
        self.barrier()
        return array

    def _make(
        self, name: str, *arguments: Any, out: Any, dtype: Any, layout: Any, device: Any,
        requires_grad: bool, generator: Any = None,
    ) -> Any:  # fmt: skip
        if self._torch is None:
            if generator is not None:
                raise TypeError(f"{name} takes no generator without torch")
            default = "int64" if name == "randint" else "float32"
            values = _numpy_values(name, arguments, np.dtype(dtype or default))
        else:
            drawn = {} if generator is None else {"generator": generator}
            create = getattr(self._torch, name)
            values = create(*arguments, dtype=dtype, device=self.device, **drawn)
        return self._filled(values, out, device, layout, requires_grad)

    def zeros(
        self, *size: Any, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
        requires_grad: bool = False,
    ) -> Any:  # fmt: skip
        """``torch.zeros`` on the symmetric heap."""
        return self._make(
            "zeros", shape_of(size), out=out, dtype=dtype, layout=layout, device=device,
            requires_grad=requires_grad,
        )  # fmt: skip

    def ones(
        self, *size: Any, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
        requires_grad: bool = False,
    ) -> Any:  # fmt: skip
        """``torch.ones`` on the symmetric heap."""
        return self._make(
            "ones", shape_of(size), out=out, dtype=dtype, layout=layout, device=device,
            requires_grad=requires_grad,
        )  # fmt: skip

    def full(
        self, size: Any, fill_value: Any, *, out: Any = None, dtype: Any = None, layout: Any = None,
        device: Any = None, requires_grad: bool = False,
    ) -> Any:  # fmt: skip
        """``torch.full`` on the symmetric heap."""
        if dtype is None and self._torch is None:
            dtype = _default_of(fill_value)
        return self._make(
            "full", shape_of((size,)), fill_value, out=out, dtype=dtype, layout=layout, device=device,
            requires_grad=requires_grad,
        )  # fmt: skip

    def empty(
        self, *size: Any, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
        requires_grad: bool = False, pin_memory: bool = False, memory_format: Any = None,
    ) -> Any:  # fmt: skip
        """``torch.empty`` on the symmetric heap."""
        if memory_format is None:
            return self._make(
                "empty", shape_of(size), out=out, dtype=dtype, layout=layout, device=device,
                requires_grad=requires_grad,
            )  # fmt: skip
        values = self._torch.empty(
            shape_of(size), dtype=dtype, device=self.device, memory_format=memory_format
        )
        return self._filled(values, out, device, layout, requires_grad, True)

    def zeros_like(
        self, input: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
        requires_grad: bool = False, memory_format: Any = None,
    ) -> Any:  # fmt: skip
        """``torch.zeros_like`` on the symmetric heap."""
        if self._torch is None:
            return self.zeros(tuple(input.shape), dtype=dtype or input.dtype, device=device)
        chosen = {} if memory_format is None else {"memory_format": memory_format}
        values = self._torch.zeros_like(input, dtype=dtype, **chosen)
        given = input.device if device is None else device
        return self._filled(values, None, given, layout, requires_grad, True)

    def arange(
        self, start: Any = 0, end: Any = None, step: Any = 1, *, out: Any = None, dtype: Any = None,
        layout: Any = None, device: Any = None, requires_grad: bool = False,
    ) -> Any:  # fmt: skip
        """``torch.arange`` on the symmetric heap."""
        if end is None:
            start, end = 0, start
        if step == 0 or (end - start) * step <= 0:
            raise ValueError(f"no range from {start} to {end} in steps of {step}")
        if dtype is None and self._torch is None:
            dtype = _default_of(start, end, step)
        return self._make(
            "arange", start, end, step, out=out, dtype=dtype, layout=layout, device=device,
            requires_grad=requires_grad,
        )  # fmt: skip

    def linspace(
        self, start: Any, end: Any, steps: Any, out: Any = None, dtype: Any = None, layout: Any = None,
        device: Any = None, requires_grad: bool = False,
    ) -> Any:  # fmt: skip
        """``torch.linspace`` on the symmetric heap."""
        return self._make(
            "linspace", start, end, math.prod(shape_of((steps,))), out=out, dtype=dtype, layout=layout,
            device=device, requires_grad=requires_grad,
        )  # fmt: skip

    def rand(
        self, *size: Any, generator: Any = None, out: Any = None, dtype: Any = None, layout: Any = None,
        device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
    ) -> Any:  # fmt: skip
        """``torch.rand`` on the symmetric heap."""
        return self._make(
            "rand", shape_of(size), out=out, dtype=dtype, layout=layout, device=device,
            requires_grad=requires_grad, generator=generator,
        )  # fmt: skip

    def randn(
        self, *size: Any, generator: Any = None, out: Any = None, dtype: Any = None, layout: Any = None,
        device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
    ) -> Any:  # fmt: skip
        """``torch.randn`` on the symmetric heap."""
        return self._make(
            "randn", shape_of(size), out=out, dtype=dtype, layout=layout, device=device,
            requires_grad=requires_grad, generator=generator,
        )  # fmt: skip

    def randint(
        self, *args: Any, generator: Any = None, out: Any = None, dtype: Any = None, layout: Any = None,
        device: Any = None, requires_grad: bool = False,
    ) -> Any:  # fmt: skip
        """``torch.randint``: [low,] high, size, on the symmetric heap."""
        if len(args) not in (2, 3):
            raise ValueError(
                f"randint takes [low,] high and size, but was given {len(args)} arguments"
            )
        low, high, size = (0, *args) if len(args) == 2 else args
        return self._make(
            "randint", low, high, shape_of((size,)), out=out, dtype=dtype, layout=layout, device=device,
            requires_grad=requires_grad, generator=generator,
        )  # fmt: skip

    def uniform(self, size: Any, low: float = 0.0, high: float = 1.0, dtype: Any = None) -> Any:
        """Values from ``low`` to ``high``, float32 by default."""
        if dtype is None:
            dtype = "float32" if self._torch is None else self._torch.float
        array = self.rand(size, dtype=dtype)
        array *= high - low
        array += low
        self.barrier()
        return array
