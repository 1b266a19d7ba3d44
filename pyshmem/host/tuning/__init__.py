# SPDX-License-Identifier: BSD-3-Clause
"""One table of measured choices: its files, which rows count on this GPU and link, and who asks."""
