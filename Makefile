# What a person runs here. CARGO_TARGET_DIR is honoured everywhere.
.PHONY: help serve check test bench soak pynfs package package-test

help:
	@echo 'make serve   build, and serve a demo share on an unprivileged port'
	@echo 'make check   the quick checks: form, lints, layers, unit tests'
	@echo 'make test    everything that CI runs, with the foreign peers from Debian'
	@echo 'make package builds a .deb, an .rpm and a tar, in target/packages; TARGET=TRIPLE for another processor, SIGN_KEY=KEY for gpg'
	@echo 'make package-test   the .deb on Debian machines with systemd, in guests; two builds that must be the same'
	@echo 'make pynfs   run the NFSv4.1 suite pynfs, of which PYNFS=DIR is a checkout'
	@echo 'make soak    the long counts: goes on where it was ended, writes proving/soak/tallies.toml'
	@echo 'make bench   measure against Samba and Ganesha and write docs/benchmarks.md'

serve:
	cargo run --release -p trunkline -- serve --demo

check:
	scripts/check

test:
	scripts/test.py

package:
	packaging/package.py $(if $(TARGET),--target '$(TARGET)') $(if $(SIGN_KEY),--sign-key '$(SIGN_KEY)')

package-test:
	scripts/foreign all
	packaging/package.py --only deb
	proving/packages/state_versions.py
	proving/packages/guest/run.py
	proving/packages/reproducible.py

bench:
	scripts/foreign all
	cargo build --release -p trunkline
	proving/bench/run.py

soak:
	scripts/foreign all
	cargo build --release -p trunkline
	proving/soak/run.py

pynfs:
	scripts/foreign
	cargo build --release -p trunkline
	proving/pynfs/run.py $(if $(PYNFS),--pynfs '$(PYNFS)')
