# SPDX-License-Identifier: BSD-3-Clause
"""Requests that do not complete, or whose program ends before they do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

LATE = """
import pyshmem

with pyshmem.init() as job:
    dest, source = pyshmem.zeros(4, int), pyshmem.ones(4, int)
    told = pyshmem.zeros(1, int)
    if job.my_pe == 0:
        request = pyshmem.sum_reduce_nb(dest, source)
        try:
            request.wait()
        except pyshmem.ShmemTimeout as error:
            print(error)
        pyshmem.p(told, 1, 1)
    else:
        while not pyshmem.test(told, pyshmem.CMP_EQ, 1):
            pass
        request = pyshmem.sum_reduce_nb(dest, source)
    request.wait()
    print(job.my_pe, dest[0])
"""


def test_a_wait_for_a_late_pe_says_where_all_stand_and_can_be_made_again(run_pes: Callable) -> None:
    done = run_pes(2, LATE, env={"PYSHMEM_TIMEOUT": "1"}, timeout=60, check=True)
    assert "sum_reduce_nb took longer than 1 s (PYSHMEM_TIMEOUT); the PEs stand:" in done.stdout
    assert "in sum_reduce_nb for" in done.stdout
    assert sorted(done.stdout.splitlines()[-2:]) == ["0 2", "1 2"]


LEFT = """
import pyshmem

with pyshmem.init() as job:
    dest, source = pyshmem.zeros(4, int), pyshmem.ones(4, int)
    request = pyshmem.sum_reduce_nb(dest, source)
    if job.my_pe == 0:
        request.wait()
        print(dest[0])
request.wait()
print("ended", request.test())
"""


def test_finalize_completes_what_is_outstanding(n_pes: int, run_pes: Callable) -> None:
    done = run_pes(n_pes, LEFT, timeout=60, check=True)
    assert sorted(done.stdout.splitlines()) == [str(n_pes)] + ["ended True"] * n_pes


BUSY = """
import sys, time
from pathlib import Path
import pyshmem

folder, busy = Path(sys.argv[1]), int(sys.argv[2])
with pyshmem.init() as job:
    request = pyshmem.sync_nb()
    if job.my_pe == busy:
        while len(list(folder.glob("came*"))) < job.n_pes - 1:  # in no call of the library
            time.sleep(0.01)
    request.wait()
    (folder / f"came{job.my_pe}").touch()
"""


@pytest.mark.parametrize("busy", [0, 3])
@pytest.mark.parametrize("node_size", [0, 1, 2, 3])
def test_nobody_waits_for_a_pe_that_has_no_work_in_it(
    node_size: int, busy: int, run_pes: Callable, tmp_path: Path
) -> None:
    settings = {"PYSHMEM_NODE_SIZE": str(node_size), "PYSHMEM_TIMEOUT": "20"}
    run_pes(4, BUSY, [tmp_path, busy], env=settings, timeout=60, check=True)
    assert len(list(tmp_path.glob("came*"))) == 4


DIES = """
import os
import pyshmem

with pyshmem.init() as job:
    request = pyshmem.sync_nb() if job.my_pe == 0 else os._exit(3)
    try:
        while not request.test():
            pass
    except pyshmem.PeerDied as error:
        print("told")
        raise
"""


def test_who_only_tests_learns_of_a_dead_pe(run_pes: Callable) -> None:
    done = run_pes(2, DIES, timeout=60)
    assert done.returncode
    assert "told" in done.stdout


NOT_WAITED = """
import pyshmem
with pyshmem.init(heap_size="1M") as job:
    a, b = pyshmem.full(4, 1.0 + job.my_pe), pyshmem.zeros(4)
    kept = pyshmem.sum_reduce_nb(b, a)  # line 5
    done = pyshmem.sync_nb()
    done.wait()
"""


@pytest.mark.parametrize(("check", "line"), [("0", 3), ("1", 5)])
def test_a_request_that_nobody_waited_for_is_told_once_at_finalize(
    check: str, line: int, run_pes: Callable
) -> None:
    done = run_pes(
        2,
        NOT_WAITED.lstrip("\n").replace("line 5", "here"),
        env={"PYSHMEM_CHECK": check},
        check=True,
    )
    told = [one for one in done.stderr.splitlines() if "was not waited for" in one]
    assert len(told) == 2
    for one in told:  # a line less, as the text begins at the first
        assert f"program.py:{line - 1}: RuntimeWarning: sum_reduce_nb: its request" in one
