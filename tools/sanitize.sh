#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Builds the package with the address and undefined-behaviour sanitizers into build/sanitize and runs the host suites on 2 and 3
# PEs with it, without a device heap; then the C programs of tests/native under these and under the thread sanitizer.
# A finding ends the PE that has it, and with it the job. Needs what `make test` needs.
set -eu
cd "$(dirname "$0")/.."
site=$PWD/build/sanitize/site
packages=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
base=$(.venv/bin/python -c 'import sys; print(sys._base_executable)')
rm -rf build/sanitize
mkdir -p "$site"
PATH=$PWD/.venv/bin:$PATH .venv/bin/python -m pip --disable-pip-version-check -q install --no-build-isolation --no-deps --target "$site" \
    -Csetup-args=-Db_sanitize=address,undefined -Csetup-args=-Db_lundef=false -Csetup-args=-Dbuildtype=debugoptimized .
# Python itself is not built so: the sanitizer has to be there before it, and what Python keeps for ever is no leak.
asan=$(gcc -print-file-name=libasan.so):$(gcc -print-file-name=libubsan.so)
cd tests # the package in the site is what is tested
for n in 2 3; do
    # The virtual environment's packages, without its editable install, which is a hook of its interpreter.
    env LD_PRELOAD="$asan" PYTHONPATH="$site:$packages" \
        ASAN_OPTIONS=detect_leaks=0:abort_on_error=1:allocator_may_return_null=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
        "$base" -m pyshmem run -n $n --device none --timeout 1200 -m pytest -q -x -p no:cacheprovider spmd/host
done
cd ..
.venv/bin/python -m pytest -q tests/native -k sanitizers
