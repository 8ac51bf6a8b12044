PYTHON ?= python3
CONCORD = .venv/bin/concord
DATA ?= ../shared/data
TESTED = .[dask,postgresql]
ALONE ?= $(wildcard tests/flows/cli/test_*.py)
# Python compiles a package when it is first imported, and keeps that: to compile all of them beforehand takes a fifth of
# the space, and minutes.
unexport PYTHONDONTWRITEBYTECODE
PIP = .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt
UV = PATH="$$PATH:.venv/bin" uv pip install --quiet --python .venv/bin/python -c constraints.txt
# uv needs a tenth of pip's time. pip installs where there is no uv for the platform, or if pip alone knows the registry.
install = $(UV) $(1) 2>/dev/null || { $(PIP) "pip>=25.1" && $(PIP) $(1); }

.PHONY: run quick test test-all test-nightly test-alone bench bench-accuracy data reference install install-tests check

run: install
	$(CONCORD) demo

quick: install-tests
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/pytest -q tests/test_layers.py tests/test_readme.py tests/tasks/advice/test_keys.py

test: install-tests check
	.venv/bin/pytest -n 2 --dist worksteal -q

test-all: test # slow tests also wait: for servers, schedules and processes of their own
	.venv/bin/pytest -n 3 --dist worksteal -q -rs -m "slow and not bench"

SEED := $(strip $(or $(SEED),$(shell od -An -N4 -tu4 /dev/urandom)))

test-nightly: install-tests # every case of what is otherwise sampled, and other examples each night
	.venv/bin/pytest -n 2 --dist worksteal -q --durations 40 --exhaustive -m "not bench"
	@echo "Hypothesis begins at SEED=$(SEED): make test-nightly SEED=$(SEED) repeats its examples"
	.venv/bin/pytest -n 2 --dist worksteal -q --durations 40 -m "not bench" --hypothesis-profile nightly \
	  --hypothesis-seed $(SEED) $$(grep -rlE "hypothesis import|import hypothesis" tests --include "test_*.py")

test-alone: install-tests # each file by itself, in random order: none may need what another leaves behind
	shuf -e $(ALONE) | xargs -P 2 -I FILE sh -c '.venv/bin/pytest -q FILE || [ $$? = 5 ]'

check: install-tests
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy

bench: install-tests
	.venv/bin/python -m pytest -q -s -m bench --record tests/benchmarks; status=$$?; \
	.venv/bin/python -m tests.benchmarks.speed && exit $$status

bench-accuracy: install .venv-bench/installed # with AGAIN=--again, figures on record are measured again
	.venv/bin/python -m tests.benchmarks.accuracy $(DATA) $(AGAIN)
	.venv/bin/python -m tests.benchmarks.page

reference: install-tests
	.venv/bin/python -m tests.reference
	.venv/bin/python -m tests.texts.shown

data: install
	.venv/bin/python -m tests.benchmarks.prepare $(DATA)

install: .venv/share/concord

.venv/share/concord: .venv/installed
	.venv/bin/python -m concord.flows.install
	touch .venv/share/concord

.venv/installed: pyproject.toml constraints.txt
	test -x .venv/bin/python || $(PYTHON) -m venv .venv
	command -v uv >/dev/null || $(PIP) uv || true
	$(call install,-e .)
	touch .venv/installed

install-tests: install .venv/installed-tests

.venv/installed-tests: .venv/installed
	$(call install,-e "$(TESTED)" --group test)
	touch .venv/installed-tests

.venv-bench/installed: tests/benchmarks/peers.txt
	test -x .venv-bench/bin/python || $(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r tests/benchmarks/peers.txt
	touch .venv-bench/installed
