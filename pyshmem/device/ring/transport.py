# SPDX-License-Identifier: BSD-3-Clause
"""Bytes and words to and from a peer, by whatever road there is. Addresses are the caller's own.

Nobody asks a copy engine for a copy to itself: within a GPU the driver may do that by a kernel,
which a full GPU has no room for. By the ring the leader of a group asks for the whole transfer;
what the group stored before is fenced for the host to see. Groups meet before and after, in the
routines.
"""

from .. import copies
from ..leaf import chosen
from ..leaf.chosen import cold, device_function, in_global, load_near, store_near, write64
from ..peers import distance_to, my_pe, near_to
from .cutover import offloads_get
from .requests import AMO, DONE, GET, PUT, PUT_SIGNAL, RELEASE, G, P, ask, tell

_UINT64, _SET = chosen.UINT64, chosen.AMO_SET


@cold
def _put_pieces(dest: int, source: int, nbytes: int, pe: int) -> int:
    """From shared or local memory: the host cannot read it, so the bytes travel in requests."""
    bounds = dest | source | nbytes | 8
    piece = bounds & -bounds
    at = 0
    while at < nbytes:
        tell(P | piece << 8, dest + at, 0, load_near(source + at, piece), 0, 0, pe)
        at += piece
    return 0


@cold
def _get_pieces(dest: int, source: int, nbytes: int, pe: int) -> int:
    """To shared or local memory, in replies."""
    bounds = dest | source | nbytes | 8
    piece = bounds & -bounds
    at = 0
    while at < nbytes:
        store_near(dest + at, piece, ask(G | piece << 8, 0, source + at, 0, 0, 0, pe))
        at += piece
    return 0


@device_function
def _hand_over(request, dest, source, nbytes, sig, signal, pe, nbi) -> None:
    """One thread sends the request; a near peer's engine does the work. PE: low half of ``pe``."""
    released = request | RELEASE
    if nbi:
        tell(released, dest, source, nbytes, sig, signal, pe)
    elif near_to(pe & 0xFFFFFFFF):
        ask(released | DONE, dest, source, nbytes, sig, signal, pe)
    else:
        ask(released, dest, source, nbytes, sig, signal, pe)


@device_function
def ring_put(dest: int, source: int, nbytes: int, pe: int, nbi: bool) -> None:
    """One thread asks for a put."""
    if nbytes > 0 and not in_global(source):
        _put_pieces(dest, source, nbytes, pe)
    elif nbytes > 0:
        _hand_over(PUT, dest, source, nbytes, 0, 0, pe, nbi)


@device_function
def ring_get(dest: int, source: int, nbytes: int, pe: int, nbi: bool) -> None:
    """One thread asks for a get."""
    if nbytes > 0 and not in_global(dest):
        _get_pieces(dest, source, nbytes, pe)
    elif nbytes > 0:
        _hand_over(GET, dest, source, nbytes, 0, 0, pe, nbi)


@device_function
def ring_put_signal(dest, source, nbytes, sig, signal, pe_word, nbi) -> None:
    """Data and then the signal; ``pe_word`` has the signal's operation in its high half."""
    left = nbytes
    if nbytes > 0 and not in_global(source):
        _put_pieces(dest, source, nbytes, pe_word & 0xFFFFFFFF)
        left -= nbytes  # one ring takes a block's requests in turn: the signal comes after them
    _hand_over(PUT_SIGNAL, dest, source, left, sig, signal, pe_word, nbi)


@device_function
def get_bytes(dest: int, source: int, nbytes: int, pe: int, rank: int, size: int) -> None:
    """``size`` lanes copy from ``pe``."""
    if near_to(pe) and (pe == my_pe() or not offloads_get(nbytes, size, dest)):
        copies.pull(dest, source + distance_to(pe), nbytes, rank, size)
    elif rank == 0:
        ring_get(dest, source, nbytes, pe, False)


@device_function
def store_word(dest: int, value: int, pe: int) -> None:
    """Eight bytes to ``pe``, relaxed; by the ring they come after earlier puts."""
    if near_to(pe):
        write64(dest + distance_to(pe), value)
    elif pe == my_pe():
        write64(dest, value)  # at once: nobody waits for words of their own
    else:
        tell(AMO | _UINT64 << 8, dest, 0, value, 0, 0, pe | _SET << 32)
