package modelfile

import (
	"fmt"
	"os"
)

// openRegular opens a regular file and describes it; folders, pipes and devices have no size that could be
// trusted and are refused. They are not opened either: of a pipe that would wait for somebody who writes.
func openRegular(path string) (file *os.File, info os.FileInfo, err error) {
	if info, err = os.Stat(path); err != nil {
		return nil, nil, err
	}
	if err = wantRegular(path, info); err != nil {
		return nil, nil, err
	}
	if file, err = os.Open(path); err != nil {
		return nil, nil, err
	}
	if info, err = file.Stat(); err == nil { // it may be another one by now
		err = wantRegular(path, info)
	}
	if err != nil {
		_ = file.Close() // nothing was written
		return nil, nil, err
	}
	return file, info, nil
}

func wantRegular(path string, info os.FileInfo) error {
	switch {
	case info.IsDir():
		return fmt.Errorf("%s is a folder", path)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", path)
	}
	return nil
}
