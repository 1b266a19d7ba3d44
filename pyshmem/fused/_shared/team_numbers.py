# SPDX-License-Identifier: BSD-3-Clause
"""Teams as operators of torch know them: by the numbers of ``interop.torch.register_team``."""

from __future__ import annotations

from typing import Any

import torch

from ..._torch import operators as _  # noqa: F401  (declares the operators' library)
from ..._torch.teams import register_team
from ...host.teams.team import TEAM_WORLD, Team


def number(team: Team) -> int:
    """The team's number, without staging memory where it has none.

    Raises: TypeError (no team; None is what a split gives a PE that is no member).
    """
    return 0 if team is TEAM_WORLD else register_team(team, staging=0)


def check_input(x: Any) -> None:
    """Raises TypeError unless ``x`` is a tensor, in words of ours and not of torch's dispatcher."""
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"x is {type(x).__name__}; give a tensor of torch, CuPy or NumPy")
