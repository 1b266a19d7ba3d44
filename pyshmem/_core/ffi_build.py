# SPDX-License-Identifier: BSD-3-Clause
"""Makes ``_native.c``, the cffi extension, when the package is built.

The declarations come from ``ishmemx.h`` and the type table; nothing is copied by hand. Addresses
(``void *``, signal addresses, contexts, teams, requests) become ``uintptr_t``: Python keeps addresses as
ints, and an int costs cffi less than a pointer object. ``scalar_calls`` below are the typed shells
that carry one value, so that cffi checks its range and Python makes no temporary.

    python ffi_build.py path/to/ishmemx.h path/to/_native.c
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

from contract import c_header  # type: ignore[import-not-found]
from type_table import ELEMENTS, Element  # type: ignore[import-not-found]

#: Elements whose NumPy scalar and C scalar are the same thing, 1 to 8 bytes.
SCALARS = tuple(e for e in ELEMENTS if re.fullmatch(r"u?int\d+|float|double", e.name))


#: Types of ishmemx.h that Python keeps as integers.
HANDLES = ("ishmemx_ctx_t", "ishmemx_team_t", "ishmemx_request_t")


class Parameter(NamedTuple):
    """A parameter of a C function: as Python passes it, and the cast back to what C wants."""

    name: str
    ctype: str
    cast: str


def with_parts(header: Path) -> str:
    """The text of ``header`` with those of its own kind that it includes, which lie beside it."""
    text = header.read_text(encoding="utf-8")
    parts = re.findall(r'^#include "(ishmemx_\w+\.h)"', text, flags=re.M)
    contract = c_header(public=True)
    return "\n".join(
        [text, contract, *(header.with_name(n).read_text(encoding="utf-8") for n in parts)]
    )


def declarations(header: str) -> list[str]:
    """The C declarations of ``header``, one a string, without comments and preprocessor lines."""
    text = re.sub(r"/\*.*?\*/", " ", header, flags=re.S)
    text = re.sub(r"#ifdef __cplusplus.*?#endif", " ", text, flags=re.S)
    text = re.sub(r"^#(?:.*\\\n)*.*$", "", text, flags=re.M)
    text = text.replace("ISHMEMX_API", " ")
    found, depth, start = [], 0, 0
    for position, char in enumerate(text):
        depth += (char == "{") - (char == "}")
        if char == ";" and depth == 0:
            found.append(" ".join(text[start:position].split()))
            start = position + 1
    return found


def parameter(text: str) -> Parameter:
    """One parameter, addresses as ``uintptr_t``."""
    match = re.fullmatch(r"(.*?)(\w+)", text)
    if match is None or "(" in text:
        return Parameter("", text, "")
    kind, name = match[1].strip(), match[2]
    plain = kind.replace("const ", "").replace(" ", "")
    if plain == "void*" or plain in HANDLES or name == "sig_addr":
        return Parameter(name, "uintptr_t", f"({kind})")
    if plain == "void**" or plain.removesuffix("*") in HANDLES:
        return Parameter(name, "uintptr_t *", f"({kind})")
    return Parameter(name, kind, "")


def convert(header: str) -> tuple[str, str]:
    """The cdef text and the C shells that take addresses as integers."""
    cdef, shells = [], []
    for declaration in declarations(header):
        match = re.fullmatch(r"([\w ]+?[ *]+)(ishmemx_\w+)\((.*)\)", declaration)
        if declaration.startswith("extern") or re.match(r"typedef struct \w+ \*", declaration):
            continue  # handles: Python has their addresses as integers
        if match is None or "(*" in declaration:
            cdef.append(declaration + ";")
            continue
        returns, name, inside = match.groups()
        parameters = [] if inside == "void" else [parameter(p.strip()) for p in inside.split(",")]
        listed = ", ".join(f"{p.ctype} {p.name}" for p in parameters) or "void"
        cdef.append(f"{returns}{name}({listed});")
        if any(p.cast for p in parameters):
            arguments = ", ".join(p.cast + p.name for p in parameters)
            shells.append(
                f"static inline {returns}int_{name}({listed}) {{ return {name}({arguments}); }}\n"
                f"#define {name} int_{name}"
            )
    return "\n".join(cdef), "\n".join(shells)


class ScalarCall(NamedTuple):
    """A family of typed shells: {n} is the element's name, {c} its C type, {N} its number."""

    family: str
    prototype: str
    body: str


# A value-returning shell that fails returns failed_{n} and leaves the status in last_status: the
# caller asks only when it sees that value, as with -1 and PyErr_Occurred().
SCALAR_CALLS = (
    ScalarCall(
        "r",
        "int p_{n}(uintptr_t ctx, uintptr_t dest, {c} value, int pe)",
        "return ishmemx_put(ctx, dest, (uintptr_t)&value, sizeof value, pe);",
    ),
    ScalarCall(
        "r",
        "{c} g_{n}(uintptr_t ctx, uintptr_t source, int pe)",
        "{c} value;\n"
        "    last_status = ishmemx_get(ctx, (uintptr_t)&value, source, sizeof value, pe);\n"
        "    return last_status ? failed_{n} : value;",
    ),
    ScalarCall(
        "x",
        "int atomic_{n}(uintptr_t ctx, int op, uintptr_t dest, {c} value, int pe)",
        "return ishmemx_atomic(ctx, op, {N}, dest, bits_{n}(value), 0, pe, NULL);",
    ),
    ScalarCall(
        "x",
        "{c} atomic_fetch_{n}(uintptr_t ctx, int op, uintptr_t dest, {c} value, int pe)",
        "uint64_t old;\n"
        "    last_status = ishmemx_atomic(ctx, op, {N}, dest, bits_{n}(value), 0, pe, &old);\n"
        "    return last_status ? failed_{n} : value_{n}(old);",
    ),
    ScalarCall(
        "a",
        "{c} compare_swap_{n}(uintptr_t ctx, uintptr_t dest, {c} cond, {c} value, int pe)",
        "uint64_t old;\n"
        "    last_status = ishmemx_atomic(ctx, ISHMEMX_ATOMIC_COMPARE_SWAP, {N}, dest,\n"
        "                                 bits_{n}(value), bits_{n}(cond), pe, &old);\n"
        "    return last_status ? failed_{n} : value_{n}(old);",
    ),
    ScalarCall(
        "a",
        "int wait_until_{n}(uintptr_t ivar, int cmp, {c} value)",
        "uint64_t seen;\n    return ishmemx_wait_until({N}, ivar, cmp, bits_{n}(value), &seen);",
    ),
    ScalarCall(
        "a",
        "int test_{n}(uintptr_t ivar, int cmp, {c} value)",
        "int holds;\n"
        "    last_status = ishmemx_test({N}, ivar, cmp, bits_{n}(value), &holds);\n"
        "    return last_status ? -1 : holds;",
    ),
)

SCALAR_VALUES = """
static const {c} failed_{n} = ({c})-7919;
static inline uint64_t bits_{n}({c} value)
{{
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    return bits;
}}
static inline {c} value_{n}(uint64_t bits)
{{
    {c} value;
    memcpy(&value, &bits, sizeof value);
    return value;
}}
"""


def exported(preamble: str) -> str:
    """The cdef text of what the preamble marks with ``TO_PYTHON``."""
    found = re.findall(r"^TO_PYTHON (.*?)\s*[{=;]", preamble, flags=re.M | re.S)
    return "\n".join(f"{item};" if "(" in item else f"static {item};" for item in found)


def scalar_calls() -> tuple[str, str]:
    """The cdef text and the C text of ``SCALAR_CALLS``, for every element of each family."""
    cdef, source = [], []

    def fill(template: str, element: Element) -> str:
        number = f"ISHMEMX_TYPE_{element.name.upper()}"
        return template.format(n=element.name, c=element.ctype, N=number)

    for element in SCALARS:
        cdef.append(fill("static const {c} failed_{n};", element))
        source.append(fill(SCALAR_VALUES, element))
        for call in SCALAR_CALLS:
            if call.family in element.families:
                prototype = fill(call.prototype, element)
                cdef.append(prototype + ";")
                source.append(f"static {prototype}\n{{\n    {fill(call.body, element)}\n}}\n")
    return "\n".join(cdef), "\n".join(source)


def main(header_path: str, output_path: str) -> None:
    """Write the C source of the extension."""
    from cffi import FFI

    header_cdef, shells = convert(with_parts(Path(header_path)))
    scalar_cdef, scalar_source = scalar_calls()
    ffi = FFI()
    preamble = Path(__file__).with_name("ffi_preamble.h").read_text(encoding="utf-8")
    ffi.cdef("\n".join([header_cdef, exported(preamble), scalar_cdef]))
    parts = ['#include "ishmemx.h"', shells, preamble, scalar_source]
    ffi.set_source("pyshmem._core._native", "\n".join(parts))
    ffi.emit_c_code(output_path)


if __name__ == "__main__":
    main(*sys.argv[1:])
