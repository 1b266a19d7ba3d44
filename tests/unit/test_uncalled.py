# SPDX-License-Identifier: BSD-3-Clause
"""What the launcher says of a program whose text has functions where their results are meant."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import pyshmem
from pyshmem.launcher.output.uncalled import told, uncalled

ROOT = Path(pyshmem.__file__).parents[1]

#: What stands behind ``import pyshmem``, and what is to be called.
WRONG = {
    "if pyshmem.my_pe == 0: pass": "pyshmem.my_pe()",
    "if 0 == pyshmem.my_pe: pass": "pyshmem.my_pe()",
    "while pyshmem.n_pes > 1: pass": "pyshmem.n_pes()",
    "root = not pyshmem.my_pe": "pyshmem.my_pe()",
    "if pyshmem.initialized: pass": "pyshmem.initialized()",
    "a = 1 if pyshmem.my_pe else 2": "pyshmem.my_pe()",
    "ok = pyshmem.my_pe in (0, 1)": "pyshmem.my_pe()",
    "print(f'{pyshmem.my_pe} of us')": "pyshmem.my_pe()",
    "print('PE', pyshmem.my_pe)": "pyshmem.my_pe()",
    "right = (pyshmem.my_pe + 1) % 2": "pyshmem.my_pe()",
    "for pe in range(pyshmem.n_pes): pass": "pyshmem.n_pes()",
    "a = x[pyshmem.my_pe]": "pyshmem.my_pe()",
    "a = x[0, pyshmem.my_pe:]": "pyshmem.my_pe()",
    "pyshmem.barrier_all": "pyshmem.barrier_all()",
    "pyshmem.TEAM_WORLD.sync": "pyshmem.TEAM_WORLD.sync()",
    "a = pyshmem.TEAM_NODE.my_pe == 0": "pyshmem.TEAM_NODE.my_pe()",
    "half = pyshmem.TEAM_WORLD.split(0)\nif half.my_pe == 0: pass": "half.my_pe()",
    "t = pyshmem.Team.from_pes([0])\na = t.n_pes - 1": "t.n_pes()",
    "r, c = pyshmem.TEAM_WORLD.split_2d(2)\na = c.my_pe == 0": "c.my_pe()",
    "from pyshmem import my_pe as who\nif who == 0: pass": "who()",
    "import pyshmem as sh\nsh.quiet": "sh.quiet()",
    "me = pyshmem.my_pe\nif me == 0: pass": "me()",
    "me, n = pyshmem.my_pe, pyshmem.n_pes\nlast = me == n - 1": "n()",
    "from pyshmem import device as d\ndef k(): return d.my_pe == 0": "d.my_pe()",
    "import pyshmem.device as d\ndef k(): d.barrier_all_work_group": "d.barrier_all_work_group()",
    "import pyshmem.triton as t\ndef k(ctx): return t.my_pe == 0": "t.my_pe(ctx)",
}

#: What is meant as it stands, or is nothing of pyshmem's.
RIGHT = (
    "if pyshmem.my_pe() == 0: pass",
    "with pyshmem.init() as job: print(job.my_pe == 0, f'{job.n_pes}')",
    "from pyshmem import my_pe\nmy_pe = my_pe()\nif my_pe == 0: pass",
    "def f(my_pe): return my_pe == 0",
    "print(pyshmem.launch(pyshmem.my_pe, 2))",
    "move = pyshmem.put if fast else pyshmem.get",
    "if move is pyshmem.put: pass",
    "table = {pyshmem.put: 1}\na = table[pyshmem.put]",
    "a = move == pyshmem.put",
    "if pyshmem.my_pe is not None: pass",
    "me = pyshmem.my_pe\nme = me()\nif me == 0: pass",
    "pyshmem.__version__",
    "pyshmem.fused",
    "def f(pyshmem): return pyshmem.my_pe == 0",
    "other.my_pe == 0",
    "if (: broken",
    "a = '\\x00' + pyshmem.MISSING",
)


@pytest.mark.parametrize("text", WRONG)
def test_a_function_where_its_result_is_meant_is_told(text: str) -> None:
    found = uncalled(f"import pyshmem\n{text}\n".encode())
    assert found, text
    line, what = found[-1]
    assert what.endswith(f"call it, {WRONG[text]}")
    assert line == text.count("\n") + 2


@pytest.mark.parametrize("text", RIGHT)
def test_what_is_meant_so_is_not_told(text: str) -> None:
    assert uncalled(f"import pyshmem\n{text}\n".encode()) == []


@pytest.mark.parametrize("decorator", ["cuda.jit", "cuda.jit(device=True)", "triton.jit"])
def test_a_kernel_that_calls_the_host_is_told(decorator: str) -> None:
    kernel = f"@{decorator}\ndef k(a):\n    pyshmem.put(a, a, shmem.my_pe())\n"
    text = f"import pyshmem\nfrom pyshmem import device as shmem\n{kernel}"
    [(line, what)] = uncalled(text.encode())
    assert line == 4
    assert "kernel k calls pyshmem.put, a routine of the host, in line 5" in what
    assert uncalled(text.replace(decorator, "numba.njit").encode()) == []


@pytest.mark.parametrize("path", [*ROOT.glob("examples/*.py"), *ROOT.glob("bench/*.py")], ids=str)
def test_of_the_programs_here_nothing_is_told(path: Path) -> None:
    assert told([sys.executable, str(path)]) == []


def test_a_long_list_is_cut() -> None:
    text = "import pyshmem\n" + "pyshmem.quiet\n" * 20
    lines = told([sys.executable, "-c", text])
    assert lines[0] == "-c:2: pyshmem.quiet alone does nothing: call it, pyshmem.quiet()"
    assert lines[-1] == "and 15 more of the kind"
    assert len(lines) == 6


def test_modules_are_read_and_what_is_no_text_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    package = tmp_path / "own"
    package.mkdir()
    (package / "prog.py").write_text("import pyshmem\npyshmem.quiet\n")
    (tmp_path / "data.py").write_bytes(b"pyshmem \x00\xff")
    assert len(told([sys.executable, "-m", "own.prog"])) == 1
    for command in (["-m"], ["-c"], ["data.py"], ["absent.py"], ["-m", "absent"], ["own"], []):
        assert told([sys.executable, *command]) == []
    assert told(["./a.out", "own/prog.py"]) == []


def test_the_launcher_says_it_once_and_runs_the_program() -> None:
    text = "import pyshmem\npyshmem.init()\nprint(pyshmem.my_pe == 0)\npyshmem.finalize()"
    command = [sys.executable, "-m", "pyshmem", "run", "-n", "2", "--device", "none", "-c", text]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split() == ["False", "False"]
    [line] = done.stderr.splitlines()
    assert line.startswith("pyshmem: -c:3: pyshmem.my_pe is a function, not what it returns, in ")
    assert line.endswith("`pyshmem.my_pe == 0`: call it, pyshmem.my_pe()")
