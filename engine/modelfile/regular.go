package modelfile

import (
	"fmt"
	"os"
)

// regularInfo describes a regular file; folders, pipes and devices have no size that could be
// trusted and are refused.
func regularInfo(file *os.File) (os.FileInfo, error) {
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, fmt.Errorf("%s is a folder", file.Name())
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", file.Name())
	}
	return info, nil
}
