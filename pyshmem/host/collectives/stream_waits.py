# SPDX-License-Identifier: BSD-3-Clause
"""Streams that wait for requests: each for a word, which a thread stores to when one is complete.

A word's values rise for the life of the process, so that a store of a job before, which comes late, ends
no wait of this one.
"""

from __future__ import annotations

import threading
from typing import Any

from ..._core.arrays.checks import StreamLike, stream_handle
from ..._core.errors import ShmemError
from ..._core.library import check, lib

_lock = threading.Lock()
#: Words that no stream waits for, and the last value that one did wait for.
_free = list(range(lib.ISHMEMX_HOST_WORDS))
_values = [0] * lib.ISHMEMX_HOST_WORDS


def begin(request: Any, handle: int, stream: StreamLike) -> None:
    """Put the wait on the stream; the thread keeps ``request`` alive."""
    address = stream_handle(stream)
    with _lock:
        if not _free:
            raise ShmemError(f"streams wait for {len(_values)} requests already: let some complete")
        word = _free.pop()
        _values[word] += 1
        value = _values[word]
    try:
        check(lib.ishmemx_host_word_wait_on_stream(word, value, address))
    except BaseException:
        _give_back(word)
        raise
    threading.Thread(target=_finish, args=(request, handle, word, value), daemon=True).start()


def _give_back(word: int) -> None:
    with _lock:
        _free.append(word)


def _finish(_request: Any, handle: int, word: int, value: int) -> None:
    """The thread. Why the request failed, or has not come so far, is for who asks it."""
    lib.ishmemx_request_wait(handle)
    lib.ishmemx_host_word_store(word, value)
    _give_back(word)
