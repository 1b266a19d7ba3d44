# SPDX-License-Identifier: BSD-3-Clause
"""``iris.logging``: the logger "iris", whose lines begin with the package and, if known, the rank."""

from __future__ import annotations

import logging
from logging import DEBUG, ERROR, INFO, WARNING

__all__ = ["DEBUG", "ERROR", "INFO", "WARNING", "IrisFormatter", "logger", "set_logger_level"]


class IrisFormatter(logging.Formatter):
    """``[Iris] [rank/ranks] message``; without the rank for records that have no ``iris_rank``."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record."""
        place = ""
        if hasattr(record, "iris_rank"):
            place = f"[{record.iris_rank}/{getattr(record, 'iris_num_ranks', '?')}] "
        return f"[Iris] {place}{record.getMessage()}"


def set_logger_level(level: int) -> None:
    """Show records from ``level`` on: ``DEBUG``, ``INFO``, ``WARNING`` or ``ERROR``."""
    logger.setLevel(level)


def _make() -> logging.Logger:
    made = logging.getLogger("iris")
    if not made.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(IrisFormatter())
        made.addHandler(handler)
        made.setLevel(INFO)
        made.propagate = False
    return made


logger = _make()
