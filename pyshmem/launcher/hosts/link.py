# SPDX-License-Identifier: BSD-3-Clause
"""The agent's end of what connects it with the head: frames in and out, and whether it is there."""

from __future__ import annotations

import os
import select
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from ..output.streams import write_all
from .frames import (
    BANNER,
    PING,
    PROTOCOL,
    SECRET_BYTES,
    SILENCE,
    UNHEARD,
    Broken,
    Kind,
    Reader,
    Writer,
    fields_of,
)

_LONGEST_GREETING = 4096
_PIECE = 1 << 18  # of output in a frame


class Lost(Exception):
    """The head is gone, or what came was not the head's."""


class Link:
    """Stands for ``signals.Signals`` while the agent's job runs: the head's signals come here.

    Args:
        source: descriptor of what the head says.
        target: descriptor of what it hears.
        here: the head is a process of this host. Its end closes what it says, so that silence says no
            more than that it got no time of a busy machine, and does not count.
    """

    tells_ends = False

    def __init__(self, source: int, target: int, here: bool = False) -> None:
        self._patience = float("inf") if here else SILENCE
        self.fd = source
        self._target = target
        os.set_blocking(source, False)
        self.lost = ""  #: why the head does not count any more
        self.orders: deque[tuple[Kind, bytes]] = deque()  #: not taken yet
        self.suspended = False  #: the head stands still, and says nothing, until it goes on
        self._heard_at = self._spoke_at = time.monotonic()
        self._reader: Reader | None = None
        self._writer: Writer | None = None
        self._writes = False
        self._behind: deque[bytes] = deque()  # frames made while another is being written

    # ---- before the job ------------------------------------------------------------------

    def greet(self) -> dict[str, Any]:
        """The head's first line, with the secret; from here on both speak in frames.

        Raises: Lost (no such line came), Broken (it is none of a head).
        """
        line = b""
        while not line.endswith(b"\n"):
            self._await(self._heard_at + self._patience)
            byte = os.read(self.fd, 1)
            if not byte or len(line) > _LONGEST_GREETING:
                raise Lost("no head of a job spoke")
            line += byte
        told = fields_of(line, protocol=int, version=str, secret=str)
        try:
            secret = bytes.fromhex(told["secret"])
        except ValueError:
            raise Broken("a secret that is none") from None
        if len(secret) != SECRET_BYTES:
            raise Broken("a secret that is none")
        self._reader, self._writer = Reader(secret, b"head"), Writer(secret, b"agent")
        write_all(self._target, BANNER)
        if told["protocol"] != PROTOCOL:
            self.send(
                Kind.REFUSED,
                why=f"its launcher speaks protocol {PROTOCOL}, this one {told['protocol']}",
            )
            raise Lost("a head of another version")
        return told

    def _await(self, deadline: float) -> None:
        ready = select.poll()
        ready.register(self.fd, select.POLLIN)
        left = max(0.0, deadline - time.monotonic())
        if not ready.poll(left * 1000 if left < float("inf") else None):
            raise Lost(UNHEARD)

    def next(self) -> tuple[Kind, bytes]:
        """Wait for the head's next order. Raises: Lost."""
        while not self.orders:
            self._await(self._heard_at + self._patience)
            self.hear()
            if self.lost:
                raise Lost(self.lost)
            self.show_life(time.monotonic())
        return self.orders.popleft()

    # ---- while it runs -------------------------------------------------------------------

    def take(self) -> list[int]:
        """Numbers of the signals that the head was sent since the last call, in their order."""
        self.hear()
        signals = [payload for kind, payload in self.orders if kind is Kind.SIGNAL]
        self.orders = deque(order for order in self.orders if order[0] is not Kind.SIGNAL)
        return [payload[0] for payload in signals if len(payload) == 1]

    def hear(self) -> None:
        """Take what has come, without waiting; orders are in ``orders`` then, or it is ``lost``."""
        assert self._reader is not None
        try:
            data = os.read(self.fd, 1 << 16)
        except BlockingIOError:
            return
        except OSError as error:
            self._lose(f"reading from it: {error.strerror}")
            return
        if not data:
            self._lose("the head of the job is gone")
            return
        self._heard_at = time.monotonic()
        try:
            found = self._reader.feed(data)
        except Broken as error:
            self._lose(f"{error} came in place of the head's words")
            return
        self.orders += [order for order in found if order[0] != Kind.ALIVE]

    def show_life(self, now: float) -> None:
        """Say that this host is there, once a second, and notice when nobody says so of the head."""
        if now - self._spoke_at >= PING and not self._writes:
            self._write(Kind.ALIVE, b"")
        if self.suspended:
            self._heard_at = now
        elif now - self._heard_at > self._patience:
            self._lose(UNHEARD)

    def give(self, seconds: float) -> None:
        """Leave out a time in which this process stood still."""
        self._heard_at += seconds

    def send(self, kind: Kind, **fields: Any) -> None:
        """Say it; nothing where the head is lost."""
        assert self._writer is not None
        if not self.lost:
            self._put(self._writer.told(kind, **fields), None)

    def output(self, stream: int, data: bytes, may_wait: Callable[[], bool]) -> None:
        """Pass on what PEs wrote to their stdout (1) or stderr (2)."""
        for begin in range(0, len(data), _PIECE):
            self._write(Kind.OUTPUT, bytes([stream]) + data[begin : begin + _PIECE], may_wait)

    def _write(
        self, kind: Kind, payload: bytes, may_wait: Callable[[], bool] | None = None
    ) -> None:
        assert self._writer is not None
        if not self.lost:
            self._put(self._writer.frame(kind, payload), may_wait)

    def _put(self, frame: bytes, may_wait: Callable[[], bool] | None) -> None:
        """Write a frame whole, and those behind it; ``may_wait`` may call this again meanwhile."""
        self._behind.append(frame)
        if self._writes:
            return
        self._writes = True
        try:
            while self._behind and not self.lost:
                # A frame that was begun and not ended breaks what follows, so then it is over.
                if error := write_all(self._target, self._behind.popleft(), may_wait):
                    self._lose(f"the head of the job does not hear: {error.strerror}")
        finally:
            self._writes = False
        self._spoke_at = time.monotonic()

    def _lose(self, why: str) -> None:
        self.lost = self.lost or why
