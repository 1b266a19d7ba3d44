# SPDX-License-Identifier: BSD-3-Clause
"""Device routines that came with the package, so that not even the first kernel of a host compiles them.

Two archives, which the build makes where it has Numba (``tools/device_routines.py``): LLVM text of
functions, each once, with the routines that begin with them; and machine code of collectives that are
used most. They count for the sources that they were made of and for the dialect of NVVM that they are
in, whichever versions of Numba and Python made them and run here. Without them, or for routines, types
and options that they do not have, the store compiles (``routine_texts.py``).
"""

from __future__ import annotations

import functools
import io
import json
import re
import zipfile
from hashlib import sha256
from pathlib import Path
from typing import Any

from ..._core import kept_files
from ..._foreign import numba_cuda_texts as texts
from .content_names import Function, Routine

#: Beside this file; an editable install has none.
TEXTS, OBJECTS = (Path(__file__).with_name(f"routines-{what}.zip") for what in ("texts", "objects"))
#: The member with what an archive is made of, and, in that of texts, its routines by their key.
INDEX = "index.json"
#: Of the archives; a part of what they count for.
_FORMAT = 1
#: What is wrong with an archive that cannot be read: it counts as none.
_BROKEN = (OSError, ValueError, KeyError, TypeError, AttributeError, zipfile.BadZipFile)


def made_of() -> list[Any]:
    """What an archive has to be made of to count here."""
    return [_FORMAT, kept_files.sources(), texts.dialect()]


def portable(key: list[str]) -> str:
    """The name in an archive of a key of the store: without Numba's version, for all GPUs of a kind."""
    words = [_portable_word(word) for word in key if word != kept_files.origin()]
    return sha256(json.dumps(words).encode()).hexdigest()[:32]


def _portable_word(word: str) -> str:
    """Text differs between GPUs only by whether they have the bulk copies of sm_90 (``leaf/ptx.py``)."""
    if word.startswith("cc="):
        return f"bulk copies={tuple(map(int, re.findall(r'[0-9]+', word))) >= (9, 0)}"
    return word


def index_of(path: Path) -> dict[str, Any] | None:
    """What an archive says of itself; None: there is none, it is broken, or it counts for others."""
    try:
        with zipfile.ZipFile(path) as archive:
            index: dict[str, Any] = json.loads(archive.read(INDEX))
        return index if index["made_of"] == made_of() else None
    except _BROKEN:
        return None


@functools.cache
def _texts() -> tuple[dict[str, Any], zipfile.ZipFile] | None:
    """The routines by key, and the archive in memory: a forked process would share a file's place."""
    index = index_of(TEXTS)
    if index is None:
        return None
    return index["routines"], zipfile.ZipFile(io.BytesIO(TEXTS.read_bytes()))


def routine_of(key: list[str]) -> tuple[dict[str, Any], Routine] | None:
    """What is known of a routine, as the store's files have it, and all its functions."""
    known = _texts()
    about = known[0].get(portable(key)) if known else None
    if known is None or about is None:
        return None
    functions: dict[str, Function] = {}
    wanted = [about["root"]]
    try:
        while wanted:
            name = wanted.pop()
            if name not in functions:
                text, calls = json.loads(known[1].read(name))
                functions[name] = Function(text, tuple(calls))
                wanted += calls
        return about | {"key": key}, Routine(about["root"], functions)
    except _BROKEN:
        return None


@functools.cache
def _objects() -> frozenset[str]:
    """Their names. They link with the assembler that made them, and with newer ones of its number."""
    index = index_of(OBJECTS)
    made_by = tuple(index["nvjitlink"]) if index else (0, 0)
    here = texts.linker_version()
    fits = made_by[0] == here[0] and made_by[1] <= here[1]
    return frozenset(index["objects"]) if index and fits else frozenset()


def object_of(name: str) -> bytes | None:
    """Machine code of a routine by its name, architecture and options; None: it is not there."""
    if name not in _objects():
        return None
    try:
        with zipfile.ZipFile(OBJECTS) as archive:
            return archive.read(name)
    except _BROKEN:
        return None


def counts() -> tuple[int, int]:
    """How many routines came with the package, and how many objects, that count here."""
    known = _texts()
    return len(known[0]) if known else 0, len(_objects())
