# SPDX-License-Identifier: BSD-3-Clause
"""SGLang's own plug-ins and hooks, with ours among them, on CPUs.

    sglang_hooks.py STORE

SGLang's sources have to be found, from an installation or an unpacked wheel. Theirs are what looks up
plug-ins, the registry of hooks, the settings, and the module in which a group's custom all-reduce is
chosen; what that module imports for GPUs are stubs here.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import sys
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist
from stubs import Stubs

import pyshmem

rank, size = int(os.environ["PYSHMEM_PE"]), int(os.environ["PYSHMEM_N_PES"])
COMMUNICATORS = "sglang.srt.distributed.device_communicators"
SIZES = {"is_cuda": lambda: True, "is_hip": lambda: False, "is_musa": lambda: False}
STUBS: dict[str, dict[str, Any]] = {
    **{
        f"{COMMUNICATORS}.{name}": {}
        for name in ("custom_all_reduce_ops", "cuda_wrapper", "custom_all_reduce_utils")
    },
    "sglang.srt.model_executor.runner_backend_utils.tc_piecewise_cuda_graph": {},
    "sglang.srt.utils": SIZES,
}


def bare_packages() -> None:
    """Packages whose own modules would import all of SGLang, with the places of their files alone."""
    found = importlib.util.find_spec("sglang")
    assert found is not None
    place = next(iter(found.submodule_search_locations or ()))
    for name in (
        "sglang", "sglang.srt", "sglang.srt.distributed", COMMUNICATORS, "sglang.srt.model_executor",
        "sglang.srt.model_executor.runner_backend_utils",
    ):  # fmt: skip
        module = ModuleType(name)
        module.__path__ = [os.path.join(place, *name.split(".")[1:])]
        sys.modules[name] = module


def main() -> None:
    os.environ.update(SGLANG_PLUGINS="pyshmem", SGLANG_OPT_USE_CUSTOM_ALL_REDUCE_V2="0")
    bare_packages()
    sys.meta_path.insert(0, Stubs(STUBS))
    dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=rank, world_size=size)
    from sglang.srt.distributed.device_communicators import custom_all_reduce as theirs
    from sglang.srt.plugins import load_plugins

    from pyshmem.interop.sglang import AllReduce

    plain = theirs.CustomAllreduce
    load_plugins()
    device, groups = torch.device("cpu"), {}
    for name in ("tp", "pp"):
        groups[name] = dist.new_group(backend="gloo", group_desc=f"{name}:cpu")
    assert theirs.dispatch_custom_allreduce(group=groups["pp"], device=device) is plain
    made = theirs.dispatch_custom_allreduce(group=groups["tp"], device=device)
    comm = made(group=groups["tp"], device=device)
    assert isinstance(comm, AllReduce)
    for name in ("capture", "should_custom_ar", "custom_all_reduce", "close"):
        ours, whose = (inspect.signature(getattr(one, name)) for one in (AllReduce, plain))
        assert list(ours.parameters) == list(whose.parameters), name
    given = inspect.signature(plain.__init__).parameters
    assert set(list(given)[:3]) == set(list(inspect.signature(AllReduce.__init__).parameters)[:3])
    with comm.capture():
        x = torch.full((3, 8), rank + 1.0)
        assert comm.should_custom_ar(x)
        total = torch.full((3, 8), size * (size + 1) / 2)
        assert torch.equal(comm.custom_all_reduce(x), total)
    comm.close()
    assert not pyshmem.initialized()
    dist.destroy_process_group()
    print("ok", flush=True)


if __name__ == "__main__":
    main()
