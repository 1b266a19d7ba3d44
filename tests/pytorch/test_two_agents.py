# SPDX-License-Identifier: BSD-3-Clause
"""A job that two agents of torchrun start, on two hosts: its PEs meet by the agents' store."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch.distributed
from environment import clean_environment
from netns import Namespaces

from pyshmem.host.job.joining import store

PROGRAM = """
import sys
import numpy as np, pyshmem

job = pyshmem.init(heap_size="8M", device="none")
assert "torch" not in sys.modules
box = pyshmem.zeros(4, np.int64)
pyshmem.barrier_all()
pyshmem.put(box, np.full(4, job.my_pe), (job.my_pe + 1) % job.n_pes)
pyshmem.barrier_all()
assert (box == (job.my_pe - 1) % job.n_pes).all()
print("went round", job.my_pe, "of", job.n_pes, flush=True)
pyshmem.finalize()
"""


@pytest.mark.parametrize("libuv", [True, False])
def test_the_store_is_spoken_to(libuv: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """As torch's client would: what it puts there torch reads, and the other way round."""
    kept = torch.distributed.TCPStore(
        "127.0.0.1", 0, is_master=True, wait_for_workers=False, use_libuv=libuv
    )
    variables = {"RUN_ID": "run", "RESTART_COUNT": "3", "USE_AGENT_STORE": "True"}
    for name, text in variables.items():
        monkeypatch.setenv(f"TORCHELASTIC_{name}", text)
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", str(kept.port))
    monkeypatch.setattr(store, "_rounds", 0)
    assert store.is_there()
    assert store.tell(0, 2, lambda: "10.0.0.1:4711 secret", 10.0) == "10.0.0.1:4711 secret"
    monkeypatch.setattr(store, "_rounds", 0)
    assert store.tell(1, 2, lambda: "not asked", 10.0) == "10.0.0.1:4711 secret"
    with pytest.raises(OSError, match="timed out"):  # nobody puts the second there
        store.tell(1, 2, lambda: "not asked", 0.3)


@pytest.fixture
def two_hosts() -> Iterator[Namespaces]:
    if os.geteuid() or not (shutil.which("ip") and shutil.which("unshare")):
        pytest.skip("network namespaces need root, ip and unshare")
    names = [f"pysh-{os.getpid()}-torch-{letter}" for letter in "ab"]
    found = Namespaces(names, f"pysh-{os.getpid()}-torch-hub", "10.213.99")
    try:
        found.make()
    except (subprocess.CalledProcessError, OSError) as error:
        found.remove()
        pytest.skip(f"network namespaces are not allowed: {getattr(error, 'stderr', error)}")
    yield found
    found.remove()


def test_two_agents_on_two_hosts(two_hosts: Namespaces, tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    agents = []
    for number, name in enumerate(two_hosts.names):
        here = ["ip", "netns", "exec", name, "unshare", "--uts", "--ipc", "sh", "-c"]
        here += [f'hostname host-{number}; exec "$@"', "sh"]
        command = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2"]
        command += ["--node-rank", str(number), "--master-addr", two_hosts.address(0)]
        command += ["--master-port", "29511", "--nproc-per-node", "2", str(script)]
        environment = clean_environment(OMP_NUM_THREADS="1")
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        agents.append(subprocess.Popen([*here, *command], env=environment, **pipes))
    try:
        outputs = [agent.communicate(timeout=200)[0] for agent in agents]
    finally:
        for agent in agents:
            agent.kill()
            agent.wait()
    assert [agent.returncode for agent in agents] == [0, 0], outputs
    found = re.findall(r"went round (\d) of 4", "".join(outputs))
    assert sorted(found) == ["0", "1", "2", "3"], outputs
