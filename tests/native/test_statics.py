# SPDX-License-Identifier: BSD-3-Clause
"""Static and global variables of C programs, and how a C program ends its job."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from compiling import Compile

HERE = Path(__file__).parent


@pytest.mark.parametrize(
    "options",
    [["-O2"], ["-no-pie"], ["-Wl,-z,now"], ["-Wl,-z,norelro"]],
    ids=["lazy", "fixed", "now", "norelro"],
)
def test_static_variables_are_symmetric(
    options: list[str], build: Compile, flags: list[str], n_pes: int, run_pes: Callable
) -> None:
    program = build(["-std=gnu11", *options, HERE / "statics.c", *flags, "-lpthread"], "statics")
    for check in "01":
        done = run_pes(n_pes, program, ["mapped"], env={"PYSHMEM_CHECK": check}, check=True)
        assert done.stdout == "ok\n"


@pytest.mark.parametrize("reason", ["setting", "thread"])
def test_static_variables_that_only_the_kernel_copies(
    reason: str, build: Compile, flags: list[str], n_pes: int, run_pes: Callable
) -> None:
    program = build(["-std=gnu11", "-O2", HERE / "statics.c", *flags, "-lpthread"], "statics")
    arguments = ["mapped" if n_pes == 1 else "copied", *(["thread"] if reason == "thread" else [])]
    env = {"PYSHMEM_STATICS": "conduit"} if reason == "setting" else {}
    done = run_pes(n_pes, program, arguments, env=env, check=True)
    assert done.stdout == "ok\n"


STATIC_USER = """
#include <pthread.h>
#include <shmem.h>
#include <string.h>
#include <unistd.h>
static long word[4];
int main(int argc, char **argv) {
    long local = 0;
    const char *what = argc > 1 ? argv[1] : "";
    shmem_init();
    if (strcmp(what, "put") == 0)
        shmem_long_p(word, 1, 1);
    else if (strcmp(what, "add") == 0)
        shmem_long_atomic_inc(word, 1);
    else if (strcmp(what, "far") == 0)
        shmem_long_put(word, &local, 1 << 30, 1);
    else if (strcmp(what, "free") == 0)
        shmem_free(word);
    else if (strcmp(what, "local") == 0)
        shmem_long_p(&local, 1, 1);
    else if (strcmp(what, "text") == 0)
        shmem_long_p((long *)(void *)strlen, 1, 1);
    return 0;
}
"""


@pytest.mark.parametrize(
    ("way", "what", "message"),
    [
        ("none", "put", "a static variable, which is not symmetric here: PYSHMEM_STATICS is none"),
        ("conduit", "add", "atomics, signals and locks do not reach the static variables of PE 1"),
        ("auto", "far", "bytes leave the static variables, which end"),
        ("auto", "free", "is a static variable, not a block of a heap"),
        ("auto", "local", "is not on a symmetric heap"),
        ("auto", "text", "but only the static variables of a C program itself are symmetric"),
    ],
)
def test_a_static_variable_misused(
    way: str,
    what: str,
    message: str,
    build: Compile,
    flags: list[str],
    tmp_path: Path,
    run_pes: Callable,
) -> None:
    (tmp_path / "user.c").write_text(STATIC_USER)
    program = build([tmp_path / "user.c", *flags], "user")
    done = run_pes(2, program, [what], env={"PYSHMEM_STATICS": way})
    assert done.returncode != 0
    assert message in done.stderr


def test_static_variables_of_different_programs_are_not_symmetric(
    build: Compile, flags: list[str], tmp_path: Path, run_pes: Callable
) -> None:
    (tmp_path / "user.c").write_text(STATIC_USER)
    for name, options in (("first", ["-O0"]), ("second", ["-O2"])):
        program = build([*options, tmp_path / "user.c", *flags], name)
        (tmp_path / name).symlink_to(program)
    choose = tmp_path / "choose.sh"
    choose.write_text(
        '#!/bin/sh\n[ "$PYSHMEM_PE" = 0 ] && exec "$(dirname "$0")/first" put\n'
        'exec "$(dirname "$0")/second" put\n'
    )
    choose.chmod(0o755)
    done = run_pes(2, choose)
    assert done.returncode != 0
    assert "not symmetric here: the PEs run different programs" in done.stderr


@pytest.mark.parametrize("status", [0, 3])
@pytest.mark.parametrize("others", ["shmem_barrier_all()", "for (;;) pause()"])
def test_global_exit_is_the_exit_of_every_pe(
    others: str, status: int, build: Compile, flags: list[str], tmp_path: Path, run_pes: Callable
) -> None:
    (tmp_path / "leave.c").write_text(
        "#include <shmem.h>\n#include <unistd.h>\n"
        "int main(void) {\n"
        "    shmem_init();\n"
        "    if (shmem_my_pe() == 1)\n"
        f"        shmem_global_exit({status});\n"
        f"    {others};\n"
        "    return 9;\n"
        "}\n"
    )
    done = run_pes(3, build([tmp_path / "leave.c", *flags], "leave"))
    assert done.returncode == status
    assert "aborted" not in done.stderr
