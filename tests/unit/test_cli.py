# SPDX-License-Identifier: BSD-3-Clause
"""The command line: what it prints, and what it refuses."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from environment import clean_environment

import pyshmem
from pyshmem._core import errors
from pyshmem._core.settings import SETTINGS
from pyshmem.cli import COMMANDS, _job, bench, doctor, facts, info, main
from pyshmem.host.tuning import gpus as tuned_gpus
from pyshmem.launcher import other_launchers


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, env={"COLUMNS": "200"}, catch_exceptions=False)


def test_help_names_every_command() -> None:
    result = invoke("--help")
    assert result.exit_code == 0
    for name in COMMANDS:
        assert name in result.output
        shown = invoke(name, "--help")
        assert shown.exit_code == 0
        assert "\\b" not in shown.output  # click's mark for lines that stay as they are


def test_the_console_script_is_the_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pyshmem", "--version"], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.startswith("pyshmem, version ")


# ---- run ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["x.py"], "--n-pes"),
        (["x.py", "-n", "2"], "before the script: run -n 4 script.py"),
        (["-n", "0", "x.py"], "0"),
        (["-n", "two", "x.py"], "two"),
        (["-n", "2"], "TARGET"),
        (["-n", "2", "gone.py"], "gone.py: no such file"),
        (["-n", "2", "--device", "tpu", "x.py"], "tpu"),
        (["-n", "2", "--conduit", "smoke", "x.py"], "smoke"),
        (["-n", "2", "--conduit", "openshmem", sys.executable], "start it with oshrun"),
        (["-n", "2", "-m", "-c", "1"], "-c and -m"),
        (["-np", "two", "x.py"], "two"),
        (["-n", "2", "--env", "GONE", "here", "x.py"], "goes into the same word: --env GONE=VALUE"),
        (["-n", "2", "--heap-size", "big", sys.executable], "PYSHMEM_HEAP_SIZE"),
        (["-n", "2", "--timeout", "-1", "x.py"], "-1"),
        (
            ["-n", "2", "--timeout", "nan", sys.executable],
            "--timeout': 'nan' is no number of seconds",
        ),
        (["-n", "2", "--grace", "nan", sys.executable], "'nan' is no number of seconds"),
    ],
)
def test_run_refuses(arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSHMEM_HEAP_SIZE", "64M")  # put back what the options set
    monkeypatch.setenv("PYSHMEM_CONDUIT", "auto")
    result = invoke("run", *arguments)
    assert result.exit_code != 0
    assert message in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("arguments", "package"),
    [(["bench"], "numba"), (["tune"], "numba-cuda"), (["tune", "fused"], "torch")],
    ids=" ".join,
)
def test_measuring_says_what_it_needs(
    arguments: list[str], package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        _job, "find_spec", lambda name: None if name == package.replace("-", "_") else object()
    )
    result = invoke(*arguments)
    assert result.exit_code == 1
    assert f"needs {package}, not installed here" in result.output
    assert "doctor" in result.output


@pytest.mark.parametrize("what", [(), ("quick",), ("fused",)], ids=" ".join)
def test_tune_leaves_the_users_table_alone_where_there_is_no_gpu(
    what: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(_job, "find_spec", lambda name: object())
    monkeypatch.setattr(_job, "gpu_count", lambda: 0)
    monkeypatch.delenv("PYSHMEM_DEVICE", raising=False)
    monkeypatch.setenv("PYSHMEM_TUNE_FILE", str(tmp_path / "tuning.json"))
    result = invoke("tune", *what, "-o", str(tmp_path / "tuning.json"))
    assert result.exit_code == 1
    assert "measures GPUs, and none is visible here" in result.output
    assert "doctor" in result.output
    assert "--device sim" in result.output
    assert not list(tmp_path.iterdir())


def test_run_passes_on_what_follows_the_target(tmp_path: Path) -> None:
    script = tmp_path / "show.py"
    script.write_text("import sys; print(sys.argv[1:])")
    command = [sys.executable, "-m", "pyshmem", "run", "-n", "1", "--device", "none"]
    done = subprocess.run(
        [*command, str(script), "-n", "9", "--tag", "--", "x"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == "['-n', '9', '--tag', '--', 'x']\n"


def test_env_is_for_the_pes_of_one_host_too() -> None:
    command = [sys.executable, "-m", "pyshmem", "run", "-n", "1", "--env", "OF_MINE=here"]
    code = "import os; print(os.environ['OF_MINE'])"
    done = subprocess.run([*command, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "here\n"


def test_bench_draws_nothing_without_matplotlib_before_it_measures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bench, "find_spec", lambda _name: None)
    result = invoke("bench", "--plot", "picture.png")
    assert "--plot needs matplotlib" in result.output


def test_what_is_no_timeline_is_told_what_writes_one(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("print(1)\n")
    result = invoke("trace", str(tmp_path / "program.py"))
    assert "program.py is no timeline" in result.output
    assert "PYSHMEM_TRACE=" in result.output


def test_run_takes_modules_and_executables() -> None:
    command = [sys.executable, "-m", "pyshmem", "run", "-n", "2", "--device", "none"]
    done = subprocess.run(
        [*command, "-m", "json.tool", "--help"], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.count("usage:") == 2
    done = subprocess.run(
        [*command, "sh", "-c", "echo PE $PYSHMEM_PE"], capture_output=True, text=True, timeout=60
    )
    assert sorted(done.stdout.splitlines()) == ["PE 0", "PE 1"]


def test_run_takes_code_and_mpis_name_of_the_number() -> None:
    command = [sys.executable, "-m", "pyshmem", "run", "-np", "2", "--device", "none"]
    done = subprocess.run(
        [*command, "-c", 'import sys; sys.stdout.write(f"{sys.argv}\\n")', "a", "-n"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == "['-c', 'a', '-n']\n" * 2


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["-n", "4", "prog.py"], "run -n 4 prog.py"),
        (["-np", "4", "prog.py", "a b"], "run -np 4 prog.py 'a b'"),
        (["--n-pes=4", "prog.py"], "run --n-pes=4 prog.py"),
        ([__file__, "x"], f"run -n 4 {__file__} x"),
    ],
)
def test_who_leaves_out_run_is_told_the_line(arguments: list[str], line: str) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert f"start a job with: python -m pyshmem {line}" in result.output


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"}, True),
        ({"PMI_SIZE": "2", "PMI_RANK": "0"}, True),
        ({"RANK": "0", "WORLD_SIZE": "2"}, True),
        ({"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "1"}, False),  # the first tells
        ({"OMPI_COMM_WORLD_SIZE": "1", "OMPI_COMM_WORLD_RANK": "0"}, False),  # as a batch step
        ({"RANK": "0", "WORLD_SIZE": "2", "RANK_SET_BY": "pyshmem:0/2"}, False),
        ({}, False),
    ],
)
def test_two_launchers_of_one_job_are_told(variables: dict[str, str], told: bool) -> None:
    command = [sys.executable, "-m", "pyshmem", "run", "-n", "2", "--device", "none", "-c", "1"]
    environment = clean_environment(**variables)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 0
    assert ("has started this command 2 times" in done.stderr) == told, done.stderr


@pytest.mark.parametrize("name", ["signal", "queue", "select", "socket"])
def test_files_of_the_programs_folder_hide_no_module_of_the_launcher(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / f"{name}.py").write_text("print('run')")
    command = [sys.executable, "-m", "pyshmem", "run", "-n", "1", "--device", "none"]
    done = subprocess.run(
        [*command, f"{name}.py"], capture_output=True, text=True, timeout=60, cwd=tmp_path
    )
    assert (done.stdout, done.stderr, done.returncode) == ("run\n", "", 0)


# ---- info --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "meant"), [("inof", "info"), ("settings", "info"), ("benhc", "bench")]
)
def test_a_command_that_there_is_not_is_told_what_is_meant(given: str, meant: str) -> None:
    result = invoke(given)
    assert result.exit_code == 2
    assert f"No such command '{given}': is {meant} meant?" in result.output
    assert "meant?" not in invoke("zzz").output


def test_info_writes_a_row_a_line_where_no_terminal_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    output = CliRunner().invoke(main, ["info"], catch_exceptions=False).output
    for row in SETTINGS:
        [line] = [line for line in output.splitlines() if f" PYSHMEM_{row.name} " in line]
        assert row.help[:40] in line


def test_info_shows_every_setting_with_value_and_origin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSHMEM_SPIN", "123")
    result = invoke("info")
    assert result.exit_code == 0
    for setting in SETTINGS:
        assert f"PYSHMEM_{setting.name}" in result.output
    row = next(line for line in result.output.splitlines() if "PYSHMEM_SPIN" in line)
    assert row.count("PYSHMEM_SPIN") == 2  # the variable, and where its value is from
    assert "123" in row


def test_info_shows_brackets_of_texts_and_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSHMEM_JOB", "[bold]x[/]")
    output = invoke("info").output
    assert "[address]:port" in output
    assert "[bold]x[/]" in output


def test_info_tells_of_a_misspelt_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "is no setting" not in invoke("info").output
    monkeypatch.setenv("PYSHMEM_HEAPSIZE", "1G")
    monkeypatch.setenv("PYSHMEM_OF_MY_OWN", "1")
    output = invoke("info").output
    assert "PYSHMEM_HEAPSIZE is set, but is no setting: is PYSHMEM_HEAP_SIZE meant?" in output
    assert (
        "PYSHMEM_OF_MY_OWN is set, but is no setting: python -m pyshmem info shows them" in output
    )


def test_info_shows_versions_and_accelerators() -> None:
    output = invoke("info").output
    for text in ("pyshmem", "numpy", "cffi", "mpi4py", "NVIDIA driver", "shm", "cuda", "sim"):
        assert text in output


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_the_printed_flags_compile_a_c_program(tmp_path: Path) -> None:
    flags = shlex.split(invoke("info", "--cflags", "--libs").output)
    source = tmp_path / "hello.c"
    source.write_text(
        "#include <shmem.h>\n#include <stdio.h>\n"
        'int main(void) { shmem_init(); printf("PE %d of %d\\n", shmem_my_pe(), shmem_n_pes());'
        " shmem_finalize(); return 0; }\n"
    )
    program = tmp_path / "hello"
    subprocess.run(["cc", str(source), "-o", str(program), *flags], check=True, timeout=60)
    command = [sys.executable, "-m", "pyshmem", "run", "-n", "2", "--device", "none", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert sorted(done.stdout.splitlines()) == ["PE 0 of 2", "PE 1 of 2"], done.stderr


# ---- doctor ------------------------------------------------------------------------------------


def test_doctor_finds_the_host_path_working() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pyshmem", "doctor"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "works: host" in done.stdout


def test_doctor_gives_a_command_for_each_thing_that_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(facts, "version_of", lambda package: None)
    findings = [*doctor._simulator(), *doctor._mpi()]
    missing = [finding for finding in findings if finding.state == "missing"]
    assert len(missing) >= 4
    assert all(finding.fix for finding in missing)
    assert any(re.search(r"pip install 'numba[<>=!]", finding.fix) for finding in missing)


@pytest.mark.parametrize("n_gpus", [0, 2])
def test_doctor_says_which_device_to_take_without_a_gpu(
    n_gpus: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = {"numba": "0.68.1", "numba-cuda": "0.30.4", "greenlet": "3.2"}
    monkeypatch.setattr(facts, "version_of", versions.get)
    monkeypatch.setattr(doctor.runtime, "gpu_count", lambda: n_gpus)
    told = [f.detail for f in doctor._simulator() if "--device cpu" in f.detail]
    assert len(told) == (n_gpus == 0)
    del versions["numba"]
    assert not [f for f in doctor._simulator() if "--device cpu" in f.detail]


def test_doctor_says_what_triton_alone_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"triton": "3.6.0", "greenlet": "3.2"}
    monkeypatch.setattr(facts, "version_of", versions.get)
    findings = [*doctor._triton(), *doctor._torch()]
    assert {f.what: f.state for f in findings} == {
        "triton": "ok",
        "greenlet": "ok",
        "without Numba": "ok",
        "torch": "missing",
    }
    (numba,) = [f for f in findings if f.what == "without Numba"]
    assert "stream=" in numba.detail
    assert "numba-cuda" in numba.fix
    assert doctor._usable(findings) == ["triton"]


class _Driver:
    """What ``gpus.architecture`` calls of libcuda, with GPUs of these architectures."""

    def __init__(self, *gpus: tuple[int, int]) -> None:
        self._gpus = gpus

    def cuInit(self, flags: int) -> int:
        return 0

    def cuDeviceGet(self, number, device: int) -> int:
        number._obj.value = device
        return 0 if device < len(self._gpus) else 101

    def cuDeviceGetAttribute(self, value, attribute: int, number) -> int:
        value._obj.value = self._gpus[number.value][attribute - 75]
        return 0


def test_info_shows_whose_choices_a_gpu_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [facts.Gpu("NVIDIA H200", 1 << 37), facts.Gpu("NVIDIA Z9 of next year", 1 << 36)]
    there = [tuned_gpus.kind("NVIDIA H200", 90, "NVLink 4"), tuned_gpus.kind("Z9", 110, "NVLink 5")]
    asked = [tuned_gpus.Gpu(gpu.name, kind) for gpu, kind in zip(found, there, strict=True)]
    monkeypatch.setattr(tuned_gpus, "ask", asked.__getitem__)
    monkeypatch.setattr(facts, "can_access", lambda device, peer: True)
    cells = [list(column.cells) for column in info._gpus(found).columns]
    assert cells[3] == ["sm_90, NVLink 4, 450 GB/s", "sm_110, NVLink 5, 900 GB/s"]
    assert cells[4] == ["measured (shipped)", "by rule from NVIDIA H100 80GB HBM3"]


@pytest.mark.parametrize(
    ("gpus", "state", "text"),
    [
        ([(9, 0), (10, 0)], "ok", "sm_90"),
        ([(9, 0), (8, 6)], "ok", "sm_86; all but bulk copies, which need sm_90"),
        ([(7, 5)], "wrong", "sm_75; kernels need sm_80 or newer"),
    ],
)
def test_doctor_tells_whether_the_gpus_are_new_enough(
    gpus: list[tuple[int, int]], state: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuned_gpus.ctypes, "CDLL", lambda name: _Driver(*gpus))
    finding = doctor._architecture(len(gpus))
    assert (finding.state, finding.detail) == (state, text)
    assert bool(finding.fix) == (state == "wrong")
    assert "does not show GPU" in doctor._architecture(len(gpus) + 1).detail


def test_doctor_knows_that_numba_cuda_needs_a_name_of_older_numpy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    versions = {"numpy": "2.5.1", "numba-cuda": "0.30.4"}
    monkeypatch.setattr(facts, "version_of", versions.get)
    [finding] = doctor._numpy_with_numba()
    assert "row_stack" in finding.detail
    assert "before any kernel is compiled" in finding.fix
    versions["numpy"] = "2.4.6"
    assert list(doctor._numpy_with_numba()) == []


def test_importing_pyshmem_late_is_in_time_for_numba_cuda() -> None:
    """Numba before pyshmem, with a NumPy that lacks the name: only a compile before is too early."""
    program = """
import numpy
numpy.__dict__.pop("row_stack", None)
from numba import cuda, int32
def compile():
    return cuda.compile(lambda a: None, (int32,), cc=(9, 0))[0]
try:
    compile()
    raise SystemExit("numba-cuda needs row_stack no more: doctor need not speak of it")
except AttributeError as error:
    assert "row_stack" in str(error)
import pyshmem, pyshmem.device
assert ".entry" in compile() or ".func" in compile()
"""
    environment = clean_environment(NUMBA_ENABLE_CUDASIM="0")
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("version", "wanted", "fits"),
    [
        ("0.68.0", "==0.68.*", True),
        ("0.69.0", "==0.68.*", False),
        ("13.0.2", "==13.0.2", True),
        ("13.0.3", "==13.0.2", False),
        ("3.5.6", ">=3", True),
        ("2.9", ">=3", False),
        ("14.2.0", ">=14,==14.*", True),
        ("0.30.4", ">=0.30.0,<0.31", True),
        ("0.31.0", ">=0.30.0,<0.31", False),
        ("1", "", True),
        ("0.63.1", ">=0.62.1,<0.69,!=0.63.*", False),
        ("0.65.0", ">=0.62.1,<0.69,!=0.63.*", True),
        ("13.0.3.0", ">=13.0.2,<13.1", True),
    ],
)
def test_versions_are_compared_as_numbers(version: str, wanted: str, fits: bool) -> None:
    assert facts.satisfies(version, wanted) is fits


def test_requirements_come_from_the_package() -> None:
    assert {requirement.name for requirement in facts.requirements("sim")} == {
        "numba",
        "numba-cuda",
        "greenlet",
    }
    assert any(requirement.extras == "[cu13]" for requirement in facts.requirements("cuda"))


# ---- small things ------------------------------------------------------------------------------


def test_info_shows_units_and_no_colours_without_a_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYSHMEM_HEAP_SIZE", "1536M")
    output = invoke("info").output
    assert "1.5 GiB" in output
    assert "60 s" in output
    assert "\x1b" not in output


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_the_shells(shell: str) -> None:
    assert "_PYSHMEM_COMPLETE" in invoke("completion", shell).output


def test_routines_called_test_are_not_collected(tmp_path: Path) -> None:
    (tmp_path / "test_star.py").write_text("from pyshmem import *\n\ndef test_own(): pass\n")
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider"]
    command += ["--rootdir", tmp_path, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert [line for line in done.stdout.splitlines() if "::" in line] == ["test_star.py::test_own"]


ERRORS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, RuntimeError)
]


@pytest.mark.parametrize("kind", ERRORS)
def test_errors_name_the_part_of_the_page_that_is_about_them(kind: type[Exception]) -> None:
    error = kind("a wait")
    assert str(error) == "a wait"
    (note,) = error.__notes__
    form = (
        r"see help\(pyshmem\.(\w+)\), and (docs/howto/errors\.md)#(\w+) in the sources of pyshmem"
    )
    name, page, anchor = re.fullmatch(form, note).groups()
    assert getattr(pyshmem, name) is kind
    assert kind.__doc__
    text = (Path(__file__).parents[2] / page).read_text(encoding="utf-8")
    assert f"\n## {kind.__name__}\n" in text
    assert f"| `{kind.__name__}` |" in text
    assert anchor == kind.__name__.lower()
    assert f"{kind.__module__}.{kind.__qualname__}" == f"pyshmem.{kind.__name__}"


def test_an_error_of_a_user_names_the_part_of_its_base() -> None:
    class Own(pyshmem.PeerDied):
        pass

    assert "#peerdied" in Own("x").__notes__[0]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ("run", "--nproc_per_node=2", "x.py"),
            "--nproc_per_node is of another launcher: -n 4 says",
        ),
        (("run", "--np", "2", "x.py"), "-n 4 says how many PEs"),
        (("run", "--ppn", "2", "x.py"), "-n 4 says how many PEs"),
        (("run", "-ppn", "2", "x.py"), "-n 4 says how many PEs"),
        (("run", "--num_pes", "2", "x.py"), "-n 4 says how many PEs"),
        (("run", "-v", "-n", "2", "x.py"), "python -m pyshmem info says what a job has"),
        (("run", "-n", "2", "--machinefile", "h", "x.py"), "--hosts a,b names the hosts"),
        (("run", "-n", "2", "-x", "A", "x.py"), "--env NAME passes a variable"),
        (("run", "-n", "2", "--bind-to", "core", "x.py"), "--bind says which CPUs"),
        (("run", "-n", "2", "--nonsense", "x.py"), "No such option"),
        (("run", "-n", "0", "x.py"), "'0' is no number of PEs, which is 1 to 1023"),
        (("run", "-n", "99999999999", "x.py"), "'99999999999' is no number of PEs"),
        (("bench", "-n", "99999999999"), "is not in the range 1<=x<=1023"),
        (("run", "-n", "two", "x.py"), "'two' is no number of PEs"),
        (("run", "-n", "2", "--timeout", "soon", "x.py"), "'soon' is no number of seconds"),
        (("launch", "-n", "2", "x.py"), "start a job with: python -m pyshmem run -n 2 x.py"),
        (("mpirun", "x.py"), "start a job with: python -m pyshmem run -n 4 x.py"),
    ],
)
def test_who_knows_another_launcher_is_told_what_it_is_here(
    words: tuple[str, ...], told: str
) -> None:
    result = invoke(*words)
    assert result.exit_code == 2
    assert told in result.output


def test_options_of_other_launchers_are_none_of_ours() -> None:
    from pyshmem.cli.run import run

    ours = {name for parameter in run.params for name in parameter.opts}
    assert not ours & set(other_launchers.OPTIONS)
    assert all(re.search(r"-\w|leave|PE", told) for told in other_launchers.OPTIONS.values())
    for told in other_launchers.OPTIONS.values():
        for option in re.findall(r"(?<![\w-])--?[a-z][\w-]*", told):
            assert option in ours, option


def test_far_more_pes_than_cpus_are_warned_of(monkeypatch, capsys) -> None:
    from pyshmem.cli import run

    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    run._warn_of_few_cpus(128)
    assert not capsys.readouterr().err
    run._warn_of_few_cpus(1000)
    assert "1000 PEs share 2 CPU(s); to start them takes some 250 s" in capsys.readouterr().err


def test_what_packages_say_agrees() -> None:
    folder = Path(invoke("info", "--pkg-config").output.strip())
    assert f"Version: {pyshmem.__version__}\n" in (folder / "pyshmem.pc").read_text()
    recipe = Path(__file__).parents[2] / "tools" / "conda" / "meta.yaml"
    assert f'set version = "{pyshmem.__version__}"' in recipe.read_text()
