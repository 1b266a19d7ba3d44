# SPDX-License-Identifier: BSD-3-Clause
"""The tables of Python and the constants and symbols of C agree."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pyshmem
from pyshmem._core import contract, library, settings, type_table
from pyshmem._core.dtypes import as_dtype
from pyshmem._core.library import ffi, lib
from pyshmem.cli.info import LIBRARY, _package_folder

INCLUDE = Path(__file__).parents[2] / "native" / "include"


@pytest.fixture(scope="module")
def symbols() -> set[str]:
    """The names the library exports."""
    library = _package_folder("lib", LIBRARY) / LIBRARY
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True
    )
    return {line.split()[-1].partition("@")[0] for line in listed.stdout.splitlines()}


# ---- types ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("element", type_table.ELEMENTS, ids=lambda element: element.name)
def test_an_element_is_what_its_dtype_and_its_c_type_say(element: type_table.Element) -> None:
    assert as_dtype(element.dtype).itemsize == element.nbytes
    assert set(element.families) <= set(type_table.FAMILIES)
    if "_Complex" not in element.ctype:  # cffi's name for it differs
        assert ffi.sizeof(element.ctype) == element.nbytes
    assert type_table.BY_DTYPE[element.dtype] is element


@pytest.mark.parametrize(
    ("short", "name"),
    [("bf16", "bfloat16"), ("fp16", "float16"), ("fp32", "float32"), ("fp64", "float64")],
)
def test_short_names_of_dtypes(short: str, name: str) -> None:
    assert as_dtype(short) == as_dtype(name)


def test_numbers_of_the_table_are_those_of_c() -> None:
    text = type_table.c_lists()
    for number, element in enumerate(type_table.ELEMENTS):
        assert f"#define ISHMEMX_TYPE_{element.name.upper()} {number}\n" in text
    for prefix, names in (("ATOMIC", type_table.ATOMIC_OPS), ("REDUCE", type_table.REDUCE_OPS)):
        for number, name in enumerate(names):
            assert f"#define ISHMEMX_{prefix}_{name.upper()} {number}\n" in text
            constant = getattr(lib, f"ISHMEMX_{prefix}_{name.upper()}", number)
            assert constant == number


def test_the_installed_list_is_the_tables() -> None:
    installed = _package_folder("include", "shmem_types.h") / "shmem_types.h"
    assert installed.read_text() == type_table.c_lists()


def test_signed_and_unsigned_integers_are_numbered_by_width() -> None:
    """ISHMEMX_TYPE_OF computes the number from the width and the sign."""
    names = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
    assert [element.name for element in type_table.ELEMENTS[:8]] == names


# ---- exported routines -----------------------------------------------------------------------------

#: The typed routines of each family, with TYPENAME left out.
ROUTINES = {
    "r": ["put", "get", "put_nbi", "get_nbi", "p", "g", "put_signal", "put_signal_nbi",
          "broadcast", "fcollect"],
    "a": ["atomic_compare_swap", "atomic_inc", "atomic_add", "atomic_fetch_inc",
          "atomic_fetch_add", "wait_until", "test"],
    "x": ["atomic_fetch", "atomic_set", "atomic_swap"],
    "b": [f"atomic_{fetch}{op}" for fetch in ("", "fetch_") for op in ("and", "or", "xor")],
    "m": ["max_reduce", "min_reduce"],
    "s": ["sum_reduce", "prod_reduce"],
    "t": ["and_reduce", "or_reduce", "xor_reduce"],
}  # fmt: skip


@pytest.mark.parametrize("typename", type_table.TYPENAMES, ids=lambda typename: typename.name)
def test_every_typename_has_its_routines(typename: type_table.Typename, symbols: set[str]) -> None:
    for family in typename.families:
        for routine in ROUTINES[family]:
            assert f"shmem_{typename.name}_{routine}" in symbols


#: Of before 1.2; programs and tools look them up.
OLD_NAMES = {"start_pes", "_my_pe", "_num_pes", "shmalloc", "shrealloc", "shmemalign", "shfree"}


def test_every_prototype_is_exported_and_nothing_else(symbols: set[str]) -> None:
    text = "".join(path.read_text() for path in INCLUDE.glob("*shmemx*.h"))
    declared = set(re.findall(r"ISHMEMX_API [^;(]*?\b(i?shmemx_\w+)\(", text))
    for names in re.findall(r"extern ISHMEMX_API struct \w+ ([^;]*);", text):
        declared |= set(re.findall(r"\w+", names))
    assert len(declared) > 50
    of_the_standard = {name for name in symbols if name.startswith(("shmem_", "pshmem_"))}
    assert symbols - of_the_standard == declared | OLD_NAMES


# ---- settings --------------------------------------------------------------------------------------


def test_settings_and_their_defaults_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    for row in settings.SETTINGS:
        monkeypatch.delenv(f"PYSHMEM_{row.name}", raising=False)
        if row.alias:
            monkeypatch.delenv(row.alias, raising=False)
        assert library.setting(row.name) == (row.default, "default")
    with pytest.raises(ValueError, match="NO_SUCH"):
        library.setting("NO_SUCH")


@pytest.mark.parametrize("row", settings.SETTINGS, ids=lambda row: row.name)
def test_a_setting_comes_from_its_variable(
    row: settings.Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, _, choices = row.kind.partition(":")
    integer = int(choices.split(":")[-1] or 17) if kind == "integer" else 0
    good, number, bad = {
        "size": ("1.5k", 1536, "much"),
        "integer": (str(integer), integer, "1.5"),
        "seconds": ("0.25", 250_000_000, "soon"),
        "flag": ("1", 1, "perhaps"),
        "choice": (choices.split("|")[-1], len(choices.split("|")) - 1, "another"),
        "words": (
            "0," + choices.replace("|", ","),
            (1 << len(choices.split("|"))) - 1,
            "1,another",
        ),
        "string": ("text", None, None),
    }[kind]
    if row.alias:
        monkeypatch.setenv(row.alias, good)
        monkeypatch.delenv(f"PYSHMEM_{row.name}", raising=False)
        assert library.setting(row.name) == (good, row.alias)
        monkeypatch.setenv(row.alias, "3M")  # the own variable wins
    monkeypatch.setenv(f"PYSHMEM_{row.name}", good)
    assert library.setting(row.name) == (good, f"PYSHMEM_{row.name}")
    if number is None:
        return
    assert library.setting_number(row.name) == number
    monkeypatch.setenv(f"PYSHMEM_{row.name}", bad)
    with pytest.raises(ValueError, match=f"PYSHMEM_{row.name}.*{re.escape(bad)}"):
        library.setting_number(row.name)


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("RINGS", "5", "an integer from 1 to 4"),
        ("RINGS", "0", "an integer from 1 to 4"),
        ("SPIN", "-2", "an integer from -1"),
        ("TRACE_STAGES", "-7", "an integer from 1"),
        ("NODE_SIZE", "1" + 23 * "0", "an integer from 0 to 2147483647"),
        ("SPIN", "1" + 23 * "0", "an integer from -1"),
        ("CONTROL_FD", "1" + 23 * "0", "an integer"),
    ],
)
def test_an_integer_out_of_its_bounds_is_refused(
    name: str, text: str, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"PYSHMEM_{name}", text)
    told = f"PYSHMEM_{name} is '{text}', which is not {wanted}$"
    with pytest.raises(ValueError, match=told):
        library.setting_number(name)
    assert f"integer:1:{contract.MAX_RINGS}" in {row.kind for row in settings.SETTINGS}


def test_init_refuses_a_setting_that_nobody_asks_for() -> None:
    program = "import pyshmem; pyshmem.init(device='none')"
    variables = {**os.environ, "PYSHMEM_KERNEL_REGISTERS": "256"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60)
    assert "PYSHMEM_KERNEL_REGISTERS is '256', which is not an integer from 0 to 255" in done.stderr


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [("0", 0), ("4096", 4096), ("1k", 1024), ("1.5M", 1572864), ("2g", 2 << 30), ("1T", 1 << 40)],
)
def test_sizes_take_decimals_and_one_suffix(text: str, nbytes: int) -> None:
    assert library.parse_size(text) == nbytes


@pytest.mark.parametrize("text", ["", "k", "1kk", "-1", "1 2", "1e30", "nan", "99999999999T"])
def test_a_malformed_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text) if text else "size"):
        library.parse_size(text)


# ---- constants -------------------------------------------------------------------------------------


def test_constants_of_python_are_those_of_the_library() -> None:
    assert [pyshmem.SIGNAL_SET, pyshmem.SIGNAL_ADD] == [0, 1]
    for name in ("EQ", "NE", "GT", "GE", "LT", "LE"):
        assert getattr(pyshmem, f"CMP_{name}") == getattr(lib, f"ISHMEMX_CMP_{name}")


def test_device_constants_are_those_of_the_host() -> None:
    from pyshmem import device

    for name in (
        "SIGNAL_SET",
        "SIGNAL_ADD",
        *(f"CMP_{c}" for c in ("EQ", "NE", "GT", "GE", "LT", "LE")),
    ):
        assert getattr(device, name) == getattr(pyshmem, name)


def test_dtypes_without_an_element_move_as_bytes_only() -> None:
    from pyshmem._core.dtypes import kind_of

    for dtype in (">i4", "datetime64[s]", "V8", "S3"):
        assert kind_of(np.dtype(dtype)).element == -1
    for number, element in enumerate(type_table.ELEMENTS):
        assert kind_of(as_dtype(element.dtype)).element == number
