# SPDX-License-Identifier: BSD-3-Clause
"""``triton_dist.profiler_utils``: times of calls, and the profiler of torch on all ranks."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from ...host import sync
from . import utils
from .utils import get_torch_prof_ctx, perf_func, sleep_async

__all__ = [
    "get_torch_prof_ctx",
    "group_profile",
    "perf_func",
    "perf_func_with_l2_reset",
    "sleep_async",
]

_CACHE = 256 << 20  # bytes: more than any GPU's second cache


def perf_func_with_l2_reset(func: Any, iters: int, warmup_iters: int) -> tuple[Any, float]:
    """``perf_func`` with caches that hold none of the call's memory: of a GPU, by events of torch.

    Raises: RuntimeError (of torch: there is no GPU).
    """
    torch = utils._torch()
    cache = torch.empty(_CACHE, dtype=torch.uint8, device="cuda")
    events = [torch.cuda.Event(enable_timing=True) for _ in range(2 * iters)]
    output = None
    for _ in range(warmup_iters):
        output = func()
    for begin, end in zip(events[::2], events[1::2], strict=True):
        cache.zero_()
        begin.record()
        output = func()
        end.record()
    torch.cuda.synchronize()
    times = [begin.elapsed_time(end) for begin, end in zip(events[::2], events[1::2], strict=True)]
    return output, sum(times) / max(iters, 1)


class group_profile:
    """A context that profiles all ranks; collective at its end.

    Args:
        name: of the folder below ``prof``.
        do_prof: without it nothing is done.
        merge_group: rank 0 puts the events of all ranks into ``prof/NAME_merged.json``, for Perfetto;
            its processes begin with their rank. Ranks' clocks are those of one host.
        keep_merged_only: the ranks' own files go then.
        compress: ``.json.gz``.
        group: of torch.distributed; default that of ``initialize_distributed``.

    Raises: what torch's profiler raises; OSError.
    """

    def __init__(
        self, name: str, do_prof: bool = True, merge_group: bool = True, keep_merged_only: bool = True,
        compress: bool = True, group: Any = None,
    ) -> None:  # fmt: skip
        self._name, self._do, self._merge, self._compress = name, do_prof, merge_group, compress
        self._keep, self._group = not keep_merged_only, group
        self.profile: Any = None

    def __enter__(self) -> Any:
        if not self._do:
            return None
        self._group = self._group or utils.get_triton_dist_world()
        self.profile = utils._torch().profiler.profile(record_shapes=True, with_stack=True)
        return self.profile.__enter__()

    def __exit__(self, *told: Any) -> None:
        if self.profile is None:
            return
        self.profile.__exit__(*told)
        folder = Path("prof") / self._name
        folder.mkdir(parents=True, exist_ok=True)
        files = [folder / f"rank{rank}.json" for rank in range(self._group.size())]
        own = files[self._group.rank()]
        self.profile.export_chrome_trace(str(own))
        if not self._merge:
            return
        text = own.read_text(encoding="utf-8")
        every: list[Any] = [None] * len(files)
        utils._torch().distributed.all_gather_object(every, text, group=self._group)
        if self._group.rank() == 0:
            self._write(every)
        if not self._keep:
            own.unlink()
        sync.barrier_all()

    def _write(self, texts: list[str]) -> None:
        """All ranks' events in one file, processes and their links apart by rank."""
        events: list[Any] = []
        for rank, text in enumerate(texts):
            for event in json.loads(text)["traceEvents"]:
                marked = {key: f"rank{rank} {event[key]}" for key in ("pid", "id") if key in event}
                events.append({**event, **marked})
        path = Path("prof") / f"{self._name}_merged.json{'.gz' * self._compress}"
        opened = gzip.open if self._compress else open
        with opened(path, "wt", encoding="utf-8") as file:
            json.dump({"traceEvents": events}, file)
