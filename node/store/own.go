package store

import (
	"errors"
	"io/fs"
	"os"
)

// Make opens a file of a data folder for reading and writing. Where it is absent it is made, 0600, and belongs to whom
// the folder belongs.
func Make(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) // a link may lead to what is absent
	}
	if err == nil {
		Own(file)
	}
	return file, err
}

// MakeFolder makes a folder in a data folder, 0700, where it is absent. It belongs to whom that belongs.
func MakeFolder(path string) error {
	err := os.Mkdir(path, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return os.MkdirAll(path, 0o700) // it may be no folder
	}
	if err != nil {
		return err
	}
	return OwnFolder(path)
}

// OwnFolder is Own for a folder that was just made.
func OwnFolder(path string) error {
	folder, err := openFolder(path)
	if err != nil {
		return err
	}
	Own(folder)
	return folder.Close()
}
