# SPDX-License-Identifier: BSD-3-Clause
"""Writes pyshmem/device/__init__.pyi: what editors and type checkers see of the device library.

    python -P tools/device_stub.py    (-P: else Numba takes coverage.py beside it for the package)

The routines are made for each scope and operation when the package is imported, so their names stand in
no source file. The stub has them with their arguments, which are ``Any``: Numba gives them their types.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from pyshmem import device

STUB = Path(__file__).parent.parent / "pyshmem" / "device" / "__init__.pyi"
HEAD = """# SPDX-License-Identifier: BSD-3-Clause
# Made by tools/device_stub.py. What the routines do is in api/, by the chapters of the specification.
from typing import Any

"""
SCOPES = ("_warp", "_work_group", "_grid")


def declaration(name: str, value: Any) -> str:
    """The line of one name."""
    if not callable(value):
        return f"{name}: {type(value).__name__}\n"
    parameters = inspect.signature(value).parameters.values()
    shown = ", ".join(str(parameter.replace(annotation=Any)) for parameter in parameters)
    shown = shown.replace("typing.", "")
    return f"def {name}({shown}) -> Any: ...\n"


def text() -> str:
    """The whole stub: a declaration for each routine, and its scopes as other names of it."""
    lines = [HEAD]
    for name in sorted(device.__all__):
        base = next((name.removesuffix(s) for s in SCOPES if name.endswith(s)), name)
        value = getattr(device, name)
        lines.append(declaration(name, value) if base == name else f"{name} = {base}\n")
    return "".join(lines)


if __name__ == "__main__":
    STUB.write_text(text())
