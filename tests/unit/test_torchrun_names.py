# SPDX-License-Identifier: BSD-3-Clause
"""What PyTorch's programs look for in the environment of a PE."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest
from environment import clean_environment

from pyshmem.launcher import torchrun_names
from pyshmem.launcher.spec import JobSpec


def test_a_pe_has_its_place_by_torchruns_names(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in torchrun_names.NAMES:
        monkeypatch.delenv(name, raising=False)
    environment = JobSpec(4, ["x"], port=4711).environment(2, 9)
    expected = {"RANK": "2", "WORLD_SIZE": "4", "LOCAL_RANK": "2", "LOCAL_WORLD_SIZE": "4"}
    expected |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "4711"}
    assert {name: environment[name] for name in expected} == expected


@pytest.mark.parametrize("name", ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"])
def test_a_place_that_is_set_already_stays_whole(name: str) -> None:
    assert torchrun_names.variables(1, 4, 0, {name: "7"}) == {}


@pytest.mark.parametrize("name", ["MASTER_ADDR", "MASTER_PORT"])
def test_a_meeting_point_that_is_set_already_stays(name: str) -> None:
    assert name not in torchrun_names.variables(1, 4, 4711, {name: "7"})
    assert "RANK" in torchrun_names.variables(1, 4, 4711, {name: "7"})


def test_a_job_in_a_pe_has_its_own_places() -> None:
    outer = torchrun_names.variables(3, 4, 4711, {})
    inner = torchrun_names.variables(0, 2, 4712, outer)
    assert (inner["RANK"], inner["WORLD_SIZE"], inner["MASTER_PORT"]) == ("0", "2", "4712")
    changed = outer | {"RANK": "1"}  # by somebody who means it
    assert torchrun_names.variables(0, 2, 4712, changed) == {}


@pytest.mark.parametrize("address", ["", "127.0.0.1", "::"])
def test_the_meeting_point_is_free_for_who_listens_there(address: str) -> None:
    with torchrun_names.meeting_point() as port:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            store = socket.socket(family)
        except OSError:
            pytest.skip("no IPv6 here")
        with store:
            store.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            store.bind((address, port))
            store.listen()
            with socket.create_connection(("127.0.0.1", port), timeout=10):
                store.accept()[0].close()
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))


def place_of(**environment: str) -> str:
    code = "import pyshmem; job = pyshmem.init(); print(job.my_pe, job.n_pes)"
    environment |= {"PYSHMEM_INIT_TIMEOUT": "0.1", "PYSHMEM_DEVICE": "none"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=clean_environment(**environment),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout + done.stderr


def test_what_a_pe_starts_is_no_pe_by_what_it_inherits() -> None:
    inherited = torchrun_names.variables(1, 3, 4711, {})
    assert place_of(**inherited) == "0 1\n"
    meant = inherited | {"RANK": "0", "WORLD_SIZE": "2"}
    assert "PYSHMEM_INIT_TIMEOUT" in place_of(**meant)
