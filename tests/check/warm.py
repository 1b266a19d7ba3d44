# SPDX-License-Identifier: BSD-3-Clause
"""PEs that are forked from a process which has imported torch and Triton, for many short jobs.

The launcher starts this file as each PE. It hands its descriptors and its environment to the process
that listens at ``WARM_SOCKET``, of which a child runs the program in its place, and ends as that does.
In ``WARM_FOLDER`` the child leaves a file that has its number in its name.
"""

from __future__ import annotations

import array
import contextlib
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Callable

_MOST = 1 << 20  # bytes of an environment
_TURN = 0.05  # seconds


def hand_over() -> int:
    """In the PE that the launcher started; the exit status of who runs the program."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        link.connect(os.environ["WARM_SOCKET"])
        fds = []
        for name in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):  # that of the folder itself
                if int(name) != link.fileno() and os.fstat(int(name)):
                    fds.append(int(name))
        about = json.dumps([fds, dict(os.environ), sys.argv[1:]]).encode()
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
        link.sendmsg([len(about).to_bytes(4, "little")], rights)
        link.sendall(about)
        status = link.recv(1)
    return status[0] if status else 1


def _receive(link: socket.socket) -> tuple[list[int], list[int], dict[str, str], list[str]]:
    """Descriptors, the numbers that they had, the environment and the arguments."""
    got = array.array("i")
    data, control, _, _ = link.recvmsg(4, socket.CMSG_SPACE(256 * got.itemsize))
    for _, _, some in control:
        got.frombytes(some[: len(some) - len(some) % got.itemsize])
    size, text = int.from_bytes(data, "little"), b""
    while len(text) < size:
        text += link.recv(min(_MOST, size - len(text)))
    numbers, environment, arguments = json.loads(text)
    return list(got), numbers, environment, arguments


def _become(link: socket.socket, run: Callable[[list[str]], None]) -> None:
    """In a child: run the program with what the PE has handed over."""
    got, numbers, environment, arguments = _receive(link)
    high = max(*got, *numbers, link.fileno()) + 1
    kept = [os.dup2(fd, high + n, inheritable=True) for n, fd in enumerate(got)]
    for fd in got:
        os.close(fd)
    program = os.fork()
    if not program:
        os.setpgid(0, 0)
        for fd, number in zip(kept, numbers, strict=True):
            os.dup2(fd, number, inheritable=True)
        os.closerange(high, high + len(kept))
        os.environ.clear()
        os.environ.update(environment)
        open(f"{environment['WARM_FOLDER']}/pe-{os.getpid()}", "x").close()
        status = 1
        try:
            run(arguments)
            status = 0
        except SystemExit as ended:
            status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        sys.stdout.flush()
        os._exit(status)
    os.closerange(high, high + len(kept))
    ended = status = 0
    while not ended:
        ended, status = os.waitpid(program, os.WNOHANG)
        ready, _, _ = select.select([link], [], [], 0 if ended else _TURN)
        if ready and not ended and not link.recv(1):  # the launcher has ended the PE
            with contextlib.suppress(ProcessLookupError):
                os.killpg(program, signal.SIGKILL)
            os.waitpid(program, 0)
            return
    code = os.waitstatus_to_exitcode(status)
    with contextlib.suppress(OSError):
        link.sendall(bytes([code if code >= 0 else 128 - code]))


def serve(path: str, run: Callable[[list[str]], None]) -> None:
    """Fork a child for each PE that connects, which runs ``run``. Does not return."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(path)
    listening.listen(64)
    while True:
        link, _ = listening.accept()
        if not os.fork():
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listening.close()
            _become(link, run)
            os._exit(0)
        link.close()


if __name__ == "__main__":
    sys.exit(hand_over())
