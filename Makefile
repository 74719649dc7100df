# `make` builds .venv by itself when it has to. Pass options on with ARGS: make test ARGS="-k lease"
ARGS ?=
export PYTHON

.DEFAULT_GOAL := help
.PHONY: help demo up test check judges bench bench-compare chaos soak mutants try system-deps lock clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | awk -F'|' '{ printf "%-20s %s\n", $$1, $$2 }'

demo: ## run one work order on this repository, show it live, stop
	@scripts/env runtime
	@.venv/bin/python -m mcc.demo $(ARGS)

up: ## start everything on this machine and stay: API, drone, Flower
	@scripts/env runtime
	@.venv/bin/mcc up $(ARGS)

test: ## all tests
	@scripts/test $(ARGS)

check: ## style, format and types (ARGS=--fix repairs)
	@scripts/check $(ARGS)

judges: ## what judges from outside say, as a table: docs/judges.md; 1 where a row got worse
	@scripts/env dev
	@.venv/bin/python -m tests.judges $(ARGS)

bench: ## all benchmarks, and each promised figure beside the measured one
	@scripts/env dev
	@.venv/bin/python -m benchmarks $(ARGS)

bench-compare: ## CPU and instructions of this checkout beside another commit, in alternation (REF=v1.2)
	@scripts/env dev
	@.venv/bin/python -m benchmarks.compare $(or $(REF),$(error say which commit: make bench-compare REF=v1.2)) $(ARGS)

chaos: ## all fault campaigns in turn (CHAOS_MINUTES=30, CHAOS_SEED= repeats)
	@scripts/env dev
	@.venv/bin/python -m tests.faults chaos --minutes $(or $(CHAOS_MINUTES),30) $(if $(CHAOS_SEED),--seed $(CHAOS_SEED)) $(ARGS)

soak: ## faults of all kinds at random, for hours (SOAK_HOURS=4)
	@scripts/env dev
	@.venv/bin/python -m tests.faults soak --hours $(or $(SOAK_HOURS),4) $(ARGS)

mutants: ## break the product on purpose; the tests must notice (ARGS=NAME)
	@scripts/env dev
	@.venv/bin/python -m tests.faults.mutants $(ARGS)

try: ## thirty rounds with every fake provider, on this repository (ARGS=NAME); the offline model on packages (PACKAGES=DIR); AgentDojo
	@scripts/env dev
	@.venv/bin/python -m tests.fake_provider.trial $(ARGS)
	@$(if $(PACKAGES),.venv/bin/python -m tests.drone.models.offline.trial $(PACKAGES))
	@scripts/agentdojo

system-deps: ## what the tests use beyond Python, by apt-get
	@scripts/system-deps

lock: ## write the lock files anew (ARGS=--upgrade takes the newest)
	@scripts/lock $(ARGS)

clean: ## remove .venv, caches and built packages
	rm -rf .venv dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
