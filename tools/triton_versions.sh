#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Compiles every function of pyshmem.triton to sm_90 and sm_80, checks the PTX, and runs the suite in the interpreter, with each
# version of Triton that is supported. Needs what `make test` needs; the versions go to throw-away folders.
set -eu
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for version in ${*:-3.6.0 3.7.1 3.8.0 3.9.0}; do
    echo "triton $version"
    .venv/bin/python -m pip --disable-pip-version-check -q install --no-deps --target "$folder/$version" "triton==$version"
    export PYTHONPATH="$folder/$version"
    .venv/bin/python -m pytest -q tests/unit/test_triton_ptx.py
    if .venv/bin/python -c "import torch" 2> /dev/null; then
        TRITON_INTERPRET=0 .venv/bin/python tests/pytorch/as_launched.py
    fi
    .venv/bin/python -m pyshmem run -n 2 --device sim -m pytest -q -p no:cacheprovider tests/spmd/triton
done
