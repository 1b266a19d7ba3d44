# SPDX-License-Identifier: BSD-3-Clause
"""Routines that are called from the host."""

from .._core import moved

__getattr__ = moved.attribute_of(__name__)
