# SPDX-License-Identifier: BSD-3-Clause
"""The job: init, finalize, whose processes they are, what all objects share."""
