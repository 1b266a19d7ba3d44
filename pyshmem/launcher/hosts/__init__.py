# SPDX-License-Identifier: BSD-3-Clause
"""A job on several hosts: ``head`` starts an ``agent`` on each by ssh, or ``oshrun`` starts it all."""
