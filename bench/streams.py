# SPDX-License-Identifier: BSD-3-Clause
"""Operations on a stream: pyshmem, NCCL, torch's symmetric memory, NVSHMEM and bare CUDA in one run.

Run: python bench/streams.py -n 2 [--plot out.png] [--only pyshmem --only nccl] [--quick]
     python bench/streams.py -n 2 --tune [--programs FOLDER]
Each provider has a job of its own; NVLink multicast is off for all. What is not installed is named and
left out. Prints one JSON line a figure (microseconds a call, eager and in a CUDA graph), then how
pyshmem's collectives compare. ``--tune`` tries ways and grids of pyshmem's collectives
(``streams_tune.py``) and prints the best, the rows of the cutover table that follow, and the limit and
NCCL beside them. ``--programs`` is a folder with bare_allreduce and nvshmem_streams compiled before;
else nvcc builds them. NVSHMEM_HOME is where NVSHMEM is. Without a GPU pyshmem alone runs, in the
simulator, to show that it does.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click

from pyshmem.bench import against

HERE = Path(__file__).parent
PROVIDERS = ("pyshmem", *against.PEERS, "cuda")  # and "tune"


def measure(provider: str, n: int, folder: Path, quick: bool) -> Iterator[dict]:
    """The rows of a provider, which it prints as well."""
    flags = ["--quick"] if quick else []
    try:
        if provider == "tune":
            launcher = [sys.executable, "-m", "pyshmem", "run", "-n", str(n)]
            command = [*launcher, str(HERE / "streams_tune.py"), provider, *flags]
            found = against.rows_of([command], [{}])
        elif provider == "cuda":
            program = against.build(HERE / "bare_allreduce.cu", folder, "-lpthread")
            found = against.rows_of([[str(program), str(n)]], [{}])
        else:
            found = against.measure(provider, n, folder, quick=quick)
        for row in found:
            print(json.dumps(row), flush=True)
            yield row
    except against.Absent as absent:
        print(f"{provider} is left out: {absent}", file=sys.stderr)


def compare(rows: list[dict]) -> None:
    """The times of ours in a graph over the others' best, by operation and size."""
    best: dict[tuple[str, str, int], float] = {}
    for row in rows:
        if row.get("us_graph") and "blocking" not in row["op"]:
            op = "all_reduce" if row["op"].startswith("all_reduce") else row["op"]
            key = op, row["peer"], row["bytes"]
            best[key] = min(best.get(key, float("inf")), row["us_graph"])
    for op, size in sorted({(op, nbytes) for op, peer, nbytes in best if peer == "pyshmem"}):
        ours = best[op, "pyshmem", size]
        others = [
            f"{peer} {ours / us:.2f} ({us})" for (of, peer, at), us in best.items()
            if (of, at) == (op, size) and peer != "pyshmem"
        ]  # fmt: skip
        print(f"{op} of {size} B in a graph: {ours} us; over {', '.join(others) or 'nobody'}")


def plot(rows: list[dict], path: str) -> None:
    """Time over size of all-reduces in graphs."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 5))
    lines: dict[str, list[tuple[int, float]]] = {}
    for row in rows:
        if row.get("us_graph") and row["op"].startswith("all_reduce") and row["bytes"]:
            lines.setdefault(f"{row['peer']} {row['op']}", []).append(
                (row["bytes"], row["us_graph"])
            )
    for name, points in lines.items():
        axes.plot(*zip(*sorted(points), strict=True), marker="o", label=name)
    axes.set(xscale="log", yscale="log", xlabel="bytes", ylabel="us in a CUDA graph")
    axes.legend()
    figure.savefig(path, dpi=120)


def numbers(sizes: str) -> list[int]:
    """The bytes of a list such as 8,64K,16M."""
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    given = [size.strip().upper() for size in sizes.split(",") if size.strip()]
    return [int(size.rstrip("KMG")) * units.get(size[-1], 1) for size in given]


@click.command()
@click.option("-n", "n_pes", default=2, help="PEs, one a GPU.")
@click.option(
    "--only", multiple=True, type=click.Choice((*PROVIDERS, "tune")), help="Of these alone."
)
@click.option("--plot", "picture", type=click.Path(dir_okay=False), help="Draw all-reduces.")
@click.option("--ops", default="", help="Operations, by the beginning of their names, with commas.")
@click.option("--sizes", default="", help="Bytes, such as 8,64K,16M.")
@click.option("--quick", is_flag=True, help="A few small sizes, to see that it runs.")
@click.option("--tune", is_flag=True, help="Ways and grids of pyshmem, beside the limit and NCCL.")
@click.option("--programs", type=click.Path(file_okay=False, exists=True), help="Compiled ones.")
def main(
    n_pes: int,
    only: tuple[str, ...],
    picture: str | None,
    ops: str,
    sizes: str,
    quick: bool,
    tune: bool,
    programs: str | None,
) -> None:
    """Measure operations on a stream."""
    against.VARIABLES.update(BENCH_OPS=ops, BENCH_SIZES=",".join(map(str, numbers(sizes))))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for provider in only or (("tune", "cuda", "nccl") if tune else PROVIDERS):
            found = measure(provider, n_pes, Path(programs or folder), quick)
            rows += [row for row in found if "op" in row]
    compare(rows)
    if picture:
        plot(rows, picture)


if __name__ == "__main__":
    main()
