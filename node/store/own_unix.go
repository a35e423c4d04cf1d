//go:build unix

package store

import (
	"io/fs"
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

// forbidden are the bits of a mode that a secret in a file may not have.
func forbidden(info fs.FileInfo) fs.FileMode { return forbiddenTo(userOf(info), os.Geteuid()) }

// isOwn says whether a file is this process's.
func isOwn(info fs.FileInfo) bool { return userOf(info) == os.Geteuid() }

func userOf(info fs.FileInfo) int {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(s.Uid)
	}
	return os.Geteuid()
}

// forbiddenTo is forbidden for an owner and the user that a process runs as. What that user made is its alone: who widened it
// was somebody else.
func forbiddenTo(owner, process int) fs.FileMode {
	if owner == 0 || owner != process {
		return 0o037
	}
	return 0o077
}
