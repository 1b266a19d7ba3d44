# SPDX-License-Identifier: BSD-3-Clause
"""The members of a process group compare what they call: at first, and in checking mode always."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import torch

from ..._core.errors import MismatchError
from ..._torch.staging import Staging

_TEXT, _DIGEST = 256, 16  # bytes of what a member says, and of what stands for what is too long


def agree(staging: Staging, facts: Sequence[Any]) -> None:
    """Raises on all members unless all give the same. Collective, on the host.

    Args:
        staging: of the group, on the host heap.
        facts: the routine's name, and texts, numbers, tensors (of which dtype and elements count) or
            lists of them.

    Raises: MismatchError, with what each member said.
    """
    name, *rest = facts
    said = f"{name}({', '.join(map(_text, rest))})".encode()
    if len(said) > _TEXT:
        digest = hashlib.sha256(said).hexdigest()[:_DIGEST].encode()
        said = said[: _TEXT - _DIGEST - 4] + b"... " + digest
    own = torch.frombuffer(bytearray(said.ljust(_TEXT, b"\0")), dtype=torch.uint8)
    rows = [torch.empty_like(own) for _ in range(staging.n_pes)]
    staging.all_gather(rows, own)
    if all(row.equal(own) for row in rows):
        return
    texts = (bytes(row.tolist()).rstrip(b"\0").decode(errors="replace") for row in rows)
    lines = "; ".join(f"rank {rank}: {text}" for rank, text in enumerate(texts))
    raise MismatchError(f"the ranks of a process group made different calls: {lines}")


def _text(fact: Any) -> str:
    if isinstance(fact, torch.Tensor):
        return f"{fact.numel()} of {str(fact.dtype).removeprefix('torch.')}"
    if isinstance(fact, (list, tuple)):
        return f"[{', '.join(map(_text, fact))}]"
    return str(fact)
