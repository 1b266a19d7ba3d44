# SPDX-License-Identifier: BSD-3-Clause
"""``triton_dist.test``: what its test programs share."""
