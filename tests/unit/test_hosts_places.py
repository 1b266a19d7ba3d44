# SPDX-License-Identifier: BSD-3-Clause
"""Which hosts a job runs on, the variables that reach them, and the addresses by which they meet."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from pyshmem._core.errors import LaunchError
from pyshmem.host.job.joining import addresses
from pyshmem.launcher.hosts import address, environment
from pyshmem.launcher.hosts.places import Place, check_ports, places, places_in


@pytest.mark.parametrize(
    ("text", "n", "found"),
    [
        ("a:2,b:6", None, [("a", 2), ("b", 6)]),
        ("a:2,b:6", 8, [("a", 2), ("b", 6)]),
        ("a, b", 5, [("a", 3), ("b", 2)]),
        ("localhost:1,localhost:1", None, [("localhost", 1), ("localhost", 1)]),
        ("[fe80::1%eth0]:2,me@b:1", None, [("[fe80::1%eth0]", 2), ("me@b", 1)]),
        ("a", 1, [("a", 1)]),
    ],
)
def test_hosts_and_their_pes(text: str, n: int | None, found: list[tuple[str, int]]) -> None:
    assert places(text, n) == [Place(*each) for each in found]


@pytest.mark.parametrize(
    ("text", "n", "why"),
    [
        ("a,,b", 2, "give names of hosts"),
        ("-oProxyCommand=x:1", None, "give names of hosts"),
        ("a b:1", None, "give names of hosts"),
        ("a:2,b", 4, "for each host, or for none"),
        ("a:x", 4, "for each host, or for none"),
        ("a:0", None, "for each host, or for none"),
        (f"a:{'9' * 5000}", None, "1 to 1023, for each host, or for none"),
        ("a:1000,b:24", None, "1024 PEs; a job has at most 1023"),
        ("a:2", 3, "these are 2 PEs, not -n 3"),
        ("a,b", None, "how many PEs"),
        ("a,b", 1, "fewer than the 2 hosts"),
    ],
)
def test_hosts_that_are_none(text: str, n: int | None, why: str) -> None:
    with pytest.raises(LaunchError, match=why):
        places(text, n)


def test_a_file_of_hosts(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("# the cluster\na slots=4\n\nb slots=2 # half\nc\n")
    assert places_in(file, None) == [Place("a", 4), Place("b", 2), Place("c", 1)]
    assert places_in(file, 5) == [Place("a", 4), Place("b", 1)]
    with pytest.raises(LaunchError, match="-n 8, but it has 7 slots"):
        places_in(file, 8)


@pytest.mark.parametrize("line", ["a slots=x", "a slots=0", "a max_slots=3", "-x slots=2", "a 4"])
def test_a_line_of_a_file_that_is_none(line: str, tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text(f"b slots=1\n{line}\n")
    with pytest.raises(LaunchError, match=r"line 2: .*a line is NAME slots=N"):
        places_in(file, None)


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_bytes(b"\xff\xfe")
    with pytest.raises(LaunchError, match="hosts: it is no text in UTF-8"):
        places_in(tmp_path / "hosts", None)


def test_a_file_without_hosts(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("# none\n")
    with pytest.raises(LaunchError, match="there is no host in it"):
        places_in(tmp_path / "hosts", None)


def test_variables_that_reach_all_hosts() -> None:
    here = {"PYSHMEM_CHECK": "1", "UCX_TLS": "tcp", "HOME": "/me", "PATH": "/bin", "NEEDED": "x"}
    here |= {"PYSHMEM_PE": "3", "PYSHMEM_SECRET": "outer", "PYSHMEM_HOST": "outer"}
    assert environment.exported(here) == {"PYSHMEM_CHECK": "1", "UCX_TLS": "tcp", "PATH": "/bin"}
    assert environment.given(["NEEDED", "A=b=c", "B="], here) == {
        "NEEDED": "x",
        "A": "b=c",
        "B": "",
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("no name", "give NAME"),
        ("MISSING", "not set here"),
        ("PYSHMEM_SECRET=x", "launcher sets that"),
    ],
)
def test_variables_that_cannot_be_given(text: str, why: str) -> None:
    with pytest.raises(LaunchError, match=why):
        environment.given([text], {})


# ---- addresses ---------------------------------------------------------------------------------------


def test_where_a_job_of_this_machine_alone_meets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSHMEM_INTERFACE", raising=False)
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    assert address.own_address([]) == "127.0.0.1"


def test_where_ssh_reached_this_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSHMEM_INTERFACE", raising=False)
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.1 4711 10.0.0.2 22")
    assert address.own_address(["a"]) == "10.0.0.2"
    monkeypatch.setenv("SSH_CONNECTION", "fd00::1 4711 fd00::2 22")
    assert addresses.with_port(address.own_address(["a"]), 5) == "[fd00::2]:5"


def test_an_interface_is_taken_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSHMEM_INTERFACE", "lo")
    assert address.own_address(["a"]) == "127.0.0.1"
    monkeypatch.setenv("PYSHMEM_INTERFACE", "no_such_interface_here")
    with pytest.raises(OSError, match=r"no interface with an address here; there are .*lo"):
        address.own_address(["a"])


def test_ports_are_taken_out_of_a_range() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(LaunchError, match=f"ports {port}-{port}"):
            address.opened("127.0.0.1", range(port, port + 1), listening=True)
    with address.opened("127.0.0.1", range(port, port + 50), listening=True) as made:
        assert port <= made.getsockname()[1] < port + 50


def test_ports_that_are_too_few_are_refused() -> None:
    two = [Place("a", 1), Place("b", 2)]
    with pytest.raises(LaunchError, match="20000-20001 are 2; host a takes at least 3: "):
        check_ports(range(20000, 20002), two, True)
    here = [Place("localhost", 2), Place("localhost", 2)]  # which share them
    with pytest.raises(LaunchError, match="are 5; host localhost takes at least 6: "):
        check_ports(range(20000, 20005), here, True)
    for given in (
        (range(20000, 20003), two, True),
        (range(20000, 20006), here, True),
        (range(20000, 20002), two, False),  # UCX has others
    ):
        check_ports(*given)
