# SPDX-License-Identifier: BSD-3-Clause
"""What programs of Iris call on the host: collectives, creators, names."""

from __future__ import annotations

import numpy as np
import pytest
from iris_values import dtype_of, put_in, torch, values

from pyshmem import UnsupportedError
from pyshmem.interop import iris


@pytest.fixture(scope="module")
def ctx(job):
    return iris.iris(1 << 26)


def test_ccl_has_the_places_of_iris(ctx):
    """Columns are exchanged by all_to_all; reduce_scatter fills the rank's tiles of the whole."""
    n, me = ctx.num_ranks, ctx.cur_rank
    source, out = ctx.zeros((3, 2 * n)), ctx.zeros((3, 2 * n))
    put_in(source, np.arange(6 * n, dtype=np.float32).reshape(3, 2 * n) + 100 * me)
    ctx.barrier()
    ctx.ccl.all_to_all(out, source, config=iris.Config(block_size_m=32, comm_sms=4))
    mine = np.arange(6 * n).reshape(3, n, 2)[:, me]
    assert (values(out) == np.concatenate([mine + 100 * pe for pe in range(n)], axis=1)).all()
    total = np.arange(6 * n).reshape(3, 2 * n) * n + 50 * n * (n - 1)
    for distribution in (0, 1):
        out = ctx.full((3, 2 * n), -1.0)
        config = iris.ccl.Config(
            block_size_m=1, block_size_n=2, swizzle_size=2, all_reduce_distribution=distribution
        )
        ctx.ccl.reduce_scatter(out, source, op="sum", config=config)
        tiles, share = (
            [(m, k) for first in (0, 2) for k in range(n) for m in (first, first + 1) if m < 3],
            3,
        )
        own = tiles[me::n] if distribution == 0 else tiles[me * share :][:share]
        expected = np.full((3, 2 * n), -1.0)
        for m, k in own:
            expected[m, 2 * k : 2 * k + 2] = total[m, 2 * k : 2 * k + 2]
        assert (values(out) == expected).all()
    workspace = ctx.ccl.all_reduce_preamble(out, source)
    assert ctx.ccl.all_reduce(out, source, workspace=workspace) == workspace
    assert (values(out) == total).all()
    with pytest.raises(ValueError, match="variant"):
        iris.Config(all_reduce_variant="all")
    with pytest.raises(ValueError, match="not on the symmetric heap"):
        ctx.ccl.all_reduce(
            out, np.zeros((3, 2 * n), np.float32) if torch is None else torch.zeros(3, 2 * n)
        )


def test_ccl_has_one_root_where_iris_has_it(ctx):
    """Any number of elements, for a block and more, as Iris' own tests compare them with torch."""
    n, me = ctx.num_ranks, ctx.cur_rank
    for root in {0, n // 2, n - 1}:
        for rows, columns in ((1, 1), (3, 5), (9, 260)):
            size = rows * columns
            whole = np.arange(n * size, dtype=np.float32).reshape(n * rows, columns)
            mine = whole[me * rows : (me + 1) * rows]
            part, all_of_them = ctx.zeros((rows, columns)), ctx.zeros((n * rows, columns))
            put_in(part, mine + root)
            ctx.ccl.gather(all_of_them, part, dst=root, config=iris.Config(comm_sms=2))
            assert (values(all_of_them) == (whole + root if me == root else 0)).all()
            ctx.ccl.scatter(part, all_of_them, src=root)
            assert (values(part) == mine + root).all()
            ctx.ccl.reduce(part, dst=root)
            total = whole.reshape(n, rows, columns).sum(0) + n * root
            assert (values(part) == (total if me == root else mine + root)).all()
            ctx.ccl.broadcast(part, src=root)
            assert (values(part) == total).all()
    ctx.ccl.barrier()
    ctx.barrier()
    with pytest.raises(ValueError, match="outside"):
        ctx.ccl.broadcast(part, src=n)
    with pytest.raises(ValueError, match="reduce adds"):
        ctx.ccl.reduce(part, op="max")
    with pytest.raises(ValueError, match="elements"):
        ctx.ccl.scatter(all_of_them, part, src=0) if n > 1 else ctx.ccl.scatter(part, ctx.zeros(7))
    with pytest.raises(UnsupportedError, match="put_signal"):
        _ = ctx.ccl.send


def test_creators_take_what_iris_takes(ctx):
    out = ctx.allocate(6, dtype_of("float32"))
    filled = ctx.ones(2, 3, out=out)
    assert filled.shape == (2, 3)
    assert values(out).tolist() == [1] * 6
    for wrong, message in (
        (ctx.allocate(4, dtype_of("float32")), "has 4 elements, but 6 are required"),
        (ctx.allocate(6, dtype_of("int32")), "has dtype"),
        (np.zeros(6, np.float32) if torch is None else torch.zeros(6), "symmetric heap"),
    ):
        with pytest.raises(RuntimeError, match=message):
            ctx.zeros(2, 3, dtype=dtype_of("float32"), out=wrong)
    assert ctx.is_symmetric(ctx.zeros(0))
    assert ctx._Iris__on_symmetric_heap(ctx.zeros(()))
    assert ctx.zeros(((2, 3),)).shape == (2, 3)
    assert ctx.linspace(0, 1, steps=(3,)).shape == (3,)
    assert values(ctx.randint(2, 3, (4,), device=ctx.get_device())).tolist() == [2] * 4
    with pytest.raises(ValueError, match="layout"):
        ctx.zeros(2, layout="sparse")
    with pytest.raises(ValueError, match="randint"):
        ctx.randint(3)
    if torch:
        generator = torch.Generator(ctx.device).manual_seed(1)
        again = torch.Generator(ctx.device).manual_seed(1)
        drawn = torch.rand(3, generator=again, device=ctx.device)
        assert torch.equal(ctx.rand(3, generator=generator), drawn)
        assert ctx.zeros(2, requires_grad=True).requires_grad
        shape = ctx.empty(1, 2, 3, 4, memory_format=torch.channels_last)
        assert shape.stride() == (24, 1, 8, 2)
        assert ctx.zeros_like(shape).stride() == shape.stride()


def test_words_and_names(ctx, caplog):
    assert ctx.get_cu_count() >= 1
    assert iris.hip.get_num_xcc() == 1
    assert iris.hip.count_devices() >= 1
    assert str(ctx.get_device()) == ctx.device
    assert iris.logger.name == "iris"
    iris.set_logger_level(iris.WARNING)
    iris.set_logger_level(iris.INFO)
    record = iris.logger.makeRecord("iris", iris.INFO, "", 0, "a line", (), None)
    assert iris.logging.IrisFormatter().format(record) == "[Iris] a line"
    record.iris_rank, record.iris_num_ranks = 2, 4
    assert iris.logging.IrisFormatter().format(record) == "[Iris] [2/4] a line"
    array = np.arange(3) if torch is None else torch.arange(3)
    got = ctx.broadcast(array if ctx.cur_rank == 0 else None, source_rank=0)
    assert isinstance(got, np.ndarray)
    assert got.tolist() == [0, 1, 2]
    for use in (
        lambda: iris.experimental, lambda: ctx.tracing, lambda: iris.iris(1 << 20, copy_engine="sdma"),
        lambda: iris.hip.get_rocm_version(),
    ):  # fmt: skip
        with pytest.raises(UnsupportedError):
            use()


@pytest.mark.skipif(torch is None, reason="needs torch")
def test_products_with_a_collective(ctx):
    m, n, k, ranks, me = 4, 16, 8, ctx.num_ranks, ctx.cur_rank
    rng = np.random.default_rng(9)
    left = rng.integers(-2, 3, (ranks, m, k)).astype(np.float32)
    right = rng.integers(-2, 3, (ranks, k, n)).astype(np.float32)

    def on_device(given):
        return torch.from_numpy(np.ascontiguousarray(given)).to(ctx.device)

    a, b, out = on_device(left[me]), on_device(right[me]), ctx.zeros(m, n)
    total = sum(left[pe] @ right[pe] for pe in range(ranks))
    assert ctx.ops.matmul_all_reduce(out, a, b, config=iris.FusedConfig()) is None
    assert np.allclose(values(out), total, atol=1e-3)
    ctx.ops.matmul_reduce_scatter(out, a, b)
    assert np.allclose(values(out), total, atol=1e-3)
    ctx.ops.all_gather_matmul(out, a, on_device(right.reshape(-1, n)))
    assert np.allclose(values(out), total, atol=1e-3)
    whole = ctx.zeros(ranks * m, n)
    ctx.ops.matmul_all_gather(whole, a, on_device(right[0]))
    assert np.allclose(values(whole), left.reshape(-1, k) @ right[0], atol=1e-3)
    with pytest.raises(ValueError, match="columns"):
        ctx.ops.all_gather_matmul(out, a, on_device(right[0, :3]))


def test_tensors_of_any_kind_are_broadcast(ctx):
    """By their values, and by their bits where NumPy has no such dtype."""
    if torch is None:
        pytest.skip("torch is not installed")
    root = ctx.num_ranks - 1
    complex_ones = torch.tensor([1 + 2j, 3 - 4j])
    for tensor, wanted in (
        (torch.arange(3.0, requires_grad=True), [0, 1, 2]),
        (complex_ones.conj(), [1 - 2j, 3 + 4j]),
        (complex_ones.conj().imag, [-2, 4]),
        (torch.tensor([1.5, -2]).to(torch.bfloat16), [1.5, -2]),
        (torch.tensor([[1.5], [-2]]).to(torch.float8_e4m3fn), [[1.5], [-2]]),
        (torch.tensor(3.0).to(torch.bfloat16), 3),
    ):
        got = ctx.broadcast(tensor if ctx.cur_rank == root else None, src=root)
        if isinstance(got, torch.Tensor):
            assert got.dtype == tensor.dtype
            got = got.float()
        assert got.tolist() == wanted


def test_what_cannot_be_broadcast_is_told_on_all_ranks(ctx):
    """And the next call works."""
    root = ctx.num_ranks - 1
    with pytest.raises((ValueError, AttributeError, TypeError)):
        ctx.broadcast((lambda: 1) if ctx.cur_rank == root else None, src=root)
    assert ctx.broadcast(ctx.cur_rank, root) == root


def test_the_root_of_a_broadcast_has_one_name_at_a_time(ctx):
    assert ctx.broadcast(ctx.cur_rank) == 0
    with pytest.raises(TypeError, match="source_rank and src are two names of one"):
        ctx.broadcast(ctx.cur_rank, 0, src=ctx.num_ranks - 1)
