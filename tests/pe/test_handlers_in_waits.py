# SPDX-License-Identifier: BSD-3-Clause
"""A signal's handler inside of a call of its own thread: what it cannot do is told, and all goes on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

#: What PE 0's main thread is in when the signal comes, and what ends that.
WAITS = {
    "wait_until": "pyshmem.wait_until(word, pyshmem.CMP_EQ, 1)",
    "wait_until_all": "pyshmem.wait_until_all(word, pyshmem.CMP_EQ, 1)",
    "signal_wait_until": "pyshmem.signal_wait_until(word, pyshmem.CMP_EQ, 1)",
    "set_lock": "pyshmem.set_lock(lock)",
    "team_sync": "team.sync()",
    "barrier_all": "pyshmem.barrier_all()",
    "sum_reduce": "pyshmem.sum_reduce(word, word)",
    "zeros": "pyshmem.zeros(3)",
    "drain": "pyshmem.drain()",
}

PROGRAM = """
import os, signal, time
import numpy as np
import pyshmem

job = pyshmem.init(heap_size="1M")
me = job.my_pe
word, lock = pyshmem.zeros(1, np.uint64), pyshmem.zeros(1, np.int64)
answered, said = pyshmem.zeros(1, np.uint64), []
team = pyshmem.TEAM_WORLD.split_strided(0, 1, 2)

def handler(number, frame):
    for call in (pyshmem.finalize, job.finalize, CALLS):
        try:
            call()
        except pyshmem.ShmemError as error:
            said.append(str(error))
    pyshmem.p(answered, 1, 1)  # PE 1 goes on

signal.signal(signal.SIGALRM, handler)
if me == 1:
    pyshmem.set_lock(lock)
pyshmem.barrier_all()
if me == 0:
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    WAIT
else:
    pyshmem.wait_until(answered, pyshmem.CMP_EQ, 1)
    OTHER
if me == 0:
    assert ["finalize: this thread is in `NAME`" in text for text in said[:2]] == [True, True], said
    assert all("this thread is in" in text for text in said), said
    assert not any("another thread" in text for text in said), said
    pyshmem.clear_lock(lock) if "NAME" == "set_lock" else None
pyshmem.barrier_all()
pyshmem.finalize()
with pyshmem.init(heap_size="1M"):  # and once more: the process is not stuck
    assert pyshmem.ones(4).sum() == 4
print("ok", flush=True)
"""

OTHERS = {
    "wait_until": "pyshmem.p(word, 1, 0)",
    "wait_until_all": "pyshmem.p(word, 1, 0)",
    "signal_wait_until": "pyshmem.p(word, 1, 0)",
    "set_lock": "pyshmem.clear_lock(lock)",
}


#: Of the same team as the one that it is in.
NESTED = dict.fromkeys(("barrier_all", "sum_reduce", "zeros", "drain"), "pyshmem.barrier_all")
NESTED["team_sync"] = "team.sync"


def program(name: str) -> str:
    text = PROGRAM.replace("OTHER", OTHERS.get(name, WAITS[name]))
    text = text.replace("CALLS", NESTED.get(name, "pyshmem.finalize"))
    return text.replace("WAIT", WAITS[name]).replace("NAME", name)


#: Kernels that wait on the thread that launches them.
KERNELS = {
    "numba": """
from numba import cuda
import pyshmem.device as shmem

@cuda.jit
def await_one(word):
    shmem.wait_until(word, shmem.CMP_EQ, 1)

launch = await_one[1, 1]
""",
    "triton": """
import triton
import pyshmem.triton as shmem

@triton.jit
def await_one(word, ctx):
    shmem.wait_until(word, shmem.CMP_EQ, 1, ctx)

def launch(word):
    await_one[(1,)](shmem.wrap(word), shmem.context())
""",
}

IN_KERNELS = """
import signal, time
import numpy as np
import pyshmem
KERNEL
job = pyshmem.init(heap_size="1M")
word = pyshmem.zeros(1, np.uint64, heap="device")
said = []

def handler(number, frame):
    for call in (lambda: pyshmem.finalize(), lambda: job.finalize()):
        try:
            call()
        except RuntimeError as error:
            said.append(str(error))

signal.signal(signal.SIGALRM, handler)
launch(pyshmem.ones(1, np.uint64, heap="device"))  # what a first launch takes long for
pyshmem.barrier_all()
if job.my_pe == 0:
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    launch(word)
    pyshmem.drain()
    # Where a program of the kernel itself is interrupted, its code has no such routines.
    told = "finalize: this thread is in kernel `await_one`", "is a host routine"
    assert len(said) == 2 and all(any(one in text for one in told) for text in said), said
else:
    time.sleep(1)
    pyshmem.p(word, 1, 0)
    pyshmem.drain()
pyshmem.finalize()
print("ok", flush=True)
"""


@pytest.mark.parametrize(
    ("language", "device"), [("numba", "sim"), ("numba", "cpu"), ("triton", "sim")]
)
def test_a_handler_cannot_end_the_job_inside_of_a_kernel(
    language: str, device: str, run_pes: Callable
) -> None:
    pytest.importorskip("numba.cuda")
    pytest.importorskip(language)
    text = IN_KERNELS.replace("KERNEL", KERNELS[language])
    done = run_pes(2, text, device=device, timeout=120, check=True)
    assert done.stdout.count("ok") == 2


@pytest.mark.parametrize("name", WAITS)
def test_a_handler_cannot_end_the_job_inside_of_a_wait(name: str, run_pes: Callable) -> None:
    done = run_pes(2, program(name), device="none", check=True)
    assert done.stdout.count("ok") == 2


def test_a_handler_that_raises_ends_the_wait_and_finalize_works_behind_it(
    run_pes: Callable,
) -> None:
    text = """
import os, signal, time
import numpy as np
import pyshmem

class Enough(Exception):
    pass

def handler(number, frame):
    raise Enough

pyshmem.init(heap_size="1M")
word = pyshmem.zeros(1, np.uint64)
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.3)
try:
    pyshmem.wait_until(word, pyshmem.CMP_EQ, 1)
except Enough:
    pyshmem.finalize()
with pyshmem.init(heap_size="1M"):
    print("ok", flush=True)
"""
    done = run_pes(2, text, device="none", check=True)
    assert done.stdout.count("ok") == 2


#: Inside of the start and of the end of a job, whose other PE comes late.
AT_THE_ENDS = """
import os, signal, threading, time
import pyshmem

said = []

def handler(number, frame):
    for call in (pyshmem.finalize, pyshmem.init):
        try:
            call()
        except pyshmem.ShmemError as error:
            said.append(str(error))

def interrupt_once_it_waits():
    while "State:\\tS" not in open(f"/proc/self/task/{os.getpid()}/status").read():
        time.sleep(0.01)
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGUSR1)

def late(name, call):
    if os.environ["PYSHMEM_PE"] == "1":
        time.sleep(1.5)
        return call()
    said.clear()
    threading.Thread(target=interrupt_once_it_waits).start()
    call()
    assert len(said) == 2, said
    assert f"finalize: this thread is in `{name}`" in said[0], said
    assert f"init: this thread is in `{name}`" in said[1], said

signal.signal(signal.SIGUSR1, handler)
for turn in range(2):  # the process is not stuck
    late("init", lambda: pyshmem.init(heap_size="1M"))
    assert pyshmem.ones(4).sum() == 4
    pyshmem.barrier_all()
    late("finalize", pyshmem.finalize)
    assert not pyshmem.initialized()
print("ok", flush=True)
"""


def test_a_handler_neither_starts_nor_ends_a_job_that_is_starting_or_ending(
    run_pes: Callable,
) -> None:
    done = run_pes(2, AT_THE_ENDS, device="none", check=True)
    assert done.stdout.count("ok") == 2


C_PROGRAM = """
#include <ishmemx.h>
#include <pthread.h>
#include <shmem.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static volatile int done;
static long *word;
static char said[3][256];
static void *second(void *unused) {
    strcpy(said[2], ishmemx_finalize_check() ? ishmemx_error() : "");
    return unused;
}
static void handler(int number) {
    pthread_t thread; /* what another thread does meanwhile is its own business */
    strcpy(said[0], ishmemx_finalize() ? ishmemx_error() : "finalised");
    strcpy(said[1], ishmemx_barrier_all() ? ishmemx_error() : "passed");
    pthread_create(&thread, NULL, second, NULL);
    pthread_join(thread, NULL);
    shmem_long_p(word, number, 0);
}
int main(void) {
    shmem_init();
    word = shmem_calloc(1, sizeof *word);
    signal(SIGALRM, handler);
    alarm(1);
    shmem_long_wait_until(word, SHMEM_CMP_NE, 0);
    if (!strncmp(said[0], "finalize: this thread is in `", 29) && !strcmp(said[1], "passed") &&
        !said[2][0])
        puts("good");
    else
        printf("%s; %s; %s", said[0], said[1], said[2]);
    shmem_finalize();
    return 0;
}
"""


C_ENDS = """
#include <ishmemx.h>
#include <pthread.h>
#include <shmem.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static const char *wanted;
static volatile int calls, wrong;
static ishmemx_config_t config;
static void handler(int number) {
    char text[64];
    (void)number;
    calls++;
    snprintf(text, sizeof text, "init: this thread is in `%s`", wanted);
    if (!ishmemx_init(&config) || strncmp(ishmemx_error(), text, strlen(text)))
        wrong = printf("%s\\n", ishmemx_error());
    snprintf(text, sizeof text, "finalize: this thread is in `%s`", wanted);
    if (!ishmemx_finalize() || strncmp(ishmemx_error(), text, strlen(text)))
        wrong = printf("%s\\n", ishmemx_error());
}
static void *second(void *unused) { /* another thread is told of both, too */
    usleep(300000);
    if (!ishmemx_init(&config) || !strstr(ishmemx_error(), "another thread is in "))
        wrong = printf("%s\\n", ishmemx_error());
    return unused;
}
static int late(const char *name, int call(void)) {
    pthread_t thread;
    int status;
    wanted = name;
    if (atoi(getenv("PYSHMEM_PE"))) {
        sleep(2);
        return call();
    }
    pthread_create(&thread, NULL, second, NULL);
    alarm(1);
    status = call();
    pthread_join(thread, NULL);
    return status;
}
static int start(void) {
    return ishmemx_init(&config);
}
int main(void) {
    ishmemx_config_from_environment(&config);
    signal(SIGALRM, handler);
    if (late("init", start) || late("finalize", ishmemx_finalize) || ishmemx_initialized())
        printf("%s\\n", ishmemx_error());
    else if (!wrong && (calls == 2 || atoi(getenv("PYSHMEM_PE"))))
        puts("good");
    return 0;
}
"""


def test_a_handler_of_a_c_program_in_init_and_finalize_is_told(
    compile_c: Callable, run_pes: Callable
) -> None:
    done = run_pes(2, compile_c(C_ENDS), device="none", check=True)
    assert done.stdout.splitlines() == ["good", "good"]


def test_a_handler_of_a_c_program_is_told(compile_c: Callable, run_command: Callable) -> None:
    done = run_command([compile_c(C_PROGRAM)], 30, check=True)
    assert done.stdout == "good\n"
