# SPDX-License-Identifier: BSD-3-Clause
"""Names of other libraries are told what does the same here, and exist nowhere by themselves."""

from __future__ import annotations

import ast
import copy
import importlib
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyshmem
from pyshmem._core.other_names import OF_ARRAY, OF_HANDLES, OF_JOB, OF_KERNELS, OF_PACKAGE


@pytest.mark.parametrize("name", OF_PACKAGE)
def test_what_a_name_of_another_library_is_here_exists(name: str) -> None:
    assert name not in pyshmem.__all__
    for routine in re.findall(r"pyshmem\.([A-Za-z_]\w*)", OF_PACKAGE[name]):
        assert hasattr(pyshmem, routine), routine


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("allreduce", r"pyshmem has no allreduce: .*pyshmem\.sum_reduce\(dest, source\)"),
        ("reduce", r"sum_reduce"),
        ("rank", r"pyshmem\.my_pe\(\)"),
        ("Get_size", r"pyshmem\.n_pes\(\)"),
        ("bcast", r"broadcast\(dest, source, root\)"),
        ("barrier", r"barrier_all"),
        ("send", r"pyshmem\.put"),
        ("recv", r"pyshmem\.get"),
        ("all_gather", r"fcollect"),
        ("shmem_put", r"it is pyshmem\.put; the arrays' dtype is the type$"),
        ("shmem_int_put", r"it is pyshmem\.put;"),
        ("double_sum_reduce", r"it is pyshmem\.sum_reduce;"),
        ("nvshmem_putmem_signal", r"it is pyshmem\.put_signal;"),
        ("ncclAllReduce", r"sum_reduce\(dest, source\)"),
        ("MPI_Bcast", r"broadcast\(dest, source, root\)"),
        ("nvshmem_malloc", r"pyshmem\.zeros"),
        ("atomic_cas", r"pyshmem\.atomic_compare_swap"),
        ("atomic_sub", r"pyshmem\.atomic_add\(dest, -value, pe\)"),
        ("signal_wait", r"pyshmem\.signal_wait_until"),
        ("CMP_NEQ", r"pyshmem\.CMP_NE$"),
        ("CMP_GEQ", r"has no CMP_GEQ: pyshmem\.CMP_GE$"),
        ("LE", r"pyshmem\.CMP_LE$"),
        ("SIGNAL_SUM", r"pyshmem\.SIGNAL_ADD$"),
        ("num_ranks", r"pyshmem\.n_pes\(\)"),
        ("put_nb", r"pyshmem\.put_nbi\(dest, source, pe\), which pyshmem\.quiet"),
        ("scatter", r"get\(part, whole\[me \* n : \(me \+ 1\) \* n\], root\)"),
        ("allreduce_max", r"pyshmem\.max_reduce"),
        ("float32", r"np\.float32"),
        ("flush", r"pyshmem\.quiet\(\)$"),
        ("linspace", r"pyshmem\.array\(np\.linspace"),
        ("run", r"pyshmem\.launch\(function, 4\)"),
        ("asnumpy", r"pyshmem\.to_numpy\(array\)"),
        ("Stream", r"pyshmem\.streams\.Stream\(\)"),
        ("Teams", r"pyshmem\.TEAM_WORLD$"),
        ("get_unique_id", r"python -m pyshmem run -n 4"),
        ("team_split_strided", r"split_strided"),
        ("put_mem", r"it is pyshmem\.put;"),
        ("barrierAll", r"^module pyshmem has no barrierAll: it is pyshmem\.barrier_all$"),
        ("MY_PE", r"it is pyshmem\.my_pe$"),
        ("Put", r"it is pyshmem\.put$"),
        ("nonsense", r"^module pyshmem has no attribute 'nonsense'$"),
        ("shmem_nonsense", r"^module pyshmem has no attribute 'shmem_nonsense'$"),
    ],
)
def test_a_name_of_another_library_is_told_what_is_meant(name: str, told: str) -> None:
    with pytest.raises(AttributeError, match=told):
        getattr(pyshmem, name)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("allreduce", "sum_reduce"),
        ("rank", "my_pe"),
        ("put_block", "put_work_group"),
        ("putWorkGroup", "put_work_group"),
        ("nvshmemx_putmem_block", "put_work_group"),
        ("nvshmem_int_p", "p"),
        ("atomic_cas", "atomic_compare_swap"),
        ("signal_wait", "signal_wait_until"),
        ("CMP_GTE", "CMP_GE"),
        ("my_rank", "my_pe"),
        ("barrier_block", "barrier_all_work_group"),
        ("put_thread", "put"),
    ],
)
def test_kernels_are_told_their_names(name: str, told: str) -> None:
    from pyshmem import device

    assert hasattr(device, told)
    with pytest.raises(AttributeError, match=rf"has no {name}: it is pyshmem\.device\.{told}$"):
        getattr(device, name)
    with pytest.raises(AttributeError, match=r"^module pyshmem\.device has no attribute 'malloc'$"):
        device.malloc  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("package", OF_KERNELS)
def test_kernels_are_told_what_is_elsewhere_or_called_otherwise(package: str) -> None:
    """What a text names, as ``signal_wait_until(``, is there; no name of the table is ours."""
    if package.endswith("triton"):
        pytest.importorskip("triton")
    module = importlib.import_module(package)
    for name, told in OF_KERNELS[package].items():
        assert name not in module.__all__
        with pytest.raises(
            AttributeError, match=rf"^module {package} has no {name}: {re.escape(told)}$"
        ):
            getattr(module, name)
        for routine in re.findall(
            r"(?<![.\w])((?:signal|quiet|ptr|put_signal|team_sync)\w*)\(", told
        ):
            assert routine in module.__all__, routine
    if package.endswith("device"):
        with pytest.raises(AttributeError, match="team_sync_grid"):
            getattr(module, "barrier_all_grid")  # noqa: B009


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("putmem", "put"),
        ("put_block", "put"),
        ("nvshmemx_getmem_block", "get"),
        ("barrier_all", "barrier"),
    ],
)
def test_kernels_of_triton_are_told_their_names(name: str, told: str) -> None:
    pytest.importorskip("triton")
    import pyshmem.triton as shmem

    with pytest.raises(AttributeError, match=rf"has no {name}: it is pyshmem\.triton\.{told}$"):
        getattr(shmem, name)
    with pytest.raises(AttributeError, match=r"^module pyshmem\.triton has no attribute 'malloc'$"):
        shmem.malloc  # noqa: B018


def test_a_team_has_such_names_too() -> None:
    with pyshmem.init(device="none", heap_size="1M"):
        team = pyshmem.TEAM_WORLD
        for name, told in (
            ("rank", r"team\.my_pe\(\)"),
            ("Get_size", r"team\.n_pes\(\)"),
            ("barrier", r"team\.sync\(\)"),
            ("allreduce", r"with team=: .*pyshmem\.sum_reduce"),
            ("broadcast", r"pyshmem\.broadcast\(dest, source, \.\.\., team=team\)"),
            ("nonsense", r"^the team has no attribute 'nonsense'$"),
        ):
            assert not hasattr(pyshmem.Team, name)
            with pytest.raises(AttributeError, match=told):
                getattr(team, name)


@pytest.mark.parametrize("kind", OF_HANDLES)
def test_what_stands_for_something_has_such_names_too(kind: str) -> None:
    made = {
        "lock": pyshmem.Lock, "context": pyshmem.Context, "request": pyshmem.Request,
        "stream": pyshmem.streams.Stream, "graph": pyshmem.streams.Graph,
    }[kind]  # fmt: skip
    one = object.__new__(made)
    for name, told in OF_HANDLES[kind].items():
        with pytest.raises(AttributeError, match=rf"^the {kind} has no {name}: {re.escape(told)}$"):
            getattr(one, name)
        for method in re.findall(rf"{kind}\.(\w+)\(", told):
            assert hasattr(made, method)
    with pytest.raises(AttributeError, match=f"^the {kind} has no attribute 'shape'$"):
        one.shape  # noqa: B018
    assert not hasattr(one, "__array_interface__")


def test_a_context_names_the_routines_of_the_package() -> None:
    told = r"^the context has no put: routines are the package's, with ctx=: pyshmem\.put\("
    with pytest.raises(AttributeError, match=told):
        pyshmem.CTX_DEFAULT.put  # type: ignore[attr-defined]  # noqa: B018


def test_an_array_has_such_names_too() -> None:
    with pyshmem.init(device="none", heap_size="1M"):
        array = pyshmem.zeros(4)
        for name, told in (
            ("append", r"pyshmem\.realloc\(array, shape\)"),
            ("allreduce", r"the package's: .*pyshmem\.sum_reduce"),
            ("send", r"one side is enough"),
            ("free", r"pyshmem\.free\(array\)$"),
            ("cuda", r"pyshmem\.to_numpy"),
            ("nonsense", r"^an array of a symmetric heap has no attribute 'nonsense'$"),
        ):
            assert not hasattr(pyshmem.SymmetricArray, name)
            with pytest.raises(AttributeError, match=told):
                getattr(array, name)
        for name in OF_ARRAY.keys() & set(dir(np.ndarray)):
            assert hasattr(array, name)  # NumPy's own
        for given in ((np.ones(4), 0), (np.arange(2), 1), ([1, 2], 7.0), (1, 0), (array, 0, 4)):
            with pytest.raises(
                TypeError, match=r"To another PE it is pyshmem\.put\(dest, source, pe"
            ):
                array.put(*given)
        assert array.tolist() == [0, 0, 0, 0]
        np.put(array, [1, 2], 7.0)
        array.put(3, 8.0, mode="clip")
        assert array.tolist() == [0, 7, 7, 8]


def test_python_adds_no_guess_of_its_own() -> None:
    code = "import pyshmem\npyshmem.allreduce(1)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "sum_reduce(dest, source)" in done.stderr
    assert "Did you mean" not in done.stderr


def test_a_job_has_such_names_too() -> None:
    with pyshmem.init(device="none", heap_size="1M") as job:
        for name in ("rank", "Get_rank"):
            with pytest.raises(AttributeError, match=r"the number of this PE is job\.my_pe"):
                getattr(job, name)
        for name in ("size", "world_size"):
            with pytest.raises(AttributeError, match=r"the number of PEs is job\.n_pes"):
                getattr(job, name)
        with pytest.raises(AttributeError, match=r"routine of the package: pyshmem\.barrier_all"):
            job.barrier()  # type: ignore[attr-defined]
        with pytest.raises(AttributeError, match="the job has no attribute 'nonsense'"):
            job.nonsense  # type: ignore[attr-defined]  # noqa: B018
        assert copy.copy(job).my_pe == 0
        assert not any(name in vars(job) for name in OF_JOB)


def test_a_pe_that_a_program_without_a_launcher_does_not_have() -> None:
    with pyshmem.init(device="none", heap_size="1M"):
        array = pyshmem.zeros(1)
        told = r"1 is outside the team of 1 PE \(0\.\.0\): this job has one PE.*pyshmem run -n 2"
        with pytest.raises(ValueError, match=f"pe {told}"):
            pyshmem.put(array, array, 1)
        with pytest.raises(ValueError, match=f"root {told}"):
            pyshmem.broadcast(array, array, 1)
        with pytest.raises(ValueError, match=r"pe -1 is outside the team of 1 PE \(0\.\.0\)$"):
            pyshmem.put(array, array, -1)


ROOT = Path(pyshmem.__file__).parent
#: Classes with a ``__getattr__`` of their own, and how an object of each is made, in a job of one PE.
OBJECTS: dict[str, Any] = {
    "_core/arrays/checks.py": lambda: pyshmem.zeros(1),
    "_core/contract_groups.py": lambda: importlib.import_module("pyshmem._core.contract").STATE,
    "host/job/handles.py": lambda: pyshmem.CTX_DEFAULT,
    "host/job/runtime.py": lambda: importlib.import_module("pyshmem.host.job.runtime").current(),
    "host/teams/team.py": lambda: pyshmem.TEAM_WORLD,
    "interop/iris/ccl.py": lambda: importlib.import_module("pyshmem.interop.iris.ccl").CCL(None),
}


def _with_a_getattr() -> list[tuple[str, bool]]:
    """Files in which a module, or a class (true), answers for names by itself."""
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        name, text = path.relative_to(ROOT).as_posix(), path.read_text()
        if "__getattr__" not in text:
            continue
        tree = ast.parse(text)
        if any(
            "__getattr__" in ast.unparse(one) for one in tree.body if type(one) is not ast.ClassDef
        ):
            found.append((name, False))
        if any("__getattr__" in ast.unparse(one) for one in tree.body if type(one) is ast.ClassDef):
            found.append((name, True))
    return found


@pytest.mark.parametrize(("file", "in_class"), _with_a_getattr())
def test_hasattr_is_false_for_what_is_not_there(file: str, in_class: bool) -> None:
    """Of each name that the file mentions, which are those that it answers for: it never raises."""
    path = ROOT / file
    names = {
        one.value
        for one in ast.walk(ast.parse(path.read_text()))
        if isinstance(one, ast.Constant) and isinstance(one.value, str) and one.value.isidentifier()
    }
    module = ".".join(("pyshmem", *path.relative_to(ROOT).with_suffix("").parts))
    with pyshmem.init(device="none", heap_size="1M"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # names that have moved
        try:
            asked = (
                OBJECTS[file]()
                if in_class
                else importlib.import_module(module.removesuffix(".__init__"))
            )
        except (ImportError, pyshmem.UnsupportedError) as error:
            pytest.skip(f"{module} cannot be imported here: {error}")
        assert not hasattr(asked, "nonsense")
        for name in names:
            hasattr(asked, name)


@pytest.mark.parametrize(
    ("module", "name", "told"),
    [
        ("pyshmem.interop.iris", "gluon", r"iris\.gluon is not in pyshmem: .*pyshmem\.gluon"),
        ("pyshmem.interop.triton_dist.language", "tma", r"dl\.tma is not in pyshmem: .*compiler"),
        ("pyshmem.interop.triton_dist.kernels.nvidia", "ag_gemm", r"all_gather_matmul"),
    ],
)
def test_what_is_left_out_of_other_libraries_says_what_there_is(
    module: str, name: str, told: str
) -> None:
    pytest.importorskip("triton")
    package = importlib.import_module(module)
    with pytest.raises(AttributeError, match=told) as caught:
        getattr(package, name)
    assert isinstance(caught.value, pyshmem.UnsupportedError)
    with pytest.raises(ImportError, match=told) as refused:
        exec(f"from {module} import {name}")
    assert isinstance(refused.value, pyshmem.UnsupportedError)


@pytest.mark.parametrize(
    ("module", "told"),
    [
        ("iris.experimental.iris_gluon", r"iris\.experimental is not in pyshmem: .*pyshmem\.gluon"),
        ("iris.x", r"collectives of tiles"),
        ("triton_dist.kernels.nvidia.allgather_gemm", r"pyshmem\.fused\.all_gather_matmul"),
        ("triton_dist.layers.nvidia", r"triton_dist\.layers is not in pyshmem: pyshmem\.fused"),
    ],
)
def test_modules_that_are_left_out_say_so_to_who_imports_them(module: str, told: str) -> None:
    pytest.importorskip("triton")
    with pytest.raises(ImportError, match=told) as caught:
        importlib.import_module(f"pyshmem.interop.{module}")
    assert isinstance(caught.value, pyshmem.UnsupportedError)


def test_what_is_named_in_place_of_modules_is_there() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    fused = importlib.import_module("pyshmem.fused")
    nvidia = importlib.import_module("pyshmem.interop.triton_dist.kernels.nvidia")
    assert {*nvidia._MODULES.values(), *nvidia._OPERATORS.values()} <= set(fused.__all__)


def test_the_page_says_why_of_each_name_of_iris_that_is_left_out() -> None:
    pytest.importorskip("triton")
    iris = importlib.import_module("pyshmem.interop.iris")
    names = [*iris._ABSENT, *(f"ccl.{name}" for name in iris.ccl._ABSENT)]
    page = (ROOT.parent / "docs" / "triton.md").read_text(encoding="utf-8")
    table = page.partition("names of later versions of Iris")[2].partition("\n\n")[0]
    assert [name for name in names if f"`{name}`" not in table] == []
    for name in re.findall(r"`((?:ccl\.)?\w+)`", "".join(re.findall(r"^\| (.*?) \|", table, re.M))):
        owner = iris.ccl.CCL(None) if name.startswith("ccl.") else iris
        assert not hasattr(owner, name.removeprefix("ccl.")), f"{name} is here"
