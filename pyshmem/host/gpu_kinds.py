# SPDX-License-Identifier: BSD-3-Clause
"""Which measured table counts for a GPU that has none of its own: that of the nearest kind.

What a copy engine costs against stores follows from the multiprocessors and from the link. So the rule
is: the nearest architecture first, then the bandwidth of the link that is nearest as a ratio, then the
name that comes first in the alphabet, which is the same on all PEs. A GPU that is not in the list below
is taken for an H100: some table is better than none, without which every call would go by stores.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import NamedTuple


class Kind(NamedTuple):
    """``architecture``: 90 for ``sm_90``; ``gbps``: GB/s of the link to a peer, each way."""

    architecture: int
    link: str
    gbps: int


#: By the driver's name, the first pattern that fits; bandwidths are those of the vendors' data sheets.
_KINDS: tuple[tuple[str, Kind], ...] = (
    (r"A100.*PCIE|A30\b", Kind(80, "PCIe 4", 32)),
    (r"A800", Kind(80, "NVLink 3", 200)),
    (r"A100", Kind(80, "NVLink 3", 300)),
    (r"A40|A10|RTX A\d|RTX 30", Kind(86, "PCIe 4", 32)),
    (r"L40|L4\b|RTX 40|Ada", Kind(89, "PCIe 4", 32)),
    (r"H100 PCIe", Kind(90, "PCIe 5", 64)),
    (r"H[12]00 NVL", Kind(90, "NVLink 4", 300)),
    (r"H800", Kind(90, "NVLink 4", 200)),
    (r"H100|H200|GH200|H20\b", Kind(90, "NVLink 4", 450)),
    (r"B100|B200|GB200", Kind(100, "NVLink 5", 900)),
    (r"B300|GB300", Kind(103, "NVLink 5", 900)),
    (r"RTX PRO .*Blackwell|RTX 50", Kind(120, "PCIe 5", 64)),
)
_UNKNOWN = Kind(90, "unknown", 450)


def kind_of(gpu: str) -> Kind:
    """The kind of a GPU by its name; of a stranger, that of an H100 with an unknown link."""
    return next((kind for pattern, kind in _KINDS if re.search(pattern, gpu)), _UNKNOWN)


def nearest(gpu: str, measured: Iterable[str]) -> str | None:
    """The GPU whose tables count for ``gpu``: itself, else the nearest kind; None for the simulator.

    Args:
        gpu: its name as the driver has it, or ``"simulator"``.
        measured: names of GPUs with tables.
    """
    names = set(measured)
    if gpu in names:
        return gpu
    names.discard("simulator")
    if gpu == "simulator" or not names:
        return None
    own = kind_of(gpu)

    def distance(name: str) -> tuple[int, float, str]:
        other = kind_of(name)
        return (
            abs(other.architecture - own.architecture),
            abs(math.log(other.gbps / own.gbps)),
            name,
        )

    return min(names, key=distance)
