# SPDX-License-Identifier: BSD-3-Clause
"""Device routines from files: the second process gets the same code without Numba's front end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("cuda.bindings.nvvm", reason="NVVM is not installed")

#: Prints, for kernels that call routines, how many functions Numba compiled, how often it linked, and a
#: digest of the PTX.
PROGRAM = """
import hashlib, json, re, struct, sys
from collections import Counter
from types import SimpleNamespace

import pyshmem
import numba.cuda.dispatcher as dispatcher
from numba.cuda import codegen, compiler, types
from numba.cuda.cudadrv import driver
from pyshmem import device as shmem

CC = tuple(map(int, sys.argv[1].split(".")))
device = SimpleNamespace(compute_capability=CC)
dispatcher.get_current_device = lambda: device
codegen.devices = SimpleNamespace(get_context=lambda: SimpleNamespace(device=device))
seen = []
plain = compiler.compile_extra
def compile_extra(*args, **kwargs):
    seen.append(kwargs["func"])
    return plain(*args, **kwargs)
compiler.compile_extra = compile_extra
links = []
complete = driver._Linker.complete
def count_and_complete(linker):
    links.append(linker)
    return complete(linker)
driver._Linker.complete = count_and_complete

def put(dest, source):
    shmem.put_work_group(dest, source, 1)

def twice(dest, source):
    shmem.put_work_group(dest, source, 1)
    shmem.put_work_group(dest, source, nelems=4, pe=0)
    shmem.barrier_all_work_group()

def fetch(dest, source):
    dest[0] = shmem.g(source, 1)

def told(dest, sig):
    # Of int64: what sends the data and what sends the signal have equal callees.
    shmem.put_signal_work_group(dest, dest, sig, 1, shmem.SIGNAL_SET, 1)

# Of machine code alone: symbols have numbers that a process counts, whose digits count as well.
def nbytes_of_code(elf):
    (first,), (entry, count) = struct.unpack_from("<Q", elf, 40), struct.unpack_from("<HH", elf, 58)
    found = [struct.unpack_from("<IIQQQQ", elf, first + k * entry) for k in range(count)]
    return sum(nbytes for _, _, flags, _, _, nbytes in found if flags & 4)

DATA = types.float32[::1]
def code_of(kernel, debug=False, kinds=(DATA, DATA)):
    del seen[:], links[:]
    made = dispatcher._Kernel(kernel, kinds, debug=debug, opt=not debug, lto=False)
    library = made._codelibrary
    text = library.get_asm_str()
    cubin = bytes(library.get_cubin().code)
    assert library._entry_name.encode() in cubin, library._entry_name
    size = nbytes_of_code(cubin)
    names = dict.fromkeys(re.findall(r"_ZN\\w+", text))  # of a process, but for the routines'
    for number, name in enumerate(names):
        text = re.sub(rf"\\b{re.escape(name)}\\b", f"n{number}", text)
    opcodes = Counter(re.findall(r"(?m)^\\s+(?:@!?%p\\d+ )?([a-z][\\w.]+)\\s", text))
    return {"compiled": len(seen), "linked": len(links), "opcodes": opcodes, "size": size,
            "ptx": hashlib.sha256(text.encode()).hexdigest(),
            "called": [one.routine for one in library.pyshmem_called],
            "registers": library._max_registers}

rows = {"put": code_of(put), "twice": code_of(twice), "fetch": code_of(fetch),
        "again": code_of(put), "int64": code_of(told, kinds=(types.int64[::1], types.uint64[::1]))}
if "debug" in sys.argv:
    rows["debug"] = code_of(twice, debug=True)
    whole, _ = compiler.compile_all(
        twice, types.void(types.float32[::1], types.float32[::1]), device=False, cc=CC, debug=True,
        output="ptx", opt=False, abi="numba")
    defined = r"(?s)\\.weak \\.func[^;{]*?barrier_all_work_group\\w*\\s*\\([^)]*\\)\\s*\\{"
    rows["whole"] = bool(re.search(defined, "".join(whole)))
print(json.dumps(rows))
"""


def run(folder: Path, cc: str = "9.0", *words: str, store: str = "text") -> dict:
    variables = {"NUMBA_ENABLE_CUDASIM": "0", "PYSHMEM_DEVICE": "cuda"}
    variables |= {"PYSHMEM_KERNEL_STORE": store, "PYSHMEM_CACHE_DIR": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, cc, *words],
        env=os.environ | variables, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """The folder after a process that found it empty, and what that process said."""
    folder = tmp_path_factory.mktemp("store")
    return folder, run(folder)


#: What differs between a first process and a second one.
COUNTS = {"compiled": 0, "linked": 0}


def names_of(folder: Path) -> set[str]:
    return {path.name for path in (folder / "routines").iterdir()}


def texts_of(folder: Path) -> set[str]:
    """Of routines as text: another test may have made objects besides."""
    return {name for name in names_of(folder) if name.endswith(".ll")}


@pytest.mark.slow
def test_a_second_process_compiles_the_kernel_alone_to_the_same_code(first) -> None:
    folder, cold = first
    assert cold["put"]["compiled"] > 20
    assert cold["again"]["compiled"] == 1
    assert (cold["put"]["linked"], cold["again"]["linked"]) == (1, 0)
    assert {name.rpartition("-")[0] for name in names_of(folder)} == {
        "put_work_group", "put_signal_work_group", "barrier_all_work_group", "g",
    }  # fmt: skip
    assert all(name.endswith(".ll") for name in names_of(folder))  # no lock, nothing half written
    routines = len(names_of(folder))
    warm = run(folder, "9.0", "debug")
    assert warm["whole"]  # what is not launched has all its code
    for kernel, row in cold.items():
        assert warm[kernel]["compiled"] == 1, kernel
        assert warm[kernel]["linked"] == 0, kernel
        assert warm[kernel] | COUNTS == row | COUNTS, kernel
    assert warm["debug"]["called"] == ["barrier_all_work_group"]  # as machine code; put is inlined
    assert warm["twice"]["called"] == []
    assert warm["twice"]["registers"] == 64
    assert len(names_of(folder)) == routines + 1  # the barrier's object


@pytest.mark.slow
def test_files_that_are_broken_or_anothers_are_made_again(first) -> None:
    folder, cold = first
    routines = folder / "routines"
    before = names_of(folder)
    for path in routines.iterdir():
        whole = path.read_bytes()
        if path.name.startswith("put_work"):
            path.write_bytes(whole[: len(whole) // 2])
        elif path.name.startswith("g-"):  # whole, of another name
            (other,) = routines.glob("barrier*")
            path.write_bytes(other.read_bytes())
    (fetch,) = (path for path in folder.glob("kernel-*") if b"5fetch" in path.read_bytes())
    twice = [path for path in folder.glob("kernel-*") if b"5twice" in path.read_bytes()]
    for path in twice:
        path.write_bytes(fetch.read_bytes())
    fetch.write_bytes(b"")
    again = run(folder)
    assert (again["fetch"]["linked"], again["twice"]["linked"]) == (1, 1)
    assert again["put"]["compiled"] > 20
    assert again["fetch"]["compiled"] > 1
    assert {name: row["ptx"] for name, row in again.items()} == {
        name: row["ptx"] for name, row in cold.items()
    }
    assert names_of(folder) == before
    last = run(folder)
    assert last["put"]["compiled"] == 1
    assert not any(row["linked"] for row in last.values())


@pytest.mark.long
def test_another_architecture_has_files_of_its_own_and_without_the_store_there_are_none(
    first, tmp_path: Path
) -> None:
    folder, cold = first
    before = texts_of(folder)
    other = run(folder, "8.0")
    assert other["put"]["linked"] == 1
    assert other["put"]["compiled"] > 20
    assert len(texts_of(folder)) == 2 * len(before)
    none = run(tmp_path / "none", store="none")
    assert none["put"]["compiled"] > 20
    assert not (tmp_path / "none").exists()
    for kernel in ("put", "fetch", "int64"):  # inlined as without the store
        assert none[kernel]["opcodes"] == cold[kernel]["opcodes"], kernel


@pytest.mark.slow
def test_where_nothing_can_be_written_each_process_compiles() -> None:
    rows = run(Path("/proc/nowhere"))
    assert rows["put"]["compiled"] > 20
    assert rows["again"]["compiled"] == 1
