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

try:
    import torch as _torch  # noqa: F401
except ImportError as _error:
    raise ImportError(
        "pyshmem.interop.torch needs PyTorch: pip install 'pyshmem-openshmem[torch]'"
    ) from _error

from ..._core import library as _library
from ..._core import moved as _moved
from ..._core import other_names as _other_names
from ..._torch import operators as _operators
from ..._torch.process_groups import from_process_group
from ..._torch.teams import register_team
from ..._torch.tensors import (
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
from . import backend as _backend
from . import send_recv, worker_queues
from .backend import ShmemProcessGroup
from .group import Options
from .pools import Pool, pool
from .start import init_process_group
from .symmetric_memory import use_symmetric_memory

if _library.checks_order():
    from ..._torch import record as _record

    _record.install()
    worker_queues.let_others = _record.let_others
    send_recv.let_others = _record.let_others_here

__all__ = [
    "Options", "Pool", "ShmemProcessGroup", "empty", "empty_like", "free", "from_process_group", "full",
    "full_like", "heap_of", "init_process_group", "is_symmetric", "ones", "ones_like", "pool", "ptr",
    "rand", "rand_like", "randn", "randn_like", "register_team", "tensor",
    "use_symmetric_memory", "zeros", "zeros_like",
]  # fmt: skip

_backend.register()
assert _operators._library  # torch.ops.pyshmem

__getattr__ = _moved.attribute_of(
    __name__, _other_names.not_in_operations(__name__, _other_names.OF_TORCH)
)
