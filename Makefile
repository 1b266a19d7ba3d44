# SPDX-License-Identifier: BSD-3-Clause
# Each target makes .venv and installs what it needs, once. To be there: Python >= 3.11 with headers and venv, gcc, make.
PYTHON := .venv/bin/python
PYTEST := $(PYTHON) -m pytest
# In the order of tests/conftest.py: pytest-xdist would have files with few tests last, some of which take longest.
BESIDE := $(PYTEST) -n logical --maxprocesses 4 --dist loadfile --no-loadscope-reorder
PES := 1 2 3 4

# make quick: what most changes break first, of the suites that every PE of a job runs; unit tests marked slow are left out.
QUICK_HOST := rma atomics signals collectives teams heap
QUICK_DEVICE := put_get signals waits faults collectives
# All but what needs PyTorch, or several hosts.
FOLDERS := $(filter-out tests/pytorch tests/hosts tests/launcher,$(sort $(patsubst %/,%,$(dir $(wildcard tests/*/test_*.py)))))
# To collect what is in the others takes seconds. tests/conftest.py sees that none is missed.
SERIAL = $(shell grep -l mark.serial $(FOLDERS:%=%/test_*.py))
SUITE := -m pytest -q -p no:cacheprovider -p no:hypothesispytest

# make lint: programs are checked strictly, but for kernels, whose types are their compiler's.
TYPES_OF_PROGRAMS := --allow-untyped-defs --allow-incomplete-defs \
	--allow-untyped-calls --allow-untyped-decorators

.PHONY: demo test quick nightly dev docs lint pyright unit native gpu seeds examples bench analyze sanitize resolve versions wheel sdist clean distclean ready-demo ready-docs ready-test ready-torch test-long test-torch test-torch-long test-hosts
.DEFAULT_GOAL := demo

# What type checkers see of the device library, made beside its __init__.py; the build makes the one of packages.
STUB := pyshmem/device/__init__.pyi

ready-demo ready-docs ready-test ready-torch: ready-%:
	@tools/bootstrap.sh $*

$(STUB): tools/device_stub.py $(wildcard pyshmem/device/*.py pyshmem/device/api/*.py pyshmem/device/jit/*.py) | ready-test
	$(PYTHON) -S tools/device_stub.py $@

demo: ready-demo ## the heat equation on 4 PEs; leaves build/demo/heat.png
	$(PYTHON) -m pyshmem run -n 4 examples/heat.py --out build/demo/heat.png

test: lint ## all but what takes long; tests that need a GPU say so and are skipped without one
	$(BESIDE) -m "not serial and not long" $(FOLDERS)
	$(PYTEST) -m "serial and not long" $(SERIAL)

test-long: ready-test ## GPU code compiled for sm_90, sm_80 and sm_100, every order of the ring's steps, 128 PEs, checking mode, whole suites on 1, 2 and 4 PEs
	$(BESIDE) -m "long and not serial" $(FOLDERS)
	$(PYTEST) -m "long and serial" $(SERIAL)
	$(PYTEST) -m long tests/hosts tests/launcher

nightly: ## what .ci/run leaves out, for a quiet machine; its last log is kept in build/nightly.log
	@mkdir -p build
	@bash -o pipefail -c '$(MAKE) -k test-long analyze test-torch-long 2>&1 | tee build/nightly.log'

test-torch-long: ready-torch ## the tests of test-torch that take minutes each
	$(PYTEST) -m long tests/pytorch

test-hosts: ready-test ## conduit ucx, and the launcher over ssh: on two and three hosts out of network namespaces, as root
	$(PYTEST) -m "not long" tests/hosts tests/launcher

test-torch: ready-torch ## pyshmem.interop.torch on the CPU; installs torch (the range is in pyproject.toml)
	$(PYTEST) -m "not long" tests/pytorch
	$(PYTEST) -m "not long" -k torch tests/check
	$(PYTEST) tests/unit/test_moved.py tests/unit/test_foreign.py

quick: lint ## while working: under 3 minutes on 2 cores
	$(PYTEST) -q -m "not slow and not long" tests/unit
	$(PYTHON) -m pyshmem run -n 3 --device none $(SUITE) $(QUICK_HOST:%=tests/spmd/host/test_host_%.py)
	$(PYTHON) -m pyshmem run -n 2 --device sim $(SUITE) $(QUICK_DEVICE:%=tests/spmd/device/test_%.py)

test-%: ready-test ## test-4: the per-PE suite on 4 PEs
	$(PYTEST) tests/pe --pes $*

dev: ready-test $(STUB) ## an editable install that rebuilds itself when C changes

lint: ready-test $(STUB)
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy
	$(PYTHON) -m mypy $(TYPES_OF_PROGRAMS) --warn-unused-ignores examples/*.py tests/unit/typed_program.py
	find native host_proxy tests -name '*.[ch]' -exec .venv/bin/clang-format --dry-run -Werror {} +
	$(PYTHON) -m codespell_lib

pyright: ready-test $(STUB) ## the package and the examples, as editors see them; installs pyright and its node
	$(PYTHON) -m pip --disable-pip-version-check -qq install 'pyright[nodejs]'
	$(PYTHON) -m pyright

docs: ready-docs ## the site, in build/docs/html; a warning, a public name without text, a broken link or, with Chromium, a table that does not fit ends it
	$(PYTHON) -m sphinx -E -W --keep-going -q docs build/docs/html
	$(PYTHON) docs/widths.py build/docs/html

unit native gpu: ready-test ## one folder of tests
	$(PYTEST) tests/$@

seeds: ready-test ## 30 short programs with 100 orders of late messages each, and how long that takes (docs/howto/races.md)
	$(PYTHON) tests/check/seeds.py

examples: ready-test ## every example, checked
	$(PYTEST) tests/examples

bench: ready-test ## figures of this machine, host and device path, one JSON line each
	$(PYTHON) bench/host.py --plot build/bench/host.png
	$(PYTHON) -m pyshmem run -n 2 bench/device.py

analyze: ready-test ## gcc's static analyser over the C library; a finding without a reason ends it
	$(PYTHON) tools/analyze.py

sanitize: ready-test ## the library under the address and undefined-behaviour sanitizers: host suites on 2 and 3 PEs; C tests, threads too
	tools/sanitize.sh

resolve: ready-test ## which versions of others install beside this one; needs the network, writes docs/reference/versions.md
	$(PYTHON) tools/resolve.py

versions: ready-test ## a part of the suites with other versions of Numba, torch and Python, each in an environment of its own: hours, 8 GB; needs the network
	$(PYTHON) tools/versions.py

wheel: ready-test ## dist/*.whl, tried in an empty environment
	tools/packages.sh wheel

sdist: ready-test ## dist/*.tar.gz, and a wheel built from it alone, tried
	tools/packages.sh sdist

clean:
	rm -rf build dist .venv/.ready-* .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

distclean: clean
	rm -rf .venv
