# SPDX-License-Identifier: BSD-3-Clause
"""What everything else stands on: the tables, settings, errors, the native library, arrays."""

from .other_project import refuse_overwritten as _refuse_overwritten

_refuse_overwritten()
