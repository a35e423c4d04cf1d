//go:build cuda && linux

package config

// hasCUDA says whether this program can use a GPU.
const hasCUDA = true
