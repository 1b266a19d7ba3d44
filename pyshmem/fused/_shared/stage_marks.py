# SPDX-License-Identifier: BSD-3-Clause
"""Stages of streams: what copy engines, the driver's waits and cuBLAS do, in timelines.

A kernel of one program stands before the work and one behind it, while a timeline is made and at no
other time. So slices of different streams may overlap, and each is longer by a launch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from ..._torch.launches import torch_stream
from ...host.job import runtime
from ...host.observe.stages import compiled_in
from ...triton import context
from .stage_marks_kernels import begin_mark, end_mark

_NOTHING = contextlib.nullcontext()


def staged(label: str, stream: int | None = None) -> Any:
    """A ``with`` block whose work on a stream is a stage of that label.

    ``stream``: its handle; default torch's current one.
    """
    return _stamped(label, stream) if compiled_in() else _NOTHING


@contextlib.contextmanager
def _stamped(label: str, stream: int | None) -> Iterator[None]:
    job = runtime.current()
    where = torch.device("cuda", job.gpu) if job.device == "cuda" else torch.device("cpu")
    around: Any = _NOTHING
    if stream is not None:
        around = torch.cuda.stream(torch_stream(stream))
    with around:
        mark = torch.empty(1, dtype=torch.int64, device=where)
        begin_mark[(1,)](mark, num_warps=1)
    yield
    with around:
        end_mark[(1,)](mark, context(), LABEL=label, num_warps=1)
