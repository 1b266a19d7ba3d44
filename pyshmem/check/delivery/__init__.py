# SPDX-License-Identifier: BSD-3-Clause
"""Adversarial delivery, ``PYSHMEM_CHECK=deliver``: what may be late is late, what may overtake does.

``turns`` has one PE at a time run, in an order that the seed gives; ``held`` keeps what a PE sends and
lets it arrive as late, and in such an order, as the specification allows. ``seeds`` runs a program with
many seeds. Of it ``lanes`` and ``taken`` alone are imported while ``deliver`` is off, with ``order``.
"""
