# SPDX-License-Identifier: BSD-3-Clause
"""What a job reads from the specification's own variables."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

import pytest

PROGRAM = """
import pyshmem
pyshmem.init()
print("bytes", pyshmem.heap_info("host").nbytes)
"""


def heap_of(done) -> set[int]:
    return {int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("bytes")}


@pytest.mark.parametrize(("text", "nbytes"), [("3.5m", 7 << 19), ("4096K", 4 << 20)])
def test_the_heap_size_of_the_specification_is_read(
    text: str, nbytes: int, run_pes: Callable
) -> None:
    done = run_pes(2, PROGRAM, env={"SHMEM_SYMMETRIC_SIZE": text}, check=True)
    (size,) = heap_of(done)
    assert nbytes <= size < nbytes + (1 << 20)
    both = {"SHMEM_SYMMETRIC_SIZE": "64M", "PYSHMEM_HEAP_SIZE": text}
    assert heap_of(run_pes(2, PROGRAM, env=both, check=True)) == {size}


def test_a_heap_size_that_is_none_names_its_variable(run_pes: Callable) -> None:
    done = run_pes(2, PROGRAM, env={"SHMEM_SYMMETRIC_SIZE": "much"})
    assert done.returncode != 0
    assert "SHMEM_SYMMETRIC_SIZE is 'much', which is not a size" in done.stderr


def test_a_heap_that_no_memory_holds_is_told_as_that(run_pes: Callable) -> None:
    run_pes(
        2,
        """
        import pyshmem
        for size, kind, text in (
            (1 << 62, pyshmem.ShmemError, "Cannot allocate memory; lower PYSHMEM_HEAP_SIZE"),
            (1 << 63, ValueError, "give 0 to"), (-1, ValueError, "give 0 to"),
        ):
            try:
                pyshmem.init(heap_size=size)
            except kind as error:
                assert text in str(error), error
            else:
                raise SystemExit(f"{size} was taken")
        pyshmem.init(heap_size="1M")
        """,
        check=True,
    )


def test_the_case_of_a_device_does_not_matter(run_command: Callable) -> None:
    program = (
        "import pyshmem; from pyshmem._foreign.environment import simulator_requested; "
        "print(pyshmem.init().device, simulator_requested())"
    )
    for text in ("Sim", "sim"):
        done = run_command([sys.executable, "-c", program], 60, check=True, PYSHMEM_DEVICE=text)
        assert done.stdout == "sim True\n"
    done = run_command([sys.executable, "-c", program], 60, PYSHMEM_DEVICE="gpu")
    assert "PYSHMEM_DEVICE is 'gpu', which is not one of auto|cuda|sim|cpu|none" in done.stderr


@pytest.mark.parametrize("variable", ["SHMEM_VERSION", "SHMEM_INFO"])
def test_the_library_says_what_it_is(variable: str, run_pes: Callable) -> None:
    """Once, on PE 0; with SHMEM_INFO it also lists what can be set."""
    done = run_pes(2, PROGRAM, env={variable: "1", "PYSHMEM_HEAP_SIZE": "3M"}, check=True)
    assert done.stdout.count("OpenSHMEM 1.6\n") == 1
    listed = "PYSHMEM_HEAP_SIZE          size = 3M (PYSHMEM_HEAP_SIZE)" in done.stdout
    assert listed == (variable == "SHMEM_INFO")
    assert "OpenSHMEM" not in run_pes(1, PROGRAM, check=True).stdout


@pytest.mark.parametrize(("text", "checks"), [("1", 1), ("verbose", 1), ("0", 0)])
def test_debug_is_the_checking_mode(text: str, checks: int, run_command: Callable) -> None:
    program = "from pyshmem._core.library import setting_number; print(setting_number('CHECK'))"
    done = run_command([sys.executable, "-c", program], 60, check=True, SHMEM_DEBUG=text)
    assert done.stdout == f"{checks}\n"


@pytest.mark.parametrize(
    ("text", "bits"),
    [
        ("0", 0),
        ("1", 1),
        ("no", 0),
        ("args", 1),
        ("ORDER", 2),
        ("1,order", 3),
        ("deliver,strict", 12),
    ],
)
def test_what_is_checked_is_a_list(text: str, bits: int, run_command: Callable) -> None:
    program = "from pyshmem._core.library import setting_number; print(setting_number('CHECK'))"
    done = run_command([sys.executable, "-c", program], 60, check=True, PYSHMEM_CHECK=text)
    assert done.stdout == f"{bits}\n"


@pytest.mark.parametrize("text", ["2", "yes", "order;args", "order,", "orders"])
def test_what_is_none_of_the_list_is_told(text: str, run_pes: Callable) -> None:
    done = run_pes(1, "raise SystemExit(5)", env={"PYSHMEM_CHECK": text})
    assert f"PYSHMEM_CHECK is '{text}', which is not 0, 1 or a list of args|order" in done.stderr
    assert done.returncode == 1


AGREE = """
import os
import re
os.environ["PYSHMEM_CUTOVER_REDUCE"] = ["4K", "64K", "8K"][int(os.environ["PYSHMEM_PE"])]
import pyshmem
from pyshmem import cutover
with pyshmem.init(device="sim") as job:
    cutover.set("put", "1M")  # what was agreed stays
    print(cutover.get("reduce"), pyshmem.heap_info().allocations)
"""


def test_pes_agree_how_kernels_reduce(run_pes: Callable) -> None:
    """On PE 0's. With two ways of one reduction in a job its PEs would wait for each other for ever."""
    done = run_pes(3, AGREE, check=True)
    assert done.stdout.splitlines() == ["4096 0"] * 3
    told = re.findall(r"RuntimeWarning: 'reduce' by PYSHMEM_CUTOVER_REDUCE on PE (\d)", done.stderr)
    assert sorted(told) == ["1", "2"], done.stderr


DIFFERS = """
import os, sys
name, *texts = sys.argv[1:]
if text := texts[int(os.environ["PYSHMEM_PE"])]:
    os.environ["PYSHMEM_" + name] = text
import pyshmem
pyshmem.init(device="sim")
"""


@pytest.mark.parametrize(
    ("name", "texts", "told"),
    [
        ("CUTOVER_LL", ("", "8K"), ["ll"]),
        ("CUTOVER_LL", ("8K", ""), ["ll"]),
        ("CUTOVER_LL", ("8K", "8192"), []),
        ("CUTOVER_PUT", ("8K", "16K"), []),  # each PE's own
        ("CUTOVER_STREAMS", ("", "reduce:never=direct:8x512"), ["stream reduce"]),
    ],
)
def test_what_a_variable_says_otherwise_on_pe_0_is_told(
    name: str, texts: tuple[str, str], told: list[str], run_pes: Callable
) -> None:
    done = run_pes(2, DIFFERS, [name, *texts], check=True)
    assert (
        re.findall(r"RuntimeWarning: '([\w ]+)' by .* set PYSHMEM_\w+ alike", done.stderr) == told
    )
