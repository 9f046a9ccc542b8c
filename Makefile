# The gates are Go code in internal/testsuite; make only builds and starts them.

suite = bin/testsuite

.PHONY: help test check fuzz cover mutate requirements bench suite

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1\t\2/p' Makefile | expand -t 20

test: suite ## every test on SQLite and PostgreSQL, with -race but for pure packages; coverage of the core
	$(suite) test

check: suite ## format, vet, staticcheck, layers, contract, every change of the demo's evidence, fuzz targets
	$(suite) check

fuzz: suite ## only the fuzz targets
	$(suite) fuzz

cover: suite ## statement coverage of the core by its own tests
	$(suite) cover

mutate: suite ## change the deciding code; a test must notice every change
	$(suite) mutate

requirements: suite ## what the protocols demand: shown by which test that passed, or open and why
	$(suite) requirements

bench: ## the ratios of docs/performance.md, about ten minutes on a quiet machine
	cd bench && go build -o ../bin/bench . && ../bin/bench

suite:
	go build -o $(suite) ./internal/testsuite
