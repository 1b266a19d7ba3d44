# SPDX-License-Identifier: BSD-3-Clause
"""Every device routine compiles to sm_90 for every dtype, inlined and with the orders it promises.

What depends on the architecture is compiled to sm_80 and sm_100, too.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("cuda.bindings.nvvm", reason="NVVM is not installed")

#: The first test waits for all the compiling.
pytestmark = [pytest.mark.long, pytest.mark.timeout(1000)]


#: Routines come from the store, as for users by default; the first that needs one compiles it.
STORE = {
    "NUMBA_ENABLE_CUDASIM": "0", "PYSHMEM_DEVICE": "cuda", "PYSHMEM_KERNEL_STORE": "text",
}  # fmt: skip


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """One row a case, by as many processes as the machine has room for."""
    tmp = tmp_path_factory.mktemp("sm90")
    environment = dict(os.environ, **STORE, PYSHMEM_CACHE_DIR=str(tmp / "store"))
    script = Path(__file__).with_name("sm90.py")
    shares = min(4, os.cpu_count() or 1)
    runs = [
        subprocess.Popen(
            [sys.executable, str(script), str(share), str(shares)],
            env=environment,
            stdout=out,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for share, out in ((k, (tmp / str(k)).open("w")) for k in range(shares))
    ]
    try:
        codes = [run.wait(timeout=900) for run in runs]
    finally:
        for run in runs:
            run.kill()
    texts = [(tmp / str(share)).read_text() for share in range(shares)]
    assert not any(codes), [text[-4000:] for text, code in zip(texts, codes, strict=True) if code]
    return [json.loads(line) for line in "".join(texts).splitlines() if line.startswith("{")]


@pytest.fixture(scope="module")
def routines(compiled):
    return [row for row in compiled if "routine" in row]


def test_every_public_routine_is_compiled(compiled, routines):
    """With COMPILE_ALL set. Else reductions other than sums are compiled at one scope each."""
    (public,) = (row["public"] for row in compiled if "public" in row)
    seen = {row["routine"] for row in routines}
    assert seen <= set(public)
    if os.environ.get("COMPILE_ALL"):
        assert seen == set(public)
    reductions = re.compile(r"(and|or|xor|max|min|prod)_reduce|sum_inscan")
    assert not [name for name in set(public) - seen if not reductions.match(name)]
    assert {name.split("_warp")[0].split("_work")[0].split("_grid")[0] for name in public} == {
        name.split("_warp")[0].split("_work")[0].split("_grid")[0] for name in seen
    }


def test_routines_are_inlined_but_for_their_cold_parts(routines):
    assert not [row for row in routines if row["calls"]]


def test_local_memory_is_no_more_than_the_results_of_cold_calls(routines):
    def most(routine):
        """A warp's collective asks for a far member by itself, inlined, with results of its own."""
        if routine == "collect_warp":
            return 56  # Where PEs' parts are; it sends twice.
        return 48 if routine.endswith("_warp") else 40

    assert not [row for row in routines if row["local_bytes"] > most(row["routine"])]


def test_routines_read_the_state_symbol(routines):
    stateless = {"fence", "quiet", "signal_fetch", "no_bulk_copies"}
    bad = [
        row
        for row in routines
        if not row["state"] and not row["routine"].startswith(tuple(stateless))
    ]
    assert not bad


def test_no_atomic_stops_at_the_own_gpu(routines):
    assert not [row for row in routines if row["gpu_scope"]]


def has(row, order):
    return any(found.startswith(order) for found in row["orders"])


@pytest.mark.parametrize(
    ("prefix", "order"),
    [
        ("put_signal", "st.release.sys"),
        ("put_signal", "red.release.sys"),
        ("fence", "fence.acq_rel.sys"),
        ("quiet", "fence.acq_rel.sys"),
        ("barrier_all", "fence.acq_rel.sys"),
        ("sync_all", "ld.acquire.sys"),
        ("wait_until", "ld.acquire.sys"),
        ("signal_wait_until", "ld.acquire.sys"),
        ("test", "ld.acquire.sys"),
        ("signal_fetch", "ld.acquire.sys"),
        ("atomic_fetch_add", "atom.relaxed.sys"),
        ("atomic_compare_swap", "atom.relaxed.sys"),
        ("atomic_add", "red.relaxed.sys"),
        ("atomic_set", "st.relaxed.sys"),
        ("get", "ld.relaxed.sys"),
    ],
)
def test_promised_order_is_in_the_ptx(routines, prefix, order):
    rows = [row for row in routines if row["routine"].startswith(prefix)]
    rows = [row for row in rows if not row["routine"].endswith("_lock")]
    assert rows
    assert all(has(row, order) for row in rows), [row for row in rows if not has(row, order)]


def test_a_fence_stands_behind_the_look_at_the_ring(routines):
    """Another block's quiet may have raised the shadow: what it completed is acquired by that fence."""
    ordering = ("fence", "quiet", "pe_quiet", "clear_lock")
    rows = [row for row in routines if row["routine"].startswith(ordering)]
    assert len(rows) > 9
    assert all(row["fence_is_last"] for row in rows), rows


def test_bulk_copies_move_sixteen_bytes_a_lane(routines):
    moves = [row for row in routines if row["routine"].startswith(("put", "get"))]
    assert all(row["v4_loads"] >= 5 and row["v4_stores"] >= 5 for row in moves)


def test_cubins_with_link_time_optimisation_keep_the_state_symbol(compiled):
    cubins = [row for row in compiled if "cubin" in row]
    assert len(cubins) == 3
    assert all(row["state"] for row in cubins)


@pytest.fixture(scope="module", params=["8.0", "9.0", "10.0"])
def assembled(request, compiled, tmp_path_factory):
    """What ``sm90.py`` says of an architecture; all of it is compiled for 9.0 already."""
    if request.param == "9.0":
        return request.param, compiled
    folder = str(tmp_path_factory.mktemp("store"))
    environment = dict(os.environ, **STORE, PYSHMEM_CACHE_DIR=folder)
    environment["COMPILE_FOR"] = request.param
    command = [sys.executable, str(Path(__file__).with_name("sm90.py")), "architectures"]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr[-4000:]
    return request.param, [json.loads(line) for line in run.stdout.splitlines()]


def test_copies_by_threads_are_assembled_for_every_architecture(assembled):
    """Bulk copies are of sm_90, and so is the shared memory that they take."""
    architecture, rows = assembled
    copies = [row for row in rows if "assembled" in row]
    assert len(copies) == 5
    assert all(row["bytes"] > 1000 and row["bulk"] == row["buffer"] for row in copies)
    assert any(row["bulk"] for row in copies) == (architecture != "8.0")


def test_the_deepest_calls_of_a_collective_fit_the_reserved_stack(assembled):
    """The addresses of functions stand in sections of another type on sm_80."""
    stacks = [row for row in assembled[1] if "stack" in row]
    assert len(stacks) == 3
    assert all(row["depth"] > 5 and row["stack"] > 500 for row in stacks), stacks
    assert all(row["reserved"] >= row["stack"] + row["frame"] for row in stacks), stacks
    assert not any(row["misread"] for row in stacks), stacks


def test_a_kernel_can_decline_bulk_copies(assembled):
    assert [row["bulk"] for row in assembled[1] if "declined" in row] == [False]


def test_units_are_single_accesses_on_every_architecture(assembled):
    """Of 16 bytes with one flag: the vector form promises no more than its halves."""
    rows = [row for row in assembled[1] if "units" in row]
    assert len(rows) == 3
    assert all(row["bytes"] > 1000 and row["ld"] >= 2 and row["st"] >= 2 for row in rows), rows


def test_a_put_from_constant_memory_copies(assembled):
    assert [row["constant_source"] for row in assembled[1] if "constant_source" in row] == [True]


def test_counts_in_uint64_do_not_become_floats(assembled):
    assert [row["unsigned_counts"] for row in assembled[1] if "unsigned_counts" in row] == [0]


def waits(rows, name, part="entry"):
    """The instructions of a kernel, or of the function that asks the ring, in order."""
    (text,) = (row[part] for row in rows if row.get("litmus") == name)
    return re.findall(r"\b(?:ld|atom|fence|bar|shfl)\.[\w.]+", text)


def test_a_warp_hears_of_a_signal_by_a_barrier(assembled):
    """``shfl.sync`` orders no memory for the lanes that did not acquire: a barrier stands behind it."""
    found = waits(assembled[1], "warp_wait")
    last = max(k for k, name in enumerate(found) if name.startswith("shfl.sync"))
    assert "bar.warp.sync" in found[last:]
    assert any(name.startswith("ld.acquire.sys") for name in found[:last])


def test_who_waits_acquires_the_word_that_was_seen(assembled):
    """Wait sets load the element again to acquire it; locks fence; replies are polled by acquires."""
    found = waits(assembled[1], "wait_any")
    assert any(name.startswith("ld.acquire.sys") for name in found)
    found = waits(assembled[1], "lock")
    last = max(k for k, name in enumerate(found) if name.startswith("atom.relaxed.sys"))
    assert "fence.acq_rel.sys" in found[:last]  # the last one says that the lock is held
    found = waits(assembled[1], "request", "ask")
    assert "ld.acquire.sys.global.b128" in found
    assert "ld.acquire.sys.global.u64" in found
    assert "ld.relaxed.sys.global.b128" not in found


def test_a_cell_is_claimed_before_the_slot_is_stored(assembled):
    """By an atomic whose value is looked at: a store could arrive behind the host's answer."""
    (text,) = (row["ask"] for row in assembled[1] if row.get("litmus") == "request")
    slots = [found.start() for found in re.finditer(r"st\.relaxed\.sys\.global\.b128", text)]
    assert len(slots) == 4
    before, behind = text[: slots[0]], text[slots[-1] :]
    (claim,) = re.finditer(r"atom\.relaxed\.gpu\.global\.cas\.b64 (%rd\d+),", before)
    assert re.search(rf"setp\.\w+\.s64\s+%p\d+, [^;]*{claim[1]}\b", before[claim.end() :])
    assert "st.relaxed.sys" not in before, "nothing else says that the cell is in use"
    assert behind.count("st.relaxed.sys.global.u64") == 1, "it is free when the reply has been read"


def test_labels_of_stages_cost_nothing_until_they_are_compiled_in(compiled):
    (row,) = (row for row in compiled if "staged" in row)
    assert row["off"] == row["plain"] == row["again"]
    assert row["staged"].count("%globaltimer") == 8  # two stages, one in a loop that is unrolled
    assert row["staged"].count("atom.relaxed.gpu.global.add.u64") == 4
    assert row["kept"] == ["unlabelled"], "labelled kernels are compiled again"
    assert "stage_end('load') without stage_begin('load')" in row["refused"]
