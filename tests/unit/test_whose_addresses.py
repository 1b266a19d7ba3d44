# SPDX-License-Identifier: BSD-3-Clause
"""The library's own addresses go by ways that only what serves kernels and collectives may take."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]

#: What these functions are for, and who may call them: all other addresses are a program's.
OWN_WAYS = r"\bpysh_own_(?:put|get|amo|peer_address|heap_find)\("
MAY = {
    "host_proxy/checks.c",  # what kernels ask for: their collectives meet in the system region
    "host_proxy/requests.c",
    "host_proxy/long_requests.c",
    "native/src/collectives/collect.c",  # small parts, from the members' stages
    "native/src/memory/address.c",
    "native/src/memory/address.h",
    "native/src/ops/amo.c",
    "native/src/ops/amo.h",
    "native/src/ops/rma.c",
    "native/src/ops/rma.h",
}


def test_only_the_librarys_own_calls_reach_the_system_region() -> None:
    found = set()
    for folder in ("native", "host_proxy"):
        for path in (ROOT / folder).rglob("*.[ch]"):
            if re.search(OWN_WAYS, path.read_text()):
                found.add(str(path.relative_to(ROOT)))
    assert found == MAY


def test_public_routines_look_for_addresses_by_the_programs_way() -> None:
    for path in (ROOT / "native" / "src").rglob("*.c"):
        for body in re.findall(r"(?ms)^int ishmemx_\w+\([^;{]*\{\n(.*?)^\}", path.read_text()):
            assert not re.search(OWN_WAYS, body), path
