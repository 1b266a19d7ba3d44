# SPDX-License-Identifier: BSD-3-Clause
"""What the package tells ``logging``, under the name ``pyshmem``.

A program that has not imported ``logging`` has nobody who listens, and is not made to import it.
"""

from __future__ import annotations

import sys


def info(text: str, *values: object) -> None:
    """A record of level INFO; ``text`` is formatted with ``values`` if somebody listens."""
    logging = sys.modules.get("logging")
    if logging is not None:
        logging.getLogger("pyshmem").info(text, *values)
