# tcpilot. `make` alone says what there is; each target installs what it lacks (scripts/setup).

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

export PATH := $(HOME)/.cargo/bin:$(PATH)

TARGET := $(or $(CARGO_TARGET_DIR),target)
PYTHON := $(CURDIR)/.cache/venv/bin/python
BIN := $(CURDIR)/.cache/venv/bin
CARGO := cargo --locked
TCPLAB = $(PYTHON) -m tcplab
KERNELS := 6.1 6.12 6.18 7.2
LEARNER := epsilon-greedy
# Tests on the newest take longest.
ENDS = $(lastword $(KERNELS)) $(firstword $(KERNELS))

help: ## say what there is
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

setup: ## install what building and testing need
	@scripts/setup test

run: build ## steer this host until Ctrl-C, then report what was done; ARGS="--cgroup DIR" adds options
	@scripts/as-root $(TARGET)/release/tcpilot run --live $(ARGS)

fleet-demo: release ## two hosts that share what they know beside a host alone, in namespaces; needs root
	@scripts/fleet-demo.py

fleet-kills: release ## kills daemons, agents and nats-server of a fleet 1000 times, in pieces that add up; needs root and nats-server
	scripts/as-root scripts/fleet-kills.py --kills 1000

demo: release ## watch it learn a bad link, in namespaces or in a virtual machine
	@scripts/demo.py

test: ## before a commit, and in CI: every test, those of kernels on the oldest and the newest
	@scripts/stages check unit-test -- host-test $(ENDS:%=vm-test-%)
	@echo "make test: all passed"

test-all: ## before a release: the release build, all kernels, another clang, a browser, two campaigns
	@PROFILE=release scripts/stages check unit-test sanitize-test host-test mpquic-test vm-test learner-test \
		clang-test machine-test metrics-test collector-test browser-test lab-test deny book
	@echo "make test-all: all passed"

OLD_RUST = $(filter 85 86 87,$(shell cargo --version | cut -d. -f2))
# What older clippys want besides: parentheses in `a << 1 | b`, a fold in place of collected formats, and an entry where
# the value may fail to be made.
LINTS = -D warnings$(if $(OLD_RUST), -A clippy::precedence -A clippy::format_collect -A clippy::map_entry)
# Without `static`, which needs libraries that packaging/dist builds; multipath QUIC's library needs Rust 1.88.
QUIC = $(if $(OLD_RUST),,,flowgen/mpquic,tcpilot-tests/mpquic)
FEATURES = tcpilot-tests/host,tcpilot-tests/vm$(QUIC)

check: setup ## formatting, lints, prose, spelling and licences only
	$(CARGO) fmt --check
	$(BIN)/clang-format --dry-run -Werror $$(git ls-files 'bpf/*.[ch]' 'crates/*.c' 'tests/*.c')
	$(CARGO) clippy --workspace --all-targets --features $(FEATURES) --quiet -- $(LINTS)
	scripts/check-headers
	scripts/check-parameters
	scripts/check-licences
	$(BIN)/typos
	scripts/check-prose
	cd lab && $(BIN)/ruff check . ../scripts ../packaging/container/image && $(BIN)/ruff format --check . ../scripts ../packaging/container/image && $(BIN)/mypy

# Known weaknesses are looked for if their database can be had: it is on GitHub.
DENY := .cache/tools/bin/cargo-deny
deny: ## licences, sources and duplicates of the dependencies, and their known weaknesses
	@scripts/setup deny
	$(DENY) check licenses bans sources
	@if $(DENY) fetch db 2>/dev/null; then $(DENY) check advisories; \
		else echo 'make deny: no database of known weaknesses; they were not looked for' >&2; fi

unit-test: setup ## tests that need no privilege
	@$(MAKE) -j2 -O unit-test-rust unit-test-lab

# cargo cannot use make's tokens, and warns of them.
unit-test-rust:
	MAKEFLAGS= PATH="$$PATH:$(CURDIR)/.cache/tools/bin" $(CARGO) test --workspace --quiet

unit-test-lab:
	cd lab && $(BIN)/pytest -q

host-test: setup ## behaviour on this kernel; needs root
	tests/run.sh here

mpquic-test: setup ## flowgen's QUIC and multipath QUIC, on this kernel; needs root
	$(CARGO) test -p flowgen --features mpquic --quiet
	tests/run.sh mpquic

# Miri has no component for stable compilers. The C that tests call is checked for undefined behaviour in every debug build.
# Simulations run for hours without optimisation.
SANITIZED := core capture learner fleet proof random show file config netlink
sanitize-test: setup ## unit tests of the crates without a kernel, and the C in them, under AddressSanitizer
	RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address CARGO_PROFILE_DEV_OPT_LEVEL=3 \
		CARGO_TARGET_DIR=$(abspath $(TARGET))/sanitize $(CARGO) test --quiet --no-fail-fast \
		--target $(shell uname -m)-unknown-linux-gnu $(SANITIZED:%=-p tcpilot-%)

upgrade-test: setup ## 50 upgrades in place with 1000 connections open, none of them forgotten; needs root
	UPGRADES=50 CONNECTIONS=1000 FIGURES=$(TARGET)/upgrades.txt TESTS=upgrade:: JOBS=1 \
		tests/run.sh here
	@cat $(TARGET)/upgrades.txt

vm-test: setup ## behaviour on every kernel, in virtual machines
	PYTHON=$(PYTHON) tests/run.sh $(KERNELS)

vm-test-ends: setup ## behaviour on the oldest and the newest of them
	PYTHON=$(PYTHON) tests/run.sh $(ENDS)

learner-test: setup ## host-test and vm-test with the other learner: LEARNER=epsilon-greedy
	TCPILOT_LEARNER=$(LEARNER) tests/run.sh here
	TCPILOT_LEARNER=$(LEARNER) PYTHON=$(PYTHON) tests/run.sh $(KERNELS)

# One machine: `make test` has others beside it.
vm-test-%: setup
	MACHINES=1 PYTHON=$(PYTHON) tests/run.sh $*

# The verifier judges what the compiler made of the programs. Debian 12 has clang 14 by default, Debian 13 clang 19.
CLANG := clang-19
clang-test: setup ## host-test and vm-test-ends, the BPF programs by another compiler: CLANG=clang-19
	@scripts/setup $(CLANG)
	@mkdir -p $(TARGET)/$(CLANG)/bin && ln -sf "$$(command -v $(CLANG))" $(TARGET)/$(CLANG)/bin/clang
	export PATH=$(abspath $(TARGET))/$(CLANG)/bin:$$PATH CARGO_TARGET_DIR=$(abspath $(TARGET))/$(CLANG) PYTHON=$(PYTHON); \
		tests/run.sh here; tests/run.sh $(ENDS)

machine-test: setup deb dist ## the laboratory's own tests of its machines
	@$(CARGO) build --release -p flowgen --features mpquic
	cd lab && $(BIN)/pytest -q -m vm

arm64-test: setup arm64 ## tcpilot under Debian's kernels for arm64, in emulated machines
	@packaging/cargo-static aarch64 -p flowgen
	cd lab && $(BIN)/pytest -q -m arm64

metrics-test: setup release ## metrics and alerts in the eyes of Prometheus, and a daemon that it scrapes; needs root
	scripts/promtool
	scripts/as-root scripts/scrape.py --seconds 20 --interval 1

collector-test: setup release ## the watch's IPFIX records in two collectors: nfdump and pmacct; needs root
	@scripts/setup collectors
	scripts/as-root scripts/collect.py

browser-test: setup release ## the laboratory's reports, and the page of a daemon, in a headless Chromium; needs root
	@scripts/setup browser
	cd lab && $(BIN)/pytest -q -m browser
	scripts/as-root $(BIN)/python scripts/page.py

HOURS ?= 1

DAEMONS ?= 1

soak: setup release ## daemons in HOURS of churn, DAEMONS at a time, in pieces that add up; shows any growth; needs root
	scripts/as-root scripts/soak.py $(HOURS) --daemons $(DAEMONS)

SECONDS ?= 60

fuzz: setup ## give every reader broken input: SECONDS for each target, one after the other
	@scripts/fuzz $(SECONDS)

COUNT ?= 100000

schedules: setup ## saves, crashes and take-overs on simulated disks and clocks: COUNT schedules, in parts that add up
	@scripts/schedules $(COUNT)

PROOF_SECONDS ?= 600

prove: ## prove that no congestion control divides by 0, overflows, or shrinks below two packets
	@scripts/setup prove
	@scripts/prove --seconds $(PROOF_SECONDS)

bench: setup release ## what the pilot costs per connection, in virtual time
	$(TCPLAB) run cost
	$(TCPLAB) publish --show results/latest

lab: setup release ## set the laboratory up, and run its first campaign in minutes
	$(TCPLAB) run choice --quick

lab-test: setup release ## two campaigns of the laboratory in their quick form
	$(TCPLAB) run bbr --quick
	$(TCPLAB) run mptcp --quick

experiments: setup release ## the pilot's campaigns (hours), and docs/measured/results.md from them
	$(TCPLAB) run short --only path=direct; $(TCPLAB) publish results/latest
	for name in cost tunings bulk; do \
		$(TCPLAB) run $$name; $(TCPLAB) publish results/latest; done
	for name in memory scale; do \
		$(TCPLAB) run $$name --engine here; $(TCPLAB) publish results/latest; done

book: ## the documents as a book with a search: target/book/html
	@scripts/setup book
	@scripts/book.py .cache/tools/bin/mdbook $(TARGET)/book

deb: release ## a package of the release build, for Debian and Ubuntu: target/deb
	@scripts/setup deb
	@packaging/deb

dist: ## a static binary with its manual, as an archive with a checksum: target/dist
	@scripts/setup build
	@packaging/dist

arm64: release ## archive and package for arm64, cross-built: target/dist, target/deb
	@scripts/setup arm64
	@scripts/setup deb
	@packaging/dist aarch64
	@packaging/cargo-static aarch64 -p tcpilot-fleet-agent
	@packaging/deb arm64 $(TARGET)/aarch64-unknown-linux-gnu/release/tcpilot

image: dist ## a container image of the static binary: target/dist
	@version=$$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1); arch=$$(dpkg --print-architecture); \
		file=$(TARGET)/dist/tcpilot-$$version-$$arch.oci.tar; \
		packaging/container/image $(TARGET)/$$(uname -m)-unknown-linux-gnu/release/tcpilot $$arch $$version $$file; \
		echo $$file

release-artifacts: ## all files of a release, for x86-64 and arm64, with checksums: target/release-artifacts
	@scripts/setup release
	@packaging/release

build: ## build target/release/tcpilot
	@scripts/setup build
	@test -e $(TARGET)/release/tcpilot || echo 'building tcpilot for the first time; this takes a few minutes' >&2
	@$(CARGO) build --release -p tcpilot

# With the programs of the tests and of the laboratory.
release: build
	@$(CARGO) build --release --bins

.PHONY: help setup build run demo fleet-demo fleet-kills test test-all clang-test check deny book fuzz soak schedules prove unit-test unit-test-rust unit-test-lab host-test sanitize-test mpquic-test upgrade-test vm-test \
	vm-test-ends learner-test machine-test arm64-test metrics-test collector-test browser-test bench lab lab-test experiments deb dist arm64 image release release-artifacts
