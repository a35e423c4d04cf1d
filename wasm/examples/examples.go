// Package examples has a module of each kind in each language: what a new
// author's project begins as, and what the tests of the software development
// kit run. Each folder is one module: source, manifest.json, and a Makefile that
// names its golden vectors and takes the rest from that of its language, LANG.mk.
// Vectors that several languages have are in vectors, by kind. Modules that are
// not in Go are checked in as built, in module.wasm.
//
//	billing-go      discount: percents off by account and by length, configured
//	billing-free-go  first-free: the first tokens of each request are free, configured
//	billing-tier-go, billing-tier-c  free-tier: the first tokens of each month are free
//	translator-go   completions: the old text completions dialect on slot chat
//	admission-go    hours: long prompts by the hour, priorities by load
//	admission-quota-go, admission-quota-c  quota: requests of a day and tokens of a month
//	billing-c       flat-fee: the listed prices and a configured fee
//	translator-c    completions-c: byte for byte what translator-go writes
//	admission-c     cheap-first: priorities by the size of a request
//	rewrite-go, rewrite-c  guard-rail: a topic is refused, an alias served, instructions put first
//	filter-go, filter-c    redact: a word that no client sees
//
//	translator-cohere-rust  cohere: a protocol with a path of its own, /v2/chat
//
// What else is in Rust and AssemblyScript gives what the one in C gives, and so does
// admission-zig, which has no kit.
package examples
