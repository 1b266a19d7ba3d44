#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Builds pyshmem in place, runs the GPU tests on all visible GPUs, heat.py at full size and the device
# benchmarks, and prints a short table last. Needs: Python >= 3.11 with the [cuda] and [test] extras
# (or wheels of what is missing in $WHEELS), gcc; nvcc and nvidia-nvshmem for the peers' figures.
# Usage: tests/gpu/run_on_gpu.sh [RESULTS_DIR] [tests] [heat] [bench]      (default: all three parts)
# PES="1 2" limits the numbers of PEs of the device suite.
set -uo pipefail
cd "$(dirname "$0")/../.."
results=${1:-build/gpu}; shift || true
parts=" ${*:-tests heat bench} "
mkdir -p "$results"
results=$(cd "$results" && pwd)
python=${PYTHON:-python3}
gpus=$($python -c 'import subprocess; print(len(subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout.splitlines()))')
summary="$results/summary.txt"
: > "$summary"
status=0

note() { printf '%-44s %s\n' "$1" "$2" | tee -a "$summary"; }

# A site folder for what is installed here, so that the machine's own packages stay as they are.
site=$PWD/build/gpu-site
mkdir -p "$site"
export PYTHONPATH=$site${PYTHONPATH:+:$PYTHONPATH} CUDA_MODULE_LOADING=EAGER
export NVSHMEM_DISABLE_NVLS=1 NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1
if [ -d "${WHEELS:-}" ]; then
    $python -m pip install -q --no-index --no-deps --no-compile --upgrade --target "$site" "$WHEELS"/*.whl || exit 1
fi
export PATH=$site/bin:$PATH
$python -m pip install -q --no-index --no-deps --no-build-isolation --upgrade --target "$site" . \
    > "$results/build.log" 2>&1 || { cat "$results/build.log"; exit 1; }

cd tests # not the checkout: the installed package is what is tested
run="timeout 300 $python -m pyshmem run --device cuda --timeout 240"

if [[ $parts == *" tests "* ]]; then
    $python -m pyshmem info > "$results/info.txt" 2>&1
    for n in ${PES:-1 2 3 4 8}; do
        [ "$n" -le "$gpus" ] || continue
        log=$results/device_$n.log
        $run -n "$n" -m pytest -q -x -p no:cacheprovider -W ignore spmd/device > "$log" 2>&1
        code=$?
        [ $code -eq 0 ] || { status=1; tail -40 "$log"; }
        note "device tests, $n PEs" "exit $code: $(grep -E 'passed|failed|error' "$log" | tail -1)"
    done
    for n in 3; do # several PEs share a GPU
        log=$results/shared_gpu_$n.log
        CUDA_VISIBLE_DEVICES=0 $run -n $n -m pytest -q -x -p no:cacheprovider -W ignore spmd/device -k 'signals or faults' > "$log" 2>&1
        code=$?
        [ $code -eq 0 ] || { status=1; tail -40 "$log"; }
        note "device tests, $n PEs on one GPU" "exit $code: $(grep -E 'passed|failed|error' "$log" | tail -1)"
    done
    for example in ../examples/0*.py; do
        $run -n "$gpus" "$example" > "$results/example.log" 2>&1
        code=$?
        [ $code -eq 0 ] || { status=1; tail -20 "$results/example.log"; }
        note "$(basename "$example"), $gpus PEs" "exit $code: $(tail -1 "$results/example.log")"
    done
fi

if [[ $parts == *" heat "* ]]; then
    log=$results/heat_$gpus.log
    $run -n "$gpus" ../examples/heat.py --compare --out "$results/heat_$gpus.png" > "$log" 2>&1
    code=$?
    [ $code -eq 0 ] || { status=1; tail -40 "$log"; }
    note "heat.py, $gpus PEs" "exit $code"
    grep -E 'step|ratio|error' "$log" | tail -6 | tee -a "$summary"
fi

if [[ $parts == *" bench "* ]]; then
    figures=$results/device_x$gpus.jsonl
    : > "$figures"
    nvshmem=$($python -c 'import nvidia.nvshmem; print(list(nvidia.nvshmem.__path__)[0])' 2> /dev/null)
    if [ -n "$nvshmem" ] && command -v nvcc > /dev/null; then
        nvcc -std=c++17 -rdc=true -O3 -arch=sm_90 -I"$nvshmem/include" ../bench/nvshmem_device.cu -o /tmp/nvshmem_device \
            -L"$nvshmem/lib" -l:libnvshmem_host.so.3 -lnvshmem_device -L/usr/local/cuda/lib64/stubs -lcuda 2>&1 | grep -i error
        nvcc -std=c++17 -O3 -arch=sm_90 ../bench/bare_cuda.cu -o /tmp/bare_cuda 2>&1 | grep -i error
        uid=$(mktemp -u)
        for ((pe = 0; pe < gpus; pe++)); do
            LD_LIBRARY_PATH=$nvshmem/lib:${LD_LIBRARY_PATH:-} NVSHMEM_SYMMETRIC_SIZE=1G NVSHMEM_REMOTE_TRANSPORT=none \
                RANK=$pe WORLD=$gpus UIDFILE=$uid timeout 120 /tmp/nvshmem_device >> "$figures" &
        done
        wait
        rm -f "$uid"
        [ "$gpus" -lt 2 ] || timeout 60 /tmp/bare_cuda >> "$figures"
    fi
    $run -n "$gpus" ../bench/device.py >> "$figures" 2> "$results/bench.log"
    code=$?
    [ $code -eq 0 ] || { status=1; tail -40 "$results/bench.log"; }
    note "bench/device.py, $gpus PEs" "exit $code"
    $python ../bench/compare.py "$figures" | tee "$results/compare_x$gpus.txt"
fi
echo "---- summary ($gpus GPUs) ----"
cat "$summary"
exit $status
