# SPDX-License-Identifier: BSD-3-Clause
"""The page "what works with what" shows what was asked and tried last, for the ranges of today."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
SUMMARY = "\x1b[32m3 failed\x1b[0m, \x1b[32m280 passed\x1b[0m, 2 skipped, 1 error in 3.21s"


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    names = ("versions_page", "versions", "resolve")
    found = {name: importlib.import_module(name) for name in names}
    for name in names:  # they are programs, not modules that others should find
        monkeypatch.delitem(sys.modules, name)
    return found


def test_the_page_is_up_to_date(tools: dict[str, ModuleType]) -> None:
    page = tools["versions_page"]
    text = page.PAGE.read_text(encoding="utf-8")
    assert text == page.made(text, page.read()), "run tools/versions_page.py"


def test_the_resolver_was_asked_for_the_extras_as_they_are(tools: dict[str, ModuleType]) -> None:
    page, resolve = tools["versions_page"], tools["resolve"]
    extras = page.project()["optional-dependencies"]
    rows = {row["name"]: row for row in page.read()["resolved"]}
    assert list(rows) == [beside.name for beside in resolve.ROWS], "run make resolve"
    for row in rows.values():
        assert row["asked"] == {name: extras[name] for name in resolve.EXTRAS}, "run make resolve"
        for name, answer in row["extras"].items():
            assert answer["fits"] != bool(answer["why"]), name


def test_all_extras_are_asked_for_or_are_for_developers(tools: dict[str, ModuleType]) -> None:
    extras = set(tools["versions_page"].project()["optional-dependencies"])
    left_out = {"ucx", "transformers"}  # one asks for nothing else, one for what torch's users have
    assert extras - set(tools["resolve"].EXTRAS) - left_out == {"test", "lint", "docs", "dev"}


def test_what_the_ranges_end_at_was_tried(tools: dict[str, ModuleType]) -> None:
    page = tools["versions_page"]
    data = page.read()

    def of(package: str) -> list[tuple[int, ...]]:
        rows = [row["versions"] for row in data["tried"] if package in row["versions"]]
        return sorted(tuple(map(int, row[package].split("+")[0].split("."))) for row in rows)

    oldest = tuple(map(int, page.oldest("sim", "numba").split(".")))
    below = page.requirement("torch", "torch").partition("<")[2].partition(",")[0]
    major, minor = map(int, below.split("."))
    assert of("numba")[0] == oldest
    assert of("torch")[-1][:2] == (major, minor - 1)
    for row in data["tried"]:
        assert all(suite["passed"] for suite in row["suites"].values()), row["name"]


def test_what_was_not_tried_yet_is_named(tools: dict[str, ModuleType]) -> None:
    page, data = tools["versions_page"], tools["versions_page"].read()
    names = {row["name"] for part in ("tried", "tried not yet") for row in data[part]}
    assert names == {each.name for each in tools["versions"].ENVIRONMENTS}
    for row in data["tried not yet"]:
        assert row["name"] in page.PAGE.read_text(encoding="utf-8").partition("Not yet: ")[2]


def test_verdicts_are_read_from_the_last_lines(tools: dict[str, ModuleType]) -> None:
    verdict = tools["versions"].verdict
    text = f"FAILED tests/unit/test_a.py::test_b[1] - x\nERROR tests/c.py::test_d\n{SUMMARY}\n"
    plain = text.replace("\x1b[32m", "").replace("\x1b[0m", "")
    counts = {"passed": 280, "failed": 4, "skipped": 2}
    assert verdict(plain) == {**counts, "failures": ["test_b", "test_d"], "ended": True}
    two = "[0] 5 passed, 1 skipped in 1.20s\n[1] 5 passed, 1 skipped in 1.21s (0:00:01)\n"
    assert verdict(two, False)["passed"] == 5
    assert verdict(two, False)["ended"] is False


def test_what_did_not_go_well_is_bold(tools: dict[str, ModuleType]) -> None:
    page = tools["versions_page"]
    suite = {"passed": 3, "failed": 1, "skipped": 0, "failures": ["test_a"], "ended": False}
    row = {"name": "n", "versions": {}, "suites": {"unit": suite}, "day": "d", "commit": "c"}
    text = page._tried([row])
    assert "3 passed, **1 failed**: `test_a`, **did not end**" in text
    nothing = suite | {"passed": 0, "failed": 0, "ended": True}
    assert "**no test ran**" in page._counts(nothing)


def test_reasons_are_those_of_pip(tools: dict[str, ModuleType]) -> None:
    text = (
        "ERROR: Cannot install torch[aaaa,bbbb,cccc]==2.15.0 and x<2 because these package "
        "versions have conflicting dependencies.\nERROR: ResolutionImpossible: for help visit somewhere"
    )
    assert tools["resolve"].reason(text) == "not together: torch[…]==2.15.0 and x<2"
    text = "\n    torch 2.15 depends on triton==3.9\n    The user requested triton<3.9\n"
    expected = "torch 2.15 depends on triton==3.9; asked for triton<3.9"
    assert tools["resolve"].reason(text) == expected
