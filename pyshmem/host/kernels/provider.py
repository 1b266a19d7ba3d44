# SPDX-License-Identifier: BSD-3-Clause
"""Who makes the kernels of calls on streams. They stand above the host, which only loads and launches.

``pyshmem/__init__.py``, which is above both, sets the two functions as it is imported. Neither imports
a compiler before it is called.
"""

from __future__ import annotations

from collections.abc import Callable

#: Of a key of the contract and a compute capability: the code, its entry, its stack in bytes.
Compile = Callable[[int, int], tuple[bytes, str, int]]

#: The compiler of kernels for GPUs; raises ImportError where there is none.
compiler: Callable[[], Compile]
#: Lets the simulator run the kernels. It may be called again.
simulate: Callable[[], None]
