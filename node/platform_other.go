//go:build !linux

package main

// keepPrivate has nothing to call here: the data folder's own mode protects it.
func keepPrivate() {}

// physicalMemory is a modest guess where the system is not asked; kv.memory_bytes
// and kv.state_memory_bytes in the config say better.
func physicalMemory() int64 { return 4 << 30 }
