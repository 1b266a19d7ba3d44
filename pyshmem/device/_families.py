# SPDX-License-Identifier: BSD-3-Clause
"""The dtypes that each group of device routines takes, by the letters of the type table."""

from __future__ import annotations

from .._types import ELEMENT_NUMBER, ELEMENTS, elements_of

FAMILY_DTYPES = {letter: {element.dtype for element in elements_of(letter)} for letter in "raxbmst"}
FAMILY_DTYPES["+"] = FAMILY_DTYPES["a"] | {"float32", "float64"}  # add on floats: an extension
FAMILY_DTYPES["signal"] = {"uint64"}

#: Number of each dtype in the type table.
BY_NUMBER = {element.dtype: ELEMENT_NUMBER[element.name] for element in ELEMENTS}


#: What no kernel computes with.
for _family in FAMILY_DTYPES.values():
    _family.discard("longdouble")


def outside_family(dtype: str, family: str) -> str:
    """The message for a dtype outside the table; empty for one inside."""
    allowed = FAMILY_DTYPES[family]
    if dtype in allowed:
        return ""
    return f"{dtype} is not among the types of this routine: {', '.join(sorted(allowed))}"
