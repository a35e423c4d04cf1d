# Targets print themselves: `make` alone lists what stands behind "##".
GO      ?= go
BIN     := bin
# The package whose tests take longest is first, so that the others run beside it.
PKGS    := ./node ./...
VERSION := $(shell git describe --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X main.version=$(VERSION)
export CGO_ENABLED ?= 0

.DEFAULT_GOAL := help
.PHONY: help
help: ## list the targets
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/corenode and bin/corebench
	@mkdir -p $(BIN)
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/corenode ./node
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/corebench ./bench

.PHONY: build-cuda
build-cuda: ## build bin/corenode-cuda and bin/corebench-cuda, with the engine for NVIDIA GPUs: they need glibc and the driver where they run
	@mkdir -p $(BIN)
	$(GO) build -trimpath -tags cuda -ldflags '$(LDFLAGS)' -o $(BIN)/corenode-cuda ./node
	$(GO) build -trimpath -tags cuda -ldflags '$(LDFLAGS)' -o $(BIN)/corebench-cuda ./bench

# A version that Debian takes: by the date of the commit, in UTC, so that a later one is greater.
DEB_VERSION = 0.$(shell TZ=UTC git log -1 --format=%cd --date=format-local:%Y%m%d.%H%M%S 2>/dev/null || echo 0)
.PHONY: deb test-deb
deb: build ## build bin/corenode_amd64.deb and bin/corenode_arm64.deb, the same bytes each time (needs dpkg-deb)
	for arch in amd64 arm64; do \
		GOARCH=$$arch $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/corenode-$$arch ./node && \
		SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) HOST_PROGRAM=$(BIN)/corenode \
			node/deploy/deb.sh $(BIN)/corenode-$$arch $$arch $(DEB_VERSION) $(BIN)/corenode_$$arch.deb || exit 1; done
test-deb: deb ## install, run and remove the package of this machine in a folder (needs dpkg, and root)
	CORENODE_DEB=$(CURDIR)/$(BIN) $(GO) test -count 1 -run 'TestPackage' ./node

.PHONY: run
run: build ## build and start the node on 127.0.0.1:8080, data in ./data
	$(BIN)/corenode serve

.PHONY: test
test: ## all tests
	$(GO) test -timeout 20m $(PKGS)

.PHONY: test-cuda
test-cuda: build-cuda ## the calls of the GPU driver against a stand-in of it in C (needs a C compiler, no GPU)
	$(GO) vet -tags cuda ./engine/... ./node
	$(GO) test -tags cuda ./engine/kernel/cuda/libcuda

# Binaries of tests that ask a GPU, for a machine without Go.
GPU_TESTS := engine/kernel/cuda/devicetest engine/kernel/cuda/eager engine/kernel/cuda/wide \
	engine/kernel/cuda/fused engine/model
.PHONY: gpu-tests gpu-pack gpu-rehearsal
gpu-tests: ## build what bench/gpu/run.sh runs on a machine with a GPU
	@mkdir -p $(BIN)/gpu
	for p in $(GPU_TESTS); do CGO_ENABLED=0 $(GO) test -c -tags cuda -ldflags '-s -w' -o $(BIN)/gpu/$$(basename $$p).test ./$$p || exit 1; done
	$(GO) build -trimpath -tags cuda -ldflags '$(LDFLAGS)' -o $(BIN)/gpu/corebench ./bench
	$(GO) build -trimpath -tags cuda -ldflags '$(LDFLAGS)' -o $(BIN)/gpu/corenode ./node
gpu-pack: gpu-tests ## pack what bench/gpu/run.sh c needs into bin/gpu.tar.gz
	tar -czf $(BIN)/gpu.tar.gz bench/gpu/run.sh bench/gpu/product.py $(BIN)/gpu/corebench $(BIN)/gpu/corenode
gpu-rehearsal: gpu-tests ## run it where there is no GPU: the interpreter answers, in about three minutes
	$(GO) build -trimpath -tags 'cuda interpreted' -ldflags '$(LDFLAGS)' -o $(BIN)/gpu/corenode-interpreted ./node
	BENCHTIME=3x bench/gpu/run.sh a $(BIN)/gpu/a
	bench/gpu/run.sh b $(BIN)/gpu/b
	bench/gpu/run.sh c $(BIN)/gpu/c

.PHONY: race
race: ## the concurrent packages under the race detector, limiters, pools and schedulers checking themselves (needs a C compiler)
	CGO_ENABLED=1 $(GO) test -race -tags invariants -short -timeout 30m ./actors/... ./node/... ./extensions ./engine ./engine/kv ./engine/sched ./engine/kernel/cpu

.PHONY: lint
lint: ## gofmt, go vet, staticcheck
	@out=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$out" ] || { echo "gofmt would change:"; echo "$$out"; exit 1; }
	$(GO) vet $(PKGS)
	$(GO) tool staticcheck $(PKGS)

.PHONY: cross
cross: ## build both programs for other systems, and throw them away; check the tests of one
	GOOS=darwin GOARCH=arm64 $(GO) build ./node ./bench
	GOOS=darwin GOARCH=arm64 $(GO) vet $(PKGS)
	GOOS=windows GOARCH=amd64 $(GO) build ./node ./bench

# The packages whose results depend on the kernels of a processor. ARM64_RUN narrows their tests.
QEMU ?= qemu-aarch64
ARM64_PKGS := ./engine/kernel/cpu ./engine/model
ARM64_RUN ?= .
.PHONY: arm64
arm64: ## test the kernels of arm64 against the reference, under qemu-user where it is installed
	@if ! command -v $(QEMU) >/dev/null; then echo "arm64: not run, there is no $(QEMU) here (Debian: qemu-user)"; exit 0; fi; \
	mkdir -p $(BIN); for p in $(ARM64_PKGS); do \
	  GOARCH=arm64 $(GO) vet $$p && GOARCH=arm64 $(GO) test -c -o $(BIN)/arm64.test $$p || exit 1; \
	  (cd $$p && $(QEMU) -cpu max $(CURDIR)/$(BIN)/arm64.test -test.short -test.timeout 30m -test.run '$(ARM64_RUN)') || exit 1; done

.PHONY: generate
generate: ## regenerate the assembly kernels
	cd engine/kernel/cpu/gen && $(GO) run . -dir ..

.PHONY: abi
abi: ## write the records and numbers of the ABI into the kits and AUTHORING.md
	$(GO) run ./wasm/table

.PHONY: wasm
wasm: ## rebuild the modules that ship inside the node, byte for byte
	$(GO) run ./wasm/builtin/build

.PHONY: golden
golden: ## rewrite golden files; read the diff before you commit it
	$(GO) test -p 1 ./engine/messages ./engine/template ./engine/upstream/wire ./extensions/vector ./node/cli ./node/config ./node/metrics ./node/trace ./wasm/chat ./wasm/completions ./wasm/generate-content ./wasm/ollama ./wasm/responses ./wasm/tariff ./wasm/examples -update

PYTHON ?= python3
TRAIN  := cd engine/embedded && $(PYTHON) -m
# Tests of the data that need jinja2 alone, and those of the trainer, which need PyTorch.
DATA_TESTS  := test_bpe test_data test_schemas test_promises test_ways test_skills
TORCH_TESTS := test_attention test_export test_mixture test_model test_native test_train
.PHONY: train-vocabulary train-data test-train
train-vocabulary: ## the vocabulary of the embedded models: with another one they must be trained anew (numpy, jinja2)
	$(TRAIN) train.vocabulary --conversations 60000 --out train/tokenizer.json
train-data: ## promises and recorded prompts of the embedded models, and the data's tests (numpy, jinja2)
	$(TRAIN) train.record --out train/tests/testdata/prompts.json
	$(TRAIN) train.promises --out promises.jsonl
	$(TRAIN) unittest $(addprefix train.tests.,$(DATA_TESTS) test_render)
	$(GO) test ./engine/embedded ./bench/skills
test-train: ## tests that no held-out text is trained, and of the trainer as far as Python has what they need (jinja2; numpy; torch, safetensors)
	@cd engine/embedded; has() { $(PYTHON) -c "import sys, $$1; sys.exit(sys.version_info < (3, 11))" 2>/dev/null; }; tests="$(DATA_TESTS)"; \
	if ! has jinja2; then echo "test-train: not run, $(PYTHON) is not Python 3.11 or newer with jinja2 (Debian: python3-jinja2)"; exit 0; fi; \
	if has numpy; then tests="$$tests test_render"; else echo "test-train: not run, since $(PYTHON) has no numpy: test_render"; fi; \
	if has numpy,torch,safetensors; then tests="$$tests $(TORCH_TESTS)"; else echo "test-train: not run, since $(PYTHON) has no torch and safetensors: $(TORCH_TESTS)"; fi; \
	$(PYTHON) -m unittest $$(printf "train.tests.%s " $$tests)

# A training goes on from what ships, or from FROM, a checkpoint; checkpoints, states and logs of its runs lie in RUNS. MINUTES is
# the length of a run and SEED its conversations: another one for each run. ON is where: on one GPU
# as train/README.md says, and MINUTES=8.
RUNS    ?= runs
MINUTES ?= 145
SEED    ?= 1
RATE    ?= 0.5
ON      ?= --device cpu --processes 2 --compile --rows 1 --row 5120 --prompt-weight 0 --rate 0.008 --matrix-rate 0.03 --decay 0.9 --workers 1 --repeat 1 --heldout 240 --eval-minutes 30 --finish-steps 20
define train-model
	$(TRAIN) train.train --config $(1) --name $(2) --resume $(or $(FROM),$(RUNS)/base-$(1)) --minutes $(MINUTES) --rate-scale $(RATE) --seed $(SEED) --save-minutes 10 --states 6 $(ON) --out $(RUNS)/$(1)-$(SEED) --log $(RUNS)/$(1)-$(SEED).jsonl
endef
define ship-model
	$(TRAIN) train.export --checkpoint $(FROM) --name $(2) --out $(2).gguf --part-max 15728640
	$(TRAIN) train.evaluate greedy --checkpoint $(FROM) --name $(2) --out testdata/$(2).json
	$(TRAIN) train.evaluate agreement --checkpoint $(FROM) --recorded testdata/$(2).json --out $(RUNS)/$(1)-agreement.json
endef
.PHONY: train-base train-mini train-core ship-mini ship-core
train-base: ## checkpoints in RUNS=runs that training goes on from: core-1.1-mini as it ships, and core-1.1 as it ships or grown from it
	$(TRAIN) train.restore --file core-1.1-mini.gguf --out $(RUNS)/base-mini
	$(TRAIN) $(if $(wildcard engine/embedded/core-1.1.gguf*),train.restore --file core-1.1.gguf,train.grow --checkpoint $(RUNS)/base-mini --config core) --out $(RUNS)/base-core
train-mini: ## a run of core-1.1-mini on two CPU cores: MINUTES=145 SEED=1 RATE=0.5 FROM=runs/base-mini (PyTorch)
	$(call train-model,mini,core-1.1-mini)
train-core: ## a run of core-1.1, likewise
	$(call train-model,core,core-1.1)
ship-mini: ## export a checkpoint FROM= as core-1.1-mini, with what its tests compare it with
	$(call ship-model,mini,core-1.1-mini)
ship-core: ## export a checkpoint FROM= as core-1.1, likewise
	$(call ship-model,core,core-1.1)

.PHONY: score
score: build ## the table of the model cards: both models of a node of its own, at both temperatures, with their promises as gates
	engine/embedded/train/score.sh $(BIN) $(RUNS)

.PHONY: ptx
ptx: ## make the PTX of the GPU kernels, packed, and of the interpreter's tests again: needs NVCC= (nvcc 13.0) and CLANG= (clang++ 19)
	engine/kernel/cuda/eager/kernels/build.sh
	engine/kernel/cuda/wide/kernels/build.sh
	engine/kernel/cuda/fused/kernels/build.sh
	engine/kernel/cuda/interp/testdata/build.sh

FUZZTIME ?= 1m
.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME each
	@for p in $$($(GO) list $(PKGS)); do \
	  for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz'); do \
	    echo "$$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1x $$p || exit 1; done; done

.PHONY: bench
bench: build ## measure the node, and with GGUF=file the kernels and the node with that model, whatever gate is missed before
	@worst=0; \
	measure() { echo "$(BIN)/corebench $$*"; $(BIN)/corebench "$$@" || { s=$$?; [ $$s -le $$worst ] || worst=$$s; }; }; \
	measure overhead --node $(BIN)/corenode; \
	if [ -n "$(GGUF)" ]; then measure kernels --model "$(GGUF)"; measure engine --node $(BIN)/corenode --model "$(GGUF)"; fi; \
	exit $$worst

.PHONY: bench-peer
bench-peer: build ## the node and a llama-server in turn on one model: make bench-peer LLAMA_SERVER=path GGUF=file
	@test -n "$(GGUF)" -a -n "$(LLAMA_SERVER)" || { echo "which ones? make bench-peer LLAMA_SERVER=path GGUF=file"; exit 2; }
	$(BIN)/corebench peer --node $(BIN)/corenode --llama-server "$(LLAMA_SERVER)" --model "$(GGUF)"

.PHONY: test-clients
test-clients: build ## clients of other people's making against two nodes, as a table: needs node, npm and python3
	$(GO) test -c -o $(BIN)/node.test ./node
	bench/clients/run.sh

.PHONY: test-clients-behind
test-clients-behind: build ## the same clients, against two nodes whose models those two compute, or one of them LLAMA_SERVER=path
	$(GO) test -c -o $(BIN)/node.test ./node
	CLIENTS_BEHIND=1 bench/clients/run.sh

DURATION ?= $(if $(SOAK_MINUTES),$(SOAK_MINUTES)m,1h)
.PHONY: soak
soak: build ## a node under mixed traffic for SOAK_MINUTES, which TRAFFIC=8h makes dense and CLOCK=12 by the node's own clock so many times as long: memory, goroutines and descriptors stay flat, the ledger sound
	$(if $(CLOCK),bench/soak/clock.sh $(CLOCK) $(BIN)/corenode-fast)
	$(BIN)/corebench soak --node $(BIN)/corenode$(if $(CLOCK),-fast) --duration $(DURATION) $(if $(TRAFFIC),--traffic $(TRAFFIC))

.PHONY: crash
crash: ## 50 rounds of kill -9 under load, a full disk, storms of 10,000 requests under the race detector
	CORENODE_CRASH_ROUNDS=50 CORENODE_CRASH_REQUESTS=10000 $(GO) test -timeout 60m -run 'Crash|FullDisk' ./node
	CGO_ENABLED=1 CORENODE_STORM_REQUESTS=10000 $(GO) test -race -tags invariants -run 'Storm' ./actors/tree

ROUNDS ?= 100
.PHONY: test-cluster
test-cluster: ## three nodes on a real PostgreSQL: restarts in turn under 200 streams, and ROUNDS faults as long as they are in life
	CORENODE_CLUSTER_ROUNDS=$(ROUNDS) $(GO) test -count 1 -v -timeout 180m -run TestThreeNodes ./node

STEPS ?= 1000000
.PHONY: simulate
simulate: ## many nodes on one database, simulated for STEPS; and each planted fault of the protocol is found
	CORENODE_SIMULATE_STEPS=$(STEPS) $(GO) test -count 1 -v -timeout 30m ./node/store/simulate

.PHONY: check
check: lint test race crash ## the day's work: with .ci/run, which also builds for other systems, what must pass; ends with a clean tree
	@git diff --exit-code && test -z "$$(git status --porcelain)"
