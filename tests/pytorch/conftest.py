# SPDX-License-Identifier: BSD-3-Clause
"""These tests need PyTorch, which `make test-torch` installs; `make test` leaves them out."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the folder out unless it, or a file in it, is what was asked for."""
    asked = any("tests/pytorch" in str(Path(argument).resolve()) for argument in config.args)
    return None if asked else True
