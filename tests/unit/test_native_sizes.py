# SPDX-License-Identifier: BSD-3-Clause
"""Sizes that users give are multiplied in one place, which looks at the overflow.

Calls on streams and collectives count their bytes by ``pysh_extent`` (``base/extent.h``) before
anything else is done with them. What is multiplied behind that, to get from element to element, is
part of what was counted.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "native" / "src"
FOLDERS = ("stream", "collectives")

#: Names of sizes. Numbers of threads and slots are not among them, nor is an object's ``sizeof``.
SIZE = re.compile(
    r"\b(\w+(->|\.))*(width|wide|nbytes|nelems|nreduce|n_pes|\w*stride|n_blocks|block|elements|pysh_type_nbytes)\b"
)

#: Functions that multiply sizes, and the one that has counted all bytes before them.
COUNTED = {
    "collectives/active_set.c": {
        "pysh_set_alltoalls": "pysh_set_alltoalls",
        "combine": "pysh_set_reduce",
        "world_pe": None,  # PEs
        "set_check": None,
    },
    "collectives/collect.c": {"fetch_by_nodes": None},  # places of members
    "collectives/alltoall.c": {
        "small": "span",
        "alltoall_staged": "span",
        "alltoalls_fetch": "span",
        "alltoalls_direct": "span",
        "alltoalls": "span",
    },
    "collectives/chain.c": dict.fromkeys((
            "pysh_chain_serves", "fetch", "write_to", "keep_sums", "add_member", "deliver", "step_back",
        )),
    "collectives/combine.c": {"pysh_combine_begin": None},  # of a block that the caller has chosen
    "collectives/fcollect.c": {
        "fcollect_staged": "fcollect_check",
        "fcollect_fetch": "fcollect_check",
        "fcollect_by_nodes": "fcollect_check",
    },
    "collectives/rails.c": {"share_at": None},  # less than the bytes that it was given
    "collectives/reduce.c": dict.fromkeys((
            "combine_members", "own_block", "source_nbytes", "reduce_staged", "reduce_slice",
            "reduce_block", "arguments_check", "reduce", "blocking", "reduce_begin",
        ), "arguments_check"),
    "collectives/request.c": {"announce": None},  # slots of a table
    "collectives/scan.c": dict.fromkeys(
        ("sum_members", "scan_piece", "scan_sliced", "ishmemx_sum_scan", "scan_block", "scan_pull"),
        "arguments_check",
    ),
    "stream/collectives.c": {
        "add_team": None,  # of slots
        "offer_few": None,
        "add_sides": None,  # by both that call it, see below
        "ishmemx_alltoalls_on_stream": "ishmemx_alltoalls_on_stream",
        "of_elements": "of_elements",
    },
    "stream/engine.c": {"slice_of": None, "pysh_engine_blocks": None},  # begin_bytes of collectives.c
    "stream/requests.c": {"pysh_stream_request_blocks": None},  # blocks_of of rma.c
    "stream/rma.c": {"blocks_of": "blocks_of"},
    "stream/shapes.c": {"shape_for_few": None, "shape_by_rows": None, "shape_by_bytes": None},
}  # fmt: skip

FILES = sorted(path for folder in FOLDERS for path in (SOURCES / folder).glob("*.c"))


def functions_of(text: str) -> dict[str, str]:
    """The body of each function, without comments and strings."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    text = re.sub(r'"(\\.|[^"\\])*"', '""', text)
    heads = re.finditer(
        r"^(?!#|enum|typedef|struct)\w[^;={}]*?\b(\w+)\([^;{}]*\) \{\n(.*?)^\}", text, re.M | re.S
    )
    return {head[1]: head[2] for head in heads}


def multiplies(body: str) -> list[str]:
    """Its products of sizes; the formatter puts no space behind the star of a pointer."""
    lines = re.sub(r"\* sizeof\b|\bsizeof [\w*]+ \*", "", body).splitlines()
    return [line.strip() for line in lines if " * " in line and SIZE.search(line)]


def name_of(path: Path) -> str:
    return str(path.relative_to(SOURCES))


def unlisted(text: str, listed: dict[str, str | None]) -> list[str]:
    return [
        f"{name}: {line}"
        for name, body in functions_of(text).items()
        if name not in listed
        for line in multiplies(body)
    ]


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_sizes_are_multiplied_where_they_have_been_counted(path: Path) -> None:
    found = unlisted(path.read_text(), COUNTED.get(name_of(path), {}))
    assert not found, "count the bytes by pysh_extent(), then add the function to COUNTED"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_who_counts_does_it_by_the_one_function(path: Path) -> None:
    functions = functions_of(path.read_text())
    for name, counts in COUNTED.get(name_of(path), {}).items():
        assert name in functions, f"{name} is gone: take it out of COUNTED"
        if counts:
            assert re.search(r"\bpysh_(check_)?extent\(", functions[counts]), counts


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_no_other_function_looks_at_products(path: Path) -> None:
    assert "__builtin_mul_overflow" not in path.read_text()


def test_every_call_with_bytes_on_a_stream_counts_them() -> None:
    """A new one goes by ``begin_bytes``, ``of_elements`` or the extent itself."""
    for name, body in functions_of((SOURCES / "stream" / "collectives.c").read_text()).items():
        if name.endswith("_on_stream") and re.search(r"\b(nbytes|nelems|nreduce)\b", body):
            assert re.search(r"\b(begin_bytes|of_elements|pysh_check_extent)\(", body), name


def test_the_walk_sees_a_product() -> None:
    text = "static int reach(size_t nelems, size_t width) {\n    return check(nelems * width);\n}\n"
    assert unlisted(text, {}) == ["reach: return check(nelems * width);"]
    assert not unlisted(text.replace("nelems * width", "pieces * turns"), {})
    assert not unlisted(text.replace("nelems * width", "n_pes * sizeof *all"), {})
