# SPDX-License-Identifier: BSD-3-Clause
"""Rows of tensors, however they lie: what is copied between them and staging memory."""

from __future__ import annotations

import itertools

import pytest

torch = pytest.importorskip("torch", reason="make test-torch installs it")

unstaged = pytest.importorskip("pyshmem._torch.direct")
Place, Rows, source_of = unstaged.Place, unstaged.Rows, unstaged.source_of


def noise(count: int) -> torch.Tensor:
    return torch.randint(0, 256, (count,), dtype=torch.uint8)


@pytest.mark.parametrize("long", [1, 1 << 20], ids=["long", "short"])
@pytest.mark.parametrize("adjoin", [True, False])
@pytest.mark.parametrize(("length", "shift"), [(64, 0), (64, 16), (64, 3), (33, 0)])
def test_the_same_columns_of_all_rows(
    length: int, shift: int, adjoin: bool, long: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unstaged, "_LONG", long)
    n = 3
    parts = list(noise(n * length + shift)[shift:].split(length))
    if not adjoin:
        parts = [part.clone() for part in parts]
    rows = Rows(parts)
    for begin, end in itertools.combinations((0, 5, 16, 32, length), 2):
        expected = torch.stack([part[begin:end] for part in parts])
        block = noise(n * (end - begin))
        rows.load(begin, end, block)
        assert torch.equal(block.view(n, -1), expected)
        given = noise(n * (end - begin))
        kept = [part.clone() for part in parts]
        rows.store(begin, end, given)
        for part, before, row in zip(parts, kept, given.view(n, -1), strict=True):
            before[begin:end] = row
            assert torch.equal(part, before)


def test_places_and_sources_are_the_tensors_where_kernels_take_them() -> None:
    whole = noise(96)
    parts = list(whole.split(32))
    place = Place(parts)
    assert place.flat.data_ptr() == whole.data_ptr()
    assert source_of(parts).data_ptr() == whole.data_ptr()
    assert source_of(parts[:2], place.flat).data_ptr() == whole.data_ptr()
    assert source_of([parts[1]], place.flat, 32).data_ptr() == parts[1].data_ptr()


def test_places_and_sources_that_kernels_do_not_take_are_copies() -> None:
    whole = noise(97)
    odd, turned = list(whole[1:].split(32)), list(whole[:96].split(32))[::-1]
    for parts in (odd, turned, [part.clone() for part in odd]):
        source = source_of(parts)
        assert torch.equal(source, torch.cat(parts))
        assert source.data_ptr() not in {part.data_ptr() for part in parts}
        place = Place(parts)
        place.flat.copy_(new := noise(96))
        place.done()
        assert torch.equal(torch.cat(parts), new)
    dest = whole[:96]
    part = dest[32:64]
    assert (
        source_of([part], dest, 0).data_ptr() != part.data_ptr()
    )  # it might be gone before it is sent
