# SPDX-License-Identifier: BSD-3-Clause
"""MXFP8 and NVFP4 against a model in NumPy, whose casts are those of ml_dtypes, and against torch's."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="make test-torch installs it")
pytest.importorskip("triton")

PROGRAMS = Path(__file__).parent / "programs"
ALONE = {"OMP_NUM_THREADS": "1"}

sys.path.insert(0, str(PROGRAMS))
import formats_model as model  # noqa: E402

sys.path.remove(str(PROGRAMS))


@pytest.mark.parametrize("n", [1, 2, pytest.param(3, marks=pytest.mark.long)])
def test_bits_are_the_models(n: int, run_pes: Callable) -> None:
    done = run_pes(
        n, PROGRAMS / "block_formats.py", device="sim", timeout=280, env=ALONE, check=True
    )
    assert done.stdout.splitlines().count("ok") == n, done.stdout


@pytest.mark.parametrize("n", [1, 2, pytest.param(3, marks=pytest.mark.long)])
def test_blocks_are_gathered_and_multiplied(n: int, run_pes: Callable) -> None:
    done = run_pes(
        n, PROGRAMS / "block_inputs.py", device="sim", timeout=280, env=ALONE, check=True
    )
    assert done.stdout.splitlines().count("ok") == n, done.stdout


@pytest.mark.long
def test_bits_of_ten_thousand_rows_are_the_models(run_pes: Callable) -> None:
    done = run_pes(
        1, PROGRAMS / "block_formats.py", ("10000",), device="sim", timeout=280, env=ALONE, check=True
    )  # fmt: skip
    assert done.stdout.splitlines().count("ok") == 1, done.stdout


@pytest.mark.gpu
@pytest.mark.parametrize("n", [1, 2])
def test_blocks_are_gathered_and_multiplied_on_gpus(n: int, run_pes: Callable) -> None:
    done = run_pes(
        n, PROGRAMS / "block_inputs.py", device="cuda", timeout=280, env=ALONE, check=True
    )
    assert done.stdout.splitlines().count("ok") == n, done.stdout


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("n", "part"), [(1, "all"), (1, "10000"), (2, "norms"), (2, "dispatches"), (2, "graphs")]
)
def test_bits_on_gpus_are_the_models(n: int, part: str, run_pes: Callable) -> None:
    done = run_pes(
        n, PROGRAMS / "block_formats.py", (part,), device="cuda", timeout=280, env=ALONE, check=True
    )  # fmt: skip
    assert done.stdout.splitlines().count("ok") == n, done.stdout


@pytest.mark.long
@pytest.mark.skipif(find_spec("torchao") is None, reason="torchao is not installed")
def test_bits_are_torchaos(run_pes: Callable) -> None:
    """Of 10,000 rows; with a global scale it multiplies elements by two reciprocals, and some differ."""
    program = PROGRAMS.parents[2] / "bench" / "torchao_formats.py"
    done = run_pes(1, program, device="sim", timeout=280, env=ALONE, check=True)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(rows) == 8, done.stdout
    for row in rows:
        assert row["scales_differ"] == 0, row
        assert row["differ"] <= (row["elements"] / 25 if "global" in row["format"] else 0), row


def test_the_models_elements_are_torchs_casts() -> None:
    """Of a block whose scale is 1: torch casts to FP8, and E8M0 scales are what it reads."""
    x = np.random.default_rng(3).standard_normal((500, 32)).astype(np.float32) * 60
    x[:, 0] = 300  # its exponent is E4M3's largest
    x = x.clip(-448, 448)
    elements, scales = model.bits(x, "mxfp8")
    ones = torch.from_numpy(scales).view(torch.float8_e8m0fnu).float()
    assert (ones == 1).all()
    cast = torch.from_numpy(x).to(torch.float8_e4m3fn).view(torch.uint8)
    assert np.array_equal(elements, cast.numpy())


def test_the_models_scales_are_torchs_casts() -> None:
    """Scales of NVFP4: a float32 quotient, cast to FP8 by torch."""
    x = np.random.default_rng(4).standard_normal((500, 16)).astype(np.float32)
    _, scales = model.bits(x, "nvfp4", 0.01)
    largest = torch.from_numpy(x).abs().amax(1, keepdim=True)
    wanted = (largest / torch.tensor(6 * np.float32(0.01))).clamp(max=448).to(torch.float8_e4m3fn)
    assert np.array_equal(scales, wanted.view(torch.uint8).numpy())


def test_the_models_blocks_are_torchs_casts() -> None:
    """Of MXFP8: scales are powers of two that torch casts to E8M0, elements quotients that it casts."""
    x = np.random.default_rng(5).standard_normal((300, 96)).astype(np.float32)
    x *= np.exp2(np.random.default_rng(6).integers(-9, 9, (300, 1))).astype(np.float32)
    x[::4] = np.random.default_rng(7).integers(-24, 25, x[::4].shape) / 4  # ties
    elements, scales = model.bits(x, "mxfp8")
    blocks = torch.from_numpy(x).view(300, -1, 32)
    power = torch.exp2(torch.floor(torch.log2(blocks.abs().amax(-1, keepdim=True))) - 8)
    assert np.array_equal(power.to(torch.float8_e8m0fnu).view(torch.uint8)[..., 0].numpy(), scales)
    cast = (blocks / power).clamp(-448, 448).to(torch.float8_e4m3fn).view(torch.uint8)
    assert np.array_equal(cast.view(300, -1).numpy(), elements)
