# SPDX-License-Identifier: BSD-3-Clause
"""Kinds of GPUs and links, and how near two of them are: whose rows count where nobody has measured.

What a copy engine costs against stores follows from the link and from the multiprocessors. So the rule
is, in this order: a link of the same kind (NVLink, PCIe, none), the nearest architecture, the nearest
bandwidth as a ratio. Two kinds that are as near are told apart by the alphabet, the same on all PEs.
A card that is not in the list is placed by what the driver says of its architecture and its link.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple


class Kind(NamedTuple):
    """What the rule goes by.

    Attributes:
        architecture: 90 for ``sm_90``.
        link: to peers: ``"NVLink 4"``, ``"PCIe"`` (they are reached by P2P) or ``"none"``.
        gbps: GB/s of it, each way.
    """

    architecture: int
    link: str
    gbps: float


_A100 = "NVIDIA A100 Tensor Core GPU data sheet, 2021: NVLink 600 GB/s both ways, PCIe 4 64 GB/s"
_H100 = "NVIDIA H100 Tensor Core GPU data sheet, 2023: NVLink 900 (NVL 600), PCIe 5 128"
_H200 = "NVIDIA H200 Tensor Core GPU data sheet, 2024: NVLink 900, PCIe 5 128"
_EXPORT = "NVIDIA A800 and H800 product briefs: NVLink 400"
_B200 = "NVIDIA Blackwell Architecture technical brief, 2024: NVLink 1,800"
_L40 = "NVIDIA L40S, L4, A40 and A10 data sheets: PCIe 4 x16, 64 (A40: a bridge of NVLink 3, 112)"
_RTX30 = "NVIDIA Ampere GA102 GPU Architecture white paper, 2020: PCIe 4 x16; 3090: a bridge, 112"
_RTX40 = "NVIDIA Ada GPU Architecture white paper, 2022: PCIe 4 x16, no NVLink"
_RTX50 = "NVIDIA RTX Blackwell GPU Architecture white paper, 2025: PCIe 5 x16, no NVLink"

#: By the driver's name, the first pattern that fits: the kind, and the source of its bandwidth.
KINDS: tuple[tuple[str, Kind, str], ...] = (
    (r"A100.*PCI[Ee]|A30\b", Kind(80, "PCIe", 32), _A100),
    (r"A800", Kind(80, "NVLink 3", 200), _EXPORT),
    (r"A100", Kind(80, "NVLink 3", 300), _A100),
    (r"RTX 30", Kind(86, "PCIe", 32), _RTX30),
    (r"A40|A10|RTX A\d", Kind(86, "PCIe", 32), _L40),
    (r"RTX 40", Kind(89, "PCIe", 32), _RTX40),
    (r"L40|L4\b|Ada", Kind(89, "PCIe", 32), _L40),
    (r"H100 PCIe", Kind(90, "PCIe", 64), _H100),
    (r"H[12]00 NVL", Kind(90, "NVLink 4", 300), _H100),
    (r"H800", Kind(90, "NVLink 4", 200), _EXPORT),
    (r"H100", Kind(90, "NVLink 4", 450), _H100),
    (r"H200|GH200|H20\b", Kind(90, "NVLink 4", 450), _H200),
    (r"B300", Kind(103, "NVLink 5", 900), _B200),
    (r"B100|B200", Kind(100, "NVLink 5", 900), _B200),
    (r"RTX PRO .*Blackwell|RTX 50", Kind(120, "PCIe", 64), _RTX50),
)

#: GB/s each way of all links of a GPU, by the generation, where the card is not in the list.
_NVLINK = {"NVLink 1": 80, "NVLink 2": 150, "NVLink 3": 300, "NVLink 4": 450, "NVLink 5": 900}


def listed(gpu: str) -> Kind | None:
    """The kind of a card of the list, by its name."""
    return next((kind for pattern, kind, _ in KINDS if re.search(pattern, gpu)), None)


def nvlink_of(architecture: int) -> str:
    """The generation of NVLink that GPUs of an architecture have."""
    begins = ((100, 5), (90, 4), (80, 3), (70, 2))
    return f"NVLink {next((gen for least, gen in begins if architecture >= least), 1)}"


def bandwidth(architecture: int, link: str) -> float:
    """GB/s each way of a card that is not in the list."""
    pcie = 64 if architecture >= 90 else 32
    return _NVLINK.get(link, pcie)


def kind_of(gpu: str) -> Kind:
    """The kind of a GPU by its name alone, for tables that do not say their link.

    A stranger's is that of an H100: some table is better than none.
    """
    return listed(gpu) or Kind(90, "NVLink 4", 450)


def family(link: str) -> str:
    """``"NVLink"`` of ``"NVLink 4"``."""
    return link.partition(" ")[0]


def distance(own: Kind, other: Kind) -> tuple[int, int, float]:
    """How near a kind is, by the rule above; less is nearer."""
    return (
        int(family(own.link) != family(other.link)),
        abs(own.architecture - other.architecture),
        abs(math.log(max(own.gbps, 1) / max(other.gbps, 1))),
    )
