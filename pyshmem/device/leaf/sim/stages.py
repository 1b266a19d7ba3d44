# SPDX-License-Identifier: BSD-3-Clause
"""Stages in the simulator: the names of ``leaf.cuda.stages``."""

from __future__ import annotations

from typing import Any

from ...._core.labels import label_words
from ...._core.library import lib
from ....host.observe import stages
from ...state import MODULE, TRACE
from . import greenlets
from .threads import STATE, state

__all__ = ["stage_begin", "stage_end"]


def _check(label: Any, priority: Any = 0) -> tuple[int, ...]:
    if not isinstance(label, str):
        raise TypeError(
            "a stage's label is text that stands in the call, such as 'load', "
            f"not {type(label).__name__}"
        )
    if not isinstance(priority, int):
        raise TypeError(f"a stage's priority is a number that stands in the call, not {priority!r}")
    return label_words(label)


def stage_begin(label: Any, priority: Any = 0) -> None:
    _check(label, priority)
    thread = greenlets.current()
    if STATE and STATE[TRACE] and thread.thread_id == 0:
        thread.grid.stages[thread.block.index, label] = lib.ishmemx_leaf_now(), priority


def stage_end(label: Any) -> None:
    words = _check(label)
    thread = greenlets.current()
    if not STATE or not STATE[TRACE] or thread.thread_id != 0:
        return
    place = thread.block.index, label
    if place not in thread.grid.stages:
        raise ValueError(f"stage_end({label!r}) without stage_begin({label!r}) above it")
    begin_ns, priority = thread.grid.stages[place]
    stages.write(STATE[TRACE], begin_ns, state(MODULE), thread.block.index, words, priority)
