# SPDX-License-Identifier: BSD-3-Clause
"""Suites that every PE of a job runs, in lockstep: ``python -m pyshmem run -n 4 -m pytest tests/spmd``.

All PEs run the same tests in the same order; a barrier stands before and after each. A failure on one
PE ends the job, since the others would wait for it: its report is printed, and theirs are not lost.
``tests/pe/test_suites.py`` runs these suites on 1, 2, 3 and 4 PEs.
"""

from __future__ import annotations

import gc
import os

import pytest
from shards import deal, group_of, parse

import pyshmem


def pytest_addoption(parser):
    parser.addoption(
        "--go-on", action="store_true", help="a failure ends no job: for those that all PEs have"
    )
    parser.addoption("--shard", type=parse, help="I/N: part I, from 0, of N of the tests")


def pytest_collection_modifyitems(config, items):
    if config.option.shard is None:
        return
    mine, n = config.option.shard
    groups = [
        group_of(
            item.path.name,
            item.originalname,
            item.callspec.params if hasattr(item, "callspec") else {},
        )
        for item in items
    ]
    numbers = deal(groups, n)
    left = [item for item, number in zip(items, numbers, strict=True) if number != mine]
    items[:] = [item for item, number in zip(items, numbers, strict=True) if number == mine]
    config.hook.pytest_deselected(items=left)


@pytest.fixture(scope="session")
def job():
    grows = os.environ.get("PYSHMEM_DEVICE_HEAP_GROWS") == "1"  # and begins with little
    running = pyshmem.init(heap_size="64M", device_heap_size="1M" if grows else "64M")
    yield running
    pyshmem.finalize()


@pytest.fixture(autouse=True)
def lockstep(job):
    pyshmem.barrier_all()
    yield
    pyshmem.barrier_all()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if report.failed and pyshmem.initialized() and pyshmem.n_pes() > 1:
        print(f"\nPE {pyshmem.my_pe()}: {item.nodeid}\n{report.longreprtext}", flush=True)
        if item.config.option.go_on:
            return
        pyshmem.abort(1, f"{item.nodeid} failed on PE {pyshmem.my_pe()}")


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    # One PE's report is enough: the others only speak when they fail.
    if os.environ.get("PYSHMEM_PE", "0") != "0":
        config.option.verbose = -2
        reporter = config.pluginmanager.getplugin("terminalreporter")
        if reporter is not None:
            config.pluginmanager.unregister(reporter)


def pytest_collection_finish():
    # Numba and the tests are a large heap that the tests' many gc.collect() need not walk.
    gc.collect()
    gc.freeze()
