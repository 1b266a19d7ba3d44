# SPDX-License-Identifier: BSD-3-Clause
"""What a PE says while nobody reads its stdout and stderr keeps none of those waiting that it serves."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

import pytest

#: PE 0's stdout and stderr become pipes that are full; the ends for reading.
FULL = """
import os, threading, time
import numpy as np
from numba import cuda
import pyshmem
from pyshmem import device as shmem

def fill(fd):
    reader, writer = os.pipe()
    os.dup2(writer, fd)
    os.close(writer)
    os.set_blocking(fd, False)
    try:
        while True:
            os.write(fd, b"." * 4096)
    except BlockingIOError:
        os.set_blocking(fd, True)
    return reader

def read(reader):
    os.set_blocking(reader, False)
    text = b""
    while b"END" not in text:
        try:
            text += os.read(reader, 1 << 16)
        except BlockingIOError:
            time.sleep(0.001)
    return text.decode().lstrip(".")

@cuda.jit
def says(n):
    for i in range(n):
        shmem.print("line", i)

@cuda.jit
def says_end():
    shmem.print("END", 0)

@cuda.jit
def ends():
    shmem.abort(7, "enough")

pyshmem.init()
me = pyshmem.my_pe()
cells = pyshmem.ones(8, dtype=np.int64, heap="device")
pyshmem.barrier_all()
"""


@pytest.mark.parametrize("way", ["print", "report"])
def test_others_are_served_while_nobody_reads(way: str, run_pes: Callable) -> None:
    """A kernel prints, or waits so long that its proxy says so: a get from its PE ends all the same."""
    body = """
    flag = pyshmem.zeros(1, dtype=np.uint64, heap="device")
    if me == 0:
        reader = fill(1 if "WAY" == "print" else 2)
        saved = 2 if "WAY" == "print" else 1
        if "WAY" == "print":
            says[1, 1](3)
            pyshmem.quiet()
    if "WAY" == "report":
        @cuda.jit
        def waits(flag):
            shmem.signal_wait_until(flag, shmem.CMP_EQ, 1)
        if me == 0:
            thread = threading.Thread(target=lambda: waits[1, 1](flag))
            thread.start()
            time.sleep(1)
        pyshmem.barrier_all()
    if me == 1:
        seen = np.zeros(8, np.int64)
        pyshmem.get(seen, cells, 0)
        assert (seen == 1).all()
        if "WAY" == "report":
            pyshmem.signal_op(flag, 1, pyshmem.SIGNAL_SET, 0)
    pyshmem.barrier_all()
    if me == 0 and "WAY" == "print":
        says_end[1, 1]()
        text = read(reader)
        assert [f"line = {i} " in text for i in range(3)] == [True] * 3, text
        assert "left out" not in text
    if me == 0:
        os.write(saved, b"served\\n")
    pyshmem.barrier_all()
    os._exit(0)
    """.replace("WAY", way)
    settings = {"PYSHMEM_NODE_SIZE": "1", "PYSHMEM_REPORT_AFTER": "0.3", "PYSHMEM_TIMEOUT": "30"}
    done = run_pes(2, FULL + textwrap.dedent(body), device="sim", env=settings, check=True)
    assert "served" in done.stdout + done.stderr


def test_lines_past_the_bound_are_counted_and_the_count_is_told(run_pes: Callable) -> None:
    body = """
reader = fill(1)
says[1, 1](60000)
pyshmem.quiet()
threading.Thread(target=lambda: (time.sleep(0.2), says_end[1, 1]()), daemon=True).start()
text = read(reader)
kept = text.count(": line = ")
left = [line for line in text.splitlines() if "left out, as nobody read" in line]
lost = sum(int(line.split(" line")[0].split()[-1]) for line in left)
assert left and 0 < kept < 60000 and kept + lost in (60000, 60001), (kept, lost, left)
os.write(2, b"counted\\n")
os._exit(0)
"""
    done = run_pes(1, FULL + body, device="sim", check=True)
    assert "counted" in done.stderr


def test_an_abort_ends_the_process_with_its_code_whatever_becomes_of_the_line(
    run_pes: Callable,
) -> None:
    body = """
fill(1), fill(2)
threading.Thread(target=lambda: ends[1, 1](), daemon=True).start()
time.sleep(30)
os._exit(1)
"""
    done = run_pes(1, FULL + body, device="sim", timeout=25)
    assert done.returncode == 7


#: PE 0's stderr is a pipe that is full and that nobody reads; then it makes an error that has a status,
#: and one that ends a C program.
C_PROGRAM = """
#include <fcntl.h>
#include <shmem.h>
#include <string.h>
#include <unistd.h>

static void fill(void) {
    char dots[4096];
    int ends[2];

    memset(dots, '.', sizeof dots);
    if (pipe(ends) || fcntl(ends[1], F_SETFL, O_NONBLOCK))
        _exit(99);
    while (write(ends[1], dots, sizeof dots) > 0)
        ;
    fcntl(ends[1], F_SETFL, 0);
    dup2(ends[1], 2);
}

int main(void) {
    shmem_ctx_t ctx;
    long outside = 0;

    shmem_init();
    if (shmem_my_pe() == 0) {
        fill();
        if (shmem_ctx_create(-1, &ctx) == 0)
            _exit(98);
        shmem_long_p(&outside, 1, 1);
    }
    shmem_barrier_all();
    return 0;
}
"""


def test_an_error_ends_a_c_program_and_its_job_whatever_becomes_of_the_line(
    compile_c: Callable, run_pes: Callable
) -> None:
    done = run_pes(2, compile_c(C_PROGRAM), timeout=25)
    assert done.returncode == 1, done.stderr
    assert "PE 0 gave up with code 1: shmem_long_p: dest" in done.stderr
