package modelfile

import (
	"fmt"
	"os"
)

// regularSize is the size of a regular file; folders, pipes and devices have
// none that could be trusted and are refused.
func regularSize(file *os.File) (int64, error) {
	info, err := file.Stat()
	switch {
	case err != nil:
		return 0, err
	case info.IsDir():
		return 0, fmt.Errorf("%s is a folder", file.Name())
	case !info.Mode().IsRegular():
		return 0, fmt.Errorf("%s is not a regular file", file.Name())
	}
	return info.Size(), nil
}
