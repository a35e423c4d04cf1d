# Needs the Go toolchain, and the node's own program for what follows.
CORENODE ?= corenode
NAME     := $(NAME)

.PHONY: check build compile golden test
check: test build ## try it as a node would
	$(CORENODE) module check $(NAME).wasm

build: compile ## with manifest and vectors in the file
	$(CORENODE) module pack $(NAME).wasm --vectors $(VECTORS)

compile:
	GOOS=wasip1 GOARCH=wasm CGO_ENABLED=0 go build -trimpath -buildvcs=false \
	  -ldflags='-s -w -buildid=' -buildmode=c-shared -o $(NAME).wasm .

golden: compile ## write what the module gives into the vectors, and pack them; read the diff
	$(CORENODE) module pack $(NAME).wasm
	$(CORENODE) module check $(NAME).wasm --vectors $(VECTORS) --update
	$(CORENODE) module pack $(NAME).wasm --vectors $(VECTORS)

test: ## the Go tests
	go vet ./... && go test ./...
