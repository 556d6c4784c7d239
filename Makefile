# Tidegate's commands. Each works on a fresh Debian 12 with a Rust toolchain; what else is needed is installed
# by scripts/deps (as root, or through sudo).

export PATH := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH):/usr/sbin:/sbin

CARGO ?= cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)

.DEFAULT_GOAL := help
.PHONY: help demo build release test lint live check deny docs dashboard bench instructions fmt

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: build ## an auction site, the gateway before it, a load beyond its capacity, and a live table
	$(TARGET)/debug/tidegate demo

build: ## the binary target/debug/tidegate
	scripts/deps build
	$(CARGO) build --locked --workspace --bin tidegate

test: ## format, lints and all tests, live ones included; installs what they need
	scripts/deps test
	$(MAKE) --no-print-directory lint
	scripts/dashboard check
	scripts/test

lint: ## format and clippy, no warnings
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

live: ## only the tests against real servers and clients, one after another, with their reports
	scripts/deps test
	$(CARGO) test --locked --workspace --test 'live_*' -- --test-threads=1 --nocapture

check: lint deny docs ## lints, house rules, licences and sources, documentation, the page's built files
	scripts/dashboard check
	$(CARGO) test --locked --workspace --test house

deny: ## licences, sources and banned crates (cargo-deny; compiled the first time, about a minute)
	scripts/deps cargo-deny
	$(CARGO) deny --locked --workspace check bans licenses sources

dashboard: ## the page's built files in dashboard/dist, from its sources (needs Node)
	scripts/dashboard build

docs: ## the API documentation, in target/doc; a broken link is an error
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --no-deps --document-private-items

release: ## the binary target/release/tidegate, to run it: built twice, the second time by what the first one was seen to do
	scripts/release

bench: ## time of admission and of tokens; side by side with HAProxy and nginx: CPU per request, handshakes, memory (minutes)
	scripts/deps bench
	$(CARGO) run --locked --release -p tidegate-control --example admission_cost
	$(CARGO) run --locked --release -p tidegate-tokens --example cost
	scripts/release
	python3 scripts/bench/bench.py --tidegate $(TARGET)/release/tidegate

instructions: ## instruction counts of the algorithms in control (valgrind)
	scripts/deps test
	scripts/deps gungraun
	$(CARGO) bench --locked -p tidegate-control

fmt: ## format the Rust code
	$(CARGO) fmt --all
