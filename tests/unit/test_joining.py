# SPDX-License-Identifier: BSD-3-Clause
"""How PEs that another launcher started on several hosts learn where they meet."""

from __future__ import annotations

import os
import re
import socket
import struct
import threading
from collections.abc import Iterator
from typing import TextIO

import pytest

from pyshmem._core.errors import ShmemError
from pyshmem.host.job import joining
from pyshmem.host.job.joining import pmi, pmix, store

TOLD = "10.0.0.1:4711 " + 32 * "a"
#: Two hosts with one process each, as torchrun has them.
TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "run",
    "TORCHELASTIC_RESTART_COUNT": "0",
    "RANK": "0",
    "WORLD_SIZE": "2",
    "LOCAL_RANK": "0",
    "LOCAL_WORLD_SIZE": "1",
    "MASTER_ADDR": "10.0.0.1",
    "MASTER_PORT": "1",
}
MPIRUN = {
    "OMPI_COMM_WORLD_RANK": "0",
    "OMPI_COMM_WORLD_SIZE": "2",
    "OMPI_COMM_WORLD_LOCAL_RANK": "0",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "1",
    "PMIX_NAMESPACE": "job",
    "PMIX_RANK": "0",
}
HYDRA = {
    "PMI_RANK": "0",
    "PMI_SIZE": "2",
    "MPI_LOCALRANKID": "0",
    "MPI_LOCALNRANKS": "1",
    "PMI_FD": "9",
}


@pytest.fixture(autouse=True)
def nothing_there(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No launcher but that of a test."""
    for name in list(os.environ):
        if re.match(
            "PYSHMEM_|TORCHELASTIC|OMPI_|PMI|MASTER_|SLURM|(LOCAL_)?(RANK|WORLD_SIZE)", name
        ):
            monkeypatch.delenv(name)
    yield
    for name in (joining.RENDEZVOUS, joining.SECRET, joining.LISTENER):
        os.environ.pop(name, None)


@pytest.mark.parametrize(
    ("variables", "conduit", "name"),
    [
        (TORCHRUN, "auto", "the store of torchrun"),
        (TORCHRUN, "ucx", "the store of torchrun"),
        (TORCHRUN, "openshmem", None),
        (TORCHRUN | {"LOCAL_WORLD_SIZE": "2"}, "ucx", None),
        (TORCHRUN | {"MASTER_ADDR": "127.0.0.1"}, "ucx", None),
        (TORCHRUN | {"PYSHMEM_RENDEZVOUS": "a:1"}, "ucx", None),
        (MPIRUN, "ucx", "PMIx"),
        (MPIRUN, "auto", None),
        (MPIRUN | {"OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, "ucx", None),
        (HYDRA, "ucx", "PMI-1"),
        (HYDRA, "auto", None),
        ({}, "ucx", None),
    ],
)
def test_the_way_is_what_the_launcher_offers(
    variables: dict[str, str], conduit: str, name: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, text in (variables | {"PYSHMEM_CONDUIT": conduit}).items():
        monkeypatch.setenv(variable, text)
    way = joining.way_here()
    assert (way.name if way else None) == name


def test_pe_0_listens_and_all_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, text in TORCHRUN.items():
        monkeypatch.setenv(variable, text)
    way = joining.Way("a test", lambda: True, lambda pe, n, text, seconds: text())
    monkeypatch.setattr(joining, "way_here", lambda: way)
    monkeypatch.setenv("PYSHMEM_INTERFACE", "lo")
    joining.join(0, 2, 1.0)
    host, _, port = os.environ["PYSHMEM_RENDEZVOUS"].partition(":")
    assert re.fullmatch("[0-9a-f]{32}", os.environ["PYSHMEM_SECRET"])
    with socket.socket(fileno=int(os.environ["PYSHMEM_RENDEZVOUS_FD"])) as listener:
        assert listener.getsockname() == (host, int(port))
        socket.create_connection((host, int(port))).close()


def test_what_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, text in (TORCHRUN | {"MASTER_ADDR": "127.0.0.2"}).items():
        monkeypatch.setenv(variable, text)
    monkeypatch.setattr(joining, "way_here", lambda: joining.WAYS[0])
    with pytest.raises(ShmemError, match=r"PE 1 cannot meet .* torchrun: 127\.0\.0\.2:1: "):
        joining.join(1, 2, 0.2)


# ---- PMI-1 -------------------------------------------------------------------------------------------


def line_of(lines: TextIO) -> str:
    try:
        return lines.readline()
    except ConnectionResetError:  # the test has read no more
        return ""


def serve_pmi(server: socket.socket, answers: dict[str, str]) -> None:
    kept: dict[str, str] = {}
    lines = server.makefile("rw")
    while line := line_of(lines):
        word = re.match(r"cmd=(\w+)", line)
        assert word
        if put := re.search(r" key=(\S+) value=(\S+)", line):
            kept[put[1]] = put[2]
        answer = answers.get(word[1]) or {
            "init": "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
            "get_my_kvsname": "cmd=my_kvsname kvsname=kvs_1",
            "put": "cmd=put_result rc=0 msg=success",
            "barrier_in": "cmd=barrier_out",
            "get": f"cmd=get_result rc=0 msg=success value={kept.get('pyshmem', '')}",
            "finalize": "cmd=finalize_ack",
        }.get(word[1])
        lines.write(f"{answer}\n")
        lines.flush()


@pytest.fixture
def pmi_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """What the server answers otherwise than usual, by command."""
    ours, theirs = socket.socketpair()
    answers: dict[str, str] = {}
    thread = threading.Thread(target=serve_pmi, args=(theirs, answers))
    thread.start()
    monkeypatch.setenv("PMI_FD", str(ours.fileno()))
    monkeypatch.setattr(pmi, "_rounds", 0)
    yield answers
    ours.close()
    thread.join(10)
    theirs.close()


def test_pmi_tells_the_others(pmi_server: dict[str, str]) -> None:
    assert pmi.is_there()
    assert pmi.tell(0, 2, lambda: TOLD, 1.0) == TOLD
    with pytest.raises(ValueError, match="spoken once"):
        pmi.tell(0, 2, lambda: TOLD, 1.0)


@pytest.mark.parametrize("answer", ["cmd=put_result rc=-1 msg=no", "cmd=other", "x" * 5000])
def test_pmi_that_answers_something_else(answer: str, pmi_server: dict[str, str]) -> None:
    pmi_server["put"] = answer
    with pytest.raises(ValueError, match="launcher"):
        pmi.tell(0, 2, lambda: TOLD, 1.0)


# ---- the store of torchrun: with a real one, tests/pytorch/test_two_agents.py ------------------------


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"\0" + struct.pack("=Q", 1 << 40), "answers with"),
        (b"\1", "gave up waiting"),
        (b"", "closed the connection"),
        (b"\0\5", "closed the connection"),
    ],
)
def test_a_store_that_is_none(said: bytes, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        for variable, text in TORCHRUN.items():
            monkeypatch.setenv(variable, text)
        monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
        monkeypatch.setenv("MASTER_PORT", str(server.getsockname()[1]))

        def answer() -> None:
            guest, _ = server.accept()
            with guest:
                guest.sendall(said)
                guest.shutdown(socket.SHUT_WR)
                while guest.recv(1 << 12):
                    pass

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises((OSError, ValueError), match=why):
            store.tell(1, 2, lambda: TOLD, 5.0)
        thread.join(10)


# ---- PMIx -------------------------------------------------------------------------------------------


def test_a_place_that_only_pmix_knows_is_told_by_its_library(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert not joining.find_place()
    monkeypatch.setenv("PMIX_NAMESPACE", "job")
    monkeypatch.setenv("PMIX_RANK", "1")
    monkeypatch.setattr(pmix, "_LIBRARIES", ("libpmix-that-nobody-has.so",))
    with pytest.raises(ShmemError, match=r"as rank 1, of how many is not known: .*PYSHMEM_N_PES=1"):
        joining.find_place()


def test_what_is_told_of_each_way() -> None:
    told = [joining.told(way) for way in joining.WAYS]
    assert len(set(told)) == len(told)
    assert all(text.endswith("where PE 0 listens, and a secret") for text in told)
