# SPDX-License-Identifier: BSD-3-Clause
"""Kernels under the checker of order: its records learn here how a team's members are found.

The records stand below the teams, among the simulator's leaves. Compiled kernels have none.
"""

from __future__ import annotations

from ..._core.library import checks_order
from ..leaf.backend import CPU, SIM
from ..team import rows

if checks_order() and SIM and not CPU:
    from ..leaf.sim import record

    record.teams = rows
