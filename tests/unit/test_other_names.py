# SPDX-License-Identifier: BSD-3-Clause
"""Names of other libraries are told what does the same here, and exist nowhere by themselves."""

from __future__ import annotations

import copy
import re
import subprocess
import sys

import pytest

import pyshmem
from pyshmem._core.other_names import OF_JOB, OF_PACKAGE


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
        ("nonsense", r"^module pyshmem has no attribute 'nonsense'$"),
    ],
)
def test_a_name_of_another_library_is_told_what_is_meant(name: str, told: str) -> None:
    with pytest.raises(AttributeError, match=told):
        getattr(pyshmem, name)


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
