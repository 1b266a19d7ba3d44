# SPDX-License-Identifier: BSD-3-Clause
"""The CUDA accelerator against a driver that is none: it has the rules of one, see ``fake_cuda.c``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from compiling import Compile, gcc

HERE = Path(__file__).parent
PROXY = HERE.parents[1] / "host_proxy"

#: Programs for one PE that print "ok": name, settings.
PROGRAMS = [("cuda_captures", {})]


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the fake driver, for LD_LIBRARY_PATH."""
    folder = tmp_path_factory.mktemp("driver")
    options = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]
    gcc(*options, "-o", folder / "libcuda.so.1", HERE / "fake_cuda.c", "-lpthread")
    return folder


@pytest.mark.parametrize(("name", "settings"), PROGRAMS)
def test_the_cuda_accelerator_beside_other_uses_of_the_driver(
    name: str,
    settings: dict[str, str],
    build: Compile,
    flags: list[str],
    driver: Path,
    run_command: Callable,
) -> None:
    options = ["-std=gnu11", "-O2", f"-I{PROXY}", HERE / f"{name}.c", *flags, "-lpthread", "-ldl"]
    program = build(options, name)
    settings = {"PYSHMEM_TIMEOUT": "30", "PYSHMEM_DEVICE_HEAP_SIZE": "8M", **settings}
    done = run_command([program], 60, check=True, LD_LIBRARY_PATH=str(driver), **settings)
    assert (done.stdout, done.stderr) == ("ok\n", "")
