# SPDX-License-Identifier: BSD-3-Clause
"""PMI-1 over the descriptor PMI_FD, without a library: launchers of MPICH and Intel MPI speak it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

_LONGEST_LINE = 4096

_rounds = 0


def is_there() -> bool:
    """Whether the launcher left a descriptor for it."""
    return os.environ.get("PMI_FD", "").isdecimal()


def tell(pe: int, n_pes: int, text: Callable[[], str], seconds: float) -> str:
    """On PE 0 put ``text`` into the job's space; on all PEs what PE 0 has put there.

    The launcher waits for all. A process has one conversation: after it, MPI cannot be started in it.

    Raises: OSError (it does not answer), ValueError (it says something else).
    """
    global _rounds
    if _rounds:
        raise ValueError("PMI-1 is spoken once in a process, and this is its second init")
    _rounds += 1
    fd = int(os.environ["PMI_FD"])
    _ask(fd, "cmd=init pmi_version=1 pmi_subversion=1", "response_to_init")
    name = _value(_ask(fd, "cmd=get_my_kvsname", "my_kvsname"), "kvsname")
    if pe == 0:  # a value has no blanks
        _ask(
            fd, f"cmd=put kvsname={name} key=pyshmem value={text().replace(' ', '|')}", "put_result"
        )
    _ask(fd, "cmd=barrier_in", "barrier_out")
    told = _value(_ask(fd, f"cmd=get kvsname={name} key=pyshmem", "get_result"), "value")
    _ask(fd, "cmd=finalize", "finalize_ack")
    return told.replace("|", " ")


def _ask(fd: int, words: str, expected: str) -> str:
    os.write(fd, words.encode() + b"\n")
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(fd, 1)
        if not byte:
            raise OSError("the launcher closed PMI_FD")
        line += byte
        if len(line) > _LONGEST_LINE:
            raise ValueError("the launcher's answer has no end")
    answer = line.decode().strip()
    if not answer.startswith(f"cmd={expected}") or re.search(r" rc=(?!0\b)", answer):
        raise ValueError(f"asked {words.split()[0]}, the launcher answered {answer}")
    return answer


def _value(answer: str, name: str) -> str:
    found = re.search(rf" {name}=(\S+)", answer)
    if found is None:
        raise ValueError(f"no {name} in {answer}")
    return found[1]
