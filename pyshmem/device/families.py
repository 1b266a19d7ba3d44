# SPDX-License-Identifier: BSD-3-Clause
"""What device routines take: dtypes, by the letters of the type table, and labels."""

from .._core.contract import PRINT
from .._core.labels import LABEL_BYTES as LABEL_BYTES
from .._core.labels import label_words as label_words
from .._core.type_table import ELEMENT_NUMBER, ELEMENTS, elements_of

FAMILY_DTYPES = {letter: {element.dtype for element in elements_of(letter)} for letter in "raxbmst"}
FAMILY_DTYPES["+"] = FAMILY_DTYPES["a"] | {"float32", "float64"}  # add on floats: an extension
FAMILY_DTYPES["signal"] = {"uint64"}
FAMILY_DTYPES["lock"] = {"int64"}

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


# enum pysh_print_kind
PRINT_INT, PRINT_FLOAT, PRINT_TEXT = PRINT.INT, PRINT.FLOAT, PRINT.TEXT
