// Package guest runs one module: code that nobody here wrote, and that may want
// to do harm. It knows nothing of who uses the module, or for what.
//
// Life of a module: Read parses its file, File.Check says what can be said
// without running it, File.Compile meters and compiles it, Module.Serve tries it
// (golden vectors, one usual call of each operation) and makes the Pool that
// lends its instances, one call at a time.
//
// A guest sees no clock, no randomness, no files and no network: it may import a
// log and counters, which is all that it asks of its Logger. A call has a budget of
// ticks, a depth, a memory and an output size. One that exceeds them, traps or
// answers nonsense is a Fault, and its instance is thrown away. Before another
// account's call an instance is made as it was before it saw any input, unless
// the module ships with the program.
//
// A Pool is safe for concurrent use. An Instance is for one call at a time.
package guest
