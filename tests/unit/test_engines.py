# SPDX-License-Identifier: BSD-3-Clause
"""The plug-ins of vLLM and SGLang: when they do something, and that the engines are as they know them.

The engines' sources are read where they are installed, and not imported: that needs a GPU's libraries.
``tests/pytorch/programs/engines.py`` calls the plug-ins.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def modules(monkeypatch: pytest.MonkeyPatch, name: str, **values: Any) -> None:
    """A module, and those above it, that stand for an engine's."""
    parts = name.split(".")
    for n in range(1, len(parts) + 1):
        module = ModuleType(".".join(parts[:n]))
        module.__path__ = []
        monkeypatch.setitem(sys.modules, module.__name__, module)
        if n > 1:
            setattr(sys.modules[".".join(parts[: n - 1])], parts[n - 1], module)
    vars(module).update(values)


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT)
    monkeypatch.delitem(sys.modules, "pyshmem_plugins", raising=False)
    return importlib.import_module("pyshmem_plugins")


@pytest.mark.parametrize(
    ("named", "platform"),
    [
        (None, None),
        ([], None),
        (["others"], None),
        (["others", "pyshmem"], "pyshmem.interop.vllm.platform.Platform"),
    ],
)
def test_vllm_gets_our_platform_where_its_setting_names_it(
    named: list[str] | None, platform: str | None, monkeypatch: pytest.MonkeyPatch, plugins: Any
) -> None:
    modules(monkeypatch, "vllm", envs=SimpleNamespace(VLLM_PLUGINS=named))
    asked = []
    found = SimpleNamespace(cuda_platform_plugin=lambda: asked.append(1) or "CudaPlatform")
    monkeypatch.setitem(sys.modules, "vllm.platforms", found)
    assert plugins.vllm_platform() == platform
    assert bool(asked) == bool(platform)  # nothing of vLLM is asked but its list


def test_vllm_without_a_gpu_is_told(monkeypatch: pytest.MonkeyPatch, plugins: Any) -> None:
    modules(monkeypatch, "vllm", envs=SimpleNamespace(VLLM_PLUGINS=["pyshmem"]))
    none = SimpleNamespace(cuda_platform_plugin=lambda: None)
    monkeypatch.setitem(sys.modules, "vllm.platforms", none)
    with pytest.raises(RuntimeError, match="vLLM finds none"):
        plugins.vllm_platform()


@pytest.mark.parametrize(
    ("named", "told"), [(None, 0), ("", 0), ("others", 0), ("pyshmem2", 0), ("others, pyshmem", 1)]
)
def test_sglang_is_told_where_its_setting_names_us(
    named: str | None, told: int, monkeypatch: pytest.MonkeyPatch, plugins: Any
) -> None:
    setting = SimpleNamespace(get=lambda: named)
    calls: list[int] = []
    modules(monkeypatch, "sglang.srt.environ", envs=SimpleNamespace(SGLANG_PLUGINS=setting))
    ours = ModuleType("pyshmem.interop.sglang")
    ours.register = lambda: calls.append(1)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pyshmem.interop.sglang", ours)
    plugins.sglang()
    assert len(calls) == told


def test_entry_points_are_functions_of_the_plugins(plugins: Any) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = {"vllm.platform_plugins": "vllm_platform", "sglang.srt.plugins": "sglang"}
    for group, name in groups.items():
        assert project["entry-points"][group] == {"pyshmem": f"pyshmem_plugins:{name}"}
        assert callable(getattr(plugins, name))


# ---- the engines' own sources ------------------------------------------------------------------------

#: By engine: file, class or "", function, its parameters (what they begin with), what its text has.
PLACES: dict[str, list[tuple[str, str, str, str, str]]] = {
    "vllm": [
        (
            "distributed/device_communicators/base_device_communicator.py",
            "DeviceCommunicatorBase", "__init__",
            "self cpu_group device device_group unique_name global_ranks global_world_size use_all2all",
            "self.world_size = ",
        ),
        (
            "distributed/device_communicators/cuda_communicator.py",
            "CudaCommunicator", "__init__", "self cpu_group device device_group unique_name", "",
        ),
        (
            "distributed/device_communicators/cuda_communicator.py",
            "CudaCommunicator", "all_reduce", "self input_", "",
        ),
        (
            "distributed/device_communicators/cuda_communicator.py",
            "CudaCommunicator", "destroy", "self", "",
        ),
        (
            "distributed/parallel_state.py", "GroupCoordinator", "_all_reduce_out_place",
            "self input_", "self.device_communicator.all_reduce(input_)",
        ),
        (
            "distributed/parallel_state.py", "GroupCoordinator", "destroy",
            "self", "self.device_communicator.destroy()",
        ),
        (
            "distributed/parallel_state.py", "GroupCoordinator", "__init__",
            "self group_ranks", "current_platform.get_device_communicator_cls()",
        ),
        (
            "distributed/parallel_state.py", "", "initialize_model_parallel",
            "tensor_model_parallel_size", "group_name='tp'",
        ),
        (
            "distributed/device_communicators/cuda_communicator.py",
            "CudaCommunicator", "__init__", "self", "envs.VLLM_BATCH_INVARIANT",
        ),
        ("platforms/__init__.py", "", "cuda_platform_plugin", "", ""),
        ("platforms/cuda.py", "CudaPlatformBase", "get_device_communicator_cls", "cls", ""),
        (
            "plugins/__init__.py", "", "load_plugins_by_group", "group", "envs.VLLM_PLUGINS",
        ),
    ],
    "sglang": [
        (
            "srt/distributed/device_communicators/custom_all_reduce.py", "",
            "dispatch_custom_allreduce", "group device", "",
        ),
        (
            "srt/distributed/device_communicators/custom_all_reduce.py", "CustomAllreduce",
            "__init__", "self group device max_size", "self.original_disabled",
        ),
        *(
            (
                "srt/distributed/device_communicators/custom_all_reduce.py", "CustomAllreduce",
                name, parameters, "",
            )
            for name, parameters in (
                ("capture", "self"), ("should_custom_ar", "self inp"),
                ("custom_all_reduce", "self input"), ("close", "self"),
            )
        ),
        (
            "srt/distributed/parallel_state.py", "GroupCoordinator", "fused_allreduce_rmsnorm",
            "self input_ residual_inp_ weight_ eps", "ca_comm.fused_allreduce_rmsnorm(",
        ),
        (
            "srt/distributed/parallel_state.py", "GroupCoordinator", "__init__",
            "self group_ranks", "f'{group_name}:cpu'",
        ),
        (
            "srt/distributed/parallel_state.py", "GroupCoordinator", "__init__",
            "self group_ranks", "CAClass(group=self.cpu_group, device=self.device)",
        ),
        (
            "srt/distributed/parallel_state.py", "", "initialize_model_parallel",
            "backend", "group_name='tp'",
        ),
        (
            "srt/plugins/hook_registry.py", "HookRegistry", "register",
            "cls target hook hook_type", "",
        ),
        (
            "srt/distributed/parallel_state.py", "GroupCoordinator", "reduce_scatter_tensor",
            "self output input", "envs.SGLANG_ENABLE_DETERMINISTIC_INFERENCE.get()",
        ),
        ("srt/plugins/__init__.py", "", "load_plugins", "", "HookRegistry.apply_hooks()"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("engine", "place"),
    [(engine, place) for engine, places in PLACES.items() for place in places],
    ids=lambda value: value if isinstance(value, str) else "-".join(value[1:3]).strip("-"),
)
def test_the_engine_is_as_we_know_it(engine: str, place: tuple[str, str, str, str, str]) -> None:
    found = importlib.util.find_spec(engine)
    if found is None or not found.submodule_search_locations:
        pytest.skip(f"{engine} is not installed")
    file, owner, name, parameters, text = place
    tree = ast.parse((Path(next(iter(found.submodule_search_locations))) / file).read_text("utf-8"))
    function = function_of(tree, owner, name)
    names = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
    wanted = parameters.split()
    assert names[: len(wanted)] == wanted
    assert text in ast.unparse(function)


def function_of(tree: ast.Module, owner: str, name: str) -> ast.FunctionDef:
    body: list[ast.stmt] = tree.body
    if owner:
        (body,) = (
            one.body for one in tree.body if isinstance(one, ast.ClassDef) and one.name == owner
        )
    (function,) = (one for one in body if isinstance(one, ast.FunctionDef) and one.name == name)
    return function


def test_our_classes_have_the_interfaces() -> None:
    """What ``PLACES`` says of the engine's classes is what ours have."""
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    import inspect

    from pyshmem.interop.sglang import AllReduce, dispatch
    from pyshmem.interop.vllm import TensorParallelSums

    def parameters(function: Callable[..., Any]) -> list[str]:
        return list(inspect.signature(function).parameters)

    known = {(owner, name): given.split() for _, owner, name, given, _ in PLACES["vllm"]}
    for name in ("all_reduce", "destroy"):
        assert parameters(getattr(TensorParallelSums, name)) == known["CudaCommunicator", name]
    init = known["CudaCommunicator", "__init__"]
    assert parameters(TensorParallelSums.__init__)[: len(init)] == init
    known = {(owner, name): given.split() for _, owner, name, given, _ in PLACES["sglang"]}
    for (owner, name), given in known.items():
        if (owner, name) == ("CustomAllreduce", "__init__"):
            assert parameters(AllReduce.__init__)[:3] == given[:3]
        elif owner == "CustomAllreduce" or name == "fused_allreduce_rmsnorm":
            assert parameters(getattr(AllReduce, name)) == given
    assert parameters(dispatch) == ["plain", *known["", "dispatch_custom_allreduce"]]
