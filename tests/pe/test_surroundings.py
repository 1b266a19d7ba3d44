# SPDX-License-Identifier: BSD-3-Clause
"""Hosts and processes that lack what a job needs: a clear word, neither a hang nor a wrong one."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from environment import clean_environment
from oshrun import permission, reason_to_skip

PROGRAM = """
import os, pyshmem
with pyshmem.init(heap_size="1M") as job:
    pyshmem.barrier_all()
    os.write(1, f"PE {job.my_pe} of {job.n_pes}\\n".encode())
"""

SELF_TEST = ["-m", "pyshmem", "run", "-n", "2", "--device", "none", "-m", "pyshmem.cli.selftest"]


@pytest.fixture
def run_alone(tmp_path: Path, run_command: Callable) -> Callable:
    """``run_alone(**variables)``: one process of a job, started by another launcher than ours."""
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)

    def run(**variables: str) -> subprocess.CompletedProcess[str]:
        variables = {"PYSHMEM_DEVICE": "none", **permission(), **variables}
        return run_command([sys.executable, str(script)], 60, **variables)

    return run


# ---- several hosts -------------------------------------------------------------------------------

#: What srun gives to the first of four tasks on two hosts.
SRUN = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}
SRUN |= {"SLURM_STEP_NUM_TASKS": "4", "SLURM_STEP_NUM_NODES": "2"}

ON_TWO_HOSTS = {
    "srun": SRUN,
    "srun, pmi2": SRUN | {"PMI_RANK": "0", "PMI_SIZE": "4"},
    "PALS": {"PALS_RANKID": "0", "PMI_SIZE": "4", "PALS_LOCAL_SIZE": "2", "PALS_APID": "x"},
    "Flux": {"FLUX_TASK_RANK": "0", "FLUX_JOB_SIZE": "4", "FLUX_JOB_NNODES": "2"},
    "torchrun": {"RANK": "0", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"},
}


@pytest.mark.parametrize("launcher", ON_TWO_HOSTS)
def test_the_shm_conduit_refuses_several_hosts_at_once(launcher: str, run_alone: Callable) -> None:
    done = run_alone(PYSHMEM_CONDUIT="shm", PYSHMEM_INIT_TIMEOUT="600", **ON_TWO_HOSTS[launcher])
    assert done.returncode == 1
    assert "UnsupportedError: the launcher put the 4 PEs on several hosts" in done.stderr
    assert "oshrun" in done.stderr


def agent(pe: int, address: str, port: str) -> dict[str, str]:
    """One of two torchruns with a rank each."""
    ranks = {"RANK": str(pe), "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    names = {"MASTER_ADDR": address, "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": "none"}
    return ranks | names | {"PYSHMEM_INIT_TIMEOUT": "30"}


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.1.1", "localhost", "::1"])
def test_two_torchruns_that_meet_on_one_host_are_one_job(address: str, run_alone: Callable) -> None:
    port = uuid.uuid4().hex
    with ThreadPoolExecutor(2) as side_by_side:
        both = list(side_by_side.map(lambda pe: run_alone(**agent(pe, address, port)), range(2)))
    assert [done.stdout for done in both] == ["PE 0 of 2\n", "PE 1 of 2\n"], both[0].stderr


@pytest.mark.parametrize("conduit", ["shm", "openshmem"])
def test_two_torchruns_of_an_address_that_says_nothing_are_told_one_way(
    conduit: str, run_alone: Callable
) -> None:
    """What one conduit advises the other does not refuse."""
    done = run_alone(PYSHMEM_CONDUIT=conduit, **agent(0, "some.host", "7"))
    assert done.returncode == 1
    if conduit == "shm" or "says PE 0 of 1" in done.stderr:
        assert "give each --master-addr=127.0.0.1" in done.stderr
    assert "PYSHMEM_CONDUIT=shm" not in done.stderr


@pytest.mark.parametrize("pe", ["0", "2"])
def test_hosts_that_no_variable_tells_of_are_thought_of(pe: str, run_alone: Callable) -> None:
    done = run_alone(
        RANK=pe, WORLD_SIZE="3", MASTER_PORT=uuid.uuid4().hex, PYSHMEM_INIT_TIMEOUT="1"
    )
    assert done.returncode == 1
    assert re.search(r"PEs? [\d, ]+ did not show up within 1 s", done.stderr)
    assert re.search(
        r"on this host only \(.+\): start those of several hosts with `pyshmem run --hosts a,b`; unset",
        done.stderr,
    )


@pytest.mark.parametrize(
    ("name", "text", "other"),
    [
        ("RANK", "1", "WORLD_SIZE"),
        ("WORLD_SIZE", "2", "RANK"),
        ("PYSHMEM_PE", "0", "PYSHMEM_N_PES"),
        ("PYSHMEM_N_PES", "2", "PYSHMEM_PE"),
    ],
)
def test_half_a_place_is_no_job_of_one_pe(
    name: str, text: str, other: str, run_alone: Callable
) -> None:
    done = run_alone(**{name: text})
    assert f"ValueError: {name} is set, but {other} is not: unset it, or set both" in done.stderr


@pytest.mark.parametrize("variables", [{"RANK": "0"}, {"WORLD_SIZE": "1"}, {"RANK": "general"}])
def test_a_word_that_says_nothing_of_others_is_left_alone(
    variables: dict[str, str], run_alone: Callable
) -> None:
    assert run_alone(**variables).stdout == "PE 0 of 1\n"


COMMUNICATOR = """
import pyshmem

class Alone:
    def Get_rank(self): return 0
    def Get_size(self): return 1
    def bcast(self, what): return what
    def allgather(self, what): return [what]

with pyshmem.init(comm=Alone()) as job:
    print(f"PE {job.my_pe} of {job.n_pes}")
"""


@pytest.mark.parametrize("variables", [{"RANK": "1"}, {"WORLD_SIZE": "2"}])
def test_half_a_place_counts_for_nothing_beside_a_communicator(
    variables: dict[str, str], run_command: Callable
) -> None:
    """As where torch.distributed is given a rank and a size, and the world's is left over."""
    command = [sys.executable, "-c", COMMUNICATOR]
    done = run_command(command, 60, PYSHMEM_DEVICE="none", **permission(), **variables)
    assert done.stdout == "PE 0 of 1\n", done.stderr


def test_our_own_launcher_blames_no_other_host(run_pes: Callable) -> None:
    program = "import os, time, pyshmem\nif os.environ['PYSHMEM_PE'] == '1': time.sleep(9)\n"
    done = run_pes(2, program + "pyshmem.init()", env={"PYSHMEM_INIT_TIMEOUT": "1"})
    assert "PE 1 did not show up within 1 s" in done.stderr
    assert "several hosts" not in done.stderr


@pytest.mark.skipif(bool(reason_to_skip()), reason=reason_to_skip())
@pytest.mark.parametrize(
    "pmi", [{}, {"PMI_RANK": "0", "PMI_SIZE": "4"}, {"PMIX_RANK": "0", "PMIX_NAMESPACE": "x"}]
)
def test_srun_without_a_pmi_that_the_library_takes(
    pmi: dict[str, str], run_alone: Callable
) -> None:
    done = run_alone(**SRUN, **pmi)
    assert done.returncode == 1
    words = r"srun started 4 tasks but OpenSHMEM \(.*\) sees 1: use srun --mpi=pmix"
    assert re.search(words, done.stderr), done.stderr


def test_a_batch_script_is_no_task_of_a_step(run_alone: Callable) -> None:
    done = run_alone(SLURM_JOB_ID="7", SLURM_PROCID="0", SLURM_NTASKS="4", SLURM_NNODES="2")
    assert done.stdout == "PE 0 of 1\n", done.stderr


# ---- fork ----------------------------------------------------------------------------------------


def test_a_child_of_fork_is_told_that_it_is_no_pe(run_pes: Callable) -> None:
    run_pes(
        2,
        """
        import os, sys, numpy as np, pyshmem
        job = pyshmem.init(heap_size="1M")
        me, array = job.my_pe, pyshmem.zeros(2)
        calls = (
            pyshmem.my_pe, pyshmem.barrier_all, pyshmem.quiet, lambda: pyshmem.zeros(2),
            lambda: pyshmem.put(array, np.ones(2), 0), lambda: pyshmem.g(array, 0),
            lambda: pyshmem.init(heap_size="1M"),
        )
        child = os.fork()
        if child == 0:
            for call in calls:
                try:
                    call()
                except (pyshmem.NotInitialized, pyshmem.UnsupportedError) as error:
                    if f"PE {me} forked this process" not in str(error):
                        os._exit(2)
                else:
                    os._exit(3)
            pyshmem.finalize()
            raise ValueError("an error of a child")
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
        pyshmem.barrier_all()  # neither its finalize nor its failure was a PE's
        pyshmem.finalize()
        """,
        timeout=30,
        check=True,
    )


def test_a_child_forked_before_init_may_be_a_pe(run_pes: Callable) -> None:
    run_pes(
        2,
        "import os\nif os.fork() == 0:\n" + textwrap.indent(PROGRAM, "    ") + "else:\n"
        "    assert os.waitstatus_to_exitcode(os.wait()[1]) == 0\n",
        check=True,
    )


# ---- other children ------------------------------------------------------------------------------

CHILDREN = {
    "with its files": ("os.system(command)", "which has not finalised"),
    "without them": ("subprocess.call(command, shell=True)", "was started by PE"),
}


@pytest.mark.parametrize("how", CHILDREN)
def test_a_program_that_a_pe_starts_is_no_pe(how: str, run_pes: Callable) -> None:
    call, text = CHILDREN[how]
    done = run_pes(
        2,
        f"""
        import os, subprocess, sys, pyshmem
        child = "import pyshmem; pyshmem.init(heap_size='1M')"
        command = sys.executable + ' -c "' + child + '"'
        with pyshmem.init(heap_size="1M") as job:
            if job.my_pe == 1:  # alone: nobody else would come to the child's init
                assert {call} != 0
            pyshmem.barrier_all()
        """,
        timeout=30,
        check=True,
    )
    assert text in done.stderr


# ---- /proc and memfd -----------------------------------------------------------------------------


def test_a_job_on_a_host_without_proc(run_command: Callable) -> None:
    hide = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"]
    if (
        not shutil.which("unshare")
        or subprocess.run([*hide, "true"], capture_output=True).returncode
    ):
        pytest.skip("no right to hide /proc from a process")
    done = run_command([*hide, sys.executable, *SELF_TEST], 60)
    assert done.returncode == 0, done.stderr
    assert "no /proc here: processes that the PEs started and left may still run" in done.stderr


#: More on the heaps than /dev/shm has, of which nothing is left.
LARGE = """
import os, shutil
import numpy as np
import pyshmem

assert shutil.disk_usage("/dev/shm").free == 0
with pyshmem.init(heap_size="64M") as job:
    for heap in ("host", "device"):
        array = pyshmem.full(6 << 20, job.my_pe, dtype=np.int64, heap=heap)
        pyshmem.put(array[:1000], np.full(1000, 7), (job.my_pe + 1) % job.n_pes)
        pyshmem.barrier_all()
        assert array[999] == 7 and array[1000] == array[-1] == job.my_pe
    before = pyshmem.heap_info("device").memory
    more = pyshmem.ones((before >> 3) + 1, dtype=np.int64, heap="device")
    assert pyshmem.heap_info("device").memory > before and more[-1] == 1
    assert not os.listdir("/dev/shm")[1:]  # but for what fills it
    os.write(1, b"ok\\n")
"""


@pytest.mark.parametrize("conduit", ["shm", "ucx"])
def test_heaps_do_not_need_dev_shm(run_command: Callable, tmp_path: Path, conduit: str) -> None:
    """Containers have 64 MiB of it by default, and other programs fill it."""
    mount = "mount -t tmpfs -o size=64k none /dev/shm"
    fill = "head -c 64k /dev/zero > /dev/shm/full"
    small = ["unshare", "--mount", "sh", "-c", f'{mount} && {fill} && exec "$@"', "sh"]
    if (
        not shutil.which("unshare")
        or subprocess.run([*small, "true"], capture_output=True).returncode
    ):
        pytest.skip("no right to mount another /dev/shm")
    if conduit == "ucx":
        pytest.importorskip("libucx", reason="the extra ucx is not installed")
    program = tmp_path / "program.py"
    program.write_text(LARGE, encoding="utf-8")
    run = [sys.executable, "-m", "pyshmem", "run", "-n", "2", "--device", "sim", "--timeout", "60"]
    done = run_command([*small, *run, str(program)], 90, PYSHMEM_CONDUIT=conduit)
    assert (done.returncode, done.stdout) == (0, "ok\n" * 2), done.stderr


#: Kernels that want MFD_NOEXEC_SEAL (8) as vm.memfd_noexec=2 does, that do not know it, that refuse all.
KERNELS = {
    "insists": ("flags & 8 ? 0 : EACCES", 0),
    "does not know": ("flags & 8 ? EINVAL : 0", 0),
    "forbids": ("EPERM", 1),
}


@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
@pytest.mark.parametrize("kernel", KERNELS)
def test_what_kernels_make_of_memory_without_a_name(kernel: str, tmp_path: Path) -> None:
    why, status = KERNELS[kernel]
    (tmp_path / "memfd.c").write_text(
        "#define _GNU_SOURCE\n#include <errno.h>\n#include <sys/syscall.h>\n#include <unistd.h>\n"
        "int memfd_create(const char *name, unsigned flags) {\n"
        f"    errno = {why};\n"
        "    return errno ? -1 : (int)syscall(SYS_memfd_create, name, flags & 1);\n}\n"
    )
    library = tmp_path / "memfd.so"
    command = ["gcc", "-shared", "-fPIC", "-o", str(library), str(tmp_path / "memfd.c")]
    subprocess.run(command, check=True, timeout=60)
    environment = clean_environment(LD_PRELOAD=str(library))
    done = subprocess.run(
        [sys.executable, *SELF_TEST], env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == status, done.stderr
    if status:
        assert "the host or the container forbids shared memory without a name" in done.stderr


def test_more_pes_than_the_soft_limit_of_open_files_allows(run_command: Callable) -> None:
    """The launcher raises it as far as the hard limit; beyond, it says what to raise."""
    job = [sys.executable, "-m", "pyshmem", "run", "-n", "40", "--device", "none", "/bin/true"]
    run_command(["sh", "-c", 'ulimit -S -n 60; exec "$@"', "sh", *job], 60, check=True)
    done = run_command(["sh", "-c", 'ulimit -n 60; exec "$@"', "sh", *job], 60)
    assert done.returncode != 0
    assert "Too many open files while starting PE" in done.stderr
    assert "ulimit -Hn" in done.stderr


#: Of four PEs one with room for so few files: PE 0 takes the others' sockets, each PE watches its peers.
FEW_FILES = {
    "no socket": (0, 5, "PE 0 can take no more PEs than 1: Too many open files"),
    "one socket": (0, 6, "PE 0 can take no more PEs than 2: Too many open files"),
    "descriptors of the job": (2, 6, "PE 0's descriptors did not all arrive"),
    "peers": (2, 8, "PE 2 cannot watch its 3 peers: Too many open files"),
}


@pytest.mark.parametrize("case", FEW_FILES)
def test_a_pe_with_too_few_open_files_says_so_in_init(case: str, run_pes: Callable) -> None:
    pe, limit, text = FEW_FILES[case]
    done = run_pes(
        4,
        f"""
        import os, resource, pyshmem
        if os.environ["PYSHMEM_PE"] == "{pe}":
            resource.setrlimit(resource.RLIMIT_NOFILE, ({limit}, {limit}))
        pyshmem.init(heap_size="1M", device="none")
        """,
        timeout=30,
        env={"PYSHMEM_INIT_TIMEOUT": "600"},
    )
    assert done.returncode == 1
    assert text in done.stderr
    assert f"raise the limit of open files (ulimit -n, now {limit})" in done.stderr


@pytest.mark.parametrize("kib", [1, 1024], ids="ulimit -f {}".format)
def test_a_limit_of_file_sizes_is_told(kib: int, tmp_path: Path, run_command: Callable) -> None:
    """Of shared memory, too. Python does not mind SIGXFSZ; it killed programs in C without a word."""
    source, program = tmp_path / "program.c", tmp_path / "program"
    source.write_text("#include <shmem.h>\nint main(void) { shmem_init(); shmem_finalize(); }\n")
    pyshmem = [sys.executable, "-m", "pyshmem"]
    run_command([*pyshmem, "cc", str(source), "-o", str(program)], 60, check=True)
    job = [*pyshmem, "run", "-n", "2", "--device", "none", str(program)]
    done = run_command(["bash", "-c", f'ulimit -f {kib}; exec "$@"', "bash", *job], 60)
    assert done.returncode == 1
    assert "2 PEs: larger than files may be, and so shared memory (ulimit -f)" in done.stderr
    assert "Traceback" not in done.stderr
