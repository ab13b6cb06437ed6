PYTHON_BIN := .venv/bin/python
SOURCES := $(wildcard zoosim tests studies benchmarks examples scripts)

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-slow test-processors check audit format bench soak clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## create .venv and install zoosim into it (returns at once when .venv is current)
	@scripts/setup

demo: setup ## open a simulated shop with a running service and its page, and do to both what happens to shops
	.venv/bin/zoosim playground

test: export OMP_NUM_THREADS ?= 1
test: setup ## run the tests (ARGS="-k name" is passed on)
	$(PYTHON_BIN) -m pytest $(ARGS)

test-slow: export OMP_NUM_THREADS ?= 1
test-slow: setup ## run the long forms of tests, which take hours (ARGS likewise)
	$(PYTHON_BIN) -m pytest -m slow --timeout 7200 $(ARGS)

test-processors: setup ## run the tests as other x86 processors compute, one after another (ARGS likewise)
	@scripts/test-processors $(ARGS)

check: setup ## check format, lint, layers and types
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/lint-imports
	@# on a busy machine its workers may not start in time
	.venv/bin/mypy --num-workers auto $(SOURCES) || .venv/bin/mypy $(SOURCES)

audit: setup ## hold the pinned packages against an index, the image and what is installed
	$(PYTHON_BIN) scripts/pins.py audit

format: setup ## format the code and apply the safe lint fixes
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

bench: ## run the benchmarks
	@scripts/setup bench
	$(PYTHON_BIN) -m benchmarks

soak: setup ## run a service under load for an hour (MINUTES=10 for less), and watch what must not grow
	$(PYTHON_BIN) -m benchmarks.soak --minutes $(or $(MINUTES),60)

clean: ## remove .venv, caches and build outputs
	rm -rf .venv .import_linter_cache .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
	find zoosim tests studies benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
