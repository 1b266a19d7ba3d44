# SPDX-License-Identifier: BSD-3-Clause
"""What everything else stands on: the tables, settings, errors, the native library, arrays."""
