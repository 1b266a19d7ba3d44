# SPDX-License-Identifier: BSD-3-Clause
"""What Triton makes of ``pyshmem.triton`` for three architectures: scopes, barriers, widths."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pyshmem._core.contract import RING, RING_AWAITS

pytest.importorskip("triton")

pytestmark = pytest.mark.long

CASES = Path(__file__).with_name("triton_cases.py")
GLUON_CASES = Path(__file__).with_name("gluon_cases.py")
ARCHITECTURES = (90, 80, 100)


def compiled(folder: Path, cases: Path, *arguments: object, **variables: str) -> dict[str, str]:
    """The PTX of each case, by its name and architecture, without debug lines."""
    environment = dict(os.environ, TRITON_INTERPRET="0", TRITON_CACHE_DIR=str(folder), **variables)
    command = [sys.executable, str(cases), *map(str, arguments)]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280)
    assert result.returncode == 0, result.stderr[-4000:]
    return {name: _body(text) for name, text in json.loads(result.stdout)["ptx"].items()}


def _body(text: str) -> str:
    body = text[text.index(".entry") :].split(".section")[0]
    lines = (line.partition("//")[0].rstrip() for line in body.splitlines())
    return "\n".join(
        line for line in lines if line and not re.match(r"\s*(\.loc|\.file|\$L)", line)
    )


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("triton")


@pytest.fixture(scope="module")
def ptx(cache: Path) -> dict[str, str]:
    return compiled(cache, CASES)


def for_each(test):
    return pytest.mark.parametrize("arch", ARCHITECTURES)(test)


@for_each
def test_tiles_are_stored_and_loaded_16_bytes_wide(ptx: dict[str, str], arch: int) -> None:
    out, into = ptx[f"copy_out-{arch}"], ptx[f"copy_in-{arch}"]
    assert set(re.findall(r"\tst\.global\.\S+", out)) == {"\tst.global.v4.b32"}
    assert set(re.findall(r"\tld\.global\.\S+", into)) == {"\tld.global.v4.b32"}


@for_each
def test_atomics_are_for_the_whole_system(ptx: dict[str, str], arch: int) -> None:
    found = re.findall(r"\t(?:@\S+ )?((?:atom|red)\.\S+)", ptx[f"atomics-{arch}"])
    assert len(found) >= 8
    assert all(".sys." in instruction for instruction in found), found
    assert all(".acq_rel." in one or ".relaxed." in one for one in found), found


@for_each
def test_a_release_comes_behind_a_barrier_and_from_one_thread(
    ptx: dict[str, str], arch: int
) -> None:
    for name in ("signals", "more_signals"):
        lines = ptx[f"{name}-{arch}"].splitlines()
        places = [k for k, line in enumerate(lines) if re.search(r"(st|red)\.release\.sys", line)]
        assert places
        for place in places:
            assert "%tid.x" in lines[place], lines[place]
            assert re.search(r"setp\.ne\.u32 q, x, 0; @!q (st|red)\.release", lines[place])
            stores = [
                k
                for k in range(place)
                if re.match(r"\s*st\.global", lines[k]) and "[r" not in lines[k]
            ]
            last_store = max(stores, default=-1)
            assert any("bar.sync" in line for line in lines[last_store + 1 : place])


@for_each
def test_a_relaxed_signal_waits_for_nothing(ptx: dict[str, str], arch: int) -> None:
    lines = ptx[f"more_signals-{arch}"].splitlines()
    sent = [line for line in lines if re.search(r"@!q (red|st)\.relaxed\.sys", line)]
    assert len(sent) == 2
    assert all("%tid.x" in line for line in sent)


@for_each
def test_what_the_host_has_set_is_loaded_once(ptx: dict[str, str], arch: int) -> None:
    """Behind an acquire each load goes to the L2 cache, and the answer waits for it."""
    for name, rare in (("rounds_of_signals", 0), ("rounds_of_grids", 2)):  # of a ring with requests
        lines = [line.strip() for line in ptx[f"{name}-{arch}"].splitlines()]
        begin = next(k for k, line in enumerate(lines) if line.startswith(".reg .pred p"))
        loads = [k for k, line in enumerate(lines) if line.startswith("{ ld.global.b64 %")]
        assert len(loads) >= 4
        assert sum(k > begin for k in loads) == rare
    text = ptx[f"rounds_of_signals-{arch}"]
    checks = text[text.index("setp.ge.u64 p") : text.index("fault:")]
    assert "ld." not in checks, "a PE that is there costs no load more"


@for_each
def test_a_reduction_loads_all_at_once_before_it_sends(ptx: dict[str, str], arch: int) -> None:
    before, behind = ptx[f"one_shot-{arch}"].split("bar.sync", 1)
    fixed = r"\{ ld\.global\.b64"
    assert len(re.findall(fixed, before)) == 7
    sends = behind[: behind.index("st.relaxed.sys.global.b128")]
    assert len(re.findall(fixed, sends)) <= 1, "that of a third PE"


@for_each
def test_a_barrier_of_grids_has_one_fence_a_program_and_one_a_grid(
    ptx: dict[str, str], arch: int
) -> None:
    text = ptx[f"rounds_of_grids-{arch}"]
    arrival = text.index("atom.global.sys.acq_rel.add")
    before, behind = text[:arrival], text[arrival:]
    assert "fence" not in before[before.rindex("bar.sync") :]
    assert len(re.findall(r"\bst\.release\.sys", text)) == 1
    slow = re.sub(r"@p bra again;.*?seen:", "", behind, flags=re.DOTALL)
    assert "fence" not in slow[: slow.rindex("ld.acquire.sys")]


@for_each
def test_a_wait_is_polled_by_one_thread_and_the_rest_meet_it(
    ptx: dict[str, str], arch: int
) -> None:
    body = ptx[f"signals-{arch}"]
    loop = body[body.index("again:") : body.index("@p bra again")]
    assert "ld.relaxed.sys.global.b64" in loop
    assert "%globaltimer" not in loop
    assert "ld.acquire.sys.global.b64" in body[body.index("seen:") :]
    assert "bar.sync" in body[body.index("done:", body.index("seen:")) :]
    assert "shfl.sync" not in body, "a value that nobody uses is not given to all threads"
    assert "shfl.sync" in ptx[f"more_signals-{arch}"], "one that is used comes from one thread"


@for_each
def test_a_tile_is_counted_when_all_its_threads_have_stored_it(
    ptx: dict[str, str], arch: int
) -> None:
    lines = ptx[f"task_graph-{arch}"].splitlines()
    counts = [
        k
        for k, line in enumerate(lines)
        if re.search(r"(atom|red)\S*\.release\.gpu|(atom|red)\S*gpu\S*release", line)
    ]
    assert len(counts) >= 3  # one each of two tasks, and one of a tile that another waits for
    for place in counts:
        stores = [k for k, line in enumerate(lines[:place]) if "st.global" in line]
        assert any("bar.sync" in line for line in lines[stores[-1] + 1 : place])
    assert "ld.acquire.sys" in ptx[f"task_graph-{arch}"]
    first = [k for k, line in enumerate(lines) if "prefetch.global.L2" in line]
    assert first, "what nobody writes comes before the wait for what others do"
    bulk = re.findall(r"bulk\.prefetch\.L2\.global \[\S+\], 512;", "\n".join(lines))
    lines_of_128 = "\n".join(lines).count("prefetch.global.L2")
    assert (len(bulk), lines_of_128) == ((1, 1) if arch >= 90 else (0, 5))
    assert first[0] < next(k for k, line in enumerate(lines) if "ld.acquire.sys" in line)


@for_each
def test_fences_are_for_the_whole_system(ptx: dict[str, str], arch: int) -> None:
    body = ptx[f"meetings-{arch}"]
    assert body.count("fence.acq_rel.sys;") >= 4
    assert "fence.acq_rel.gpu" not in body


@for_each
def test_waits_end_by_the_clock_and_say_who_waited(ptx: dict[str, str], arch: int) -> None:
    body = ptx[f"waits-{arch}"]
    assert body.count("%globaltimer") == 3
    assert len(re.findall(r"atom.relaxed.sys.global.exch.b64 f", body)) == 3, "of faults"
    assert len(re.findall(r"atom.relaxed.sys.global.exch.b64 r", body)) == 3, "of reports"


@for_each
def test_pairs_of_units_are_awaited_four_at_a_time(ptx: dict[str, str], arch: int) -> None:
    """2,048 pairs by 128 threads: each has 16, each loaded 16 bytes wide."""
    text = ptx[f"pairs_of_units-{arch}"]
    loops = re.findall(r"again:(.*?)@p bra again", text, flags=re.DOTALL)
    assert len(loops) == 4
    for loop in loops:
        assert len(re.findall(r"@a\d ld\.relaxed\.sys\.global\.v2\.b64", loop)) == 4
        assert "%globaltimer" not in loop


@for_each
def test_arguments_may_be_numbers(ptx: dict[str, str], arch: int) -> None:
    assert "ld.global" in ptx[f"masked-{arch}"]  # its ctx is an int64, not a pointer


def test_tiles_of_peers_out_of_reach_are_requests(tmp_path: Path) -> None:
    """Without P2P a tile's elements go to the ring, and nowhere else."""
    for name, text in compiled(tmp_path, CASES, "copy_out", "meetings", PYSHMEM_P2P="0").items():
        assert "st.global.b64" in text, name
        assert "atom.relaxed.gpu.global.add" in text or "atom.global.gpu.relaxed.add" in text, name
    near = compiled(tmp_path, CASES, "copy_out")["copy_out-90"]
    assert "atom" not in re.sub(r"\{.*?\n\s*\}", "", near, flags=re.DOTALL), (
        "no ring where peers are near"
    )


def test_waits_for_the_ring_say_who_waits_for_what(tmp_path: Path) -> None:
    """Each ends in a note: of a wait for credit, for a cell twice, for replies, and of a quiet."""
    texts = compiled(tmp_path, CASES, "chunks", "messages")
    text = texts["chunks-90"] + texts["messages-90"]
    places = RING.CONTROL_WAITER, RING.CONTROL_WAITER - RING.CONTROL_ASKED
    stores = re.findall(
        r"or\.b64 z, z, (\d+);\s+st\.relaxed\.sys\.global\.b64 \[%rd\d+ \+ (\d+)\], z", text
    )
    found = {int(awaits) for awaits, place in stores if int(place) in places}
    assert found == {RING_AWAITS.CREDIT, RING_AWAITS.CELL, RING_AWAITS.REPLY, RING_AWAITS.QUIET}
    waits = re.findall(r"ld\.relaxed\.sys\.global\.b(?:32|64) v, ", text)
    assert len(stores) == len(waits)


def test_gluon_s_groups_of_warps_have_their_own_barriers_and_leaders(tmp_path: Path) -> None:
    texts = compiled(tmp_path, GLUON_CASES, tmp_path)
    assert set(re.findall(r"\tst\.global\.v\S+", texts["tiles-90"])) == {"\tst.global.v4.b32"}
    found = re.findall(r"\t(?:@\S+ )?((?:atom|red)\.\S+)", texts["atomics-90"])
    assert len(found) >= 9
    assert all(".sys." in instruction for instruction in found), found
    assert "%globaltimer" not in texts["staged-90"]
    text = texts["move_and_compute-90"]
    release = text.index("st.release.sys")
    assert "@q st.release.sys" in text
    barriers = re.findall(r"bar\.sync\s+(\d+), 128", text[:release])
    assert barriers, "the group that sends meets at a barrier of its own before it signals"
    waits = re.findall(r"bar\.sync\s+(\d+), 128", text[text.index("ld.acquire.sys") :])
    assert waits[0] != barriers[-1]


def test_labels_of_stages_cost_nothing_until_they_are_compiled_in(
    ptx: dict[str, str], cache: Path, tmp_path: Path
) -> None:
    """In one cache: what was compiled without labels must not be found by who asks for them."""
    number = re.compile(r"mov\.b64 f, \d{10,};")  # a kernel's own, in its faults
    for arch in ARCHITECTURES:
        plain = ptx[f"unstaged-{arch}"].replace("unstaged", "staged")
        assert number.sub("", ptx[f"staged-{arch}"]) == number.sub("", plain)
    for text in compiled(cache, CASES, "staged", STAGED="1").values():
        assert text.count("%globaltimer") == 4
        assert text.count("atom.relaxed.gpu.global.add.u64 t") == 2
    (text,) = compiled(tmp_path, GLUON_CASES, tmp_path, "move_and_compute", STAGED="1").values()
    writes = re.findall(r"setp\.eq\.u32 q, (%r\d+), 0;\s+@q bra over;", text)
    assert len(writes) == 3, "by the first thread of the group of warps"


def test_tiles_of_narrow_floats_compile_where_the_interpreter_takes_them(cache: Path) -> None:
    """``tests/spmd/triton/test_tile_operations.py`` has the interpreter's half of the table."""
    script = Path(__file__).parents[1] / "spmd" / "triton" / "tile_operations.py"
    environment = dict(os.environ, TRITON_INTERPRET="0", TRITON_CACHE_DIR=str(cache))
    result = subprocess.run(
        [sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=280
    )
    assert result.returncode == 0, result.stderr[-4000:]
    found = json.loads(result.stdout)
    assert {dtype: rows["unexpected"] for dtype, rows in found.items()} == {
        key: {} for key in found
    }
    assert all(rows["compiled"] + rows["refused"] > 60 for rows in found.values())


@pytest.mark.parametrize("p2p", [0, 1])
def test_bitwise_atomics_of_floats_are_refused_by_the_compiler(cache: Path, p2p: int) -> None:
    """By loads and stores and by the host; of integers they compile. Triton takes fp32 and fp64."""
    environment = dict(
        os.environ, TRITON_INTERPRET="0", TRITON_CACHE_DIR=str(cache), PYSHMEM_P2P=str(p2p)
    )
    script = str(CASES.with_name("triton_refused.py"))
    result = subprocess.run(
        [sys.executable, script], env=environment, capture_output=True, text=True, timeout=280
    )
    assert result.returncode == 0, result.stderr[-4000:]
    rows = json.loads(result.stdout)
    assert len(rows) == 36
    for what, dtype, said in rows:
        if dtype in ("i32", "u64"):
            assert not said
        elif p2p or dtype in ("fp32", "fp64"):
            assert f"atomic_{what} is of integers, not of {dtype}" in said
        else:
            assert said
