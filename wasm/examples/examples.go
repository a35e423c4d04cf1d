// Package examples has a module of each kind in each language: what a new
// author's project begins as, and what the tests of the software development
// kit run. Each folder is one module: source, manifest.json, and a Makefile that
// names its golden vectors and takes the rest from that of its language, LANG.mk.
// Vectors that several languages have are in vectors, by kind. Modules that are
// not in Go are checked in as built, in module.wasm. README.md lists them.
package examples
