# SPDX-License-Identifier: BSD-3-Clause
"""Heat spreading over a plate: one kernel a time step, the neighbours' rows exchanged by the kernel.

The plate's rows are split over the PEs. In each step the blocks at the edges of a PE's rows first wait
for the neighbour's row of the step before, update their own edge row and put it into the neighbour's
memory with a signal, while all other blocks update the inside. No host is in that loop: it only
launches the next step. The result is compared with the same arithmetic in NumPy.

Run: python -m pyshmem run -n 4 examples/heat.py --out heat.png Its stages are labelled, which costs
nothing; ``--trace t.json`` shows them: python -m pyshmem trace t.json
"""

import pyshmem  # before numba: where there is no GPU it turns on numba's simulator

import contextlib
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
from numba import cuda
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn
from rich.table import Table

from pyshmem import device as shmem

DIFFUSION = np.float32(
    0.2
)  # of a cell's difference to its neighbours, a step; below 0.25 is stable
TOLERANCE = 1e-5


@cuda.jit(device=True)
def update_row(new, old, row, col):
    middle = old[row, col]
    around = old[row - 1, col] + old[row + 1, col] + old[row, col - 1] + old[row, col + 1]
    new[row, col] = middle + DIFFUSION * (around - np.float32(4) * middle)


@cuda.jit
def heat_step(new, old, arrived, finished_steps, rows, up, rows_of_up, down, band):
    """One step. Rows 1..rows are this PE's; rows 0 and rows+1 belong to the neighbours, if any.

    Grid: x over columns; y = 0 and 1 are the first and the last row, the others `band` rows each.
    arrived counts the pieces that came: from above and from below in even steps, then in odd ones.
    Nothing orders a neighbour's pieces of two steps, and it may be one step ahead. Those two have
    words of their own, so that a count is reached by the pieces of its step alone.
    """
    cols = new.shape[1]
    first = cuda.blockIdx.x * cuda.blockDim.x
    last = min(first + cuda.blockDim.x, cols)
    col = first + cuda.threadIdx.x
    inside = 0 < col < cols - 1
    # Of the step before this one: its words, and the pieces that a neighbour has added to each by now.
    before = 2 * ((finished_steps + 1) % 2)
    expected = cuda.gridDim.x * ((finished_steps + 1) // 2)
    now = 2 * (finished_steps % 2)

    if cuda.blockIdx.y >= 2:
        begin = 2 + (cuda.blockIdx.y - 2) * band
        shmem.stage_begin("inside")
        if inside:
            for row in range(begin, min(begin + band, rows)):
                update_row(new, old, row, col)
        shmem.stage_end("inside")
        return

    is_first = cuda.blockIdx.y == 0
    is_last = cuda.blockIdx.y == 1 or rows == 1  # a single row is both
    if cuda.blockIdx.y == 1 and rows == 1:
        return
    shmem.stage_begin("wait")
    if is_first and up >= 0:
        shmem.signal_wait_until_work_group(arrived[before : before + 1], shmem.CMP_GE, expected)
    if is_last and down >= 0:
        shmem.signal_wait_until_work_group(arrived[before + 1 : before + 2], shmem.CMP_GE, expected)
    shmem.stage_end("wait")
    row = 1 if is_first else rows
    shmem.stage_begin("edge")
    if inside:
        update_row(new, old, row, col)
    shmem.stage_end("edge")
    piece = new[row, first:last]
    shmem.stage_begin("put")
    if is_first and up >= 0:
        dest = new[rows_of_up + 1, first:last]
        word = arrived[now + 1 : now + 2]
        shmem.put_signal_nbi_work_group(dest, piece, word, 1, shmem.SIGNAL_ADD, up)
    if is_last and down >= 0:
        dest = new[0, first:last]
        word = arrived[now : now + 1]
        shmem.put_signal_nbi_work_group(dest, piece, word, 1, shmem.SIGNAL_ADD, down)
    shmem.stage_end("put")


class Share(NamedTuple):
    """Rows of the plate that a PE updates: ``begin`` <= row < ``begin + rows``."""

    begin: int
    rows: int


def share_of(pe: int, n_pes: int, plate_rows: int) -> Share:
    """The plate's inner rows in equal parts; the first PEs take one more where it does not divide."""
    part, more = divmod(plate_rows - 2, n_pes)
    return Share(1 + pe * part + min(pe, more), part + (pe < more))


def initial(plate: tuple[int, int], begin: int, rows: int) -> np.ndarray:
    """Rows of the plate at step 0: hot spots on a slope, and an edge that never changes."""
    y = np.linspace(0, 1, plate[0], dtype=np.float32)[begin : begin + rows, None]
    x = np.linspace(0, 1, plate[1], dtype=np.float32)[None, :]
    field = np.float32(0.3) * x + np.float32(0.2) * y
    for centre_y, centre_x, width in ((0.3, 0.3, 0.12), (0.62, 0.7, 0.2), (0.8, 0.2, 0.08)):
        near = np.exp(-((x - np.float32(centre_x)) ** 2) / np.float32(width**2))
        field = field + near * np.exp(-((y - np.float32(centre_y)) ** 2) / np.float32(width**2))
    return field.astype(np.float32)


def reference(plate: tuple[int, int], steps: int, chunk: int = 32) -> np.ndarray:
    """The whole plate after ``steps`` steps, by NumPy in one process, its threads sharing the rows."""
    old = initial(plate, 0, plate[0])
    new = old.copy()

    def update(begin: int) -> None:
        end = min(begin + chunk, plate[0] - 1)
        middle = old[begin:end, 1:-1]
        around = old[begin - 1 : end - 1, 1:-1] + old[begin + 1 : end + 1, 1:-1]
        around += old[begin:end, :-2]
        around += old[begin:end, 2:]
        around -= np.float32(4) * middle
        around *= DIFFUSION
        np.add(middle, around, out=new[begin:end, 1:-1])

    with ThreadPoolExecutor() as pool:
        for _ in range(steps):
            list(pool.map(update, range(1, plate[0] - 1, chunk)))
            old, new = new, old
    return old


class Heat:
    """The plate on the symmetric device heap, and the launches that advance it."""

    def __init__(self, job: pyshmem.Job, plate: tuple[int, int]) -> None:
        self.job, self.plate = job, plate
        self.share = share_of(job.my_pe, job.n_pes, plate[0])
        most_rows = share_of(0, job.n_pes, plate[0]).rows
        shape = (most_rows + 2, plate[1])
        self.fields = [pyshmem.zeros(shape, dtype=np.float32, heap="device") for _ in range(2)]
        self.arrived = pyshmem.new_signal(4, heap="device")
        self.threads = 256 if job.device == "cuda" else 64
        self.band = 32 if job.device == "cuda" else most_rows
        self.fill()

    def fill(self) -> None:
        """Step 0 again, on all PEs."""
        cuda.synchronize()
        pyshmem.barrier_all()
        start = initial(self.plate, self.share.begin - 1, self.share.rows + 2)
        for field in self.fields:
            pyshmem.put(field[: len(start)], start, self.job.my_pe)
        pyshmem.put(self.arrived, np.zeros(4, np.uint64), self.job.my_pe)
        self.finished = 0
        pyshmem.barrier_all()

    def step(self, exchange: bool = True) -> None:
        """Launches one step; without the exchange it is the same kernel for PEs with no neighbours."""
        me, n = self.job.my_pe, self.job.n_pes
        up = me - 1 if exchange else -1
        down = me + 1 if exchange and me + 1 < n else -1
        rows_of_up = share_of(up, n, self.plate[0]).rows if up >= 0 else 0
        bands = -(-max(self.share.rows - 2, 0) // self.band)
        grid = (-(-self.plate[1] // self.threads), 2 + bands)
        old, new = self.fields[self.finished % 2], self.fields[(self.finished + 1) % 2]
        heat_step[grid, self.threads](
            *(shmem.as_argument(array) for array in (new, old, self.arrived)),
            self.finished, self.share.rows, up, rows_of_up, down, self.band,
        )  # fmt: skip
        self.finished += 1

    def gather(self) -> np.ndarray:
        """The whole plate, on the calling PE."""
        whole = initial(self.plate, 0, self.plate[0])
        field = self.fields[self.finished % 2]
        for pe in range(self.job.n_pes):
            share = share_of(pe, self.job.n_pes, self.plate[0])
            rows = whole[share.begin : share.begin + share.rows]
            pyshmem.get(rows, field[1 : 1 + share.rows], pe)
        return whole


def run_steps(heat: Heat, steps: int, progress: Progress | None, exchange: bool = True) -> float:
    """Seconds of ``steps`` steps, from everybody ready to everybody done."""
    task = progress.add_task("steps", total=steps) if progress else None
    cuda.synchronize()
    pyshmem.barrier_all()
    begin = time.perf_counter()
    for step in range(1, steps + 1):
        heat.step(exchange)
        if progress and task is not None and (heat.job.device == "sim" or step % 100 == 0):
            progress.update(task, completed=step)
    cuda.synchronize()
    pyshmem.barrier_all()
    if progress and task is not None:
        progress.update(task, completed=steps)
    return time.perf_counter() - begin


def draw(field: np.ndarray, n_pes: int, out: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    every = max(1, max(field.shape) // 1024)
    figure, axes = pyplot.subplots(figsize=(7, 6))
    height, width = field.shape
    image = axes.imshow(field[::every, ::every], cmap="inferno", extent=(0, width, height, 0))
    for pe in range(n_pes):
        share = share_of(pe, n_pes, height)
        if pe > 0:
            axes.axhline(share.begin, color="white", linewidth=1, linestyle="--")
        middle = share.begin + share.rows / 2
        axes.text(width * 0.02, middle, f"PE {pe}", color="white", va="center")
    figure.colorbar(image, label="temperature")
    axes.set(title="heat, a row block a PE", xlabel="column", ylabel="row")
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=110, bbox_inches="tight")


@click.command(context_settings={"show_default": True})
@click.option(
    "--rows",
    default=0,
    type=click.IntRange(0),
    help="Rows of the plate; 0: 16384 on GPUs, 128 simulated.",
)
@click.option(
    "--cols", default=0, type=click.IntRange(0), help="Columns of the plate; 0: as many as rows."
)
@click.option(
    "--steps", default=0, type=click.IntRange(0), help="Time steps; 0: 1000 on GPUs, 200 simulated."
)
@click.option("--out", type=click.Path(path_type=Path), default=Path("heat.png"))
@click.option("--compare", is_flag=True, help="Also time the same kernel without the exchange.")
@click.option("--trace", type=click.Path(path_type=Path), help="Write a timeline of the steps.")
def main(rows: int, cols: int, steps: int, out: Path, compare: bool, trace: Path | None) -> None:
    """Simulates a plate, checks it against NumPy and draws it."""
    on_gpu = pyshmem.choose_device() == "cuda"
    rows = rows or (16384 if on_gpu else 128)
    plate = (rows, cols or rows)
    steps = steps or (1000 if on_gpu else 200)
    if min(plate) < 3:
        raise click.BadParameter("a plate has at least 3 rows and 3 columns")
    need = 2 * 4 * (rows + 2) * plate[1] + (8 << 20)
    with pyshmem.init(device_heap_size=need) as job:
        if job.n_pes > rows - 2:
            raise click.BadParameter(f"{rows} rows are too few for {job.n_pes} PEs")
        console = Console()
        first = job.my_pe == 0
        heat = Heat(job, plate)
        columns = (
            "[bold]{task.description}",
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=console, disable=not first) as progress:
            timeline = pyshmem.profiling.trace(trace) if trace else contextlib.nullcontext()
            with timeline:  # which has kernels compiled anew, with their labels
                for _ in range(2):
                    heat.step()
                heat.fill()
                seconds = run_steps(heat, steps, progress)
        error, field = 0.0, np.empty(0)
        if first:
            field = heat.gather()
            with console.status("the same steps in NumPy"):
                error = float(np.abs(field - reference(plate, steps)).max())
        pyshmem.barrier_all()
        alone = run_steps(heat, steps, None, exchange=False) if compare else 0.0
        if first:
            draw(field, job.n_pes, out)
            report(console, job, plate, steps, seconds, alone, error, out)
            if not error < TOLERANCE:
                raise SystemExit(f"maximum error {error:.2e} is not below {TOLERANCE:.0e}")


def report(console, job, plate, steps, seconds, alone, error, out) -> None:
    table = Table(title="heat", show_header=False)
    table.add_row("plate", f"{plate[0]} x {plate[1]}, float32")
    table.add_row("PEs", f"{job.n_pes} ({job.device})")
    table.add_row("steps", f"{steps} in {seconds:.3f} s")
    table.add_row("a step", f"{seconds / steps * 1e6:.1f} us")
    if alone:
        table.add_row("a step without exchange", f"{alone / steps * 1e6:.1f} us")
        table.add_row("ratio", f"{seconds / alone:.3f}")
    table.add_row("updates a second", f"{plate[0] * plate[1] * steps / seconds:.3g} cells")
    table.add_row("maximum error against NumPy", f"{error:.2e}")
    table.add_row("picture", str(out))
    console.print(table)


if __name__ == "__main__":
    main()
