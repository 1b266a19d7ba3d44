# SPDX-License-Identifier: BSD-3-Clause
"""pyshmem.fused: what all operations have to refuse, each walked through for each argument that matters.

Results that share memory with what is read, no team, members that call otherwise, tensors that are no
plain memory. A public function that is not in the tables ends the program.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import pyshmem
import pyshmem.fused as fused
from pyshmem._torch.arguments import check_apart
from pyshmem.fused import formats

F32 = torch.float32


def values(*size: int) -> torch.Tensor:
    return torch.arange(1.0, torch.Size(size).numel() + 1).view(size).fmod(7)


#: By name: the function, what it reads, and its results with their sizes.
Cases = dict[str, tuple[Callable, dict[str, Any], dict[str, tuple[int, ...]]]]


def cases() -> Cases:
    n = job.n_pes
    x, w = values(4, 8), values(8, 8)
    rows = {"x": values(4, 8), "weight": values(8), "residual": values(4, 8), "bias": values(8)}
    keys = {"q": values(2, 3, 8), "k_shard": values(2, 5, 3, 8), "v_shard": values(2, 5, 3, 8)}
    product = {"w": w, "bias": values(8)}
    return {
        "all_gather_matmul": (
            fused.all_gather_matmul, {"x_shard": x, **product},
            {"out": (4 * n, 8), "gather_out": (4 * n, 8)},
        ),
        "matmul_reduce_scatter": (
            fused.matmul_reduce_scatter, {"x": values(4 * n, 8), **product}, {"out": (4, 8)},
        ),
        "matmul_all_reduce": (
            fused.matmul_all_reduce, {"x": values(4 * n, 8), **product}, {"out": (4 * n, 8)},
        ),
        "all_reduce_rmsnorm": (
            fused.all_reduce_rmsnorm, rows, {"out": (4, 8), "residual_out": (4, 8)},
        ),
        "all_to_all": (fused.all_to_all, {"x": values(2 * n, 4)}, {"out": (2 * n, 4)}),
        "low_latency_all_gather": (
            fused.low_latency_all_gather, {"x": values(4, 4)}, {"out": (4 * n, 4)},
        ),
        "ulysses_to_heads": (
            fused.ulysses_to_heads, {"x": values(2, 3, 2 * n, 4)}, {"out": (2, 3 * n, 2, 4)},
        ),
        "ulysses_to_sequence": (
            fused.ulysses_to_sequence, {"x": values(2, 3 * n, 2, 4)}, {"out": (2, 3, 2 * n, 4)},
        ),
        "flash_decode": (
            fused.flash_decode, {**keys, "lengths": torch.full((2,), 4)}, {"out": (2, 3, 8)},
        ),
        **experts_cases(),
    }  # fmt: skip


def experts_cases() -> Cases:
    n = job.n_pes
    x, ids = values(4, 8), torch.arange(4, dtype=torch.int32).view(4, 1) % 2
    experts, ones = values(2, 8, 8), torch.ones(4, 1)
    every = torch.arange(2 * n).expand(4, 2 * n).contiguous()  # each token goes to each expert
    tokens, handle = fused.expert_dispatch(x, every, 2 * n)
    _, routing = fused.all_gather_group_matmul(x, experts, ids)
    pairs = handle.rows.shape[0]
    own = tokens.clone(), values(2, 8, 8)
    return {
        "expert_dispatch": (
            lambda x, topk_ids, **rest: fused.expert_dispatch(x, topk_ids, 2 * n, **rest),
            {"x": x, "topk_ids": every}, {},
        ),
        "expert_combine": (
            lambda y, topk_weights, **rest: fused.expert_combine(y, handle, topk_weights, **rest),
            {"y": values(pairs, 8), "topk_weights": torch.ones(4, 2 * n)}, {"out": (4, 8)},
        ),
        "group_matmul": (
            lambda tokens, weights, **rest: fused.group_matmul(tokens, weights, handle, **rest),
            dict(zip(("tokens", "weights"), own, strict=True)), {"out": (pairs, 8)},
        ),
        "all_gather_group_matmul": (
            fused.all_gather_group_matmul, {"x_shard": x, "w": experts, "topk_ids": ids},
            {"out": (4 * n, 8), "gather_out": (4 * n, 8)},
        ),
        "group_matmul_reduce_scatter": (
            lambda x, w, topk_weights, **rest: fused.group_matmul_reduce_scatter(
                x, w, routing, topk_weights, **rest
            ),
            {"x": values(4 * n, 8), "w": experts, "topk_weights": ones}, {"out": (4, 8)},
        ),
    }  # fmt: skip


#: Public functions that move nothing between the members of a team.
NO_OPERATIONS = {"share_of_rows", "replace_norms", "expert_mask"}
#: Results that may be an argument, whole: their docstrings say so.
IN_PLACE = {
    "all_reduce_rmsnorm": {("out", "x"), ("residual_out", "residual"), ("residual_out", "x")},
}


def public() -> Iterator[tuple[str, list[str]]]:
    """Public operations, and their parameters."""
    for name in fused.__all__:
        function = getattr(fused, name)
        if inspect.isfunction(function) and name not in NO_OPERATIONS:
            yield name, list(inspect.signature(function).parameters)


def that_overlap(size: tuple[int, ...], given: torch.Tensor) -> Iterator[tuple[Any, torch.Tensor]]:
    """A place for a result and ``given`` elsewhere, in one memory: by one line, the one in the other."""
    nbytes, line = 4 * torch.Size(size).numel(), 16
    for at, begin in ((0, nbytes - line), (max(given.nbytes - line, 0), 0), (line, 0), (0, line)):
        room = torch.zeros(nbytes + given.nbytes + line, dtype=torch.uint8)
        place = room[at : at + nbytes].view(F32).view(size)
        other = room[begin : begin + given.nbytes].view(given.dtype).view(given.shape)
        if max(at, begin) < min(at + nbytes, begin + given.nbytes):
            yield place, other.copy_(given)


def results_lie_apart() -> None:
    every = cases()
    for name, parameters in public():
        call, given, results = every[name]
        assert {one for one in parameters if one.endswith("out") and one != "timeout"} == set(
            results
        ), name
        for (result, size), (other, tensor) in itertools.product(results.items(), given.items()):
            for place, moved in that_overlap(size, tensor):
                with pytest.raises(ValueError, match=f"{result} shares memory with {other}"):
                    call(**{**given, other: moved, result: place})
            same = tensor.shape == torch.Size(size) and tensor.dtype == F32
            if same and (result, other) not in IN_PLACE.get(name, ()):
                with pytest.raises(ValueError, match=f"{result} shares memory with {other}"):
                    call(**{**given, result: tensor})
        for one, two in itertools.combinations(results, 2):
            both = torch.zeros(results[one])
            with pytest.raises(ValueError, match=f"{two} shares memory with {one}"):
                call(**given, **{one: both, two: both})
        places = {result: torch.full(size, -1.0) for result, size in results.items()}
        call(**given, **places)  # after all that, and into places that are apart
        assert not any((place == -1).all() for place in places.values()), name


def extents_are_exact() -> None:
    """Columns of one matrix share no element, though their extents overlap."""
    matrix = torch.zeros(4, 6)
    check_apart([("out", matrix[:, :3])], [("x", matrix[:, 3:]), ("y", None)])
    check_apart([("out", matrix[:2])], [("x", matrix[2:]), ("y", matrix[:0]), ("z", 1.0)])
    for one, other in (
        (matrix[:, :4], matrix[:, 3:]), (matrix, matrix[1, 1]), (matrix.t(), matrix), (matrix, matrix),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="out shares memory with x"):
            check_apart([("out", one)], [("x", other)], [("out", "y")])
    check_apart([("out", matrix)], [("x", matrix)], [("out", "x")])
    with pytest.raises(ValueError, match="out shares memory with x"):
        check_apart([("out", matrix[:2])], [("x", matrix)], [("out", "x")])


def no_team_is_refused() -> None:
    every = cases()
    for name, parameters in public():
        call, given, _ = every[name]
        if "team" not in parameters:
            continue
        default = inspect.signature(getattr(fused, name)).parameters["team"].default
        assert default is pyshmem.TEAM_WORLD, name
        for leaf in (False, True):
            wanted = dict(given)
            if leaf and name not in ("flash_decode", "all_gather_group_matmul"):
                first = next(iter(given))  # through the operator
                wanted[first] = given[first].clone().requires_grad_()
            with pytest.raises(TypeError, match="team is None, as a split returns"):
                call(**wanted, team=None)
        with pytest.raises(TypeError, match="not a Team"):
            call(**given, team=0)


def elements_count_and_not_memory() -> None:
    """A negated view is refused, or, where torch resolves it for operators, counts by its elements."""
    for name, (call, given, results) in cases().items():
        for other, tensor in given.items():
            if not tensor.is_floating_point():
                continue
            negated = torch._neg_view(tensor)  # as autograd of complex numbers makes them
            places = {result: torch.zeros(size) for result, size in results.items()}
            try:
                found = call(**{**given, other: negated})
            except ValueError as error:
                found = str(error)
            if isinstance(found, str):
                assert "is a negated view" in found, name
            else:
                wanted = call(**{**given, other: negated.resolve_neg()})
                found, wanted = (one[0] if type(one) is tuple else one for one in (found, wanted))
                assert torch.equal(found, wanted), name
            if places:
                with pytest.raises(ValueError, match="is a negated view"):
                    call(**{**given, other: negated}, **places)
            stray = torch.quantize_per_tensor(tensor, 0.5, 0, torch.qint8)
            for rest in ({}, places):
                with pytest.raises((pyshmem.UnsupportedError, NotImplementedError)) as told:
                    call(**{**given, other: stray}, **rest)
                assert "uantised" in str(told.value) or "Quantized" in str(told.value), name


def arrays_are_taken_whose_elements_torch_has() -> None:
    """Where there is a tensor there may be an array of NumPy: no masked one, nor of other elements."""
    for call, given, _ in cases().values():
        for other, tensor in given.items():
            if tensor.dtype == torch.bfloat16 or tensor.dtype.itemsize == 1:
                continue
            array = tensor.numpy()
            for odd, text in (
                (np.ma.masked_array(array, mask=True), "masked array"),
                (array.astype(object), "torch does not take"),
                (array.astype(array.dtype.newbyteorder()), "torch does not take"),
            ):
                with pytest.raises(TypeError, match=text):
                    call(**{**given, other: odd})


def numbers_of_experts_are_integers() -> None:
    ids = torch.zeros(4, 1, dtype=torch.int64)
    for wrong in ("4", 4.0, None):
        with pytest.raises(TypeError, match=r"n_experts is .*, not an integer"):
            fused.expert_dispatch(values(4, 8), ids, wrong)


def strides_of_one_element_do_not_matter() -> None:
    n = job.n_pes
    one = torch.arange(4.0, 10.0)[::6]
    assert fused.low_latency_all_gather(one).tolist() == [4.0] * n
    assert fused.low_latency_all_gather(one, algorithm="simple").tolist() == [4.0] * n
    place = torch.zeros(n, 8)[:, 3:4]  # one column
    column = torch.ones(1, n).t()
    assert column.is_contiguous()
    assert fused.all_to_all(column).tolist() == [[1.0]] * n
    if n == 1:
        assert fused.low_latency_all_gather(one, out=place[0]).tolist() == [4.0]
    x, w = torch.full((1, 5), 2.0).t()[:1], torch.ones(1, 3).t()[:1]
    for algorithm in ("copy_engine", "unfused"):
        assert fused.all_gather_matmul(x, w, algorithm=algorithm).tolist() == [[2.0]] * n


def members_that_differ_are_told() -> None:
    """Without checking mode, too: at the first call of a size."""
    n, me = job.n_pes, job.my_pe
    w, height = values(8, 8), 4 + me
    given = [f"{4 + pe}" for pe in range(n)]
    hint = f"x has 4 rows on PE 0 and 5 on PE 1; give rows=.{', '.join(given)}. on all"
    differ = "made different calls"
    by = r": {0}=.* on PE 0 and {0}=.* on PE 1; all members of the team give the same".format
    fused.all_gather_matmul(values(height, 8), w, rows=[4 + pe for pe in range(n)])
    experts, ids = values(2, 8, 8), torch.zeros(height, 1, dtype=torch.int32)
    for text, call in (
        (hint, lambda: fused.all_gather_matmul(values(height, 8), w)),
        (hint, lambda: fused.all_gather_group_matmul(values(height, 8), experts, ids)),
        (by("k"), lambda: fused.all_gather_matmul(values(6, 8 + me), values(8 + me, 3))),
        (by("x_rows"), lambda: fused.matmul_reduce_scatter(values(height, 8), w)),
        (by("x_rows"), lambda: fused.matmul_all_reduce(values(height, 8), w)),
        (by("dtype"),
         lambda: fused.matmul_all_reduce(values(6, 8), w.to((F32, torch.half)[me > 0]))
         if me == 0 else fused.matmul_all_reduce(values(6, 8).half(), w.half())),
        (by("x"), lambda: fused.all_to_all(values(n * height, 2))),
        (by("x"), lambda: fused.low_latency_all_gather(values(height, 2))),
        (by("x"), lambda: fused.ulysses_to_heads(values(1, height, n, 2))),
        (by("x"), lambda: fused.ulysses_to_sequence(values(1, n * height, 2, 2))),
        (by("x"), lambda: fused.all_reduce_rmsnorm(values(height, 8), values(8))),
        (by("q"),
         lambda: fused.flash_decode(values(height, 1, 8), *[values(height, 2, 1, 8)] * 2)),
        (by("hidden"),
         lambda: fused.expert_dispatch(values(4, 8 * (me + 1)), ids[:4], 2 * n)),
        (differ, lambda: fused.all_to_all(values(n, 6)) if me
         else fused.low_latency_all_gather(values(n, 6))),
    ):  # fmt: skip
        with pytest.raises(pyshmem.MismatchError, match=text):
            call()
    assert fused.low_latency_all_gather(torch.ones(1)).tolist() == [1.0] * n


def members_of_which_some_know_a_size_are_told() -> None:
    """One makes a call that has been compared, another one with a size that is new."""
    n, late = job.n_pes, int(job.my_pe == 1)
    w, weight = values(8, 8), values(8)
    calls = (
        lambda rows: fused.all_gather_matmul(values(rows, 8), w),
        lambda rows: fused.matmul_reduce_scatter(values(rows, 8), w),
        lambda rows: fused.matmul_all_reduce(values(rows, 8), w),
        lambda rows: fused.low_latency_all_gather(values(rows, 2)),
        lambda rows: fused.all_to_all(values(n * rows, 2)),
        lambda rows: fused.all_reduce_rmsnorm(values(rows, 8), weight),
    )
    for call in calls:
        call(3)
    for call in calls:
        with pytest.raises(pyshmem.MismatchError):
            call(3 + 2 * late)
        call(3)


def a_global_scale_is_of_one_value() -> None:
    """On all members, a number or a tensor of the CPU; of a GPU it is looked at in checking mode."""
    me, x, weight = job.my_pe, values(4, 32), values(32)
    ids = torch.zeros(4, 1, dtype=torch.int32)
    for unit in (0.5 + me, torch.full((1,), 0.5 + me)):
        given: dict[str, Any] = {"quantize": "nvfp4", "global_scale": unit}
        blocks = formats.BlockTensor(*formats.quantize(x, **given), "nvfp4", unit)
        for call in (
            lambda given=given: fused.expert_dispatch(x, ids, 2 * job.n_pes, **given),
            lambda given=given: fused.all_reduce_rmsnorm(x, weight, **given),
            lambda blocks=blocks: fused.low_latency_all_gather(blocks),
        ):
            with pytest.raises(pyshmem.MismatchError, match=r"global_scale=1\.5"):
                call()


def a_global_scale_has_a_size() -> None:
    for unit in (0, -1.0, 2.0**101, torch.zeros(1), torch.full((1,), float("nan"))):
        with pytest.raises(ValueError, match="from 2"):
            formats.quantize(values(4, 32), "nvfp4", global_scale=unit)


def tokens_of_another_dispatch_are_refused() -> None:
    x, ids = values(4, 32), torch.zeros(4, 1, dtype=torch.int32)
    tokens, handle = fused.expert_dispatch(x, ids, job.n_pes, quantize="nvfp4")
    plain, other = fused.expert_dispatch(x, ids, job.n_pes)
    assert other.by_expert(plain).shape == handle.by_expert(tokens).shape
    if len(plain):
        with pytest.raises(ValueError, match="rows that came"):
            other.by_expert(plain[1:])
    with pytest.raises(ValueError, match="without quantize"):
        other.by_expert(tokens)


def even_rows_may_be_told_by_some() -> None:
    n, w = job.n_pes, values(8, 8)
    rows = [3] * n if job.my_pe == 0 else None
    for _ in range(2):
        assert fused.all_gather_matmul(values(3, 8), w, rows=rows).shape == (3 * n, 8)


with pyshmem.init() as job:
    if job.n_pes > 1:
        a_global_scale_is_of_one_value()  # its values are compared by the first calls
        members_of_which_some_know_a_size_are_told()
        members_that_differ_are_told()
        even_rows_may_be_told_by_some()
    a_global_scale_has_a_size()
    tokens_of_another_dispatch_are_refused()
    results_lie_apart()
    extents_are_exact()
    no_team_is_refused()
    elements_count_and_not_memory()
    numbers_of_experts_are_integers()
    strides_of_one_element_do_not_matter()
    arrays_are_taken_whose_elements_torch_has()
print("ok", flush=True)
