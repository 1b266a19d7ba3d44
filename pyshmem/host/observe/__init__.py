# SPDX-License-Identifier: BSD-3-Clause
"""Records of calls, and timelines of all PEs."""
