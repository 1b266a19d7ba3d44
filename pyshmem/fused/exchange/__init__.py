# SPDX-License-Identifier: BSD-3-Clause
"""All-to-all and small all-gathers of rows."""
