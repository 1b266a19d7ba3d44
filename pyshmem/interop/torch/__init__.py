# SPDX-License-Identifier: BSD-3-Clause
"""pyshmem for PyTorch: symmetric tensors, operators, and a backend of torch.distributed.

    import pyshmem.interop.torch as symmetric

    symmetric.init_process_group()                  # or torch's, with backend "pyshmem"
    model = torch.nn.parallel.DistributedDataParallel(model)

    box = symmetric.zeros(1024, device="cuda")
    torch.ops.pyshmem.all_reduce_(box, "sum")

Importing it registers the backend and the operators, and starts nothing. docs/torch.md tells more.

Extension.
"""

from . import backend as _backend
from . import operators as _operators
from .backend import ShmemProcessGroup
from .group import Options
from .members import from_process_group
from .op_teams import register_team
from .start import init_process_group
from .tensors import (
    empty,
    empty_like,
    free,
    full,
    full_like,
    heap_of,
    is_symmetric,
    ones,
    ones_like,
    ptr,
    rand,
    rand_like,
    randn,
    randn_like,
    tensor,
    zeros,
    zeros_like,
)

__all__ = [
    "Options", "ShmemProcessGroup", "empty", "empty_like", "free", "from_process_group", "full",
    "full_like", "heap_of", "init_process_group", "is_symmetric", "ones", "ones_like", "ptr", "rand",
    "rand_like", "randn", "randn_like", "register_team", "tensor", "zeros", "zeros_like",
]  # fmt: skip

_backend.register()
assert _operators._library  # torch.ops.pyshmem
