//go:build !unix

package modelfile

import "os"

// mapFile reads the file: platforms without mmap pay with memory.
func mapFile(path string) (data []byte, release func() error, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	if _, err := regularSize(file); err != nil {
		return nil, nil, err
	}
	data, err = os.ReadFile(path)
	return data, nil, err
}

// releasePages does nothing: no file is mapped.
func releasePages([]byte) {}

// adviseRandom does nothing either.
func adviseRandom([]byte, bool) {}
