# SPDX-License-Identifier: BSD-3-Clause
"""What head and agent of a job on several hosts say: frames that are whole, and those that are not."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from pyshmem._core import library
from pyshmem.launcher.hosts import frames
from pyshmem.launcher.hosts.frames import BANNER, PROTOCOL, Broken, Kind, Reader, Writer, fields_of
from pyshmem.launcher.hosts.link import Link, Lost
from pyshmem.launcher.hosts.places import Place
from pyshmem.launcher.hosts.remote import Remote

SECRET = bytes(range(frames.SECRET_BYTES))
SOME = [
    (Kind.PREPARE, b'{"folder": "/"}'),
    (Kind.OUTPUT, b"\1" + bytes(range(256)) * 20),
    (Kind.ALIVE, b""),
    (Kind.DONE, b"{}"),
]


def said(secret: bytes = SECRET, direction: bytes = b"agent") -> bytes:
    writer = Writer(secret, direction)
    return b"".join(writer.frame(kind, payload) for kind, payload in SOME)


@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
def test_frames_arrive_in_whatever_pieces(piece: int) -> None:
    reader, data = Reader(SECRET, b"agent", BANNER), b"welcome to b\n" + BANNER + said()
    found = []
    for begin in range(0, len(data), piece):
        found += reader.feed(data[begin : begin + piece])
    assert found == SOME
    assert reader.noise == b"welcome to b\n"


@pytest.mark.parametrize(
    "data",
    [said(b"another secret!!"), said(direction=b"head"), said()[40:], said()[:60] + said()],
    ids=["secret", "direction", "beginning", "repeated"],
)
def test_what_another_says_is_broken(data: bytes) -> None:
    reader = Reader(SECRET, b"agent")
    with pytest.raises(Broken):
        reader.feed(data)
    with pytest.raises(Broken):  # for good
        reader.feed(said())


def test_a_frame_that_is_left_out_or_sent_twice_is_noticed() -> None:
    writer = Writer(SECRET, b"agent")
    first, second, third = (writer.frame(Kind.DONE, b"%d" % k) for k in range(3))
    for order in ([first, third], [first, first], [second], [first, third, second]):
        with pytest.raises(Broken):
            Reader(SECRET, b"agent").feed(b"".join(order))


def test_noise_has_an_end() -> None:
    reader = Reader(SECRET, b"agent", BANNER)
    assert reader.feed(bytes(1 << 20)) == []
    with pytest.raises(Broken, match="before the agent's first"):
        reader.feed(b"x")


def changed(data: bytes, chance: random.Random) -> bytes:
    """``data`` with a byte changed, lost, cut off or put in, or a part of it moved or repeated."""
    at, to = sorted(chance.randrange(len(data)) for _ in range(2))
    how = chance.randrange(6)
    if how == 0:
        return data[:at] + bytes([data[at] ^ (1 << chance.randrange(8))]) + data[at + 1 :]
    if how == 1:
        return data[:at] + data[at + 1 :]
    if how == 2:
        return data[:at] + chance.randbytes(1 + chance.randrange(16)) + data[at:]
    if how == 3:
        return data[:at]
    if how == 4:
        return data[:to] + data[at:]
    return data[:at] + data[to:] + data[at:to]


def fuzz(times: int, seed: int) -> None:
    """What is taken is the beginning of what was said, whatever was done to the bytes."""
    chance = random.Random(seed)
    whole = said()
    for turn in range(times):
        data = changed(whole, chance)
        reader = Reader(SECRET, b"agent")
        found: list[tuple[Kind, bytes]] = []
        try:
            for begin in range(0, len(data), 1024):
                found += reader.feed(data[begin : begin + 1024])
        except Broken:
            pass
        assert found == SOME[: len(found)], f"seed {seed}, turn {turn}"


def test_broken_frames_are_refused() -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    fuzz(5_000, seed)


@pytest.mark.long
def test_a_hundred_thousand_broken_frames_are_refused() -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    fuzz(100_000, seed)


JSON = [b"", b"{", b"[]", b"3", b"null", b'{"why": 3}', b'{"why": null}', b"[" * 100_000, b"\xff"]


@pytest.mark.parametrize("payload", JSON, ids=range(len(JSON)))
def test_a_payload_that_has_not_what_it_should_is_broken(payload: bytes) -> None:
    with pytest.raises(Broken):
        fields_of(payload, why=str)


# ---- the agent's end, with a real pipe ---------------------------------------------------------------


@pytest.fixture
def pipes() -> Iterator[tuple[Link, int, int]]:
    """A link, where to write what the head says, where to read what the agent does."""
    source, head_writes = os.pipe()
    head_reads, target = os.pipe()
    yield Link(source, target), head_writes, head_reads
    for fd in (source, head_writes, head_reads, target):
        try:
            os.close(fd)
        except OSError:  # by the test
            continue


def greeting(**changes: object) -> bytes:
    told = {"protocol": PROTOCOL, "version": library.__version__, "secret": SECRET.hex()}
    return json.dumps(told | changes).encode() + b"\n"


def test_a_link_greets_and_takes_orders(pipes: tuple[Link, int, int]) -> None:
    link, head_writes, head_reads = pipes
    writer = Writer(SECRET, b"head")
    os.write(head_writes, greeting() + writer.frame(Kind.ALIVE) + writer.told(Kind.PREPARE, a=1))
    assert link.greet()["version"] == library.__version__
    assert link.next() == (Kind.PREPARE, b'{"a": 1}')
    os.write(head_writes, writer.frame(Kind.SIGNAL, b"\2") + writer.told(Kind.END))
    assert link.take() == [2]
    assert [kind for kind, _ in link.orders] == [Kind.END]
    link.send(Kind.DONE, status=3)
    answer = Reader(SECRET, b"agent", BANNER).feed(os.read(head_reads, 1 << 16))
    assert answer == [(Kind.DONE, b'{"status": 3}')]


@pytest.mark.parametrize(
    "line",
    [
        b"rubbish\n",
        greeting(secret="00"),
        greeting(secret="no hex"),
        greeting(secret=3),
        b"x" * 5000,
        b"",
    ],
    ids=["rubbish", "short", "digits", "number", "long", "nothing"],
)
def test_a_head_that_greets_wrongly_is_none(pipes: tuple[Link, int, int], line: bytes) -> None:
    link, head_writes, _ = pipes
    os.write(head_writes, line)
    os.close(head_writes)
    with pytest.raises((Lost, Broken)):
        link.greet()


def test_broken_words_of_a_head_are_its_end(pipes: tuple[Link, int, int]) -> None:
    link, head_writes, _ = pipes
    os.write(head_writes, greeting() + bytes(100))
    link.greet()
    with pytest.raises(Lost, match="came in place of the head's words"):
        link.next()


def test_a_silent_head_is_lost(
    pipes: tuple[Link, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    link, head_writes, _ = pipes
    os.write(head_writes, greeting())
    link.greet()
    monkeypatch.setattr(link, "_patience", 0.05)
    time.sleep(0.06)
    link.show_life(time.monotonic())
    assert "said nothing" in link.lost


def test_a_head_of_this_host_is_lost_when_it_ends_alone(pipes: tuple[Link, int, int]) -> None:
    """One that the machine does not let run is silent, however long, and comes back."""
    link, head_writes, _ = pipes
    link._patience = Link(link.fd, -1, here=True)._patience
    os.write(head_writes, greeting())
    link.greet()
    link.show_life(time.monotonic() + 3600)
    assert not link.lost
    os.close(os.dup2(os.open(os.devnull, os.O_RDONLY), head_writes))
    link.hear()
    assert link.lost == "the head of the job is gone"


@pytest.mark.parametrize("stood_still", [0.0, 9.0])
def test_an_agent_that_heard_nothing_is_told_by_what_kept_the_head(stood_still: float) -> None:
    remote = Remote(0, "b", Place("b", 1), 0)
    remote._process = subprocess.Popen([sys.executable, "-c", "pass"])
    remote.words.append(f"pyshmem: {frames.UNHEARD}")
    told = remote.why_it_ended(stood_still)
    assert told.startswith("it ended its PEs, as it had heard nothing of this command for 8 s: ")
    assert ("did not let it run for 9 s" in told) == bool(stood_still)


def test_frames_made_while_one_is_written_follow_it(pipes: tuple[Link, int, int]) -> None:
    """A reader that is slow: what is asked meanwhile may send something too."""
    link, head_writes, head_reads = pipes
    os.write(head_writes, greeting())
    link.greet()
    reader = Reader(SECRET, b"agent", BANNER)
    found: list[tuple[Kind, bytes]] = []

    def read() -> None:
        time.sleep(0.3)
        while not found or found[-1][0] is not Kind.DONE:
            found.extend(reader.feed(os.read(head_reads, 1 << 16)))

    def asked() -> bool:
        if not link.lost and not sent:
            sent.append(True)
            link.send(Kind.ENDING, why="meanwhile")
        return True

    sent: list[bool] = []
    thread = threading.Thread(target=read)
    thread.start()
    link.output(1, bytes(1 << 20), asked)
    link.send(Kind.DONE)
    thread.join(30)
    assert [kind for kind, _ in found].count(Kind.ENDING) == 1
    assert found[-1][0] is Kind.DONE
    assert sum(len(payload) - 1 for kind, payload in found if kind is Kind.OUTPUT) == 1 << 20
