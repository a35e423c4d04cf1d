# Needs asc (npm install --global assemblyscript), and the node's own program for what follows.
CORENODE ?= corenode
NAME     := $(NAME)
ASC      ?= asc
SDK      := ../../sdk/assemblyscript

.PHONY: check build compile golden
check: build ## try it as a node would
	$(CORENODE) module check $(NAME).wasm

build: compile ## with manifest and vectors in the file
	$(CORENODE) module pack $(NAME).wasm --vectors $(VECTORS)

compile:
	$(ASC) module.ts --runtime $(SDK)/runtime -O3 --noAssert --use abort= -o $(NAME).wasm

golden: compile ## write what the module gives into the vectors, and pack them; read the diff
	$(CORENODE) module pack $(NAME).wasm
	$(CORENODE) module check $(NAME).wasm --vectors $(VECTORS) --update
	$(CORENODE) module pack $(NAME).wasm --vectors $(VECTORS)
