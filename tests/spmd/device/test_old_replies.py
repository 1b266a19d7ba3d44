# SPDX-License-Identifier: BSD-3-Clause
"""Rings in which others were before: old replies, and tickets that were given up."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from numba import cuda

import pyshmem
from pyshmem import device as shmem
from pyshmem._core import library
from pyshmem.device import state
from pyshmem.device.ring import requests


def word(address):
    return ctypes.c_uint64.from_address(address)


@cuda.jit
def absolute(handler, value, out):
    out[0] = shmem.call(handler, value, 0, 0, 0)


def test_an_old_reply_is_not_taken_for_the_new_one(job, place, show):
    if job.device not in library.SIMULATED:
        pytest.skip("looks into the ring, which the host cannot on GPUs")
    handler = pyshmem.register_handler(ctypes.CDLL(None).labs)
    out, words = place(np.zeros(1, np.int64)), library.device_state()
    control, device = words[state.RING + 1], words[state.RING + 2]
    ticket = word(device).value
    index = ticket % words[state.RING_SLOTS]
    cell = control + requests.CONTROL_CELLS + 16 * index
    word(cell).value = 999
    word(cell + 8).value = (ticket + 1) % 2**32
    # It was used last with ticket 5 * 2^32 + ...
    word(device + requests.DEVICE_WORDS + 8 * index).value = 5 << 34
    absolute[1, 1](handler, -17, out)
    assert show(out)[0] == 17
    assert word(device).value == ticket + 1


def test_the_ring_goes_on_far_behind_tickets_that_were_given_up(job, place, show):
    if job.device not in library.SIMULATED:
        pytest.skip("looks into the ring, which the host cannot on GPUs")
    handler = pyshmem.register_handler(ctypes.CDLL(None).labs)
    out, words = place(np.zeros(1, np.int64)), library.device_state()
    control, device = words[state.RING + 1], words[state.RING + 2]
    slots = words[state.RING_SLOTS]
    first = word(device).value
    last = first + 2 * slots + 2 * requests.CREDIT  # nobody who waits is near the credit any more
    word(device).value = last
    for ticket in range(max(first, last - slots), last):
        place_of = control + requests.CONTROL_CELLS + 16 * slots + 8 * (ticket % slots)
        word(place_of).value = ticket + 1
    absolute[1, 1](handler, -17, out)
    assert show(out)[0] == 17
