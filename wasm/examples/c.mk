# Needs clang with lld, and the node's own program for what follows.
CORENODE ?= corenode
NAME     := $(NAME)
CLANG    ?= clang
SDK      := ../../sdk/c

.PHONY: check build compile golden
check: build ## try it as a node would
	$(CORENODE) module check $(NAME).wasm

build: compile ## with manifest and vectors in the file
	$(CORENODE) module pack $(NAME).wasm --vectors $(VECTORS)

compile:
	$(CLANG) --target=wasm32 -std=c99 -O2 -mbulk-memory -nostdlib -Wall -Wextra -I$(SDK) \
	  -Wl,--no-entry -Wl,--stack-first -Wl,--strip-all -o $(NAME).wasm module.c

golden: compile ## write what the module gives into the vectors, and pack them; read the diff
	$(CORENODE) module pack $(NAME).wasm
	$(CORENODE) module check $(NAME).wasm --vectors $(VECTORS) --update
	$(CORENODE) module pack $(NAME).wasm --vectors $(VECTORS)
