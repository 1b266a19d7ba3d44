# SPDX-License-Identifier: BSD-3-Clause
"""The contract of C, kernels and Python: one table, and a hash that tells others apart."""

from __future__ import annotations

import re

import pytest

import pyshmem
from pyshmem._core import contract, settings, type_table
from pyshmem._core.library import ffi, lib


def test_the_library_was_built_with_this_contract() -> None:
    assert int(contract.HASH, 16) == lib.ishmemx_contract()
    for group in contract.GROUPS:
        if group.public:
            for name, value, _ in group:
                assert getattr(lib, group.prefix + name) == value


def test_no_c_name_stands_for_two_numbers() -> None:
    names = [group.prefix + name for group in contract.GROUPS for name in group.names()]
    assert len(set(names)) == len(names)
    assert len(set(type_table.ROUTINES)) == len(type_table.ROUTINES)


def changed(group: contract.Group, name: str, number: int) -> tuple[contract.Group, ...]:
    """The contract with one number changed."""
    entries = tuple((one, text) for one, _, text in group)
    at = {one: value for one, value, _ in group} | {name: number}
    other = contract.Group(
        group.c_name, group.prefix, group.comment, entries, at=at, public=group.public
    )
    return tuple(other if one is group else one for one in contract.GROUPS)


def test_one_other_word_is_another_hash() -> None:
    assert (
        contract.contract_hash(changed(contract.STATE, "TEAMS", contract.STATE.TEAMS))
        == contract.HASH
    )
    assert contract.contract_hash(changed(contract.STATE, "TEAMS", 99)) != contract.HASH
    assert contract.contract_hash(changed(contract.RING, "CREDIT", 64)) != contract.HASH


def test_the_record_of_a_fault_is_laid_out_as_in_the_contract() -> None:
    for name, place, _ in contract.FAULT_FIELD:
        assert ffi.offsetof("ishmemx_fault_t", name.lower()) == place


def test_a_kernel_of_another_contract_is_refused() -> None:
    cubin = pytest.importorskip("pyshmem.device.jit.cubin")
    ours = b"\x00.text\x00" + cubin.SYMBOL.encode() + b"\x00"
    cubin.refuse_other_contracts(ours)
    cubin.refuse_other_contracts(b"a kernel without pyshmem")
    other = contract.contract_hash(changed(contract.STATE, "TEAMS", 99))
    for symbol in (f"pyshmem_state_{other}", "pyshmem_state_v2"):
        with pytest.raises(RuntimeError, match=rf"another version of pyshmem.*{symbol}"):
            cubin.refuse_other_contracts(ours + symbol.encode() + b"\x00")


def test_constants_of_kernels_and_host_are_the_contracts() -> None:
    assert [pyshmem.SIGNAL_SET, pyshmem.SIGNAL_ADD] == [contract.SIGNAL.SET, contract.SIGNAL.ADD]
    for name in contract.CMP.names():
        assert getattr(pyshmem, f"CMP_{name}") == getattr(contract.CMP, name)


def test_an_unknown_name_is_said() -> None:
    with pytest.raises(AttributeError, match=re.escape("ISHMEMX_STATE_NOTHING")):
        _ = contract.STATE.NOTHING


def _elements(**changed: object) -> object:
    first, *others = type_table.ELEMENTS
    return (first._replace(**changed), *others)


def _setting(of: str, /, **changed: object) -> object:
    return tuple(s._replace(**changed) if s.name == of else s for s in settings.SETTINGS)


@pytest.mark.parametrize(
    ("module", "table", "other"),
    [
        (type_table, "ELEMENTS", lambda: _elements(families="raxbmst")),
        (type_table, "ELEMENTS", lambda: _elements(ctype="_Bool")),
        (type_table, "ELEMENTS", lambda: _elements(nbytes=2)),
        (type_table, "ELEMENTS", lambda: type_table.ELEMENTS[::-1]),
        (type_table, "TYPENAMES", lambda: type_table.TYPENAMES[1:]),
        (type_table, "FAMILIES", lambda: dict(type_table.FAMILIES, z="another")),
        (type_table, "ATOMIC_FAMILY", lambda: dict(type_table.ATOMIC_FAMILY, add="b")),
        (type_table, "NUMBERED", lambda: type_table.NUMBERED[1:]),
        (settings, "SETTINGS", lambda: _setting("DEVICE", kind="choice:cuda|auto|sim|none")),
        (settings, "SETTINGS", lambda: _setting("RINGS", name="RING")),
        (settings, "SETTINGS", lambda: settings.SETTINGS[::-1]),
    ],
)
def test_another_row_of_a_table_is_another_hash(monkeypatch, module, table, other) -> None:
    monkeypatch.setattr(module, table, other())
    assert contract.contract_hash() != contract.HASH


def test_another_help_is_the_same_hash(monkeypatch) -> None:
    monkeypatch.setattr(settings, "SETTINGS", _setting("DEVICE", help="another"))
    assert contract.contract_hash() == contract.HASH
