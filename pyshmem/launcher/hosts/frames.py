# SPDX-License-Identifier: BSD-3-Clause
"""What head and agent of a job say to each other, as bytes.

The head's first line is JSON with a secret, which comes by ssh's standard input and is on no command
line. All that follows, both ways, are frames: length, kind, payload and a proof, HMAC-SHA256 of the
secret over direction, number of the frame, kind and payload. So what a login script prints, what
somebody else writes to the pipe, a frame that was cut, changed, left out or sent twice is not taken for
one: the other end is lost from there on.

The agent's frames begin behind ``BANNER``: what a shell prints before is skipped.
"""

from __future__ import annotations

import hmac
import json
import struct
from enum import IntEnum
from typing import Any

#: Raised when what is said changes. Versions of pyshmem have to be the same besides.
PROTOCOL = 1
BANNER = b"\npyshmem agent 1\n"
SECRET_BYTES = 16

PING = 1.0  # seconds from one sign of life to the next
SILENCE = 8.0  # seconds without any, after which the other end counts as lost
HERE = "--here"  #: tells an agent that the head is a process of its host
UNHEARD = f"the head of the job said nothing for {SILENCE:g} s"  #: the last words of an agent

_HEAD = struct.Struct(">IB")
_PROVED = struct.Struct(">QIB")
_PROOF_BYTES = 16
#: Of a payload: an environment and a command line are the largest, and the system has less for those.
MOST_BYTES = 8 << 20
_MOST_NOISE = 1 << 20  # before the banner


class Kind(IntEnum):
    """What a frame is. The first of the head's, then the agent's."""

    PREPARE = 1  #: go to that folder, take those variables, say what is there
    LISTEN = 2  #: the agent of PE 0: open where the others meet it
    START = 3  #: start the PEs
    SIGNAL = 4  #: pass on
    END = 5  #: end the PEs: why
    GO_ON = 6  #: after SIGTSTP
    READY = 16
    LISTENS = 17
    OUTPUT = 18  #: of PEs: one byte, 1 or 2 for stdout or stderr; then text
    ENDING = 19  #: this host's PEs are being ended, of their own accord: why
    DONE = 20  #: all of them have ended, and nothing is left
    REFUSED = 21  #: nothing was started: why
    ALIVE = 32  #: of both


_KINDS = frozenset(map(int, Kind))


class Broken(Exception):
    """What came is not what the other end says."""


def _proof(secret: bytes, direction: bytes, number: int, kind: int, payload: bytes) -> bytes:
    told = direction + _PROVED.pack(number, len(payload), kind) + payload
    return hmac.digest(secret, told, "sha256")[:_PROOF_BYTES]


class Writer:
    """Makes the frames of one direction, ``b"head"`` or ``b"agent"``."""

    def __init__(self, secret: bytes, direction: bytes) -> None:
        self._secret = secret
        self._direction = direction
        self._number = 0

    def frame(self, kind: Kind, payload: bytes = b"") -> bytes:
        """The next frame."""
        if len(payload) > MOST_BYTES:
            raise ValueError(f"{len(payload)} bytes are more than a frame has")
        proof = _proof(self._secret, self._direction, self._number, kind, payload)
        self._number += 1
        return _HEAD.pack(len(payload), kind) + payload + proof

    def told(self, kind: Kind, **fields: Any) -> bytes:
        """A frame whose payload is JSON."""
        return self.frame(kind, json.dumps(fields).encode())


class Reader:
    """Takes the frames of one direction apart.

    Raises, in ``feed``: Broken; then nothing more is taken.
    """

    def __init__(self, secret: bytes, direction: bytes, banner: bytes = b"") -> None:
        self._secret = secret
        self._direction = direction
        self._banner = banner
        self._number = 0
        self._bytes = bytearray()
        self._broken = ""
        self.noise = b""  #: what came before the banner

    def feed(self, data: bytes) -> list[tuple[Kind, bytes]]:
        """The frames that are whole with ``data``."""
        if self._broken:
            raise Broken(self._broken)
        self._bytes += data
        try:
            return self._taken()
        except Broken as error:
            self._broken = str(error)
            self._bytes.clear()
            raise

    def _taken(self) -> list[tuple[Kind, bytes]]:
        found: list[tuple[Kind, bytes]] = []
        if self._banner and not self._skip_noise():
            return found
        while len(self._bytes) >= _HEAD.size:
            length, kind = _HEAD.unpack_from(self._bytes)
            if length > MOST_BYTES or kind not in _KINDS:
                raise Broken(f"a frame of kind {kind} with {length} bytes")
            end = _HEAD.size + length + _PROOF_BYTES
            if len(self._bytes) < end:
                break
            payload = bytes(self._bytes[_HEAD.size : _HEAD.size + length])
            proof = _proof(self._secret, self._direction, self._number, kind, payload)
            if not hmac.compare_digest(proof, bytes(self._bytes[end - _PROOF_BYTES : end])):
                raise Broken("a frame without the job's proof")
            del self._bytes[:end]
            self._number += 1
            found.append((Kind(kind), payload))
        return found

    def _skip_noise(self) -> bool:
        at = self._bytes.find(self._banner)
        if at < 0:
            if len(self._bytes) > _MOST_NOISE:
                raise Broken(f"{_MOST_NOISE} bytes before the agent's first")
            return False
        self.noise = bytes(self._bytes[:at])
        del self._bytes[: at + len(self._banner)]
        self._banner = b""
        return True


def fields_of(payload: bytes, **wanted: type | tuple[type, ...]) -> dict[str, Any]:
    """The fields of a payload of JSON, each of the type that ``wanted`` says.

    Raises: Broken (no JSON, a field is missing or of another type).
    """
    try:
        found = json.loads(payload)
    except (ValueError, RecursionError):
        raise Broken("no JSON where there should be") from None
    if not isinstance(found, dict):
        raise Broken("no fields where there should be")
    for name, kind in wanted.items():
        if not isinstance(found.get(name), kind):
            raise Broken(f"a message without a right {name}")
    return found


def texts_of(found: Any) -> list[str]:
    """A list of text out of JSON. Raises: Broken."""
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise Broken("no list of text where there should be")
    return found
