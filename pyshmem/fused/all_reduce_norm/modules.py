# SPDX-License-Identifier: BSD-3-Clause
"""``replace_norms``: all-reduces of a model and the norms behind them become one operation."""

from __future__ import annotations

import itertools
import logging
import math
import operator
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from ..._foreign.torch import functional_collectives as functional
from ..._torch.process_groups import from_process_group
from .._shared.former_names import translated
from .._shared.team_numbers import number as number_of_team

_log = logging.getLogger("pyshmem")
_ops = torch.ops.pyshmem
_FUNCTIONAL = {_ops.all_reduce, _ops.all_reduce.default}
_IN_PLACE = {_ops.all_reduce_, _ops.all_reduce_.default}
_ADDS = (operator.add, operator.iadd, torch.add, "add")


@translated
def replace_norms(
    module: torch.nn.Module, *, norms: tuple[type, ...] = (), algorithm: str | None = None
) -> torch.fx.GraphModule:
    """A module that does as ``module``, with ``all_reduce_rmsnorm`` where it sums, adds and normalises.

        model = pyshmem.fused.replace_norms(model)

    The model is traced by ``torch.fx``, through modules that are not of ``torch.nn``, so pairs are found
    wherever their halves stand. Replaced is a sum over PEs, wherever it is in a row-parallel linear:

    - ``torch.ops.pyshmem.all_reduce(y)`` or ``all_reduce_(y)``, ``torch.distributed.all_reduce(y)``, or
      ``all_reduce`` of its functional collectives, of op sum;
    - alone, or added to a residual: ``r + y``, ``y + r``, ``torch.add``, ``r += y``;
    - normalised by ``torch.nn.RMSNorm`` or ``LayerNorm`` with a weight, over a last extent that is a
      multiple of 8, or by one of ``norms``. What else reads the sum, as the next residual does, gets it.

    What else there is stays as it is, also sums that have no such norm behind them: with a bias that is
    added to the sum, a dropout between, a norm of several extents. A summand that is no residual of the
    same size and dtype is added by torch. Sums are rounded once where they were rounded twice, and in PE
    order. Logged at INFO, under the name pyshmem: how many were replaced, and why others were not.

    Args:
        module: the model; its parameters are shared, its hooks are not kept.
        norms: more classes of RMS norms, with ``weight`` and ``eps`` or ``variance_epsilon``, that
            compute ``x * rsqrt(mean(x**2) + eps) * weight``; with two arguments, x and a residual, they
            return the normalised sum and the sum.
        algorithm: as of ``all_reduce_rmsnorm``; ``"batch_invariant"`` is its option of that name.

    Returns: a ``torch.fx.GraphModule``; names in its ``state_dict`` are the model's.
    Completes: with process groups of other backends than ``"pyshmem"`` it is collective over them.
    Raises: ValueError (nothing was found, and why; torch.fx cannot trace the model).
    Extension.
    """
    tracer = _Tracer(norms)
    try:
        graph = tracer.trace(module)
    except (torch.fx.proxy.TraceError, TypeError) as error:
        raise ValueError(
            f"torch.fx cannot trace {type(module).__name__} ({error}); give a part of it without such "
            "control flow, as each layer of it"
        ) from error
    teams: dict[Any, int] = {}
    found, left = 0, []
    for node in list(graph.nodes):
        team_of = _sum_over(node)
        if team_of is None:
            continue
        why = _replace(graph, module, node, team_of, norms, algorithm, teams)
        found += why is None
        if why is not None:
            left.append(f"{node.name}: {why}")
    if not found:
        why = "; ".join(left) or "torch.fx finds no all-reduce of op sum in it"
        raise ValueError(f"replace_norms: nothing to replace in {type(module).__name__}: {why}")
    report = f"{type(module).__name__}: {found} all-reduces and norms became one operation each"
    report += f"; left as they are: {'; '.join(left)}" if left else ""
    _log.info(report)
    # No elimination of dead code: torch.fx takes an all-reduce in place for such.
    graph.lint()
    return torch.fx.GraphModule(tracer.root, graph, type(module).__name__)


class _Tracer(torch.fx.Tracer):
    def __init__(self, norms: tuple[type, ...]) -> None:
        super().__init__(autowrap_modules=(math, dist, functional))
        self._norms = norms

    def is_leaf_module(self, m: torch.nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, self._norms) or super().is_leaf_module(m, module_qualified_name)


def _sum_over(node: Any) -> Callable[[dict[Any, int]], int] | None:
    """If the node is an all-reduce that sums: what gives the number of its team."""
    if node.op != "call_function" or not node.args:
        return None
    named = node.kwargs
    if node.target in _FUNCTIONAL | _IN_PLACE:
        op, team = (*node.args[1:3], *("sum", 0)[len(node.args) - 1 :])[:2]
        number = named.get("team", team)
        return (lambda teams: number) if named.get("op", op) == "sum" else None
    if node.target is dist.all_reduce:
        op, group = (*node.args[1:3], *(dist.ReduceOp.SUM, None)[len(node.args) - 1 :])[:2]
        group = named.get("group", group)
        if named.get("op", op) == dist.ReduceOp.SUM and not named.get("async_op", False):
            return lambda teams: _number_of(group, teams)
    if node.target is functional.all_reduce:
        op, group = (*node.args[1:3], *("sum", None)[len(node.args) - 1 :])[:2]
        group = named.get("group", group)
        if named.get("reduceOp", op) == "sum" and isinstance(group, dist.ProcessGroup):
            return lambda teams: _number_of(group, teams)
    return None


def _number_of(group: Any, teams: dict[Any, int]) -> int:
    if group not in teams:
        actual = dist.group.WORLD if group is None else group
        team = getattr(actual, "team", None)
        teams[group] = number_of_team(from_process_group(actual) if team is None else team)
    return teams[group]


def _replace(
    graph: Any, module: Any, node: Any, team_of: Callable[[dict[Any, int]], int],
    norms: tuple[type, ...], algorithm: str | None, teams: dict[Any, int],
) -> str | None:  # fmt: skip
    """Replaces an all-reduce with what comes behind it, or says why not."""
    source, in_place = node.args[0], node.target in _IN_PLACE | {dist.all_reduce}
    value = source if in_place else node
    if in_place:
        order = {one: place for place, one in enumerate(graph.nodes)}
        if node.users or any(order[user] < order[node] for user in source.users):
            return "what it overwrites is read before"
    readers = [user for user in value.users if user is not node]
    total, residual = value, None
    if len(readers) == 1 and _adds(readers[0]):
        total = readers[0]
        residual = total.args[1] if total.args[0] is value else total.args[0]
        readers = list(total.users)
        if total.target is operator.iadd and total.args[0] is not value and len(residual.users) > 1:
            return "the residual is changed in place, and read elsewhere"
    normed = next((one for one in readers if _normalises(one, module, norms, total)), None)
    if normed is None:
        return "no norm that is known comes behind it"
    if any(_writes(one) for one in itertools.takewhile(lambda one: one is not normed, readers)):
        return "the sum is changed in place before it is normalised"
    at = node if total is value else total
    if len(normed.args) == 2:
        if residual is not None or len(readers) > 1:
            return "its norm adds a residual, and the sum is read elsewhere"
        residual, at = normed.args[1], normed
    with graph.inserting_before(at):
        layer = graph.get_attr(normed.target)
        given = source, residual, layer, team_of(teams), algorithm
        result = graph.call_function(all_reduce_and_norm, given)
        output, added = result, None
        if len(normed.args) == 1:
            output = graph.call_function(operator.getitem, (result, 0))
            added = graph.call_function(operator.getitem, (result, 1))
    normed.replace_all_uses_with(output)
    if added is not None:
        total.replace_all_uses_with(added, lambda user: user not in (result, normed, node))
    for one in (normed, *((total,) if total is not value else ()), node):
        graph.erase_node(one)
    return None


def _writes(node: Any) -> bool:
    """Whether a reader of the sum may change it."""
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    in_place = node.op in ("call_function", "call_method") and name.endswith("_")
    return in_place or name in ("iadd", "isub", "imul", "itruediv")


def _adds(node: Any) -> bool:
    callable_ = node.op in ("call_function", "call_method") and node.target in _ADDS
    return callable_ and len(node.args) == 2 and not node.kwargs and all(
        isinstance(one, torch.fx.Node) for one in node.args
    ) and node.args[0] is not node.args[1]  # fmt: skip


def _normalises(node: Any, module: Any, norms: tuple[type, ...], total: Any) -> bool:
    if node.op != "call_module" or node.kwargs or node.args[0] is not total:
        return False
    layer = module.get_submodule(node.target)
    more = isinstance(layer, norms) and not isinstance(layer, torch.nn.LayerNorm)
    if not more and not isinstance(layer, (torch.nn.RMSNorm, torch.nn.LayerNorm)):
        return False
    weight = getattr(layer, "weight", None)
    fits = weight is not None and weight.dim() == 1 and weight.numel() % 8 == 0
    return fits and (len(node.args) == 1 or (more and len(node.args) == 2))


def all_reduce_and_norm(
    source: Any, residual: Any, layer: Any, team: int, algorithm: str | None
) -> tuple[Any, Any]:
    """What replaced modules call: the normalised rows and the sum. ``layer`` is the norm."""
    eps = getattr(layer, "eps", getattr(layer, "variance_epsilon", None))
    eps = torch.finfo(source.dtype).eps if eps is None else eps
    kind = "layer" if isinstance(layer, torch.nn.LayerNorm) else "rms"
    bias = getattr(layer, "bias", None)
    given = source.contiguous()
    if residual is not None and (
        not isinstance(residual, torch.Tensor)
        or residual.shape != source.shape
        or residual.dtype != source.dtype
    ):
        added = _ops.sum_rows(given, team) + residual
        return layer(added), added
    if residual is not None:
        residual = residual.contiguous()
    output, added, _ = _ops.all_reduce_rmsnorm(
        given, layer.weight, residual, bias, eps, kind, None, team, algorithm
    )
    return output, added
