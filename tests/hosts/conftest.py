# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of several hosts share."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "pe"))  # namespaces.py

from cluster import Cluster
from namespaces import make_hosts, remove_hosts


@pytest.fixture(scope="session")
def made_hosts() -> Iterator[None]:
    if not (shutil.which("ip") and shutil.which("unshare") and shutil.which("hostname")):
        pytest.skip("ip, unshare or hostname is not installed")
    try:
        make_hosts()
    except (subprocess.CalledProcessError, OSError) as error:
        remove_hosts()
        pytest.skip(f"network namespaces are not allowed: {getattr(error, 'stderr', error)}")
    yield
    remove_hosts()


@pytest.fixture
def cluster(made_hosts: None) -> Iterator[Cluster]:
    made = Cluster()
    yield made
    made.end()
