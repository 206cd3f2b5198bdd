# What a developer does, in one place. `make help` lists it; a fresh clone needs Rust (stable), a C
# compiler and make, and Python 3.11 for the figures. Nothing else has to be done by hand.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

CARGO ?= cargo
PYTHON ?= python3
TARGET := $(or $(CARGO_TARGET_DIR),target)
CXLAB := $(TARGET)/release/cxlab
OUT ?= out

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-10s %s\n", $$1, $$2 }'

.PHONY: build
build: need-rust ## Build the release binary
	$(CARGO) build --release --locked --bin cxlab

.PHONY: demo
demo: build ## Replay the shipped trace; print the table, write report and picture
	$(CXLAB) run scenarios/trace.toml --out $(OUT)/demo
	@echo
	@echo "The table is above. The same numbers and all others: $(OUT)/demo/report.json"
	@echo "The picture, with how busy each link was (open it in a browser): $(OUT)/demo/topology.svg"

# The order is that of cost: what fails quickly fails first.
.PHONY: test
test: need-rust need-lints have-valgrind ## All checks: format, lints, tests, licences, documentation
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) test --workspace --locked --no-fail-fast
	@$(MAKE) deny
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked
	@echo "make test: all checks passed"

.PHONY: test-all
test-all: need-rust have-valgrind ## The slow suites too, in release mode
	$(CARGO) test --workspace --release --locked --no-fail-fast -- --include-ignored

.PHONY: deny
deny: ## Licences, sources and advisories of dependencies, where cargo-deny is installed
	@if ! $(CARGO) deny --version >/dev/null 2>&1; then \
		echo "skipped: cargo-deny is not installed ($(CARGO) install --locked cargo-deny)"; \
		exit 0; \
	fi; \
	$(CARGO) deny --workspace check licenses bans sources; \
	if ! $(CARGO) deny --workspace fetch db >/dev/null 2>&1; then \
		echo "skipped: the advisory database cannot be fetched from here"; \
		exit 0; \
	fi; \
	$(CARGO) deny --workspace check --disable-fetch advisories

.PHONY: bench
bench: need-rust ## Measure speed (docs/performance.md has the numbers and the machine)
	$(CARGO) bench --locked -p cxlab-benches

.PHONY: figures
figures: build .venv/.installed ## Simulate and draw the figures that are compared with papers
	PATH="$(abspath $(TARGET)/release):$$PATH" CXLAB="$(abspath $(CXLAB))" \
		.venv/bin/python figures/esf/make.py

.venv/.installed: requirements-figures.txt
	@$(MAKE) need-python
	$(PYTHON) -m venv .venv
	.venv/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-figures.txt
	@touch $@

.PHONY: clean
clean: ## Remove what was built and written
	$(CARGO) clean
	rm -rf .venv $(OUT)

# What must be there, and what to do when it is not.

.PHONY: need-rust
need-rust:
	@command -v $(CARGO) >/dev/null || { \
		echo "error: cargo is missing; install Rust (stable), for example with rustup" >&2; exit 1; }
	@command -v cc >/dev/null || { \
		echo "error: a C compiler (cc) is missing, which zstd is built with;" \
			"on Debian: apt-get install gcc libc6-dev" >&2; exit 1; }

# A minimal toolchain comes without them.
.PHONY: need-lints
need-lints:
	@$(CARGO) fmt --version >/dev/null 2>&1 && $(CARGO) clippy --version >/dev/null 2>&1 \
		|| { command -v rustup >/dev/null && rustup component add rustfmt clippy; } \
		|| { echo "error: rustfmt or clippy is missing; install them with your Rust toolchain" >&2; exit 1; }

.PHONY: need-python
need-python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "error: Python 3.11 or newer is needed; found $$($(PYTHON) --version 2>&1 || echo none)" >&2; \
		exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
		echo "error: Python's venv module is missing; on Debian: apt-get install python3-venv" >&2; \
		exit 1; }

# Only capturing needs Valgrind. Without it, its tests prove that we say so, and no more.
.PHONY: have-valgrind
have-valgrind:
	@command -v valgrind >/dev/null && exit 0; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "installing valgrind, for the tests that capture a program"; \
		install="timeout 300 apt-get install -y -qq --no-install-recommends valgrind"; \
		export DEBIAN_FRONTEND=noninteractive; \
		{ $$install || { timeout 300 apt-get update -qq && $$install; }; } >/dev/null 2>&1 || true; \
	fi; \
	command -v valgrind >/dev/null \
		|| echo "skipped: the tests that capture a program, because valgrind is not installed" \
			"and cannot be installed from here (as root: apt-get install valgrind)"
