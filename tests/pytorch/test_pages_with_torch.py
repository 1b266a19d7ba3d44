# SPDX-License-Identifier: BSD-3-Clause
"""The site's programs that import PyTorch run and print what their pages say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pages import check_page, pages_with_programs


@pytest.mark.parametrize("page", pages_with_programs(torch=True), ids=lambda page: page.stem)
def test_programs_of_a_page_print_what_it_says(
    page: Path, run_pes: Callable, tmp_path: Path
) -> None:
    check_page(page, run_pes, tmp_path)
