# SPDX-License-Identifier: BSD-3-Clause
"""Compiles device routines that come with the package: ``pyshmem/device/jit/shipped.py`` reads them.

    python tools/device_routines.py BUILD TEXTS OBJECTS [--jobs N] [--only CALL]...
    python tools/device_routines.py --check         whether they can be made here, and else why not

BUILD: the folder with the extension modules and the library; TEXTS, OBJECTS: the archives to write.
Needs Numba, numba-cuda and NVVM, and no GPU: minutes of several cores. Kernels that call the routines as
programs do are compiled with an empty store, and what the store has then is packed. What programs call
otherwise, or for other types, is compiled at its first use.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
#: As meson.build excludes from the package.
LEFT_OUT = shutil.ignore_patterns("__pycache__", "ffi_build.py", "ffi_preamble.h", "__init__.pyi")
DTYPES = ("float32", "bfloat16", "int32", "int64")
#: Text is made for one GPU with bulk copies and one without; objects for these.
KINDS, OBJECTS_FOR = ((9, 0), (8, 0)), ((8, 0), (9, 0), (10, 0), (12, 0))
REGISTERS = 64  # the default of PYSHMEM_KERNEL_REGISTERS
THREADS, GROUPS = ("", "_warp", "_work_group"), ("", "_warp", "_work_group", "_grid")

#: Routine, without its scope: how it is called, and its scopes. ``dest`` and ``source`` are arrays of
#: one dimension, ``pe``, ``n`` and ``team`` int64, which constants and results of my_pe are.
OF_DATA: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    **dict.fromkeys(
        ("put", "get"), (("(dest, source, pe)", "(dest, source, nelems=n, pe=pe)"), THREADS)
    ),
    **dict.fromkeys(("put_nbi", "get_nbi"), (("(dest, source, pe)",), THREADS)),
    "put_signal": (("(dest, source, sig, 1, shmem.SIGNAL_SET, pe)",), THREADS),
    "p": (("(dest, source[0], pe)",), ("",)),
    "g": (("(source, pe)",), ("",)),
    **dict.fromkeys(
        ("sum_reduce", "max_reduce", "fcollect", "alltoall"),
        (("(shmem.TEAM_WORLD, dest, source, n)",), GROUPS),
    ),
    **dict.fromkeys(
        ("min_reduce", "prod_reduce"),
        (("(shmem.TEAM_WORLD, dest, source, n)",), ("_work_group",)),
    ),
    "broadcast": (("(shmem.TEAM_WORLD, dest, source, n, pe)",), GROUPS),
}
#: Of words: int32, int64 and uint64.
WORDS = ("int32", "int64", "uint64")
OF_WORDS = {
    **dict.fromkeys(("atomic_fetch", "atomic_fetch_inc", "atomic_inc"), "(dest, pe)"),
    **dict.fromkeys(
        ("atomic_fetch_add", "atomic_add", "atomic_swap", "atomic_set"), "(dest, source[0], pe)"
    ),
    "atomic_compare_swap": "(dest, source[0], source[1], pe)",
    "wait_until": "(dest, shmem.CMP_EQ, source[0])",
}
#: Of nothing, or of a signal.
OTHERS = (
    *(
        f"shmem.{name}{scope}()"
        for name in ("barrier_all", "sync_all", "quiet", "fence")
        for scope in THREADS
    ),
    *(f"shmem.team_sync{scope}(shmem.TEAM_WORLD)" for scope in GROUPS),
    *("shmem.my_pe()", "shmem.n_pes()", "shmem.signal_fetch(sig)"),
    *(f"shmem.signal_{how}(sig, 1, pe)" for how in ("set", "add")),
    "shmem.signal_op(sig, 1, shmem.SIGNAL_ADD, pe)",
    *(f"shmem.signal_wait_until{scope}(sig, shmem.CMP_EQ, 1)" for scope in THREADS),
)
#: Whose machine code comes with the package, by a block and a grid, for DTYPES. The barrier of a grid's
#: blocks is that of a team.
CALLED = (
    *("sum_reduce", "max_reduce", "broadcast", "fcollect", "alltoall"),
    *("barrier_all", "team_sync"),
)  # fmt: skip


def calls() -> Iterator[tuple[str, str]]:
    """A call, and the dtype of its arrays."""
    for name, (forms, scopes) in OF_DATA.items():
        for dtype in DTYPES:
            yield from ((f"shmem.{name}{scope}{form}", dtype) for form in forms for scope in scopes)
    for name, form in OF_WORDS.items():
        yield from ((f"shmem.{name}{form}", dtype) for dtype in WORDS)
    yield from ((call, "float32") for call in OTHERS)


# ---- in processes of their own, with the package as it will be installed ------------------------------


def stage(build: Path, folder: Path) -> None:
    """The package as it will be installed, but for what is not of Python's use."""
    shutil.copytree(ROOT / "pyshmem", folder / "pyshmem", ignore=LEFT_OUT)
    for module in (*build.glob("_native*.so"), *build.glob("_fast*.so")):
        shutil.copy(module, folder / "pyshmem" / "_core")
    library = folder / "pyshmem" / "lib"
    library.mkdir(exist_ok=True)
    shutil.copy(build / "native" / "libpyshmem.so.0", library)


def child(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    """This program again, with the package in ``folder``."""
    beside = [each for each in (os.environ.get("PYTHONPATH"),) if each]
    variables = {
        "PYTHONPATH": os.pathsep.join([str(folder), *beside]),
        "LD_LIBRARY_PATH": str(folder / "pyshmem" / "lib"),
        "NUMBA_ENABLE_CUDASIM": "0", "PYSHMEM_DEVICE": "cuda", "PYSHMEM_KERNEL_STORE": "text",
        "PYSHMEM_CACHE_DIR": str(folder / "store"), "PYSHMEM_CACHE_SIZE": "0",
        "PYTHONHASHSEED": "0",  # Numba orders variables by it: the same archives for the same sources
    }  # fmt: skip
    return subprocess.Popen(
        [sys.executable, __file__, "--child", *words], env=os.environ | variables
    )


def begin_child() -> None:
    """An editable install of the package must not be what is imported."""
    sys.meta_path[:] = [each for each in sys.meta_path if "editable" not in type(each).__module__]
    import pyshmem

    staged = os.environ["PYTHONPATH"].partition(os.pathsep)[0]
    assert str(Path(pyshmem.__file__).parents[1]) == staged


def compile_share(cc: tuple[int, ...], share: int, of: int, only: list[str]) -> None:
    """Have the store keep what one share of the calls needs."""
    begin_child()
    from types import SimpleNamespace

    from numba.cuda import codegen, dispatcher, types

    from pyshmem import device as shmem

    device = SimpleNamespace(compute_capability=cc)
    dispatcher.get_current_device = lambda: device
    codegen.devices = SimpleNamespace(get_context=lambda: SimpleNamespace(device=device))
    wanted = [one for one in calls() if not only or one[0].partition("(")[0] in only]
    for call, dtype in wanted[share::of]:
        names: dict[str, Any] = {"shmem": shmem}
        exec(f"def kernel(dest, source, sig, pe, n):\n    {call}\n", names)
        data = getattr(types, dtype)[::1]
        arguments = (data, data, types.uint64[::1], types.int64, types.int64)
        try:
            dispatcher._Kernel(names["kernel"], arguments, lto=True)
        except Exception as error:
            raise SystemExit(f"{call} of {dtype} does not compile: {error}") from error


def pack(texts: Path, objects: Path) -> None:
    """Write both archives of what the store has."""
    begin_child()
    from pyshmem._core import kept_files
    from pyshmem._foreign.numba_cuda_texts import linker_version
    from pyshmem.device.jit import shipped

    kept, routines, functions = [], {}, {}
    for path in sorted((kept_files.folder() / "routines").glob("*.ll")):
        about, code = kept_files.read(path) or ({}, b"")
        kept.append((about, json.loads(zlib.decompress(code))))
        functions.update(kept[-1][1])
        name = shipped.portable(about["key"])
        routines[name] = {word: about[word] for word in ("root", "returns", "cooperative")}
    index = {"made_of": shipped.made_of(), "routines": routines}
    write(texts, index, {name: json.dumps(each).encode() for name, each in functions.items()})
    made = dict(objects_of(kept))
    index = {"made_of": shipped.made_of(), "nvjitlink": linker_version(), "objects": sorted(made)}
    write(objects, index, made)
    print(f"{len(routines)} routines of {len(functions)} functions, {texts.stat().st_size} bytes; "
          f"{len(made)} objects, {objects.stat().st_size} bytes")  # fmt: skip


def objects_of(kept: list[tuple[dict[str, Any], dict[str, Any]]]) -> Iterator[tuple[str, bytes]]:
    """Name and code of the machine code of ``CALLED``, for each architecture."""
    from concurrent.futures import ThreadPoolExecutor

    from pyshmem._foreign.numba_cuda_texts import relocatable
    from pyshmem.device.jit import linked_collectives, routine_texts
    from pyshmem.device.jit.content_names import Function, Routine

    named = {f"{name}{scope}" for name in CALLED for scope in ("_work_group", "_grid")}

    def make(about: dict[str, Any], functions: dict[str, Any], cc: tuple[int, int]) -> Any:
        routine = Routine(
            about["root"], {name: Function(*each) for name, each in functions.items()}
        )
        library = routine_texts._library(routine, routine.root)
        suffix = ("a",) if cc >= (9, 0) else ()
        arch = "".join(map(str, (*cc, *suffix)))
        ptx = linked_collectives.ptx_of(library, (*cc, *suffix), False, False)
        code = relocatable(ptx, f"sm_{arch}", REGISTERS)
        return f"{library.name}-sm{arch}-r{REGISTERS}.cubin", code

    with ThreadPoolExecutor(os.cpu_count()) as pool:  # NVVM and nvJitLink let others run
        runs = [
            pool.submit(make, about, functions, cc)
            for about, functions in kept
            if about["key"][0] in named
            for cc in OBJECTS_FOR
            if ("cc=(9, 0)" in about["key"]) == (cc >= (9, 0))
        ]
        for run in runs:
            yield run.result()


def write(path: Path, index: dict[str, Any], members: dict[str, bytes]) -> None:
    """An archive, the same for the same members: the index first, without times."""
    from pyshmem.device.jit import shipped

    with zipfile.ZipFile(path, "w") as archive:
        for name, data in ((shipped.INDEX, json.dumps(index).encode()), *sorted(members.items())):
            about = zipfile.ZipInfo(name)
            about.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(about, data, compresslevel=9)


# ---- the program --------------------------------------------------------------------------------------


def ended(runs: list[subprocess.Popen[bytes]]) -> None:
    """Wait for all; the first that fails ends the program, and the others."""
    try:
        for run in runs:
            if run.wait():
                raise SystemExit(f"{' '.join(map(str, run.args))} failed with {run.returncode}")
    finally:
        for run in runs:
            run.kill()
            run.wait()


def lacking() -> str:
    """What a build has to have and this one lacks; empty: nothing."""
    try:
        import numba  # noqa: F401
        import numba_cuda  # noqa: F401
        from cuda.bindings import nvjitlink, nvvm

        nvvm.version(), nvjitlink.version()
    except Exception as error:  # a library that does not load has errors of its own
        return f"{type(error).__name__}: {error}"
    return ""


def main() -> None:
    """Stage the package, compile shares side by side, pack."""
    # The tools beside this one are no modules: one has the name of a package that Numba looks for.
    sys.path[:] = [each for each in sys.path if Path(each).resolve() != ROOT / "tools"]
    if sys.argv[1:] == ["--check"]:
        raise SystemExit(lacking() or 0)
    if sys.argv[1:2] == ["--child"]:
        what, *words = sys.argv[2:]
        if what == "pack":
            pack(*map(Path, words))
        else:
            cc = tuple(map(int, what.split(".")))
            compile_share(cc, int(words[0]), int(words[1]), words[2:])
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name in ("build", "texts", "objects"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--jobs", type=int, default=min(32, os.cpu_count() or 1))
    parser.add_argument("--only", action="append", default=[], help="shmem.NAME; default all")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        stage(asked.build.resolve(), folder)
        of = max(1, asked.jobs // len(KINDS))
        shares = [
            child(folder, f"{cc[0]}.{cc[1]}", str(share), str(of), *asked.only)
            for cc in KINDS
            for share in range(of)
        ]
        ended(shares)
        ended([child(folder, "pack", str(asked.texts.resolve()), str(asked.objects.resolve()))])


if __name__ == "__main__":
    main()
