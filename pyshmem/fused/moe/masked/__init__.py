# SPDX-License-Identifier: BSD-3-Clause
"""Dispatch and combine that leave out members which are late or stopped."""
