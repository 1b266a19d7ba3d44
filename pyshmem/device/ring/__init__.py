# SPDX-License-Identifier: BSD-3-Clause
"""What kernels ask of the host: requests, and when a copy engine is the better way."""
