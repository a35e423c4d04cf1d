// Package extensions runs the modules that translate protocols, charge for
// tokens and admit requests, and lets operators replace them while requests run.
//
// A module is a WebAssembly file with a manifest; a generation is one loaded
// version of it. Each Slot has one active generation, maybe a canary that serves
// a share of the accounts, maybe a shadow that repeats calls, and the previous
// generation, kept for a rollback. Behind all of them stands the native build of
// what ships with the program, which is a generation too: every call, whoever
// answers it, is bytes in and bytes out through Host.call.
//
// Life of a module: Load checks it (size, signature, manifest, imports, exports,
// floats), meters it by rewriting, compiles it, makes an instance, runs its golden
// vectors and makes one usual call of each operation: loaded. Then shadow, canary, active, as verbs say; previous;
// and closed when the last request that uses it is done. A request stays on the
// generation that it began with. A generation that faults too often is taken
// out of service by its breaker: failed.
//
// Nothing that a guest does is trusted. A call has a budget of ticks, a depth, a
// memory and an output size; an instance that exceeds one, traps or answers
// nonsense is discarded, and the failure is that call's only: a request falls
// back to the native build, a charge to the builtin tariff, provisionally, and
// an admission policy fails closed. Guests see no clock, no randomness, no
// files, no network and, unless they ship with the program, no memory of
// another account.
//
// A Host is safe for concurrent use. Picking a generation takes no lock; verbs
// replace the immutable assignment of a slot under Host.mu.
package extensions
