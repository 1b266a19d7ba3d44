# SPDX-License-Identifier: BSD-3-Clause
"""What kernels have of ``numba.cuda`` and its simulator has not, or has otherwise than a GPU."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from ...._foreign import numba_simulator
from .greenlets import WARP, current

# ---- lanes of a warp ---------------------------------------------------------------------------


def _of_lanes(mask: int, value: Any) -> dict[int, Any]:
    """What the lanes give that the mask names, by their numbers; all of the warp that live meet."""
    thread = current()
    given = thread.warp.gather(thread, (thread.thread_id % WARP, value))
    return {lane: item for lane, item in given if int(mask) >> lane & 1}


def _bits(lanes: Any) -> int:
    return sum(1 << lane for lane in lanes)


def _shuffle(pick: Callable[[int, int], int]) -> Callable[..., Any]:
    def shuffle(_module: Any, mask: int, value: Any, operand: int) -> Any:
        source = pick(current().thread_id % WARP, int(operand))
        return _of_lanes(-1, value).get(source, value)

    return shuffle


def _ballot(_module: Any, mask: int, predicate: Any) -> int:
    return _bits(lane for lane, vote in _of_lanes(mask, predicate).items() if vote)


def _vote(decide: Callable[[Any], bool]) -> Callable[..., bool]:
    def vote(_module: Any, mask: int, predicate: Any) -> bool:
        return decide(_of_lanes(mask, predicate).values())

    return vote


def _equal(_module: Any, mask: int, value: Any) -> bool:
    return len({bool(item) for item in _of_lanes(mask, value).values()}) < 2


def _match_any(_module: Any, mask: int, value: Any) -> int:
    return _bits(lane for lane, item in _of_lanes(mask, value).items() if item == value)


def _match_all(_module: Any, mask: int, value: Any) -> tuple[int, bool]:
    given = _of_lanes(mask, value)
    same = all(item == value for item in given.values())
    return (_bits(given) if same else 0), same


def _sync_warp(_module: Any, mask: int = 0xFFFFFFFF) -> None:
    thread = current()
    thread.warp.wait(thread)


# ---- bits and numbers --------------------------------------------------------------------------


def _width(value: Any) -> int:
    """Bits of an integer. Python's own has 32 if it is of so few, as in Numba's simulator."""
    if isinstance(value, np.generic):
        return max(32, 8 * value.dtype.itemsize)
    return 32 if -(1 << 31) <= value < 1 << 32 else 64


def _of_bits(function: Callable[[int, int], int]) -> Callable[..., int]:
    def of_bits(_module: Any, value: Any) -> int:
        width = _width(value)
        return function(int(value) & (1 << width) - 1, width)

    return of_bits


def _reversed(value: int, width: int) -> int:
    return int(f"{value:0{width}b}"[::-1], 2)


def _fma(a: Any, b: Any, c: Any) -> Any:
    """``a * b + c``, of float64 rounded once."""
    kind = np.result_type(a, b, c).type
    if kind not in (np.float32, np.float64) or not all(map(np.isfinite, (a, b, c))):
        return a * b + c
    from fractions import Fraction  # takes its time to import

    try:
        exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
        return kind(float(exact)) if exact else a * b + c  # which has the sign of its zero
    except OverflowError:
        return a * b + c


def _fma16(_module: Any, a: Any, b: Any, c: Any) -> Any:
    """Rounded once: products of float16 are exact in float64."""
    return np.float16(float(a) * float(b) + float(c))


# ---- libdevice ---------------------------------------------------------------------------------

#: Functions that libm has by these names, and NumPy by the same, or another.
_BOTH = (
    "cbrt ceil copysign cos cosh exp exp2 expm1 fabs floor fmax fmin hypot log log10 log1p "
    "log2 nextafter rint sin sinh sqrt tan tanh trunc"
)
_OF_NUMPY: dict[str, str] = {
    "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan",
    "atan2": "arctan2", "atanh": "arctanh", "fmod": "fmod", "pow": "power",
} | {
    name: name
    for name in _BOTH.split()
}  # fmt: skip
_KNOWN: dict[str, Callable[..., Any]] = {
    **{name: getattr(np, of_numpy) for name, of_numpy in _OF_NUMPY.items()},
    "erf": math.erf, "erfc": math.erfc, "lgamma": math.lgamma, "tgamma": math.gamma,
    "rsqrt": lambda x: 1 / np.sqrt(x), "fma": _fma,
}  # fmt: skip


def _rounded(function: Callable[..., Any], kind: type) -> Callable[..., Any]:
    def rounded(*given: Any) -> Any:
        with np.errstate(all="ignore"):
            return kind(function(*map(kind, given)))

    return rounded


def _absent(name: str) -> Callable[..., Any]:
    def absent(*_given: Any) -> NoReturn:
        raise NotImplementedError(
            f"libdevice.{name} is not in the simulator: math has most of what libdevice has, and "
            "kernels on CPUs all of it (--device cpu)"
        )

    return absent


def _libdevice(name: str) -> Callable[..., Any]:
    """The function in Python. What it is not known to be raises when a kernel calls it."""
    if name in _KNOWN:
        return _rounded(_KNOWN[name], np.float64)
    if name.endswith("f") and name[:-1] in _KNOWN:
        return _rounded(_KNOWN[name[:-1]], np.float32)
    return _absent(name)


# ---- numbers that a kernel declares ------------------------------------------------------------

#: Where a function under ``cuda.jit`` keeps the signatures that it was made with.
DECLARED = "__pyshmem_declared__"


def _signatures(declared: Any) -> Any:
    from ...._foreign import numba_cpu  # of programs that declare types alone

    return numba_cpu.signatures_of(declared)


def as_declared(kernel: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Numbers with the values that a launch on a GPU makes of them: ``3.7`` for an int32 is 3."""
    signatures = getattr(kernel, DECLARED, ())
    if not signatures:
        return arguments
    from ...._foreign import numba_cpu

    numbers = numba_cpu.numbers_of(signatures)
    if numbers is None or len(numbers) != len(arguments):
        return arguments
    return tuple(map(_converted, numbers, arguments))


def _converted(dtype: Any, value: Any) -> Any:
    if dtype is None or not isinstance(value, (bool, int, float, complex, np.generic)):
        return value
    made = np.asarray(value).astype(dtype)[()]
    return made if isinstance(value, np.generic) else made.item()


# ---- the host's side ---------------------------------------------------------------------------


def _record(event: Any) -> None:
    """What is launched on Numba's streams has been done by now."""
    event.seconds = time.perf_counter()


def _elapsed(event: Any, later: Any) -> float:
    """Milliseconds between two events that were recorded."""
    for one in (event, later):
        if not hasattr(one, "seconds"):
            raise RuntimeError("elapsed_time of an event that was not recorded")
    return float(1e3 * (later.seconds - event.seconds))


def _no_vectorize(*_given: Any, **_named: Any) -> NoReturn:
    raise NotImplementedError(
        "vectorize and guvectorize for the target 'cuda' are not in the simulator: kernels on CPUs "
        "have them (--device cpu, PYSHMEM_DEVICE=cpu), and target='cpu' does"
    )


def install(compiled: bool) -> None:
    """Give kernels those names. ``compiled``: they are compiled for the CPU, and have their own."""
    lanes: dict[str, Callable[..., Any]] = {
        "syncwarp": _sync_warp,
        "shfl_sync": _shuffle(lambda lane, operand: operand),
        "shfl_xor_sync": _shuffle(lambda lane, operand: lane ^ operand),
        "shfl_up_sync": _shuffle(lambda lane, operand: lane - operand),
        "shfl_down_sync": _shuffle(lambda lane, operand: lane + operand),
        "ballot_sync": _ballot,
        "all_sync": _vote(all),
        "any_sync": _vote(any),
        "eq_sync": _equal,
        "match_any_sync": _match_any,
        "match_all_sync": _match_all,
        "lanemask_lt": lambda _module: (1 << current().thread_id % WARP) - 1,
        "popc": _of_bits(lambda bits, _width: bits.bit_count()),
        "clz": _of_bits(lambda bits, width: width - bits.bit_length()),
        "ffs": _of_bits(lambda bits, _width: (bits & -bits).bit_length()),
        "brev": _of_bits(_reversed),
        "fma": lambda _module, a, b, c: _fma(a, b, c),
        "cbrt": lambda _module, value: np.cbrt(value),
    }
    numba_simulator.add(lanes)
    numba_simulator.add_to_halves(
        {"hfloor": lambda _module, x: np.floor(x, dtype=np.float16), "hfma": _fma16}
    )
    numba_simulator.take_options()
    numba_simulator.time_events(_record, _elapsed)
    if not compiled:
        numba_simulator.keep_signatures(DECLARED, _signatures)
        numba_simulator.replace_libdevice(functools.cache(_libdevice))
        numba_simulator.refuse_vectorize(_no_vectorize)
