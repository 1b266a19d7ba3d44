# SPDX-License-Identifier: BSD-3-Clause
"""PEs on several hosts, which are network namespaces, started as a launcher of several hosts does it."""

from __future__ import annotations

import importlib.util
import os
import secrets
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from environment import clean_environment
from namespaces import HOSTS, ip

ADDRESS = "10.213.97.1"
TESTS = Path(__file__).parent.parent
PYTEST = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:hypothesispytest"]


def ucx_of_package() -> str:
    """The library that the extra ``ucx`` brings, which these tests need."""
    found = importlib.util.find_spec("libucx")
    if not found or not found.origin:
        raise RuntimeError("pip install 'pyshmem-openshmem[ucx]': these tests run on it")
    return str(Path(found.origin).parent / "lib" / "libucp.so.0")


@dataclass
class Pe:
    """A PE, and what it has printed once it has ended."""

    process: subprocess.Popen[str]
    host: str
    out: str = ""
    err: str = ""
    seconds: float = 0.0
    _reader: threading.Thread = field(default_factory=threading.Thread)

    def read(self) -> None:
        begin = time.monotonic()
        self.out, self.err = self.process.communicate()
        self.seconds = time.monotonic() - begin

    def start_reading(self) -> None:
        self._reader = threading.Thread(target=self.read)
        self._reader.start()

    def wait(self, timeout: float) -> None:
        self._reader.join(timeout)
        if self._reader.is_alive():
            self.process.kill()
            self._reader.join()
            raise AssertionError(f"a PE on {self.host} did not end: {self.out}{self.err}")


class Cluster:
    """``start``, or ``run``, a command of Python on ``n`` PEs of each of ``count`` hosts."""

    def __init__(self) -> None:
        self.jobs = 0
        self.pes: list[Pe] = []

    def place(self, pe: int, n_pes: int, **extra: str) -> dict[str, str]:
        """The variables of a PE of the job that was started last."""
        return clean_environment(
            PYSHMEM_PE=str(pe),
            PYSHMEM_N_PES=str(n_pes),
            PYSHMEM_JOB=f"job{os.getpid()}.{self.jobs}",
            PYSHMEM_SECRET=self.secret,
            **{
                "PYSHMEM_RENDEZVOUS": self.rendezvous,
                "NUMBA_ENABLE_CUDASIM": "1",
                "PYSHMEM_UCX_LIBRARY": ucx_of_package(),
                **extra,
            },
        )

    def begin_pe(self, host: str, command: list[str], environment: dict[str, str]) -> Pe:
        inside = ["ip", "netns", "exec", host, "unshare", "--uts", "--ipc", "sh", "-c"]
        inside += [f'hostname {host}; exec "$@"', "sh", sys.executable, *command]
        process = subprocess.Popen(
            inside, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        pe = Pe(process, host)
        pe.start_reading()
        return pe

    def new_job(self) -> None:
        self.jobs += 1
        self.rendezvous = f"{ADDRESS}:{20000 + (os.getpid() * 37 + self.jobs) % 20000}"
        self.secret = secrets.token_hex(16)

    def start(self, command: list[str], n: int, count: int, **extra: str) -> list[Pe]:
        self.new_job()
        self.pes = [
            self.begin_pe(HOSTS[i // n], command, self.place(i, n * count, **extra))
            for i in range(n * count)
        ]
        return self.pes

    def run(self, command: list[str], n: int, count: int, timeout: float, **extra: str) -> list[Pe]:
        """To the end of all, which has to be a good one."""
        pes = self.start(command, n, count, **extra)
        for pe in pes:
            pe.wait(timeout)
        for i, pe in enumerate(pes):
            assert pe.process.returncode == 0, f"PE {i} on {pe.host}: {pe.out}{pe.err}"
        return pes

    def end(self) -> None:
        for pe in self.pes:
            if pe.process.poll() is None:
                pe.process.kill()
            pe.wait(30)


def sockets(host: str) -> list[str]:
    """Of TCP, that are open on a host."""
    out = subprocess.run(
        ["ip", "netns", "exec", host, "cat", "/proc/net/tcp"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    waits = "06"  # the kernel keeps the ends of connections for a while
    return [line for line in out.splitlines()[1:] if line.split()[3] != waits]


def processes(host: str) -> list[str]:
    return ip("netns", "pids", host).split()
