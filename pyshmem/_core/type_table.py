# SPDX-License-Identifier: BSD-3-Clause
"""The type table: every typed family of routines iterates over it.

Standard library only: the build runs this file before the package exists
(``python type_table.py`` prints the C lists), so it imports nothing of pyshmem.

``ELEMENTS`` are the types the core computes with, erased to exact widths.
``TYPENAMES`` are the C spellings of the OpenSHMEM specification; each maps to one element.
"""

from __future__ import annotations

from typing import NamedTuple


class Element(NamedTuple):
    """A type of the core. The position in ``ELEMENTS`` is its number in C and on the device."""

    name: str
    ctype: str
    dtype: str  # NumPy or ml_dtypes name
    nbytes: int
    families: str  # see FAMILIES


class Typename(NamedTuple):
    """A TYPENAME of the specification, as in ``shmem_TYPENAME_put``."""

    name: str
    ctype: str
    element: str  # an Element name, or "" for an integer whose width and sign the compiler knows
    families: str


#: One letter a family of routines (the specification's tables of types).
FAMILIES = {
    "r": "RMA, signals with data, data collectives",
    "a": "standard AMO: compare_swap, inc, add and their fetching forms; wait and test",
    "x": "extended AMO: fetch, set, swap",
    "d": "add and fetch_add of the core: the standard AMO's types, and floating point as an extension",
    "b": "bitwise AMO: and, or, xor and their fetching forms",
    "m": "min and max reductions",
    "s": "sum and prod reductions, scans",
    "t": "and, or, xor reductions",
}

# The order is part of the ABI: signed integers by width, unsigned by width, then the rest.
ELEMENTS = (
    Element("int8", "int8_t", "int8", 1, "rmst"),
    Element("int16", "int16_t", "int16", 2, "rmst"),
    Element("int32", "int32_t", "int32", 4, "raxdbmst"),
    Element("int64", "int64_t", "int64", 8, "raxdbmst"),
    Element("uint8", "uint8_t", "uint8", 1, "rmst"),
    Element("uint16", "uint16_t", "uint16", 2, "rmst"),
    Element("uint32", "uint32_t", "uint32", 4, "raxdbmst"),
    Element("uint64", "uint64_t", "uint64", 8, "raxdbmst"),
    Element("float", "float", "float32", 4, "rxdms"),
    Element("double", "double", "float64", 8, "rxdms"),
    Element("longdouble", "long double", "longdouble", 16, "rms"),
    Element("complexf", "float _Complex", "complex64", 8, "rs"),
    Element("complexd", "double _Complex", "complex128", 16, "rs"),
    Element("half", "uint16_t", "float16", 2, "rms"),
    Element("bfloat16", "uint16_t", "bfloat16", 2, "rms"),
    Element("bool", "uint8_t", "bool", 1, "rmt"),
)

TYPENAMES = (
    Typename("float", "float", "float", "rxms"),
    Typename("double", "double", "double", "rxms"),
    Typename("longdouble", "long double", "longdouble", "rms"),
    Typename("complexf", "float _Complex", "complexf", "s"),
    Typename("complexd", "double _Complex", "complexd", "s"),
    Typename("char", "char", "", "rms"),
    Typename("schar", "signed char", "", "rms"),
    Typename("short", "short", "", "rms"),
    Typename("int", "int", "", "raxms"),
    Typename("long", "long", "", "raxms"),
    Typename("longlong", "long long", "", "raxms"),
    Typename("uchar", "unsigned char", "", "rmst"),
    Typename("ushort", "unsigned short", "", "rmst"),
    Typename("uint", "unsigned int", "", "raxbmst"),
    Typename("ulong", "unsigned long", "", "raxbmst"),
    Typename("ulonglong", "unsigned long long", "", "raxbmst"),
    Typename("int8", "int8_t", "", "rmst"),
    Typename("int16", "int16_t", "", "rmst"),
    Typename("int32", "int32_t", "", "raxbmst"),
    Typename("int64", "int64_t", "", "raxbmst"),
    Typename("uint8", "uint8_t", "", "rmst"),
    Typename("uint16", "uint16_t", "", "rmst"),
    Typename("uint32", "uint32_t", "", "raxbmst"),
    Typename("uint64", "uint64_t", "", "raxbmst"),
    Typename("size", "size_t", "", "raxmst"),
    Typename("ptrdiff", "ptrdiff_t", "", "raxms"),
)

#: AMO operations, in the order of their numbers in C and on the device.
ATOMIC_OPS = ("fetch", "set", "swap", "compare_swap", "add", "and", "or", "xor")

ATOMIC_NUMBER = {name: number for number, name in enumerate(ATOMIC_OPS)}
#: The family of each one's types.
ATOMIC_FAMILY: dict[str, str] = dict(zip(ATOMIC_OPS, "xxxadbbb", strict=True))

#: Reduction operations, in the order of their numbers in C and on the device.
REDUCE_OPS = ("and", "or", "xor", "max", "min", "sum", "prod")

#: Routines of kernels by number, for faults and reports; a scope's suffix is not told apart.
ROUTINES = (
    "put", "get", "p", "g", "put_signal", "signal_op", "signal_wait_until", "wait_until",
    "atomic_fetch", "atomic_set", "atomic_swap", "atomic_compare_swap", "atomic_add",
    "atomic_and", "atomic_or", "atomic_xor", "sync_all", "barrier_all", "ptr", "put_nbi",
    "get_nbi", "put_signal_nbi", "test", "signal_fetch", "ring", "iput", "iget", "ibput", "ibget",
    "team_sync", "broadcast", "collect", "fcollect", "alltoall", "alltoalls", "reduce", "scan",
    "wait_until_all", "wait_until_any", "wait_until_some", "test_all", "test_any", "test_some",
    "set_lock", "test_lock", "clear_lock", "quiet", "team_translate_pe", "load", "store", "copy",
    "atomic_min", "atomic_max", "all_reduce", "reduce_scatter", "task",
)  # fmt: skip

#: All that is known by its number: a part of the contract.
NUMBERED = (ATOMIC_OPS, REDUCE_OPS, ROUTINES)

ELEMENT_NUMBER = {element.name: number for number, element in enumerate(ELEMENTS)}
BY_DTYPE = {element.dtype: element for element in ELEMENTS}


def elements_of(family: str) -> tuple[Element, ...]:
    """The elements of one family, by its letter in ``FAMILIES``."""
    return tuple(element for element in ELEMENTS if family in element.families)


def c_lists() -> str:
    """The X-macro lists that native/ expands (``shmem_types.h`` in the build folder)."""
    lines = [
        "/* Made by pyshmem/_core/type_table.py when the package is built. */",
        "#pragma once",
        "",
    ]

    def x_list(name: str, rows: list[str]) -> None:
        lines.append(f"#define {name}(X_) \\")
        lines.extend(f"    {row} \\" for row in rows)
        lines.append("    /* end */\n")

    for number, element in enumerate(ELEMENTS):
        lines.append(f"#define ISHMEMX_TYPE_{element.name.upper()} {number}")
    lines.append(f"#define ISHMEMX_TYPE_COUNT {len(ELEMENTS)}\n")
    for prefix, names in (("ATOMIC", ATOMIC_OPS), ("REDUCE", REDUCE_OPS)):
        for number, name in enumerate(names):
            lines.append(f"#define ISHMEMX_{prefix}_{name.upper()} {number}")
        lines.append(f"#define ISHMEMX_{prefix}_COUNT {len(names)}\n")

    x_list("ISHMEMX_ELEMENTS", [f"X_({e.name}, {e.ctype}, {e.nbytes})" for e in ELEMENTS])
    for letter, meaning in FAMILIES.items():
        lines.append(f"/* {meaning} */")
        x_list(
            f"ISHMEMX_ELEMENTS_{letter.upper()}",
            [f"X_({e.name}, {e.ctype})" for e in elements_of(letter)],
        )
        rows = [
            f"X_({t.name}, {t.ctype}, "
            + (
                f"ISHMEMX_TYPE_{t.element.upper()})"
                if t.element
                else f"ISHMEMX_TYPE_OF({t.ctype}))"
            )
            for t in TYPENAMES
            if letter in t.families
        ]
        x_list(f"SHMEM_TYPENAMES_{letter.upper()}", rows)
    lines += [
        "/* The element of an integer type: signed ones are 0..3 by width, unsigned ones 4..7. */",
        "#define ISHMEMX_TYPE_OF(_t) \\",
        "    (((_t)-1 < (_t)1 ? 0 : 4) + (sizeof(_t) == 1 ? 0 : sizeof(_t) == 2 ? 1 : "
        "sizeof(_t) == 4 ? 2 : 3))",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(c_lists(), end="")
