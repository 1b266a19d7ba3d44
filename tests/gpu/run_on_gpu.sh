#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Builds pyshmem in place, runs the GPU tests on all visible GPUs, heat.py at full size and the device
# benchmarks, and prints a short table last. Needs: Python >= 3.11 with the [cuda] and [test] extras
# (or wheels of what is missing in $WHEELS), gcc; nvcc and nvidia-nvshmem, or another NVSHMEM in $NVSHMEM_HOME, for
# the peers' figures.
# Usage: tests/gpu/run_on_gpu.sh [RESULTS_DIR] [PART...]                   (default: tests heat bench)
#   tests heat          the device suite and the examples; heat.py at full size
#   p2p0                the device suite with everything through the ring, on arrays of the host heap
#   far                 the device suite with every other PE counted as one of another host (PYSHMEM_NODE_SIZE=1; on 4 GPUs
#                       FAR_NODE_SIZE=2: a PE passes on to the other of its node what collectives send to both)
#   farhost             the same with PYSHMEM_P2P=0, on arrays of the host heap
#   host                the host suite, half of it on arrays of the GPUs
#   pages               every program of the README and the pages prints what they say; the tests of the examples
#   triton              the suite of Triton kernels, their examples and figures (needs torch); TRITON_MIXES random mixes (12)
#   tritonsuite         that suite alone, as jobs side by side
#   streams             kernels for streams compiled into the cache; streams and graphs on 1, 2 and all GPUs
#   streambench         operations on streams beside NCCL, symm_mem, NVSHMEM and bare CUDA
#   streamtune          ways and grids of collectives on streams, beside bare CUDA and NCCL (PROGRAMS: where bare_allreduce is)
#   stress              10 million random operations on two PEs, by stores and through the ring, and a million with the other PE
#                       counted as one of another host, as far as it comes in STRESS_SECONDS (240); SEED=n: others (11)
#   fewslots            FEW_RUNS (8) runs of few_slots.py with each of FEW_RINGS (rings/slots: "4/8 4/64 3/64 2/64"), of FEW_SHAPE
#                       ("2 32 132 256": turns, lanes of a warp that send, blocks, threads), and with 1/8 and 32 blocks, all within
#                       FEW_SECONDS (60) each; where $AGAINST is a version's source, FEW_AGAINST (4) runs of it with 4/8 and with 4/64
#   fused               the tests of tests/pytorch that need GPUs (needs torch)
#   fusedbench          bench/fused.py (FUSED: its parts, all by default) and bench/decode_step.py
#   torchbench          bench/torch_calls.py (TORCH_CALLS: its options)
#   products            bench/products.py (PRODUCTS: its options)
#   hostsbench          bench/hosts.py with PYSHMEM_NODE_SIZE=1
#   sanitizer           compute-sanitizer on the device suite, where the tool is there: SANITIZER_TIME seconds (280) a tool;
#                       SANITIZE="FILE...": memcheck on these files alone
#   ring put get coll signals    these figures beside the peers', and whether they reach their targets
#   bench               all figures
#   against             AGAINST_PARTS ("put signals collectives") of this version and of the one whose source is $AGAINST, a .tar.gz,
#                       in turn on this machine, and what is slower now (bench/compare.py --before); MEDIAN=1: medians of the
#                       ROUNDS (3), else the least
# PES="1 2" limits the numbers of PEs of the device suite; SHARDS=n: it runs as n jobs side by side, each with its part
# of the tests (as many as leave each PE a core, 16 at most), for SUITE_SECONDS (280) at most; MAXFAIL=20: suites go on behind
# failures, up to so many of a job (1); ROUNDS=1: each figure is measured once instead of twice;
# MPS=1: PEs that share a GPU (GPUS=2 where there is one) run at a time, by a daemon of MPS for the time of this script;
# CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50: each on half of the multiprocessors. BUILT=1: what an earlier call has built is taken, so that several may run side by side. DEVICE=sim GPUS=2: the script
# itself is tried where there is no GPU, with what PYTHON has installed.
set -uo pipefail
cd "$(dirname "$0")/../.."
results=${1:-build/gpu}; shift || true
parts=" ${*:-tests heat bench} "
mkdir -p "$results"
results=$(cd "$results" && pwd)
python=${PYTHON:-python3}
gpus=${GPUS:-$($python -c 'import subprocess; print(len(subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout.splitlines()))')}
cores=$(nproc)
summary="$results/summary.txt"
: > "$summary"
status=0

# After a run with exit code `$1`: if it failed, the last `$3` lines of its log `$2`.
show_failure() {
    [ "$1" -eq 0 ] || { status=1; tail -"$3" "$2" | cut -c1-200; }
}

note() { printf '%-44s %s\n' "$1" "$2" | tee -a "$summary"; }

# A site folder for what is installed here, so that the machine's own packages stay as they are.
site=$PWD/build/gpu-site
mkdir -p "$site"
export PYTHONPATH=$site${PYTHONPATH:+:$PYTHONPATH} CUDA_MODULE_LOADING=EAGER
export NVSHMEM_DISABLE_NVLS=1 NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1
if [ -z "${BUILT:-}" ]; then
    if [ -d "${WHEELS:-}" ]; then
        $python -m pip install -q --no-index --no-deps --no-compile --upgrade --target "$site" "$WHEELS"/*.whl || exit 1
    fi
    export PATH=$site/bin:$PATH
    $python -m pip install -q --no-index --no-deps --no-build-isolation --upgrade --target "$site" . \
        > "$results/build.log" 2>&1 || { cat "$results/build.log"; exit 1; }
fi

other= # the folder of another version, once one has been built
clean_up() {
    [ -z "${MPS:-}" ] || { echo quit | timeout 20 nvidia-cuda-mps-control; rm -rf "$CUDA_MPS_PIPE_DIRECTORY"; }
    [ -z "$other" ] || rm -rf "$other"
}
trap clean_up EXIT

if [ -n "${MPS:-}" ]; then
    # A short path: it has sockets.
    CUDA_MPS_PIPE_DIRECTORY=$(mktemp -d) && export CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY=$CUDA_MPS_PIPE_DIRECTORY
    nvidia-cuda-mps-control -d || exit 1
fi

cd tests # not the checkout: the installed package is what is tested
run="$python -m pyshmem run --device ${DEVICE:-cuda} --timeout 240"
all="-m pytest -q -p no:cacheprovider -W ignore"
pytest="$all --maxfail ${MAXFAIL:-1}"

# Run a command for `$2` seconds at most; its output goes to $results/NAME.log, and its outcome into the summary.
job() { # NAME SECONDS COMMAND...
    local name=$1 limit=$2 log=$results/$1.log code
    shift 2
    timeout "$limit" "$@" > "$log" 2>&1
    code=$?
    show_failure $code "$log" 40
    note "$name" "exit $code: $(outcome "$log")"
}

# What pytest or stress.py says last of a run, else the last line.
outcome() { # LOG
    local found
    found=$(grep -E ' (passed|failed|skipped|errors?)\b.* in [0-9.]+s' "$1" | tail -1)
    [ -n "$found" ] || found=$(grep -E '^(operations|mismatches) ' "$1")
    [ -n "$found" ] || found=$(tail -1 "$1")
    tr -s ' \n' ' ' <<< "$found" | cut -c1-120
}

# The device suite on `$1` PEs, in shards that run side by side: most of the time goes to compiling kernels, by a core a PE.
suite() { # n name folder [VARIABLE=value...]
    local n=$1 name=$2 folder=$3 limit=${SUITE_SECONDS:-280} shard code=0 shards
    shift 3
    shards=${SHARDS:-$(((cores - 2) / n))}
    shards=$((shards < 1 ? 1 : shards > 16 ? 16 : shards))
    rm -f "$results/${name}"_*.{log,code}
    for ((shard = 0; shard < shards; shard++)); do
        { env "$@" timeout $((limit + 20)) $run --timeout "$limit" -n "$n" $pytest ${MAXFAIL:+--go-on} --shard "$shard/$shards" "$folder" > "$results/${name}_$shard.log" 2>&1
          echo $? > "$results/${name}_$shard.code"; } &
    done
    wait
    for ((shard = 0; shard < shards; shard++)); do
        [ "$(cat "$results/${name}_$shard.code")" = 0 ] || { code=1 status=1; tail -30 "$results/${name}_$shard.log" | cut -c1-200; }
        rm -f "$results/${name}_$shard.code"
    done
    note "$name, $shards shards" "exit $code: $(grep -hoE '[0-9]+ (passed|failed|skipped|deselected).* in [0-9.]+s' "$results/${name}"_*.log | awk '{
        for (k = 2; k <= NF; k++) if ($k ~ /^(passed|failed|skipped|errors?),?$/) { sub(",", "", $k); n[$k] += $(k - 1) }
        for (k = 2; k <= NF; k++) if ($(k - 1) == "in" && $k + 0 > most) most = $k + 0
        ended++ } END { for (k in n) printf "%d %s, ", n[k], k; printf "%d shards ended, the slowest after %d s", ended, most }')"
}

if [[ $parts == *" tests "* ]]; then
    $python -m pyshmem info > "$results/info.txt" 2>&1
    for n in ${PES:-1 2 3 4 8}; do
        [ "$n" -le "$gpus" ] || continue
        suite "$n" "device_$n" spmd/device
    done
fi

if [[ $parts == *" tests "* && -z ${PES:-} ]]; then
    # Several PEs share a GPU.
    CUDA_VISIBLE_DEVICES=0 job shared_gpu_3 300 $run -n 3 $pytest spmd/device -k 'signals or faults'
    for example in ../examples/0*.py; do
        job "$(basename "$example" .py)" 300 $run -n "$gpus" "$example"
    done
fi

if [[ $parts == *" heat "* ]]; then
    # PE 0 checks in NumPy while the others wait.
    PYSHMEM_TIMEOUT=240 job "heat_$gpus" 300 $run -n "$gpus" ../examples/heat.py --compare --out "$results/heat_$gpus.png"
    grep -E 'step|ratio|error' "$results/heat_$gpus.log" | tail -6 | tee -a "$summary"
fi

if [[ $parts == *" p2p0 "* ]]; then
    suite "$gpus" "p2p0_$gpus" spmd/device PYSHMEM_P2P=0 PYSHMEM_HEAP_SIZE=256M
fi

if [[ $parts == *" far "* ]]; then
    # Proxies serve each other all the time: those of many jobs leave the cores to the compilers sooner.
    suite "$gpus" "far_$gpus" spmd/device "PYSHMEM_NODE_SIZE=${FAR_NODE_SIZE:-1}" PYSHMEM_HEAP_SIZE=256M PYSHMEM_PROXY_SPIN=100
fi

if [[ $parts == *" farhost "* ]]; then
    suite "$gpus" "farhost_$gpus" spmd/device PYSHMEM_NODE_SIZE=1 PYSHMEM_P2P=0 PYSHMEM_HEAP_SIZE=256M PYSHMEM_PROXY_SPIN=100
fi

if [[ $parts == *" host "* ]]; then
    job "host_$gpus" 300 $run -n "$gpus" $pytest spmd/host
fi

# Most of the time goes to compiling, so several programs share the GPUs.
beside() {
    $python -c 'import xdist' 2> /dev/null && echo "-n ${BESIDE:-5}"
}

if [[ $parts == *" pages "* ]]; then
    # shellcheck disable=SC2046 # words
    job "pages_$gpus" 580 $python $all $(beside) \
        examples/test_pages.py examples/test_examples.py pytorch/test_pages_with_torch.py
fi

if [[ $parts == *" tritonsuite "* ]]; then
    for n in ${PES:-$(for n in 1 2 4; do [ "$n" -gt "$gpus" ] || echo "$n"; done)}; do
        suite "$n" "tritonsuite_$n" spmd/triton
    done
fi

if [[ $parts == *" triton "* ]]; then # needs torch: Triton asks it for GPU and stream
    for n in ${PES:-$(for n in 1 2 4; do [ "$n" -gt "$gpus" ] || echo "$n"; done)}; do
        TRITON_MIXES=${TRITON_MIXES:-} job "triton_$n" 300 $run -n "$n" $pytest spmd/triton
    done
    for program in ../examples/*_triton_*.py ../bench/triton_tiles.py ../bench/triton_gemm.py; do
        job "$(basename "$program" .py)" 300 $run -n "$((gpus < 2 ? gpus : 2))" "$program"
    done
fi

if [[ $parts == *" streams "* ]]; then
    CUDA_VISIBLE_DEVICES=0 job warm 300 $run -n "${WARM:-12}" gpu/warm_kernels.py
    for n in $(printf '%s\n' 1 2 "$gpus" | sort -nu); do
        [ "$n" -le "$gpus" ] || continue
        job "streams_$n" 300 $run -n "$n" $pytest spmd/host/test_host_streams*.py \
            spmd/device/test_streams_on_gpu.py
    done
    job "09_all_reduce_in_a_graph_$gpus" 300 $run -n "$gpus" ../examples/09_all_reduce_in_a_graph.py
fi

# A program that prints figures as JSON lines: those go to NAME.jsonl, other lines into the summary.
figures_of() { # NAME SECONDS COMMAND...
    local name=$1 limit=$2 code
    shift 2
    timeout "$limit" "$@" > "$results/$name.jsonl" 2> "$results/$name.err"
    code=$?
    show_failure $code "$results/$name.err" 20
    note "$name" "exit $code: $(grep -c '^{' "$results/$name.jsonl") rows"
    grep -v '^{' "$results/$name.jsonl" | tee -a "$summary"
}

if [[ $parts == *" streambench "* ]]; then
    figures_of "streams_x$gpus" 580 $python ../bench/streams.py -n "$gpus" --plot "$results/streams_$gpus.png"
fi

if [[ $parts == *" streamtune "* ]]; then
    figures_of "streamtune_x$gpus" 580 $python ../bench/streams.py -n "$gpus" --tune ${PROGRAMS:+--programs "$PROGRAMS"}
fi

if [[ $parts == *" fused "* ]]; then
    # shellcheck disable=SC2046 # words
    job "pytorch_$gpus" 580 $python $pytest $(beside) -m gpu pytorch
fi

if [[ $parts == *" fusedbench "* ]]; then
    for part in ${FUSED:-norm gemm experts decode invariant}; do
        figures_of "fused_${part}_x$gpus" 300 $run -n "$gpus" ../bench/fused.py --only "$part"
    done
    figures_of "decode_step_x$gpus" 200 $run -n "$gpus" ../bench/decode_step.py
fi

if [[ $parts == *" products "* ]]; then
    # shellcheck disable=SC2086 # words
    figures_of "products_x$gpus" 300 $run -n "$gpus" ../bench/products.py ${PRODUCTS:-}
fi

if [[ $parts == *" torchbench "* ]]; then
    # shellcheck disable=SC2086 # words
    figures_of "torch_calls_x$gpus" 200 $run -n "$gpus" ../bench/torch_calls.py ${TORCH_CALLS:-}
fi

if [[ $parts == *" hostsbench "* ]]; then
    PYSHMEM_NODE_SIZE=1 figures_of "hosts_x$gpus" 200 $run -n "$gpus" ../bench/hosts.py
fi

if [[ $parts == *" stress "* ]]; then
    for way in P2P=1 P2P=0 NODE_SIZE=1; do
        limit=240 how="--operations 10000000"
        if [ $way = NODE_SIZE=1 ]; then # the limit leaves room for the last round
            limit=$((${STRESS_SECONDS:-240} + 120)) how="--operations 1000000 --seconds ${STRESS_SECONDS:-240}"
        fi
        # shellcheck disable=SC2086 # words
        job "stress_${way/=/}" $((limit + 60)) env "PYSHMEM_$way" PYSHMEM_HEAP_SIZE=1G PYSHMEM_DEVICE_HEAP_SIZE=1G \
            $run --timeout $limit -n 2 gpu/stress.py $how --seed "${SEED:-11}"
    done
fi

# Files of the device suite on `$2` PEs under a tool of compute-sanitizer, a process for each. Exit code 124 is no failure:
# time was up.
sanitize() { # tool n file...
    local tool=$1 n=$2 file name code worst=0 options=
    shift 2
    [ "$tool" = racecheck ] || options="--report-api-errors no" # Python's bindings ask for what there is not
    for file in "$@"; do
        name=$results/sanitizer_${tool}_$(basename "$file" .py)
        # The launcher's PEs are its children.
        # shellcheck disable=SC2086 # words
        { timeout "$limit" "$sanitizer" --tool "$tool" $options --target-processes all --error-exitcode 9 $run --timeout $((limit - 5)) -n "$n" \
            -m pytest -v -x -p no:cacheprovider -W ignore "$file" > "$name.log" 2>&1
          echo $? > "$name.code"; } &
    done
    wait
    for file in "$results/sanitizer_$tool"_*.code; do
        code=$(cat "$file")
        case $code in
            0) ;;
            124) [ $worst -ne 0 ] || worst=124 ;;
            *) worst=$code status=1; echo "${file##*/}: $code"; grep -E '=========|Error|error' "${file%.code}.log" | head -8 | cut -c1-200 ;;
        esac
        rm -f "$file"
    done
    note "compute-sanitizer $tool, $n PEs" "exit $worst (124: time was up): $(cat "$results/sanitizer_$tool"_*.log | grep -c ' PASSED') passed, $(cat "$results/sanitizer_$tool"_*.log |
        grep -oE '(ERROR|RACECHECK) SUMMARY: [0-9]+' | awk '{n += $3} END {print n + 0}') errors in $(cat "$results/sanitizer_$tool"_*.log | grep -cE 'SUMMARY') reports"
}

if [[ $parts == *" sanitizer "* ]]; then
    sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2> /dev/null)
    limit=${SANITIZER_TIME:-280}
    n=$([ "$gpus" -gt 1 ] && echo 2 || echo 1)
    if [ -n "$sanitizer" ]; then
        # shellcheck disable=SC2086 # words
        sanitize memcheck "$n" ${SANITIZE:-spmd/device/test_*.py}
        # Peers' kernels run at once, so racecheck stays with what one block shares.
        [ -n "${SANITIZE:-}" ] || sanitize racecheck "$n" spmd/device/test_{put_get,signals,collectives}.py
    else
        note compute-sanitizer "not run: the tool is not there"
    fi
fi

# The other version, whose source is $AGAINST, in a site of its own: the folder `$1`/site.
build_other() {
    mkdir "$1/source" && tar xzf "$AGAINST" -C "$1/source" && cp -r "$site" "$1/site" || return 1
    rm -rf "$1"/site/*pyshmem*
    if [ -d "${WHEELS:-}" ]; then # their programs too, which an install into the same folder has removed
        $python -m pip install -q --no-index --no-deps --no-compile --upgrade --target "$1/site" "$WHEELS"/*.whl || return 1
    fi
    PATH=$1/site/bin:$PATH PYTHONPATH=$1/site $python -m pip install -q --no-index --no-deps --no-build-isolation --upgrade \
        --target "$1/site" "$1/source" > "$results/against_build.log" 2>&1
}

# Whether there is another version in the folder $other: what an earlier part has built is taken.
has_other() {
    [ -n "$other" ] && return
    other=$(mktemp -d)
    build_other "$other" && return
    show_failure 1 "$results/against_build.log" 5
    note against "the other version could not be built"
    rm -rf "$other"
    other=
    return 1
}

# `$2` runs of few_slots.py with `$3` rings of `$4` slots, the site in `$5`: how many are right, and whether those are all.
few_slots() { # NAME RUNS RINGS SLOTS SITE TURNS LANES BLOCKS THREADS
    local name=few_${1}_$3_$4 runs=$2 rings=$3 slots=$4 at=$5 kept=$results/few_cache_$1 k code ended=0 hung=0
    shift 5
    rm -f "$results/${name}"_*.log
    for ((k = 1; k <= runs; k++)); do
        PYTHONPATH=$at NUMBA_CACHE_DIR=$kept PYSHMEM_P2P=0 PYSHMEM_RINGS=$rings PYSHMEM_RING_SLOTS=$slots timeout $((${FEW_SECONDS:-60} + 5)) \
            $run --timeout "${FEW_SECONDS:-60}" -n 2 gpu/few_slots.py "$@" > "$results/${name}_$k.log" 2>&1
        code=$?
        [ $code -ne 0 ] || ended=$((ended + 1))
        [ $code -ne 124 ] || hung=$((hung + 1))
    done
    note "$name" "$ended of $runs right, $hung hung; the last: $(tail -1 "$results/${name}_$runs.log" | cut -c1-70)"
    [ $ended -eq "$runs" ]
}

if [[ $parts == *" fewslots "* ]]; then
    read -r turns lanes blocks threads <<< "${FEW_SHAPE:-2 32 132 256}"
    for way in ${FEW_RINGS:-4/8 4/64 3/64 2/64}; do
        few_slots now "${FEW_RUNS:-8}" "${way%/*}" "${way#*/}" "$site" "$turns" "$lanes" "$blocks" "$threads" || status=1
    done
    few_slots now "${FEW_RUNS:-8}" 1 8 "$site" "$turns" "$lanes" $((blocks < 32 ? blocks : 32)) "$threads" || status=1
    if [ -n "${AGAINST:-}" ] && has_other; then # it is shown, not judged
        for way in 4/8 4/64; do
            FEW_SECONDS=30 few_slots before "${FEW_AGAINST:-4}" "${way%/*}" "${way#*/}" "$other/site" "$turns" "$lanes" "$blocks" "$threads"
        done
    fi
fi

if [[ $parts == *" against "* ]]; then
    rm -f "$results"/against_{before,now}_*.jsonl
    if has_other; then
        # In turn: machines of one kind differ by more than versions do. Each round has heaps of another size, so that
        # the flags lie elsewhere: what part of the L2 cache has them changes a meeting on one GPU by up to 20 %.
        for ((round = 1; round <= ${ROUNDS:-3}; round++)); do
            for version in before now; do
                at=$([ $version = now ] && echo "$site" || echo "$other/site")
                # shellcheck disable=SC2086 # words
                PYTHONPATH=$at PYSHMEM_DEVICE_HEAP_SIZE=$((1000 + 40 * round))M figures_of "against_${version}_$round" 200 \
                    $run --timeout 195 -n "$gpus" ../bench/device.py ${AGAINST_PARTS:-put signals collectives}
            done
        done
        cat "$results"/against_before_*.jsonl > "$results/against_x$gpus.jsonl"
        job "against_x$gpus" 60 $python ../bench/compare.py ${MEDIAN:+--median} --before "$results/against_x$gpus.jsonl" "$results"/against_now_*.jsonl
    fi
fi

# ---- figures -----------------------------------------------------------------------------------------
# Names of device.py's parts that are wanted.
figure_parts=
for part in put get ring coll signals; do
    [[ $parts == *" $part "* || $parts == *" bench "* ]] || continue
    figure_parts+=" ${part/%coll/collectives}"
done

build_peers() { # sets `nvshmem` to the library's folder when the programs are there
    rm -f /tmp/bare_cuda /tmp/bare_offload /tmp/nvshmem_device
    nvshmem=${NVSHMEM_HOME:-$($python -c 'import nvidia.nvshmem; print(list(nvidia.nvshmem.__path__)[0])' 2> /dev/null)}
    command -v nvcc > /dev/null || { nvshmem=; return; }
    for program in bare_cuda bare_offload; do
        nvcc -std=c++17 -O3 -arch=sm_90 "../bench/$program.cu" -o "/tmp/$program" 2>&1 | grep -i error &
    done
    [ -z "$nvshmem" ] || nvcc -std=c++17 -rdc=true -O3 -arch=sm_90 -I"$nvshmem/include" ../bench/nvshmem_device.cu -o /tmp/nvshmem_device \
        -L"$nvshmem/lib" -l:libnvshmem_host.so.3 -lnvshmem_device -L/usr/local/cuda/lib64/stubs -lcuda 2>&1 | grep -i error
    wait
}

run_nvshmem() { # its parts
    local uid pe
    uid=$(mktemp -u)
    for ((pe = 0; pe < gpus; pe++)); do
        LD_LIBRARY_PATH=$nvshmem/lib:${LD_LIBRARY_PATH:-} NVSHMEM_SYMMETRIC_SIZE=1G NVSHMEM_REMOTE_TRANSPORT=none \
            RANK=$pe WORLD=$gpus UIDFILE=$uid timeout 80 /tmp/nvshmem_device "$@" >> "$figures" &
    done
    wait
    rm -f "$uid"
}

if [ -n "$figure_parts" ]; then
    figures=$results/device_x$gpus.jsonl
    : > "$figures"
    build_peers
    # Everybody several times, in turn; compare.py takes the least of each.
    for ((round = 1; round <= ${ROUNDS:-2}; round++)); do
        [[ " $figure_parts " == *" put "* ]] && [ "$gpus" -gt 1 ] && [ -x /tmp/bare_cuda ] && timeout 60 /tmp/bare_cuda >> "$figures"
        [[ " $figure_parts " =~ " put "|" ring " ]] && [ -x /tmp/bare_offload ] && timeout 60 /tmp/bare_offload >> "$figures"
        for part in $figure_parts; do
            [ -z "$nvshmem" ] || [ "$part" = ring ] || run_nvshmem "$part"
            timeout 90 $run --timeout 85 -n "$gpus" ../bench/device.py "$part" >> "$figures" 2> "$results/bench_$part.log"
            code=$?
            show_failure $code "$results/bench_$part.log" 20
            note "bench/device.py $part, $gpus PEs" "exit $code, $(grep -c . "$figures") rows"
        done
    done
    $python ../bench/compare.py "$figures" > "$results/compare_x$gpus.txt"
    $python ../bench/compare.py --targets "$figures" | tee "$results/targets_x$gpus.txt"
fi
echo "---- summary ($gpus GPUs) ----"
cat "$summary"
exit $status
