# Each target is a step of .ci/run, or a longer run of the same. Without make, run .ci/run.

.PHONY: check test race lint fuzz cross demo help tidy fuzz-files swarm long salvage scope promise digest kept mutants screenshots bench-compare

check: ## all that CI runs
	.ci/run

test race lint fuzz cross demo: ## one of its steps
	.ci/run $@

help: ## this list; bench/Makefile has measurements
	@awk -F ':.*## ' '/^[a-z].*:.*## / { printf "%-31s %s\n", $$1, $$2 }' Makefile

tidy: ## go mod tidy in each module; that of tools has no replace, so that go install takes it
	go mod tidy
	go -C tools mod edit -replace github.com/bloomkv/bloomkv=..
	-go -C tools mod tidy
	go -C tools mod edit -dropreplace github.com/bloomkv/bloomkv
	go -C bench mod tidy
	go -C replica mod tidy

# Two processes, each with half of CASES stores, from number SEED on. To make case N again:
# go test -run TestChangedFilesHarmNobody -seed N -cases 1 ./tests
CASES ?= 1000000
SEED ?= 0
fuzz-files: export TMPDIR = $(or $(wildcard /dev/shm),/tmp)
fuzz-files: ## stores and exports with changed fields and right checksums, used in every way
	go test -c -o bin/files.test ./tests
	half=$$(($(CASES) / 2)); \
	run="bin/files.test -test.run TestChangedFilesHarmNobody -test.v -test.timeout 0 -cases $$half"; \
	$$run -seed $(SEED) & first=$$!; \
	$$run -seed $$(($(SEED) + half)) && wait $$first

swarm: ## programs on a store by schedules from ever new seeds, until it is stopped or for TIME seconds
	TIME=$(TIME) .ci/swarm

long: ## the model, crash and fuzz tests for hours instead of seconds
	go test -count=1 -timeout 6h . ./tests ./replica/internal/history -long 50
	go test -count=1 -timeout 6h ./internal/compaction -long 50
	go test -count=1 -timeout 1h ./tools/internal/foreign/stores -absent 1000000 -present 100000
	FUZZTIME=5m .ci/run fuzz

salvage: ## a store damaged at every byte, cut off at every length, and one of 1 GB with damaged blocks: two minutes
	go test -count=1 -timeout 3h -run 'TestSalvageLoses|TestSalvageOfAGigabyte' -v ./tests -everywhere

scope: ## all programs of up to five operations, and a crash at each of their file operations: five minutes
	go test -count=1 -timeout 3h -run TestEveryShortProgram -v ./tests -scope 5

promise: ## the rate of filters in every state of the tree, of all key shapes, with too little memory; of 10⁸ keys
	go test -count=1 -timeout 1h -run 'TestThePromise' -v . ./tests -long 2
	go test -count=1 -timeout 1h -run 'TestThePromiseBeyondMemory' -v . -long 16
	go test -count=1 -timeout 1h -run 'TestOfManyKeys' -v ./bloomblock -keys 100000000
	go test -count=1 -timeout 1h -run 'TestPredictedWaste' -v ./tools/internal/inspect -keys 1000000

# The same as the ordinary tests, larger.
digest: ## digests of a million keys in four runs: time, reads, size, rate; a patch after a flush
	go test -count=1 -timeout 1h -run 'ADigestKeeps|APatchIs' -v ./tests -digestkeys 1000000 -digestpositives 10000

kept: ## stores that every later version must open, in a new directory: make kept DIR=v5; see testdata/README.md
	go test -count=1 -run '^TestMakeKeptStores$$' ./tests -keep $(CURDIR)/testdata/$(DIR)

# N mutants of each package; a test run draws others by another SEED. Survivors are tests to write, or lines of
# tests/mutants/equivalent.txt.
N ?= 200
mutants: ## changes in PKG that no test of any package notices: make mutants PKG=./internal/tree
	go test -c -o bin/mutants.test ./tests/mutants
	cd tests/mutants && ../../bin/mutants.test -test.run TestMutantsAreNoticed -test.timeout 0 \
		-pkg '$(PKG)' -n $(N) -seed $(SEED)

screenshots: ## docs/images, by a browser: needs chromium and fonts-liberation
	go test -count=1 -v -run 'TestScreenshots' ./tools/bloomkv -shots $(CURDIR)/docs/images
	go test -count=1 -v -run 'TestPages|TestTheLivePage|TestAKeyFalls|TestAFilm' ./tools/internal/browser -shots $(CURDIR)/docs/images/pages

# Six runs of each, taking turns.
REF ?= main
PKG ?= ./...
BENCH ?= .
bench-compare: ## the benchmarks of the tree as it is against those of REF: make bench-compare REF=main PKG=. BENCH=Get
	rm -rf bin/ref && git worktree prune && git worktree add --detach bin/ref $(REF)
	rm -f bin/old.txt bin/new.txt
	for i in 1 2 3 4 5 6; do \
		go -C bin/ref test -run '^$$' -bench '$(BENCH)' $(PKG) >>bin/old.txt && \
		go test -run '^$$' -bench '$(BENCH)' $(PKG) >>bin/new.txt || exit 1; \
	done
	git worktree remove --force bin/ref
	go run golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da bin/old.txt bin/new.txt
