# SPDX-License-Identifier: BSD-3-Clause
"""Device routines that come with the package: made by the build, and taken in place of compiling."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("cuda.bindings.nvvm", reason="NVVM is not installed")

import pyshmem
from pyshmem._core import kept_files
from pyshmem.cli import facts

ROOT = Path(__file__).parents[2]
ROUTINES = ("shmem.g", "shmem.barrier_all_work_group")
MOST = 25_000_000  # bytes of both archives

#: Prints what a process does that finds these archives beside the code, and an empty store.
PROGRAM = """
import json, sys
from pathlib import Path
from types import SimpleNamespace

import pyshmem
import numba.cuda.dispatcher as dispatcher
from numba.cuda import codegen, compiler, types
from pyshmem import device as shmem
from pyshmem._core import kept_files
from pyshmem.device.jit import shipped

device = SimpleNamespace(compute_capability=tuple(map(int, sys.argv[3].split("."))))
dispatcher.get_current_device = lambda: device
codegen.devices = SimpleNamespace(get_context=lambda: SimpleNamespace(device=device))
shipped.TEXTS, shipped.OBJECTS = map(Path, sys.argv[1:3])
if sys.argv[4] == "changed":
    kept_files.sources = lambda: "of other sources"
seen = []
plain = compiler.compile_extra
def compile_extra(*args, **kwargs):
    seen.append(kwargs["func"])
    return plain(*args, **kwargs)
compiler.compile_extra = compile_extra

def fetch(dest, source, pe):
    dest[0] = shmem.g(source, pe)

def meet(dest, source, pe):
    shmem.barrier_all_work_group()

rows = {"counts": shipped.counts()}
for kernel, debug in ((fetch, False), (meet, False), (meet, True)):
    del seen[:]
    data = types.float32[::1]
    made = dispatcher._Kernel(
        kernel, (data, data, types.int64), debug=debug, opt=not debug, lto=not debug)
    assert len(bytes(made._codelibrary.get_cubin().code)) > 1000
    rows[kernel.__name__ + "+debug" * debug] = len(seen)
rows["files"] = sorted(path.suffix for path in (kept_files.folder() / "routines").glob("*"))
print(json.dumps(rows))
"""


def build_folder(place: Path) -> Path:
    """The extension modules and the library of this installation, as a build has them."""
    from pyshmem._core import _fast, _native

    (place / "native").mkdir(parents=True)
    for module in (_fast, _native):
        (place / Path(module.__file__).name).symlink_to(module.__file__)
    built = Path(_native.__file__).parent
    library = next(
        path
        for path in (built / "native", built.parent / "lib")
        if (path / "libpyshmem.so.0").exists()
    )
    (place / "native" / "libpyshmem.so.0").symlink_to(library / "libpyshmem.so.0")
    return place


def make(place: Path, *options: str, limit: float) -> tuple[Path, Path]:
    texts, objects = place / "texts.zip", place / "objects.zip"
    command = [sys.executable, str(ROOT / "tools" / "device_routines.py")]
    command += [str(build_folder(place / "build")), str(texts), str(objects), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return texts, objects


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """Of two routines."""
    only = [word for name in ROUTINES for word in ("--only", name)]
    return make(tmp_path_factory.mktemp("shipped"), "--jobs", "2", *only, limit=280)


def run(archives: tuple[Path, Path], folder: Path, cc: str = "9.0", how: str = "same") -> dict:
    variables = {"NUMBA_ENABLE_CUDASIM": "0", "PYSHMEM_DEVICE": "cuda"}
    variables |= {"PYSHMEM_KERNEL_STORE": "text", "PYSHMEM_CACHE_DIR": str(folder)}
    variables["PYTHONHASHSEED"] = "0"  # as for the archives: Numba's text follows it
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, archives), cc, how],
        env=os.environ | variables, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("cc", ["9.0", "12.0", "8.0"])
def test_a_first_kernel_compiles_nothing_but_itself(archives, tmp_path: Path, cc: str) -> None:
    """On GPUs of one kind it is the same text; those without bulk copies have their own."""
    told = run(archives, tmp_path, cc)
    assert [told["fetch"], told["meet"], told["meet+debug"]] == [1, 1, 1]
    assert told["files"] == []  # the object, too, is the package's
    texts, objects = told["counts"]
    assert texts == 2 * (4 + 1)  # with and without bulk copies: of four dtypes, and the barrier
    assert objects == 4  # architectures


@pytest.mark.slow
def test_archives_of_other_sources_do_not_count(archives, tmp_path: Path) -> None:
    """What is compiled then, for a newer GPU, is the same text, by its name."""
    told = run(archives, tmp_path, "12.0", how="changed")
    assert told["counts"] == [0, 0]
    assert told["fetch"] > 1
    assert told["files"].count(".ll") == 2
    with zipfile.ZipFile(archives[0]) as archive:
        names = archive.namelist()
    for path in (tmp_path / "routines").glob("*.ll"):
        about, _ = kept_files.read(path) or ({}, b"")
        assert about["root"] in names


def test_what_is_no_archive_counts_as_none(tmp_path: Path) -> None:
    """In a process of its own: the store is of kernels for GPUs."""
    broken = [tmp_path / name for name in ("none", "text", "empty", "other")]
    broken[1].write_text("no archive")
    with zipfile.ZipFile(broken[2], "w"):
        pass
    with zipfile.ZipFile(broken[3], "w") as archive:
        archive.writestr("index.json", "[]")
    program = (
        "import sys, pathlib, pyshmem, pyshmem.device\n"
        "from pyshmem.device.jit import shipped\n"
        "print([shipped.index_of(pathlib.Path(path)) for path in sys.argv[1:]])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, broken)],
        env=os.environ | {"NUMBA_ENABLE_CUDASIM": "0", "PYSHMEM_DEVICE": "cuda"},
        capture_output=True, text=True, timeout=100, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == str([None] * 4)


@pytest.mark.slow
def test_info_tells_what_came_with_the_package(archives, tmp_path: Path, monkeypatch) -> None:
    assert facts.shipped(tmp_path) == (0, 0, "none: built without Numba")
    for path, what in zip(archives, ("texts", "objects"), strict=True):
        (tmp_path / f"routines-{what}.zip").symlink_to(path)
    count, nbytes, told = facts.shipped(tmp_path)
    assert (count, told) == (10 + 4, "")
    assert nbytes > 100_000
    monkeypatch.setattr(kept_files, "sources", lambda: "others")
    assert "changed" in facts.shipped(tmp_path)[2]
    for path in tmp_path.iterdir():
        path.unlink()
    (tmp_path / "routines-texts.zip").write_text("no archive")
    assert facts.shipped(tmp_path)[2].startswith("routines-texts.zip cannot be read")


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_what_comes_with_a_wheel_is_made_for_every_architecture(tmp_path: Path) -> None:
    """Assembled for each, by a block and a grid, for each dtype, in the size that a wheel may have."""
    texts, objects = make(tmp_path, limit=2900)
    assert texts.stat().st_size + objects.stat().st_size < MOST
    assert pyshmem.__version__
    with zipfile.ZipFile(objects) as archive:
        names = [name for name in archive.namelist() if name.endswith(".cubin")]
        assert all(archive.read(name).startswith(b"\x7fELF") for name in names)
    for arch in ("sm80", "sm90a", "sm100a", "sm120a"):
        here = [name for name in names if f"-{arch}-r64" in name]
        # Five routines of four dtypes by a block and a grid, and three barriers.
        assert len(here) == 2 * 5 * 4 + 3, (arch, len(here))


def test_each_call_that_is_compiled_ahead_is_of_a_routine() -> None:
    """A name that is none would end the build of a wheel, after minutes."""
    program = (
        "import importlib.util, sys, pyshmem\n"
        "from pyshmem import device\n"
        "spec = importlib.util.spec_from_file_location('made', sys.argv[1])\n"
        "made = importlib.util.module_from_spec(spec); spec.loader.exec_module(made)\n"
        "names = {call.partition('(')[0].removeprefix('shmem.') for call, _ in made.calls()}\n"
        "objects = {name + scope for name in made.CALLED for scope in ('_work_group', '_grid')}\n"
        "assert len(names) > 60 and 'put' in names, names\n"
        "print(sorted(name for name in names if not hasattr(device, name)),\n"
        "      sorted(objects - names))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(ROOT / "tools" / "device_routines.py")],
        env=os.environ | {"PYSHMEM_DEVICE": "sim"},
        capture_output=True, text=True, timeout=100, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "[] ['barrier_all_grid']"  # there is no such routine
