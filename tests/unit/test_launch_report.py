# SPDX-License-Identifier: BSD-3-Clause
"""What the launcher says of a job that did not end well, and which PE it takes for the cause."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pyshmem.launcher.output import hints, report

_ERROR = """before
Traceback (most recent call last):
  File "/x/a.py", line 9, in <module>
    main()
  File "/x/a.py", line 5, in main
    raise ValueError("no")
          ^^^^^^^^^^^^^^^^
ValueError: no
"""

_SYNTAX = '  File "/x/a.py", line 1\n    def f(:\n          ^\nSyntaxError: invalid syntax\n'


def test_last_words_are_the_place_and_the_error() -> None:
    words = [line.strip() for line in report.last_words(_ERROR.splitlines())]
    assert words == ['File "/x/a.py", line 5, in main', 'raise ValueError("no")', "ValueError: no"]


def test_last_words_name_the_programs_line_not_that_of_the_package() -> None:
    inside = f'  File "{report.__file__}", line 1, in put\n    raise ValueError("no")\n'
    words = report.last_words(
        _ERROR.replace("ValueError: no", inside + "ValueError: no").splitlines()
    )
    assert words[0].strip() == 'File "/x/a.py", line 5, in main'
    assert not any("report.py" in word for word in words)
    assert words[-1] == "ValueError: no"
    only = f"Traceback (most recent call last):\n{inside}ValueError: no\n"
    assert report.__file__ in report.last_words(only.splitlines())[0]


def test_last_words_name_the_programs_line_not_that_of_another_package() -> None:
    text = """Traceback (most recent call last):
  File "/home/me/program.py", line 3, in <module>
    kernel(a)
  File "/opt/env/lib/python3.12/site-packages/numba/errors.py", line 67, in check
    raise ValueError(message)
ValueError: no launch configuration
"""
    assert (
        report.last_words(text.splitlines())[0]
        == '  File "/home/me/program.py", line 3, in <module>'
    )


def test_last_words_of_a_rank_are_without_what_torch_puts_before_each_line() -> None:
    inside = (
        '  File "/env/site-packages/torch/distributed/x.py", line 1, in all_reduce\n    work()\n'
    )
    text = _ERROR.replace("ValueError: no", inside + "ValueError: no").splitlines()
    words = [line.strip() for line in report.last_words([f"[rank1]: {line}" for line in text])]
    assert words == ['File "/x/a.py", line 5, in main', 'raise ValueError("no")', "ValueError: no"]


def test_last_words_of_a_chained_error_are_of_the_last() -> None:
    chained = _ERROR + "\nDuring handling of the above exception, another exception occurred:\n\n"
    last = _ERROR.replace("ValueError", "KeyError").replace("line 5", "line 6")
    words = report.last_words((chained + last).splitlines())
    assert words[0].strip() == 'File "/x/a.py", line 6, in main'
    assert words[-1] == "KeyError: no"


def test_last_words_of_a_syntax_error() -> None:
    words = report.last_words(_SYNTAX.splitlines())
    assert words[0].strip() == 'File "/x/a.py", line 1'
    assert words[-1] == "SyntaxError: invalid syntax"


def test_last_words_of_any_program() -> None:
    assert report.last_words(["a", "", "b", "c", "d"]) == ["b", "c", "d"]
    assert report.last_words([]) == []


@pytest.mark.parametrize(
    ("returncode", "text", "status"),
    [(3, "exit code 3", 3), (-9, "SIGKILL", 137), (-11, "SIGSEGV", 139), (-60, "signal 60", 188)],
)
def test_how_a_pe_ended(returncode: int, text: str, status: int) -> None:
    assert text in report.how_it_ended(returncode)
    assert report.exit_status(returncode) == status


def test_pes_that_stand_together_share_a_line() -> None:
    places = [(0, "running"), (1, "in x"), (2, "running"), (3, "running"), (4, "running")]
    assert report.standing(places) == ["PEs 0, 2..4: running", "PE 1: in x"]


HEARSAY = """\
Traceback (most recent call last):
  File "program.py", line 3, in <module>
    pyshmem.barrier_all()
pyshmem.PeerDied: barrier_all: the job is being aborted: PE 1 failed

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "program.py", line 5, in <module>
    raise RuntimeError("the step is lost") from error
RuntimeError: the step is lost
"""


def test_what_follows_from_a_failure_elsewhere_is_secondary() -> None:
    lines = HEARSAY.splitlines()
    assert report.is_secondary(lines)
    assert not report.is_secondary(lines[-4:])
    assert not report.is_secondary(
        [line.replace("PeerDied", "KeyError").replace("the job is being", "") for line in lines]
    )


def test_a_number_of_the_job_that_is_called_is_told() -> None:
    last = [
        "    print(job.my_pe())",
        "          ^^^^^^^^^^^",
        "TypeError: 'int' object is not callable",
    ]
    [way] = hints.ways_out(last, [])
    assert "leave the () out" in way
    assert not hints.ways_out(["    print(count())", *last[1:]], [])


def test_a_function_that_is_launched_is_told_to_be_decorated() -> None:
    last = [
        "    shift[1, 256](dest)",
        "    ~~~~~^^^^^^^^",
        "TypeError: 'function' object is not subscriptable",
    ]
    [way] = hints.ways_out(last, [])
    assert "@cuda.jit of Numba, @triton.jit of Triton" in way
    assert not hints.ways_out(["    f[0]", *last[1:]], [])


def test_what_python_writes_is_set_by_one_of_two_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    last = ["UnicodeEncodeError: 'ascii' codec can't encode character"]
    monkeypatch.delenv("PYTHONIOENCODING", raising=False)
    assert "PYTHONUTF8=1" in hints.ways_out(last, [])[0]
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    assert "PYTHONIOENCODING is 'ascii': unset it" in hints.ways_out(last, [])[0]


@pytest.mark.parametrize(
    ("last", "way"),
    [
        ("ModuleNotFoundError: No module named 'numba'", "[sim]' without a GPU"),
        ("ModuleNotFoundError: No module named 'mpi4py.MPI'", "[mpi]"),
        ("UnicodeEncodeError: 'ascii' codec can't encode", "PYTHONUTF8=1"),
        ("AttributeError: module 'signal' has no attribute 'SIGINT'", "signal.py hides"),
        ("ImportError: cannot import name 'x' from 'random' (/x/random.py)", "random.py hides"),
        ("AttributeError: partially initialized module 'queue' has no", "queue.py hides"),
        ("ModuleNotFoundError: No module named 'pandas'", ""),
        ("AttributeError: module 'socket' has no attribute 'x'", ""),
        ("TypeError: 'NoneType' object is not subscriptable", "results are in dest"),
        ("AttributeError: 'NoneType' object has no attribute 'sync'", "outside a new team"),
        (
            "ImportError: cannot import name 'cuda' from partially initialized module 'numba' (x)",
            "numba.py hides the package numba",
        ),
        ("TypeError: 'function' object does not support the context manager protocol", "init()"),
        ("TypeError: 'NoneType' object does not support item assignment", "put and get go there"),
        (
            "TypeError: object NoneType can't be used in 'await' expression",
            "pyshmem.sum_reduce_nb(",
        ),
        ("TypeError: 'Stream' object does not support the context manager protocol", "stream=s"),
        (
            "ValueError: ProcessGroupNCCL is only supported with GPUs, no GPUs found!",
            'without "nccl"',
        ),
        ("Unknown attribute 'p' of type Module(<module 'pyshmem.device' from 'x'>)", "@numba.njit"),
        ("ModuleNotFoundError: No module named 'pyshmem.core'", "import pyshmem as shmem"),
        ("ModuleNotFoundError: No module named 'pyshmem.device.numba'", "pyshmem.device itself"),
        ("ModuleNotFoundError: No module named 'pyshmem.nonsense'", ""),
        ("AttributeError: SIGNAL_SET", "pyshmem.SIGNAL_SET"),
        ("AttributeError: type object 'Cmp' has no attribute 'CMP_EQ'", "pyshmem.CMP_EQ"),
        ("AttributeError: '_OpNamespace' 'pyshmem' object has no attribute 'x'", "the operators"),
        ("1. (arg0: torch._C.x.ReduceOp) -> None Invoked with: <x>, 'sum'", "dist.ReduceOp.SUM"),
        (
            "ImportError: cannot import name 'allreduce' from 'pyshmem.fused' (/x/__init__.py)",
            "pyshmem.fused has no allreduce: torch.distributed does it",
        ),
        ("ImportError: cannot import name 'Foo' from 'pyshmem.interop.torch' (/x/__init__.py)", ""),
        ("ValueError: no", ""),
    ],
)
def test_hints_name_what_is_missing_or_hidden(last: str, way: str, tmp_path: Path) -> None:
    for name in ("signal", "random", "queue", "pandas", "numba"):
        (tmp_path / f"{name}.py").touch()
    command = [sys.executable, str(tmp_path / "queue.py")]
    found = hints.ways_out(["Traceback (most recent call last):", last], command)
    assert len(found) == bool(way)
    assert way in "".join(found)
    assert "hides" not in "".join(hints.ways_out([last], ["/bin/true"]))
    assert hints.ways_out([], command) == []
    last = "ImportError: cannot import name 'allreduce' from 'pyshmem' (/x/pyshmem/__init__.py)"
    assert "pyshmem.sum_reduce(dest, source)" in hints.ways_out([last], command)[0]
    assert hints.ways_out([last.replace("allreduce", "nonsense")], command) == []
    last = "AssertionError: Unknown backend type pyshmem"
    assert "pyshmem.interop.torch" in hints.ways_out([last], command)[0]
    told = hints.ways_out(["ModuleNotFoundError: No module named 'numba'"], command)
    assert told == [
        "pip install 'pyshmem-openshmem[sim]' without a GPU, 'pyshmem-openshmem[cuda]' with one"
    ]
