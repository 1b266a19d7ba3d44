#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The C library for aarch64, by a cross compiler, and C programs of tests/native on 2 PEs under emulation:
#   tools/aarch64.sh [PROGRAM ...]
# Needs an editable install (`make dev`) and, of Debian, gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and qemu-user. The launcher is this
# machine's. qemu makes up the time at which a process has started: on a busy machine it may be a tick off, and a PE
# takes another for dead. Run it again then. What emulation on x86-64 cannot show is the order of memory: its loads and stores are stronger than aarch64's.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
out=$root/build/aarch64
build=$(ls -d build/cp* | head -1)
mkdir -p "$out/obj"

# The compilations of this machine's library, with the other compiler.
.venv/bin/python - "$build" "$out" >"$out/commands" <<'PROGRAM'
import hashlib, json, pathlib, platform, re, sys

build, out = map(pathlib.Path, sys.argv[1:])
for entry in json.loads((build / "compile_commands.json").read_text()):
    if "libpyshmem.so" not in entry["output"]:
        continue
    compiler, _, rest = entry["command"].partition(" ")
    rest = re.sub(r" -M(D|[FQ] \S+)", "", rest).replace(f'"{platform.machine()}"', '"aarch64"')
    name = hashlib.sha256(entry["output"].encode()).hexdigest()[:16]
    print("aarch64-linux-gnu-gcc", "-Werror", re.sub(r" -o \S+", f" -o {out.resolve()}/obj/{name}.o", " " + rest))
PROGRAM
(cd "$build" && xargs -P "$(nproc)" -d '\n' -I{} sh -c '{}' <"$out/commands")
aarch64-linux-gnu-gcc -shared -o "$out/libpyshmem.so.0" "$out"/obj/*.o -Wl,-soname,libpyshmem.so.0 -Wl,--no-undefined \
    -Wl,--version-script=native/libpyshmem.map -pthread -ldl -lm

# Without those that share static variables, for which PEs write each other's memory by a call that the emulator lacks.
failed=
for name in ${*:-ring teams strided waits exchanges contexts cells claims requests threads wakes fibers}; do
    inner= # what the library does not export
    [ "$name" != fibers ] || inner="native/src/fiber/*.c native/src/base/thread.c"
    aarch64-linux-gnu-gcc -std=gnu11 -O2 -Inative/include -I"$build/native" -Inative -Inative/src \
        "tests/native/$name.c" $inner -o "$out/$name" \
        -L"$out" -l:libpyshmem.so.0 -lm -pthread -Wl,-rpath,"$out"
    if .venv/bin/python -m pyshmem run -n 2 --device none --timeout 300 qemu-aarch64 -L /usr/aarch64-linux-gnu "$out/$name" >"$out/$name.log" 2>&1; then
        echo "$name: passed"
    else
        echo "$name: FAILED"
        tail -20 "$out/$name.log"
        failed="$failed $name"
    fi
done
[ -z "$failed" ]
