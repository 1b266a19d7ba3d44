# SPDX-License-Identifier: BSD-3-Clause
"""Options and commands of other launchers, mpirun, torchrun and srun, and what does the same here."""

from __future__ import annotations

_INSTEAD: tuple[tuple[str, str], ...] = (
    (
        "--n --np --nprocs --ntasks --nproc-per-node --nproc_per_node --ntasks-per-node -N -p -ppn "
        "--ppn --npernode -npernode --nprocs-per-node --procs-per-node --tasks-per-node --pes --npes "
        "--n_pes --num-pes --num_pes --procs --num-procs --num_procs --num-processes --num_processes "
        "--size --ranks --nranks --workers --num-workers --world-size --world_size -j",
        "-n 4 says how many PEs",
    ),
    (
        "--host -H --machinefile -f --nnodes --nodes --nodelist -w --node-rank --node_rank",
        "--hosts a,b names the hosts (a:2,b:6 their shares), --hostfile a file of them",
    ),
    (
        "--master-addr --master_addr --master-port --master_port --rdzv-backend --rdzv_backend "
        "--rdzv-endpoint --rdzv_endpoint --rdzv-id --rdzv_id --standalone",
        "the PEs of this host find each other by themselves; on several hosts, --hosts a,b",
    ),
    (
        "-x --export -genv",
        "PEs of this host have this command's environment; --env NAME passes a variable to other hosts",
    ),
    (
        "--gpus --gpus-per-task --gpus-per-node --gres",
        "PE k takes GPU k of this host; CUDA_VISIBLE_DEVICES says which there are",
    ),
    (
        "--bind-to --map-by --rank-by --cpu-bind --cpus-per-task --use-hwthread-cpus",
        "--bind says which CPUs a PE has",
    ),
    (
        "--oversubscribe --allow-run-as-root --mca --quiet -q",
        "leave it out: PEs may be more than CPUs, and root may start them",
    ),
    (
        "--verbose -v --debug --display --report-bindings",
        "python -m pyshmem info says what a job has; PYSHMEM_TRACE=FILE makes a timeline of it",
    ),
    (
        "--tag-output --output-filename --output --redirects --log-dir --log_dir",
        "--tag begins each line with its PE, --output-dir keeps a file for each",
    ),
    ("--time -t", "--timeout ends the job after so many seconds"),
    ("--no-python --no_python", "leave it out: an executable is a target as a script is"),
    (
        "--heap --symmetric-size --symmetric_size",
        "--heap-size says how large the symmetric heap is",
    ),
)

#: By the option, what does the same here.
OPTIONS = {option: told for options, told in _INSTEAD for option in options.split()}
#: What people type in place of ``run``.
COMMANDS = (
    "launch",
    "exec",
    "start",
    "mpirun",
    "mpiexec",
    "oshrun",
    "torchrun",
    "srun",
    "spawn",
    "python",
)


def of_another_launcher(option: str) -> str:
    """What does here what an option of another launcher does there; nothing: it is not known."""
    return OPTIONS.get(option, "")
