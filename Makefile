# Every target does its own set-up: make and Python 3.11 or newer are enough (uv is used where it is installed).
#
#   ARGS    passed on:                  make test ARGS="tests/web -k cursor"     make demo ARGS="--port 9000"
#   PYTHON  which interpreter:          make test PYTHON=python3.11 VENV=.venv-3.11
#   VENV    where its environment goes
#   PORT    where `make demo` listens
#   CI      true: a skipped test has failed

VENV ?= .venv
PYTHON ?=
ARGS ?=
BIN := $(VENV)/bin
# Tools that came as wheels are found beside Python. All processors share the tests, each a file at a time, and one Postgres.
PYTEST := PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m pytest -n logical --dist loadfile --durations 10

# What may differ with the versions of Python and of other packages: regular expressions, and a walk through all the rest.
LOWEST := tests/domain tests/test_public.py tests/web/test_app.py tests/features/error_groups/test_section.py tests/web/test_jobs.py \
	tests/web/test_query.py tests/worker/test_worker.py tests/worker/test_sentry.py tests/worker/test_telemetry.py \
	tests/worker/test_metrics.py

.DEFAULT_GOAL := help
.PHONY: help demo example test test-long test-lowest check fix bench incidents screens docs release clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/.demo-ready ## a dashboard with a database and a lively workload of its own; Ctrl-C ends it
	@$(BIN)/python -m riverui demo $(ARGS)

example: $(VENV)/.demo-ready ## a web service with queue, workers and dashboard inside: examples/documents
	@$(BIN)/python -m examples.documents

test: $(VENV)/.test-ready ## the tests, also in a browser and against Go River; those that need a tool get it
	@$(PYTEST) $(ARGS)

test-long: $(VENV)/.dev-ready ## what takes long: faults, replicas, other databases, packaging, most of browser and Go River
	@RIVERUI_FULL=1 $(PYTEST) $(ARGS)

test-lowest: $(VENV)-lowest/.ready ## some tests on the oldest Python at hand and the lowest versions that pyproject.toml allows
	@PATH="$(abspath $(VENV)-lowest/bin):$$PATH" $(VENV)-lowest/bin/python -m pytest -n logical --dist loadfile -m "not long" $(LOWEST) $(ARGS)

check: $(VENV)/.dev-ready ## formatting, lint, types, import rules, templates
	@$(BIN)/ruff format --check --output-format concise . || { echo "formatting: run make fix"; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports > $(VENV)/lint-imports.txt || { cat $(VENV)/lint-imports.txt; exit 1; }
	@$(BIN)/djlint --lint --quiet templates
	@echo "check: all well"

fix: $(VENV)/.dev-ready ## put right what can be put right without thought
	@$(BIN)/ruff check --fix --quiet . || true
	@$(BIN)/ruff format .

bench: $(VENV)/.bench-ready ## measure pages, queries, and the engine beside others: make bench ARGS="--only engine"
	@$(BIN)/python -m bench $(ARGS)

incidents: $(VENV)/.dev-ready ## score the health report on made-up incidents: make incidents ARGS="-n 3 --cause flood -v"
	@$(BIN)/python -m bench.incidents $(ARGS)

screens: $(VENV)/.dev-ready ## photograph the demo's pages, light, dark and on a phone, into docs/screens
	@$(BIN)/python -m tests.screens $(ARGS)

docs: $(VENV)/.dev-ready ## the documentation's site, into build/docs; ARGS=--serve shows it on this machine
	@$(BIN)/python -m docs._site $(ARGS)

release: $(VENV)/.dev-ready ## a release's files in dist/, checked; says how to sign and publish them, and does neither
	@$(BIN)/python -m tests.release

clean: ## remove what these targets made
	rm -rf .venv .venv-* .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist

# Each environment holds what the ones before it hold.
STAMPS_demo := demo
STAMPS_test := demo test
STAMPS_dev := demo test dev
STAMPS_bench := demo test dev bench

$(VENV)/.%-ready: pyproject.toml uv.lock .ci/setup
	@VENV="$(VENV)" PYTHON="$(PYTHON)" sh .ci/setup $*
	@touch $(STAMPS_$*:%=$(VENV)/.%-ready)

$(VENV)-lowest/.ready: pyproject.toml .ci/lowest.py .ci/setup
	@VENV="$(VENV)-lowest" PYTHON="$(or $(PYTHON),/usr/bin/python3)" sh .ci/setup lowest
	@touch $@
