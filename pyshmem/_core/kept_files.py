# SPDX-License-Identifier: BSD-3-Clause
"""Compiled code on disk, shared by the PEs of a host and the programs of a user.

A file is a line of JSON about the code, and the code. It is read only when it is whole and the user's
own; written under another name and renamed, so that a reader sees all of it or nothing. Who makes a file
holds its lock meanwhile: the others wait, and find it made.

Files that nobody has used for long go, and those used longest ago where all are too many: ``prune``.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import itertools
import json
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from io import FileIO
from pathlib import Path
from typing import Any, TypeVar

from .library import cache_folder, setting_number, size_text

_PACKAGE = Path(__file__).parents[1]
#: Folders of what compiled code is made of.
_SOURCES = ("_core", "_foreign", "device", "stream_kernels")
#: What is not installed.
_OF_THE_BUILD = ("ffi_build.py",)
#: Seconds that one who waits gives another to compile: then it compiles for itself.
_PATIENCE = 120.0
_POLL = 0.02
_DAY = 86_400.0
#: So many files a process writes between two looks at the limits.
_WRITES = 32
#: What is begun, or was by a process that died; and what is kept, with the folders where it is.
_BEGUN = "pyshmem-begun-"
_LOCK = re.compile(r"(?:.+\.(?:cubin|ll|o)|triton-[\w-]+)\.lock")
_KEPT, _FOLDERS = (".cubin", ".ll", ".o"), ("", "routines")

File = tuple[dict[str, Any], bytes]
T = TypeVar("T")


@functools.cache
def folder() -> Path:
    """Of all such files.

    In a folder of another user, as one for all users of a machine: one of our own in there, for what
    others have written is not read. What an administrator put where we cannot write is used as it is.
    """
    place = cache_folder()
    with contextlib.suppress(OSError):
        if place.stat().st_uid != os.geteuid() and os.access(place, os.W_OK):
            return place / f"user-{os.geteuid()}"
    return place


@functools.cache
def sources() -> str:
    """A digest of our sources that code is made of, not of their times."""
    digest = hashlib.sha256()
    for path in sorted(path for part in _SOURCES for path in (_PACKAGE / part).rglob("*.py")):
        if path.name not in _OF_THE_BUILD:
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@functools.cache
def origin() -> str:
    """A digest of what makes the code: our sources, and the compilers' versions."""
    digest = hashlib.sha256(sources().encode())
    for package in ("numba", "numba-cuda", "llvmlite", "nvidia-nvjitlink", "nvidia-nvvm"):
        try:
            digest.update(f"{package} {metadata.version(package)}".encode())
        except metadata.PackageNotFoundError:
            digest.update(package.encode())
    return digest.hexdigest()[:16]


def read(path: Path) -> File | None:
    """What is known of the code, and the code; None when it is not there, not whole or another's."""
    try:
        with path.open("rb") as file:
            state = os.fstat(file.fileno())
            if state.st_uid not in (os.geteuid(), 0):
                return None
            if time.time() - state.st_mtime > _DAY:
                with contextlib.suppress(OSError):
                    os.utime(file.fileno())  # its time says when it was used, to a day
            head, _, code = file.read().partition(b"\n")
        about = json.loads(head)
        if about["sha256"] == hashlib.sha256(code).hexdigest():
            return about, code
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass
    return None


def write(path: Path, about: dict[str, Any], code: bytes) -> bool:
    """In one piece, whoever writes beside us. A folder that cannot be written costs time, no more.

    Returns whether it is there now.
    """
    about = about | {"sha256": hashlib.sha256(code).hexdigest()}
    name = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=_BEGUN, delete=False) as file:
            name = file.name
            file.write(json.dumps(about).encode() + b"\n" + code)
        os.replace(name, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(name)
        return False
    return True


def _opened(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def _open_locked(path: Path, until: float) -> FileIO | None:
    """The lock's file with the lock; None: none to be had. It is closed when nobody has it any more."""
    while True:
        try:
            lock = FileIO(path, "ab", opener=_opened)
        except OSError:
            return None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The last holder may have removed the file while it was opened here: then it locks nothing.
            if os.fstat(lock.fileno()).st_ino == os.stat(path).st_ino:
                return lock
        except FileNotFoundError:
            pass
        except BlockingIOError:
            if time.monotonic() > until:
                lock.close()
                return None
            time.sleep(_POLL)
        except OSError:
            lock.close()
            return None
        lock.close()


def _ours() -> Iterator[tuple[Path, os.stat_result]]:
    """All files in the folders, ours or not, with what the system knows of each."""
    for part in _FOLDERS:
        with contextlib.suppress(OSError), os.scandir(folder() / part) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    if entry.is_file(follow_symlinks=False):
                        yield Path(entry.path), entry.stat(follow_symlinks=False)


def state() -> tuple[int, int, str]:
    """How many files are in the folder and their bytes, and why it cannot be written, if so."""
    place = folder()
    sizes = [about.st_size for path, about in _ours() if path.suffix in _KEPT]
    try:
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=place):
            why = ""
    except OSError as error:
        why = error.strerror or str(error)
    return len(sizes), sum(sizes), why


def limits() -> str:
    """Of the folder, in words."""
    try:
        nbytes, days = setting_number("CACHE_SIZE"), setting_number("CACHE_DAYS")
    except ValueError as error:
        return str(error)
    told = [size_text(nbytes)] * bool(nbytes) + [f"{days} days unused"] * bool(days)
    return ", ".join(told) or "none"


def _is_ours(path: Path) -> bool:
    """Does it begin as what ``write`` writes? The folder may have files of others."""
    try:
        with path.open("rb") as file:
            return '"sha256": "' in file.readline(100_000).decode()
    except (OSError, ValueError):
        return False


def _remove_begun(path: Path) -> None:
    """What a process has left that died while it wrote, or held a lock."""
    if path.name.startswith(_BEGUN):
        path.unlink(missing_ok=True)
    elif _LOCK.fullmatch(path.name):
        lock = _open_locked(path, 0.0)
        if lock is not None:
            path.unlink(missing_ok=True)
            lock.close()


def prune() -> int:
    """Remove files by the limits ``CACHE_DAYS`` and ``CACHE_SIZE``; returns how many.

    Whoever reads one meanwhile has it whole; whoever comes later makes it again.
    """
    nbytes, days = setting_number("CACHE_SIZE"), setting_number("CACHE_DAYS")
    now, kept, removed = time.time(), 0, 0
    for path, about in sorted(_ours(), key=lambda each: -each[1].st_mtime):
        with contextlib.suppress(OSError):
            age = now - about.st_mtime
            if path.suffix not in _KEPT:
                if age > _DAY:
                    _remove_begun(path)
                continue
            kept += about.st_size
            if ((days and age > days * _DAY) or (nbytes and kept > nbytes)) and _is_ours(path):
                path.unlink()
                kept -= about.st_size
                removed += 1
    return removed


_written = itertools.count()


def _prune_now_and_then() -> None:
    """At the first file of a process, and at some later ones: to look at all takes milliseconds."""
    if next(_written) % _WRITES == 0:
        prune()


@contextlib.contextmanager
def one_at_a_time(path: Path, patience: float | None = None) -> Iterator[bool]:
    """One process, and one thread, for a name; the lock goes with a holder that dies.

    Without it where there can be none: a folder that cannot be written, a file system without locks,
    a holder that takes longer than ``patience`` seconds (``_PATIENCE``). Gives whether it is had.
    """
    place = path.with_name(path.name + ".lock")
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
    seconds = _PATIENCE if patience is None else patience
    lock = _open_locked(place, time.monotonic() + seconds)
    try:
        yield lock is not None
    finally:
        if lock is not None:
            with contextlib.suppress(OSError):
                os.unlink(place)
            lock.close()


def kept(path: Path, make: Callable[[], File | None], use: Callable[[File], T | None]) -> T | None:
    """What ``use`` makes of the file of this name; it is made once on a host by whoever asks first.

    ``make``: what to write; None: nothing, and there is nothing to use. ``use`` says None of a file
    that is not what its name says: it is made again.
    """
    found = read(path)
    value = use(found) if found else None
    if value is not None:
        return value
    with one_at_a_time(path):
        found = read(path)
        value = use(found) if found else None
        if value is not None:
            return value
        found = make()
        if found is None:
            return None
        if write(path, *found):
            _prune_now_and_then()
        return use(found)
