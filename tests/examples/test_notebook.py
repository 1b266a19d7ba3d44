# SPDX-License-Identifier: BSD-3-Clause
"""The notebook of the examples, run by a kernel without a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("numba", reason="one cell has a kernel")

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebook.ipynb"


def _shown(cell: Any) -> str:
    """What a cell printed and what its last line gave."""
    return "".join(
        output["text"] if output.output_type == "stream" else output["data"]["text/plain"]
        for output in cell.outputs
    )


# Of the kernel's own transport, which is its user's matter.
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
def test_the_notebook_runs_to_its_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYSHMEM_DEVICE", "sim")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(notebook, timeout=200, kernel_name="python3").execute()
    hello, ring, kernel, fails, hangs, after = (
        _shown(cell) for cell in notebook.cells if cell.cell_type == "code"
    )
    assert "[2] hello from PE 2 of 4\n" in hello
    assert hello.endswith("[0, 1, 4, 9]")
    assert ring == "[103, 100, 101, 102]"
    assert kernel == "[101, 100]"
    assert "PE 1 of 3 failed: ValueError: no such row" in fails
    assert 'raise ValueError("no such row")' in fails  # the line of a cell, which no file has
    assert "PE 1: running" in hangs
    assert "in hangs_on_one" in hangs
    assert hangs.endswith("[1]\n")
    assert after == "3"  # the kernel is alive
