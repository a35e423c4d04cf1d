//go:build unix

package store

import (
	"os"
	"path/filepath"
	"syscall"
)

// Own gives what root has just made to the owner of the folder in which it is: a command that root runs makes files
// for a node that is another user's. What cannot be given away stays root's. Never give it what may have been there before:
// a link of that user's may lead to any file.
func Own(made *os.File) {
	if os.Geteuid() != 0 {
		return
	}
	folder, err := os.Stat(filepath.Dir(made.Name()))
	if err != nil {
		return
	}
	if s, ok := folder.Sys().(*syscall.Stat_t); ok && s.Uid != 0 {
		_ = made.Chown(int(s.Uid), int(s.Gid))
	}
}

// openFolder opens a folder itself, and nothing that a link leads to.
func openFolder(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
}
