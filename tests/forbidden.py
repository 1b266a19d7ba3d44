# SPDX-License-Identifier: BSD-3-Clause
"""Runs a program where the host forbids something, as profiles of containers do: a filter of seccomp.

    python tests/forbidden.py WHAT PROGRAM...

WHAT: ``descriptors`` (sendmsg), ``unix`` (sockets of AF_UNIX), ``datagrams`` (those of SOCK_DGRAM),
``copies`` (process_vm_readv and writev) or ``memfd`` (memfd_create).
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys

#: socket, sendmsg, process_vm_readv, process_vm_writev, memfd_create.
NUMBERS = {"x86_64": (41, 46, 310, 311, 319), "aarch64": (198, 211, 270, 271, 279)}
_NO_NEW_PRIVS, _SECCOMP, _FILTER = 38, 22, 2
_LOAD, _AND, _EQUAL, _RETURN = 0x20, 0x54, 0x15, 0x06
_ALLOW, _ERRNO, _EPERM = 0x7FFF0000, 0x00050000, 1
_NUMBER, _FIRST, _SECOND = 0, 16, 24  # where a call's number and arguments are
_AF_UNIX, _SOCK_DGRAM, _OF_TYPE = 1, 2, 0xF

Step = tuple[int, int, int, int]  # code, to skip where it is so, where not, operand


def steps_of(what: str) -> list[Step]:
    """The filter's program."""
    socket, sendmsg, *copies, memfd = NUMBERS[platform.machine()]
    refuse, allow = (_RETURN, 0, 0, _ERRNO | _EPERM), (_RETURN, 0, 0, _ALLOW)
    whole = {"descriptors": [sendmsg], "copies": copies, "memfd": [memfd]}.get(what)
    steps: list[Step] = [(_LOAD, 0, 0, _NUMBER)]
    if whole is not None:
        for number in whole:
            steps += [(_EQUAL, 0, 1, number), refuse]
        return [*steps, allow]
    steps += [(_EQUAL, 1, 0, socket), allow, (_LOAD, 0, 0, _FIRST), (_EQUAL, 1, 0, _AF_UNIX), allow]
    if what == "datagrams":
        steps += [
            (_LOAD, 0, 0, _SECOND),
            (_AND, 0, 0, _OF_TYPE),
            (_EQUAL, 1, 0, _SOCK_DGRAM),
            allow,
        ]
    elif what != "unix":
        raise SystemExit(f"{what}: nothing that can be forbidden here")
    return [*steps, refuse]


def forbid(what: str) -> None:
    """For this process and all that it starts."""
    program = b"".join(struct.pack("=HBBI", *step) for step in steps_of(what))
    code = ctypes.create_string_buffer(program, len(program))
    head = struct.pack("=HxxxxxxQ", len(program) // 8, ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(_SECCOMP, _FILTER, head, 0, 0):
        raise OSError(ctypes.get_errno(), "seccomp")


if __name__ == "__main__":
    forbid(sys.argv[1])
    os.execvp(sys.argv[2], sys.argv[2:])
