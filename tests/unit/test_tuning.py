# SPDX-License-Identifier: BSD-3-Clause
"""The table of choices: its files, old ones too, and whose rows count on which GPU and link."""

from __future__ import annotations

import ctypes
import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pyshmem import cutover
from pyshmem.host.tuning import gpus, kinds, old_files, streams, table

H100, H200 = "NVIDIA H100 80GB HBM3", "NVIDIA H200"
RESULTS = Path(__file__).parents[2] / "bench" / "results"


def shipped() -> list[table.Table]:
    text, where = next(table.files())
    return cutover.read_tables(text, where)


def made(gpu: str, link: str = "NVLink 4", peers: int = 1, **rows: int) -> table.Table:
    """A table; ``reduce=5``: the other way from 5 bytes on."""
    named = {op: cutover.rows_of_size(op, size) for op, size in rows.items()}
    return table.Table(gpu, link, peers, "", named or {"reduce": cutover.rows_of_size("reduce", 5)})


def origin(
    gpu: gpus.Gpu, peers: int, *files: list[table.Table], op: str = "reduce"
) -> tuple[int, str]:
    """Bytes and origin of an operation, by files of these tables, the weakest first."""
    texts = [(table.text_of(tables), f"file {n}") for n, tables in enumerate(files)]
    found = table.choices(gpu, peers, texts)[op]
    return cutover.size_of(op, found.rows), found.origin


def card(name: str, architecture: int = 90, link: str | None = None) -> gpus.Gpu:
    return gpus.Gpu(name, gpus.kind(name, architecture, link))


# ---- files -------------------------------------------------------------------------------------


def test_the_shipped_tables_are_sound_and_say_where_they_are_from() -> None:
    tables = shipped()
    assert {H100, H200} <= {one.gpu for one in tables}
    for one in tables:
        assert one.source
        assert one.link == kinds.kind_of(one.gpu).link
    assert table.read(table.text_of(tables), "again") == tables


OLD_SIZES = [[1, 2, 3, None], [4, 0, 6, 7], [8, 9, 10, 11], [12, 13, 14, None]]


def test_a_file_of_an_older_tune_is_read_as_before() -> None:
    old = {"gpu": "X", "n_pes": 4, "put": OLD_SIZES, "get": OLD_SIZES, "reduce": 16384}
    rows = [[65536, "ll", 64, 64], [None, "direct", 64, 512]]
    old |= {"ll": None, "streams": {"reduce": rows}}
    (new,) = cutover.read_tables(json.dumps({"format": 1, "tables": [old]}), "f")
    assert new.key == ("X", "", 3)
    for op in cutover.SHAPED:
        for threads, line in zip(cutover.THREADS, OLD_SIZES, strict=True):
            for blocks, size in zip(cutover.BLOCKS, line, strict=True):
                found = cutover.size_of(op, new.rows[cutover.row_name(op, (threads, blocks))])
                assert found == (cutover.NEVER if size is None else size)
    assert cutover.size_of("reduce", new.rows["reduce"]) == 16384
    assert cutover.size_of("ll", new.rows["ll"]) == cutover.NEVER
    assert new.rows[streams.row_name("reduce")][0] == (65536, "ll", 64, 64)
    without = {key: value for key, value in old.items() if key not in ("ll", "streams")}
    (new,) = cutover.read_tables(json.dumps({"format": 1, "tables": [without]}), "f")
    assert "ll" not in new.rows


def test_a_file_of_an_older_tune_fused_is_read_as_before() -> None:
    old = {"gpu": "X", "n_pes": 2, "rows": {"all_to_all": [[185363, "ll"], [None, "slots"]]}}
    (new,) = table.read(json.dumps({"format": 1, "tables": [old]}), "f")
    assert new.rows == {"fused all_to_all": ((185363, "ll"), (table.NEVER, "slots"))}


def test_files_of_older_versions_stand_in_the_users_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("PYSHMEM_TUNE_FILE", raising=False)
    monkeypatch.setattr(table, "_users", tmp_path.joinpath)
    for name in ("tuning.json", "cutover.json", "fused.json"):
        (tmp_path / name).write_text("x")
    assert [Path(where).name for _, where in table.files()] == [
        *("shipped", "cutover.json", "fused.json", "tuning.json")
    ]
    monkeypatch.setenv("PYSHMEM_TUNE_FILE", str(tmp_path / "cutover.json"))
    assert [Path(where).name for _, where in table.files()] == [
        *("shipped", "fused.json", "cutover.json")
    ]


@pytest.mark.parametrize(
    "text",
    [
        "nothing",
        "[]",
        '{"format": 3, "tables": []}',
        '{"format": 1, "tables": [{"gpu": "x", "n_pes": 1}]}',
        '{"format": 1, "tables": [{"gpu": "x", "n_pes": 0, "rows": {}}]}',
        '{"format": 2, "tables": [{"gpu": "x", "peers": 1, "rows": {}}]}',
        '{"format": 2, "tables": [{"gpu": "x", "link": "", "peers": -1, "rows": {}}]}',
        '{"format": 2, "tables": [{"gpu": "x", "link": "", "peers": 1, "rows": {"a": []}}]}',
        *(
            json.dumps(
                {"format": 2, "tables": [{"gpu": "x", "link": "", "peers": 1, "rows": rows}]}
            )
            for rows in (
                {"reduce": [[5, "one_shot"], [5, "two_shot"]]},
                {"reduce": [[5, "two_shot"], [None, "one_shot"]]},
                {"put 1x1": [[None, "ship"]]},
                {"stream reduce": [[None, "ll", 4096, 64]]},
                {"fused all_to_all": [["many", "ll"]]},
            )
        ),
    ],
)
def test_a_broken_file_is_told_with_its_name(text: str) -> None:
    with pytest.raises(ValueError, match=r"here\.json"):
        cutover.read_tables(text, "here.json")


def test_a_file_keeps_what_was_not_measured_again() -> None:
    old = made("X", "", reduce=1, ll=2)  # of an older version, which knew no links
    (kept, new) = table.merged([old], made("X", reduce=3))
    assert (list(kept.rows), cutover.size_of("reduce", new.rows["reduce"])) == (["ll"], 3)
    assert len(table.merged([made("X", "PCIe")], made("X"))) == 2


# ---- whose rows count --------------------------------------------------------------------------


def test_the_number_of_peers_is_the_nearest_from_below() -> None:
    tables = [made("X", peers=peers, reduce=peers) for peers in (7, 1, 3)]
    gpu = card("X", 90, "NVLink 4")
    assert [origin(gpu, peers, tables)[0] for peers in (1, 2, 3, 6, 7, 100)] == [1, 1, 3, 3, 7, 7]
    assert origin(gpu, 0, tables)[0] == 1


@pytest.mark.parametrize(
    ("gpu", "nearest"),
    [
        (card("NVIDIA GH200 480GB", 90), H100),  # both are as near: by the alphabet
        (card("NVIDIA H800", 90), "NVIDIA H100 NVL"),  # 200 GB/s: nearer to 300 than to 450
        (card("NVIDIA A100-SXM4-80GB", 80), "NVIDIA H100 NVL"),
        (card("NVIDIA B200", 100), H100),
        (card("NVIDIA GeForce RTX 5090", 120), "NVIDIA H100 PCIe"),
        (card("NVIDIA L40S", 89), "NVIDIA H100 PCIe"),
        (card("A card of next year", 110, "NVLink 5"), H100),
        (card("A card of next year", 110, "PCIe"), "NVIDIA H100 PCIe"),
        (card("NVIDIA H100 PCIe", 90, "NVLink 4"), H100),  # it has a bridge
        (card(H200, 90, "NVLink 4"), H200),
        (card(H200, 90, "PCIe"), "NVIDIA H100 PCIe"),  # its links are down
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value.name}, {value.kind.link}",
)
def test_a_gpu_without_a_table_takes_that_of_the_nearest_kind(gpu: gpus.Gpu, nearest: str) -> None:
    """Links of the same kind first, then the architecture, then the bandwidth; never none at all."""
    names = {H200: "NVLink 4", H100: "NVLink 4", "NVIDIA H100 NVL": "NVLink 4"}
    tables = [made(name, link) for name, link in names.items()]
    tables += [made("NVIDIA H100 PCIe", "PCIe"), made("simulator", "none")]
    for order in (tables, tables[::-1]):
        told = "" if nearest == gpu.name else f", by rule from {nearest}"
        assert origin(gpu, 1, order) == (5, f"file 0{told}")


def test_an_architecture_counts_for_more_than_a_bandwidth() -> None:
    tables = [made("NVIDIA A100-SXM4-80GB", "NVLink 3"), made("NVIDIA B200", "NVLink 5")]
    assert origin(card("NVIDIA H800", 90), 1, tables)[1].endswith("A100-SXM4-80GB")
    assert origin(card("NVIDIA B300", 103), 1, tables)[1].endswith("B200")


def test_each_operation_has_the_rows_of_the_nearest_table_with_any() -> None:
    gpu = card(H100, 90, "NVLink 4")
    files = [[made(H200, reduce=1, ll=2)], [made(H100, reduce=3)]]
    assert origin(gpu, 1, *files) == (3, "file 1")
    assert origin(gpu, 1, *files, op="ll") == (2, f"file 0, by rule from {H200}")
    assert origin(gpu, 1, *files[::-1]) == (3, "file 0")  # by rule is weaker, in whatever file
    assert origin(gpu, 1, [made(H100, reduce=4)], [made(H100, reduce=5)])[0] == 5  # the user's


def test_a_table_for_more_peers_gives_way_to_one_of_the_same_kind() -> None:
    gpu = card(H200, 90, "NVLink 4")
    assert origin(gpu, 1, [made(H200, peers=3), made(H100)])[1].endswith(H100)
    assert origin(gpu, 1, [made(H200, peers=3), made("NVIDIA B200", "NVLink 5")])[1] == "file 0"


def test_the_simulator_takes_no_table_of_a_gpu_and_no_gpu_takes_that_of_the_simulator() -> None:
    for gpu, other in ((gpus.SIMULATOR, made(H200)), (card(H200), made("simulator", "none"))):
        assert not table.choices(gpu, 1, [(table.text_of([other]), "f")])


def test_every_card_of_the_list_has_its_rows_and_a_source() -> None:
    for pattern, kind, source in kinds.KINDS:
        assert source, pattern
        gpu = gpus.Gpu(pattern, kind)
        found = table.choices(gpu, 7, [(table.text_of(shipped()), "shipped")])
        for op in ("put 1x1024", "put 1x1", "get 8x1", "reduce", "ll", "stream reduce"):
            assert op in found


def test_kinds_of_the_list_know_names_as_drivers_have_them() -> None:
    names = {
        "NVIDIA A100-PCIE-40GB": (80, "PCIe"),
        "NVIDIA A100 80GB PCIe": (80, "PCIe"),
        "NVIDIA A100-SXM4-80GB": (80, "NVLink 3"),
        "NVIDIA A10G": (86, "PCIe"),
        "NVIDIA RTX A6000": (86, "PCIe"),
        "NVIDIA GeForce RTX 4090": (89, "PCIe"),
        "NVIDIA RTX 6000 Ada Generation": (89, "PCIe"),
        "NVIDIA GB200": (100, "NVLink 5"),
        "NVIDIA RTX PRO 6000 Blackwell Server Edition": (120, "PCIe"),
    }
    for name, expected in names.items():
        kind = kinds.listed(name)
        assert kind is not None, name
        assert (kind.architecture, kind.link) == expected


# ---- the rule against what was measured ---------------------------------------------------------

MEASURED = {H100: "2026-11-25-h100-x2", H200: "2026-11-23-h200-x2"}


def measured(gpu: str) -> dict[str, dict[str, dict[int, float]]]:
    """Of puts, by shape and way: microseconds by the bytes of a call."""
    found: dict = defaultdict(lambda: {"stores": {}, "engine": {}})
    for line in (RESULTS / MEASURED[gpu] / "device_x2.jsonl").read_text().splitlines():
        row = json.loads(line) if line.startswith("{") else {"peer": ""}
        way = row["peer"].removeprefix("pyshmem ")
        if way in ("stores", "engine") and row["op"].startswith("put"):
            shape = f"put {row['blocks']}x{row['threads']}"
            found[shape][way][row["bytes"] // row["blocks"]] = row["us"]
    return found


@pytest.mark.parametrize(("gpu", "other"), [(H100, H200), (H200, H100)])
def test_the_rule_predicts_the_rows_of_a_gpu_from_those_of_the_nearest(
    gpu: str, other: str
) -> None:
    """What puts take by rows by rule is at most 1.15 of what they take by rows of their own.

    Between two measured sizes a time is taken as affine in the bytes, which stores and engines are.
    """
    own, rest = ([one for one in shipped() if (one.gpu == gpu) is mine] for mine in (True, False))
    by_rule = table.choices(card(gpu, 90, "NVLink 4"), 1, [(table.text_of(rest), "f")])
    own_rows = table.choices(card(gpu, 90, "NVLink 4"), 1, [(table.text_of(own), "f")])
    ratios = []
    for shape, times in measured(gpu).items():
        cuts = [cutover.size_of("put", found[shape].rows) for found in (own_rows, by_rule)]
        assert by_rule[shape].origin.endswith(other)
        sizes = sorted(times["stores"])
        points = {*sizes, *(c for c in cuts if c < sizes[-1])}
        points |= {c - 1 for c in cuts if c < sizes[-1]}
        for nbytes in points:
            ways = ["engine" if nbytes >= cut else "stores" for cut in cuts]
            mine, theirs = (np.interp(nbytes, sizes, [times[w][s] for s in sizes]) for w in ways)
            ratios.append(theirs / mine)
    assert len(ratios) > 50
    assert max(ratios) <= 1.15


def test_rows_of_the_h200_take_the_faster_way_and_those_by_rule_nearly() -> None:
    """On two H200s, every shape of put and get over bytes, all PEs at once."""
    own, by_rule = (
        {op: cutover.size_of(op.split()[0], rows) for one in tables for op, rows in one.rows.items()
         if op.split()[0] in cutover.SHAPED}
        for tables in ([t for t in shipped() if t.gpu == gpu] for gpu in (H200, H100))
    )  # fmt: skip
    path = RESULTS / "2026-11-26-h200-x2-choices" / "choices_x2.jsonl"
    figures = [row for row in map(json.loads, path.read_text().splitlines()) if "op" in row]
    assert len({row["op"] for row in figures}) == 32
    worst, ratios, far = 0.0, [], set()
    for row in figures:
        op, ways = row["op"], (row["stores"], row["engine"])
        mine, theirs = (ways[int(row["bytes"] >= cuts[op])] for cuts in (own, by_rule))
        worst = max(worst, mine / min(ways))
        ratios.append(theirs / mine)
        far |= {op} if ratios[-1] > 1.15 else set()
    assert worst <= 1.05
    assert np.mean(ratios) <= 1.01
    # An H100's were measured at sizes four times apart; there they miss. The list may get shorter.
    assert far <= {"put 1x1", "put 8x1", "put 8x128"}


# ---- what the driver says ----------------------------------------------------------------------


class Driver:
    """libcuda and libnvidia-ml, of made-up GPUs: ``p2p`` and ``atomics`` of every pair, links up."""

    def __init__(self, p2p: int, atomics: int, links_up: int = 0, nvml: bool = True) -> None:
        self.attributes = {2: p2p, 3: atomics}
        self.links_up, self.nvml = links_up, nvml

    def load(self, name: str) -> Driver:
        if "nvidia-ml" in name and not self.nvml:
            raise OSError(name)
        return self

    def cuInit(self, flags: int) -> int:
        return 0

    def cuDeviceGet(self, device, number: int) -> int:
        device._obj.value = number
        return 0

    def cuDeviceGetP2PAttribute(self, value, attribute: int, ours, theirs) -> int:
        assert ours.value != theirs.value
        value._obj.value = self.attributes[attribute]
        return 0

    def cuDeviceGetPCIBusId(self, text, length: int, device) -> int:
        text.value = b"0000:1B:00.0"
        return 0

    def nvmlInit_v2(self) -> int:
        return 0

    nvmlShutdown = nvmlInit_v2

    def nvmlDeviceGetHandleByPciBusId_v2(self, address: bytes, handle) -> int:
        assert address == b"0000:1b:00.0"
        return 0

    def nvmlDeviceGetNvLinkState(self, handle, number: int, state) -> int:
        state._obj.value = int(number < self.links_up)
        return 0 if number < 12 else 3  # this card has 12


@pytest.mark.parametrize(
    ("name", "sm", "n_gpus", "driver", "link"),
    [
        ("X", 90, 2, Driver(1, 1), "NVLink 4"),
        ("X", 80, 2, Driver(1, 1), "NVLink 3"),
        ("X", 103, 2, Driver(1, 1), "NVLink 5"),
        ("X", 120, 2, Driver(1, 0), "PCIe"),
        ("X", 89, 2, Driver(0, 0), "none"),
        ("X", 90, 1, Driver(0, 0, links_up=12), "NVLink 4"),
        ("X", 90, 1, Driver(0, 0, links_up=0), "PCIe"),
        ("NVIDIA H800", 90, 1, Driver(0, 0, nvml=False), None),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", 90, 1, Driver(1, 1, links_up=12), "none"),
    ],
)
def test_the_link_is_asked_from_the_driver_and_not_from_the_name(
    name: str, sm: int, n_gpus: int, driver: Driver, link: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(ctypes, "CDLL", driver.load)
    monkeypatch.setattr(gpus.runtime, "gpu_count", lambda: n_gpus)
    assert gpus._link(0, name, sm) == link


def test_a_kind_has_the_bandwidth_of_its_link() -> None:
    assert gpus.kind("NVIDIA H800", 90, None) == kinds.Kind(90, "NVLink 4", 200)
    assert gpus.kind("NVIDIA H100 PCIe", 90, "NVLink 4").gbps == 450
    assert gpus.kind("A card", 120, "PCIe") == kinds.Kind(120, "PCIe", 64)
    assert gpus.kind("A card", 80, None) == kinds.Kind(80, "NVLink 3", 300)


# ---- in a job ----------------------------------------------------------------------------------

MADE_UP = """
import pyshmem
from pyshmem import cutover
from pyshmem.host.tuning import gpus, table

name = ["NVIDIA Z9", "NVIDIA H200"]  # PEs with other GPUs agree on the first one's rows
def of_this_pe():
    me = pyshmem.my_pe()
    return gpus.Gpu(name[me], gpus.kind(name[me], (110, 90)[me], ("NVLink 5", "NVLink 4")[me]))
gpus.of_this_pe = of_this_pe
with pyshmem.init(device="sim") as job:
    common = [cutover.get("reduce"), cutover.get("ll"), cutover.stream_rows("reduce")[0]]
    fused = table.choice("fused all_to_all").rows[0]
    origins = [cutover.origin(op) for op in ("reduce", "ll")]
    print(common, fused, origins, cutover.origin("put"), sep="|")
"""


def test_pes_with_other_gpus_take_the_choices_of_the_first(run_pes: Callable) -> None:
    done = run_pes(2, MADE_UP, check=True)
    first, second = sorted(line.split("|") for line in done.stdout.splitlines())
    assert first[:3] == second[:3]
    assert f"by rule from {H100}" in first[2]
    assert {first[3], second[3]} == {f"shipped, by rule from {H100}", "shipped"}


LONG = """
import pyshmem
from pyshmem.host.tuning import table
with pyshmem.init(device="sim") as job:
    many = ((job.my_pe, "way"), *((10 + k, "way") for k in range(1000)))
    own = {f"op {k}": table.Choice(many, f"PE {job.my_pe}") for k in range(3)}
    found = table.of_first_pe(own)
    assert list(found) == list(own)
    assert all(one == (((0, "way"), *many[1:]), "PE 0") for one in found.values())
    print(pyshmem.heap_info().allocations)
"""


def test_choices_that_fill_several_messages_arrive_whole(run_pes: Callable) -> None:
    assert run_pes(3, LONG, check=True).stdout.split() == ["0"] * 3


def test_names_of_rows_are_told_from_each_other() -> None:
    names = {
        cutover.row_name(op, (threads, blocks))
        for op in cutover.OPERATIONS
        for threads in cutover.THREADS
        for blocks in cutover.BLOCKS
    }
    assert len(names) == 2 * 16 + 2
    assert old_files.SHAPED == ("put", "get")
