# SPDX-License-Identifier: BSD-3-Clause
"""What of Triton's compiler is replaced and read. Seen in Triton 3.6 to 3.9."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from triton import compiler, knobs
from triton._utils import type_canonicalisation_dict
from triton.language import core

from .hooks import Hook

#: Called for each kernel that is compiled, or found compiled, before its first launch.
AFTER_COMPILATION = Hook(knobs.runtime, "jit_post_compile_hook")
#: Compiles a kernel, or finds it in Triton's folder of files. Kernels take it at their first launch.
COMPILE = Hook(compiler, "compile", "src target options")
AGGREGATE = Hook(core, "_aggregate", "cls")
#: The short names of dtypes.
DTYPES: dict[Any, str] = type_canonicalisation_dict

HOOKS = (AFTER_COMPILATION, COMPILE, AGGREGATE)

#: How a kernel takes an argument, by Triton's name of its type: as ``native/python/launch.c`` has kinds.
_KINDS = {"i32": "i", "u32": "I", "i64": "q", "u64": "Q", "fp32": "f", "f32": "f", "fp64": "d"}
_SCRATCH = ("global_scratch_size", "profile_scratch_size")
_OVERSIZED = 228 << 10  # bytes of shared memory from which on a launch has an attribute more

_guarded = False


class Loaded(NamedTuple):
    """A kernel that Triton has loaded, as the driver launches it.

    Attributes:
        function: the driver's handle.
        threads, shared: of a block; bytes of shared memory.
        cooperative, early: blocks meet; it may start before those in front of it end.
        places: which parameters of the source are arguments of the machine code, by their number.
        kinds: how it takes these, and behind them two addresses of scratch memory, of which it has none.
    """

    function: int
    threads: int
    shared: int
    cooperative: bool
    early: bool
    places: tuple[int, ...]
    kinds: str


def loaded(compiled: Any) -> Loaded | None:
    """What a launch by the driver needs to know; None: this kernel is for Triton alone to launch."""
    of = compiled.metadata
    types = tuple(compiled.src.signature.values())
    places = tuple(place for place, name in enumerate(types) if name != "constexpr")
    kinds = [
        "P" if str(types[place]).startswith("*") else _KINDS.get(types[place]) for place in places
    ]
    if (
        None in kinds
        or of.num_ctas != 1
        or of.shared > _OVERSIZED
        or any(getattr(of, name, 0) for name in _SCRATCH)
    ):
        return None
    return Loaded(
        compiled.function, of.num_warps * of.warp_size, of.shared, bool(of.launch_cooperative_grid),
        bool(of.launch_pdl), places, "".join(map(str, kinds)) + "PP",
    )  # fmt: skip


def launches_are_watched() -> bool:
    """Whether somebody, a profiler for one, is called by Triton at each launch."""
    runtime = knobs.runtime
    enter, leave = runtime.launch_enter_hook, runtime.launch_exit_hook
    if enter is not None and getattr(enter, "calls", True):
        return True
    return leave is not None and bool(getattr(leave, "calls", True))


def aggregate(cls: Any) -> Any:
    """A class of the kernels' language made of a class of Python."""
    return AGGREGATE.value()(cls)


def after_compilation(call: Callable[..., Any]) -> Callable[..., Any] | None:
    """Have Triton call it, by names; what it called before, or None. Once: a second time is nothing."""
    before: Callable[..., Any] | None = knobs.runtime.jit_post_compile_hook
    if before is call:
        return None
    AFTER_COMPILATION.replace(call)
    return before


def compile_one_at_a_time(guard: Callable[[str], AbstractContextManager[object]]) -> None:
    """Kernels are compiled within ``guard``, which gets a hash of the source. A second time is nothing.

    Processes that start together would else compile a kernel each: Triton looks for its file before it
    compiles, and not again.
    """
    global _guarded
    if _guarded:
        return
    _guarded = True

    def guarding(compile_kernel: Callable[..., Any]) -> Callable[..., Any]:
        def compile_guarded(src: Any, *args: Any, **options: Any) -> Any:
            if isinstance(src, str):  # the name of a file, which somebody compiles by hand
                return compile_kernel(src, *args, **options)
            with guard(src.hash()):
                return compile_kernel(src, *args, **options)

        return compile_guarded

    COMPILE.wrap(guarding)
