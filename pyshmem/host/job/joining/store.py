# SPDX-License-Identifier: BSD-3-Clause
"""The store that ``torchrun`` keeps for its job, spoken to without importing torch.

What torch's TCPStore says is not written down anywhere but in its source (``TCPStore.cpp`` and
``TCPStoreBackend.hpp`` of torch/csrc/distributed/c10d): a byte for the question, lengths of eight bytes,
all in the order of the machine. It ran with torch 2.11.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Callable

_MAGIC = 0x3C85F7CE
_VALIDATE, _SET, _GET, _WAIT = 0, 1, 3, 6
_STOP_WAITING = 0
_RETRY = 0.05  # seconds
_LONGEST = 1 << 12  # of what is read

_rounds = 0


def is_there() -> bool:
    """Whether ``torchrun`` started this process, and has a store for it."""
    names = ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT")
    kept = os.environ.get("TORCHELASTIC_USE_AGENT_STORE", "True") == "True"
    return kept and all(os.environ.get(name) for name in names)


def tell(pe: int, n_pes: int, text: Callable[[], str], seconds: float) -> str:
    """On PE 0 put ``text`` into the store; on all PEs what PE 0 has put there.

    Raises: OSError (the store does not answer in time), ValueError (it says something else).
    """
    global _rounds
    run, restart = (
        os.environ.get(f"TORCHELASTIC_{name}", "") for name in ("RUN_ID", "RESTART_COUNT")
    )
    key = f"pyshmem/{run}/{restart}/{_rounds}".encode()
    _rounds += 1
    deadline = time.monotonic() + seconds if seconds else float("inf")
    with _connected(deadline) as store:
        store.sendall(struct.pack("=BI", _VALIDATE, _MAGIC))
        if pe == 0:
            told = text()
            store.sendall(bytes([_SET]) + _sized(key) + _sized(told.encode()))
        # PE 0 asks too: what it has put is there before its connection ends.
        store.sendall(struct.pack("=BQ", _WAIT, 1) + _sized(key))
        if _read(store, 1, deadline)[0] != _STOP_WAITING:
            raise ValueError("the store gave up waiting")
        store.sendall(bytes([_GET]) + _sized(key))
        (length,) = struct.unpack("=Q", _read(store, 8, deadline))
        if length > _LONGEST:
            raise ValueError(f"the store answers with {length} bytes")
        return _read(store, length, deadline).decode()


def _sized(data: bytes) -> bytes:
    return struct.pack("=Q", len(data)) + data


def _connected(deadline: float) -> socket.socket:
    where = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    while True:
        try:
            return socket.create_connection(where, timeout=_left(deadline))
        except OSError as error:
            if time.monotonic() + _RETRY > deadline:
                raise OSError(f"{where[0]}:{where[1]}: {error}") from error
        time.sleep(_RETRY)


def _left(deadline: float) -> float | None:
    return None if deadline == float("inf") else max(_RETRY, deadline - time.monotonic())


def _read(store: socket.socket, nbytes: int, deadline: float) -> bytes:
    found = b""
    while len(found) < nbytes:
        store.settimeout(_left(deadline))
        piece = store.recv(nbytes - len(found))
        if not piece:
            raise OSError("the store closed the connection")
        found += piece
    return found
