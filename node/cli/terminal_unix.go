//go:build unix

package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// terminalSize is how many columns and lines the terminal of this process has; 0 where there is none.
func terminalSize() (columns, lines int) {
	size, err := unix.IoctlGetWinsize(int(os.Stdout.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0
	}
	return int(size.Col), int(size.Row)
}
