//go:build !unix

package cli

// terminalSize is not known here.
func terminalSize() (columns, lines int) { return 0, 0 }
