# SPDX-License-Identifier: BSD-3-Clause
"""What device routines take: dtypes, by the letters of the type table, and labels."""

from .._core.contract import PRINT
from .._core.labels import LABEL_BYTES as LABEL_BYTES
from .._core.labels import label_words as label_words
from .._core.type_table import ELEMENT_NUMBER, ELEMENTS, elements_of

FAMILY_DTYPES = {of: {element.dtype for element in elements_of(of)} for of in "raxdbmst"}
FAMILY_DTYPES["signal"] = {"uint64"}
FAMILY_DTYPES["lock"] = {"int64"}

#: Number of each dtype in the type table.
BY_NUMBER = {element.dtype: ELEMENT_NUMBER[element.name] for element in ELEMENTS}


#: What no kernel computes with.
for _family in FAMILY_DTYPES.values():
    _family.discard("longdouble")
#: Of single elements, as p and g move them: 1, 2, 4, 8 or 16 bytes.
FAMILY_DTYPES["element"] = FAMILY_DTYPES["r"]


# What the simulator and the compiler say alike.


def outside_family(dtype: str, family: str) -> str:
    """The message for a dtype outside the table; empty for one inside."""
    allowed = FAMILY_DTYPES[family]
    if dtype in allowed:
        return ""
    hint = "; put and get copy arrays of any dtype" if family == "element" else ""
    return f"{dtype} is not among the types of this routine: {', '.join(sorted(allowed))}{hint}"


def not_an_array(kind: str) -> str:
    """The message for an argument that is no array."""
    return f"device routines take arrays, as a[i:i+1], not {kind}"


def layout_message(found: str) -> str:
    """The message for an array whose layout is neither C's nor Fortran's."""
    return (
        f"pyshmem.device routines take contiguous arrays: this one has {found}. Copy it first; that a "
        "slice is contiguous, a GPU's compiler knows where it is of the first index alone: d[1:3], not "
        "d[1:3, :] or d[..., 0:4]"
    )


def mismatch(dest: tuple[str, int, str], source: tuple[str, int, str]) -> str:
    """What forbids a copy between arrays, each its dtype, dimensions and layout; empty: nothing.

    Bytes are copied as they lie: of two arrays of 2 or more dimensions the orders have to be one.
    """
    if dest[0] != source[0]:
        return f"dest holds {dest[0]} but source holds {source[0]}"
    if min(dest[1], source[1]) > 1 and dest[2] != source[2]:
        order = {"C": "C's order (rows)", "F": "Fortran's order (columns)"}
        return (
            f"dest is in {order[dest[2]]} but source is in {order[source[2]]}, and bytes are copied as "
            "they lie: give both in one order, as np.ascontiguousarray and np.asfortranarray make them"
        )
    return ""


# enum pysh_print_kind
PRINT_INT, PRINT_FLOAT, PRINT_TEXT = PRINT.INT, PRINT.FLOAT, PRINT.TEXT
