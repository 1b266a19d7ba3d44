# SPDX-License-Identifier: BSD-3-Clause
"""The public routines for kernels, by the chapters of the specification: in ``routine.ROUTINES``."""

# isort: off
from . import (  # noqa: F401  (imported, they make their routines)
    atomics, collectives, locks, messages, ordering, reduce_scatter, reductions, rma, signals,
    stages, strided, sync, teams, wait_sets, waits,
)  # fmt: skip
