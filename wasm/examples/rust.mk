# Needs cargo with the target wasm32-unknown-unknown, and the node's own program for what follows.
CORENODE ?= corenode
NAME     := $(NAME)
CARGO    ?= cargo

.PHONY: check build compile golden
check: build ## try it as a node would
	$(CORENODE) module check $(NAME).wasm

build: compile ## with manifest and vectors in the file
	$(CORENODE) module pack $(NAME).wasm --vectors $(VECTORS)

compile:
	CARGO_TARGET_DIR=target $(CARGO) build --quiet --offline --release
	cp target/wasm32-unknown-unknown/release/module.wasm $(NAME).wasm

golden: compile ## write what the module gives into the vectors, and pack them; read the diff
	$(CORENODE) module pack $(NAME).wasm
	$(CORENODE) module check $(NAME).wasm --vectors $(VECTORS) --update
	$(CORENODE) module pack $(NAME).wasm --vectors $(VECTORS)
