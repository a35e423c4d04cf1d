//go:build !unix

package modelfile

import "os"

// mapFile reads the file: platforms without mmap pay with memory.
func mapFile(path string) (m mapping, err error) {
	file, info, err := openRegular(path)
	if err != nil {
		return m, err
	}
	defer file.Close()
	m.info = info
	m.path = path
	m.data, err = os.ReadFile(path)
	return m, err
}

// releasePages does nothing: no file is mapped.
func releasePages([]byte) {}

// adviseRandom does nothing either.
func adviseRandom([]byte, bool) {}
