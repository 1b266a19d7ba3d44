# SPDX-License-Identifier: BSD-3-Clause
"""Bytes and words to and from a peer, by whatever path there is. Addresses are the caller's own.

Nobody asks a copy engine for a copy to itself: within a GPU the driver may do that by a kernel,
which a full GPU has no room for. By the ring the leader of a group asks for the whole transfer;
what the group stored before is fenced for the host to see. Groups meet before and after, in the
routines.
"""

from .. import copies
from ..leaf.backend import cold, device_function, in_global, load_near, store_near, write64
from ..peers import distance_to, is_p2p, my_pe
from .cutover import offloads_get
from .requests import DONE, GET, PUT, PUT_SIGNAL, RELEASE, G, P, ask, raise_for_team, tell


@device_function
def _hand_over(request, dest, source, nbytes, sig, signal, pe, nbi) -> None:
    """One thread sends the request; a near peer's engine does the work. PE: low half of ``pe``."""
    if nbi:
        tell(request | RELEASE, dest, source, nbytes, sig, signal, pe)
    else:
        done = DONE if is_p2p(pe & 0xFFFFFFFF) else 0
        ask(request | RELEASE | done, dest, source, nbytes, sig, signal, pe)


def _make_transfer(put: bool):
    """``f(dest, source, nbytes, pe, nbi)``: one thread asks for a put, or a get; and its chunks."""

    @cold
    def ring_chunks(dest: int, source: int, nbytes: int, pe: int) -> int:
        """From or to shared or local memory, which the host cannot reach: in requests, or replies."""
        bounds = dest | source | nbytes | 8
        chunk = bounds & -bounds
        at = 0
        while at < nbytes:
            if put:
                tell(P | chunk << 8, dest + at, 0, load_near(source + at, chunk), 0, 0, pe)
            else:
                store_near(dest + at, chunk, ask(G | chunk << 8, 0, source + at, 0, 0, 0, pe))
            at += chunk
        return 0

    @device_function
    def transfer(dest: int, source: int, nbytes: int, pe: int, nbi: bool) -> None:
        if nbytes > 0 and not in_global(source if put else dest):
            ring_chunks(dest, source, nbytes, pe)
        elif nbytes > 0:
            _hand_over(PUT if put else GET, dest, source, nbytes, 0, 0, pe, nbi)

    return transfer, ring_chunks


ring_put, _put_chunks = _make_transfer(True)
ring_get, _ = _make_transfer(False)


@device_function
def ring_put_signal(dest, source, nbytes, sig, signal, pe_word, nbi) -> None:
    """Data and then the signal; ``pe_word`` has the signal's operation in its high half."""
    if nbytes > 0 and not in_global(source):
        _put_chunks(dest, source, nbytes, pe_word & 0xFFFFFFFF)
        nbytes = 0  # one ring takes a block's requests in turn: the signal comes after them
    _hand_over(PUT_SIGNAL, dest, source, nbytes, sig, signal, pe_word, nbi)


@device_function
def get_bytes(dest: int, source: int, nbytes: int, pe: int, rank: int, size: int) -> None:
    """``size`` lanes copy from ``pe``."""
    if is_p2p(pe) and (pe == my_pe() or not offloads_get(nbytes, size, dest)):
        copies.pull(dest, source + distance_to(pe), nbytes, rank, size)
    elif rank == 0:
        ring_get(dest, source, nbytes, pe, False)


@device_function
def store_flag(slot: int, dest: int, value: int, pe: int) -> None:
    """Eight bytes to ``pe``, relaxed, a flag of the team in ``slot``: it never goes back."""
    if is_p2p(pe):
        write64(dest + distance_to(pe), value)
    elif pe == my_pe():
        write64(dest, value)  # at once: nobody waits for words of their own
    else:
        raise_for_team(slot, dest, value, pe)
