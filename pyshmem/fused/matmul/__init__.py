# SPDX-License-Identifier: BSD-3-Clause
"""Matrix products with an all-gather, a reduce-scatter or an all-reduce: see README.md."""
