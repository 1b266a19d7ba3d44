# SPDX-License-Identifier: BSD-3-Clause
"""Compiled code on disk: whole or not there, made once on a host, and no need where it cannot be."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from pyshmem._core import kept_files, library

CODE = b"\x7fELF\ncode"


def test_a_file_is_read_as_it_was_written_and_only_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "some.cubin"
    assert kept_files.read(path) is None
    assert kept_files.write(path, {"entry": "e"}, CODE)
    about, code = kept_files.read(path) or ({}, b"")
    assert (about["entry"], code) == ("e", CODE)
    assert [file.name for file in path.parent.iterdir()] == ["some.cubin"]
    whole = path.read_bytes()
    for broken in (whole[:-1], whole + b"x", b"", b"{}\n" + CODE, b"[" * 100_000, b"null\n"):
        path.write_bytes(broken)
        assert kept_files.read(path) is None, broken[:20]


def test_a_file_of_another_user_is_not_read(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "some.ll"
    kept_files.write(path, {}, CODE)
    owner = path.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert kept_files.read(path) is None or owner == 0  # what root has installed is read
    monkeypatch.setattr(os, "geteuid", lambda: owner)
    assert kept_files.read(path) is not None


def test_a_folder_that_cannot_be_written_costs_time_and_no_more() -> None:
    path = Path("/proc/nowhere/some.cubin")
    assert not kept_files.write(path, {}, CODE)
    assert kept_files.kept(path, lambda: ({"a": 1}, CODE), lambda file: file[1]) == CODE


def test_what_is_not_of_use_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "some.ll"
    kept_files.write(path, {"of": "another"}, b"other")

    def use(file):
        return file[1] if file[0].get("of") == "mine" else None

    assert kept_files.kept(path, lambda: ({"of": "mine"}, CODE), use) == CODE
    assert kept_files.kept(path, pytest.fail, use) == CODE
    assert sorted(file.name for file in tmp_path.iterdir()) == ["some.ll"]  # no lock is left


def test_nothing_is_written_of_what_is_not_kept(tmp_path: Path) -> None:
    assert kept_files.kept(tmp_path / "some.ll", lambda: None, lambda file: file[1]) is None
    assert not list(tmp_path.iterdir())


def _ask(path: Path, made: Path, start, inside) -> None:
    def make():
        inside.wait()  # all others are about to ask, or wait
        with made.open("a") as file:
            file.write(f"{os.getpid()}\n")
        return {}, CODE

    start.wait()
    assert kept_files.kept(path, make, lambda file: file[1]) == CODE


def test_processes_that_ask_together_make_it_once(tmp_path: Path) -> None:
    method = multiprocessing.get_context("spawn")
    start, inside = method.Barrier(4), method.Event()
    path, made = tmp_path / "kept" / "some.ll", tmp_path / "made"
    asked = [
        method.Process(target=_ask, args=(path, made, start, inside), daemon=True) for _ in range(3)
    ]
    for one in asked:
        one.start()
    start.wait(timeout=60)
    inside.set()
    for one in asked:
        one.join(timeout=60)
    assert [one.exitcode for one in asked] == [0, 0, 0]
    assert len(made.read_text().split()) == 1
    assert [file.name for file in path.parent.iterdir()] == ["some.ll"]


def test_a_lock_whose_file_is_removed_is_taken_anew(tmp_path: Path) -> None:
    path = tmp_path / "some.ll"
    entered, go_on, second = threading.Event(), threading.Event(), threading.Event()

    def first() -> None:
        with kept_files.one_at_a_time(path):
            entered.set()
            go_on.wait(timeout=60)

    def next_one() -> None:
        with kept_files.one_at_a_time(path):
            second.set()

    threads = [threading.Thread(target=each, daemon=True) for each in (first, next_one)]
    threads[0].start()
    assert entered.wait(timeout=60)
    threads[1].start()
    assert not second.wait(timeout=0.2)
    go_on.set()
    assert second.wait(timeout=60)
    for thread in threads:
        thread.join(timeout=60)
    assert not list(tmp_path.iterdir())


def test_who_waits_too_long_goes_on_without(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(kept_files, "_PATIENCE", 0.1)
    path = tmp_path / "some.ll"
    with kept_files.one_at_a_time(path) as alone:
        assert alone
        with kept_files.one_at_a_time(path, patience=0.0) as beside:
            assert not beside
        assert kept_files.kept(path, lambda: ({}, CODE), lambda file: file[1]) == CODE


def test_a_user_without_a_home_has_a_folder_too(monkeypatch) -> None:
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("XDG_CACHE_HOME", "PYSHMEM_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", nowhere)
    assert library.cache_folder().name == f"pyshmem-{os.geteuid()}"


def test_the_folder_is_told_with_what_is_in_it(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(kept_files, "folder", lambda: tmp_path / "new")
    assert kept_files.state() == (0, 0, "")
    kept_files.write(tmp_path / "new" / "routines" / "a.ll", {}, CODE)
    count, nbytes, why = kept_files.state()
    assert (count, why) == (1, "")
    assert nbytes == (tmp_path / "new" / "routines" / "a.ll").stat().st_size
    monkeypatch.setattr(kept_files, "folder", lambda: Path("/proc/nowhere"))
    assert kept_files.state()[2]


def ages(folder: Path, monkeypatch, **days: float) -> dict[str, Path]:
    """Files in a folder that were used so many days ago, of 1,000 bytes and more each."""
    monkeypatch.setattr(kept_files, "folder", lambda: folder)
    made = {}
    for name, age in days.items():
        made[name] = folder / ("" if name == "old" else "routines") / f"{name}.ll"
        kept_files.write(made[name], {}, b"x" * 1000)
        os.utime(made[name], times=(time.time() - age * 86_400,) * 2)
    return made


def there(made: dict[str, Path]) -> set[str]:
    return {name for name, path in made.items() if path.exists()}


def test_what_was_not_used_for_long_goes_and_what_is_used_stays(
    tmp_path: Path, monkeypatch
) -> None:
    made = ages(tmp_path, monkeypatch, old=40, used=40, new=1)
    monkeypatch.setenv("PYSHMEM_CACHE_DAYS", "0")
    assert kept_files.prune() == 0
    monkeypatch.setenv("PYSHMEM_CACHE_DAYS", "30")
    assert "30 days" in kept_files.limits()
    assert kept_files.read(made["used"]) is not None
    assert kept_files.prune() == 1
    assert there(made) == {"used", "new"}


def test_beyond_the_size_those_used_longest_ago_go(tmp_path: Path, monkeypatch) -> None:
    made = ages(tmp_path, monkeypatch, old=3, middle=2, new=1)
    assert kept_files.prune() == 0
    monkeypatch.setenv("PYSHMEM_CACHE_SIZE", "2500")
    assert kept_files.prune() == 1
    assert there(made) == {"middle", "new"}
    monkeypatch.setenv("PYSHMEM_CACHE_SIZE", "0")
    assert kept_files.prune() == 0
    assert kept_files.limits() == "90 days unused"
    monkeypatch.setenv("PYSHMEM_CACHE_SIZE", "many")
    assert "PYSHMEM_CACHE_SIZE" in kept_files.limits()


def test_a_process_that_writes_keeps_to_the_limits(tmp_path: Path, monkeypatch) -> None:
    made = ages(tmp_path, monkeypatch, old=3)
    monkeypatch.setattr(kept_files, "_written", iter([0]))
    monkeypatch.setenv("PYSHMEM_CACHE_SIZE", "1000")
    assert kept_files.kept(tmp_path / "new.o", lambda: ({}, CODE), lambda file: file[1]) == CODE
    assert there(made) == set()
    assert kept_files.state()[0] == 1


def test_files_of_others_in_the_folder_stay_and_what_dead_processes_left_goes(
    tmp_path: Path, monkeypatch
) -> None:
    ages(tmp_path, monkeypatch, old=400)
    ours = ("pyshmem-begun-1", "some.ll.lock", "triton-12ab.lock")
    theirs = ("tmp1", "own.o", "calibration.json", "other.lock")
    for name in (*ours, *theirs):
        (tmp_path / name).write_bytes(b"\x7fELF")
        os.utime(tmp_path / name, (0, 0))
    (tmp_path / "deep").mkdir()
    kept_files.write(tmp_path / "deep" / "a.ll", {}, CODE)
    with kept_files.one_at_a_time(tmp_path / "held.ll"):
        os.utime(tmp_path / "held.ll.lock", (0, 0))
        assert kept_files.prune() == 1
        assert {path.name for path in tmp_path.iterdir()} == {
            *theirs, "deep", "held.ll.lock",
        }  # fmt: skip
    assert (tmp_path / "deep" / "a.ll").exists()


def test_users_of_one_folder_have_folders_of_their_own_in_it(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("PYSHMEM_CACHE_DIR", str(tmp_path))
    choose = kept_files.folder.__wrapped__
    assert choose() == tmp_path
    other = tmp_path.stat().st_uid + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    assert choose() == tmp_path / f"user-{other}"
    monkeypatch.setattr(os, "access", lambda *_: False)  # what an administrator has filled
    assert choose() == tmp_path


@pytest.mark.slow
def test_processes_that_start_together_compile_a_kernel_of_triton_once(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    script = Path(__file__).with_name("triton_once.py")
    folders = {"TRITON_CACHE_DIR": "triton", "PYSHMEM_CACHE_DIR": "kept"}
    environment = os.environ | {name: str(tmp_path / place) for name, place in folders.items()}
    environment["TRITON_INTERPRET"] = "0"
    runs = [
        subprocess.Popen(
            [sys.executable, str(script), str(tmp_path), str(k)],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for k in range(2)
    ]
    try:
        end = time.monotonic() + 120
        while not all((tmp_path / f"ready{k}").exists() for k in range(2)):
            assert time.monotonic() < end
            time.sleep(0.02)
        (tmp_path / "go").touch()
        told = sorted(run.communicate(timeout=120)[0].strip() for run in runs)
    finally:
        for run in runs:
            run.kill()
    assert told == ["0", "1"]
    assert not list((tmp_path / "kept").iterdir())  # no lock is left
