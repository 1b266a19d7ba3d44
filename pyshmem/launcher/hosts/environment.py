# SPDX-License-Identifier: BSD-3-Clause
"""The variables of the head's environment that reach the PEs of all hosts, as they would on one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ..._core.errors import LaunchError
from ..spec import MEETING, PLACE

#: Those of these beginnings.
EXPORTED = ("PYSHMEM_", "SHMEM_", "UCX_", "NUMBA_", "TRITON_", "PYTHON", "CUDA_MODULE_")
#: And these: where a shell that is not one of a person's finds programs and libraries.
_PATHS = ("PATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV")

_NAME = re.compile(r"[A-Za-z_]\w*")


def exported(environment: Mapping[str, str]) -> dict[str, str]:
    """What of ``environment`` reaches all hosts without being asked for; no place of an outer job."""
    mine = (*PLACE, *MEETING)
    return {
        name: text
        for name, text in environment.items()
        if (name.startswith(EXPORTED) or name in _PATHS) and name not in mine
    }


def given(texts: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """What ``--env NAME`` or ``--env NAME=VALUE`` asks for.

    Raises: LaunchError for what is no name, one that is not set, or one that the launcher sets itself.
    """
    found = {}
    for text in texts:
        name, is_told, value = text.partition("=")
        if not _NAME.fullmatch(name):
            raise LaunchError(f"--env {text}: give NAME, or NAME=VALUE")
        if name in (*PLACE, *MEETING):
            raise LaunchError(f"--env {name}: the launcher sets that for each PE")
        if not is_told and name not in environment:
            raise LaunchError(
                f"--env {name}: it is not set here; a value goes into the same word: --env {name}=VALUE"
            )
        found[name] = value if is_told else environment[name]
    return found
