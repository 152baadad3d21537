# What a person runs here. CARGO_TARGET_DIR is honoured everywhere.
.PHONY: help serve check test bench

help:
	@echo 'make serve   build, and serve a demo share on an unprivileged port'
	@echo 'make check   the quick checks: form, lints, layers, unit tests'
	@echo 'make test    everything that CI runs, with the foreign peers from Debian'
	@echo 'make bench   measure against Samba and write docs/benchmarks.md'

serve:
	cargo run --release -p trunkline -- serve --demo

check:
	scripts/check

test:
	scripts/test.py

bench:
	scripts/foreign
	cargo build --release -p trunkline
	proving/bench/run.py
