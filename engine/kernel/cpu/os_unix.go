//go:build unix && !linux

package cpu

import "os"

// allocate reserves disk space for [off, off+n) of f, by writing zeros.
func allocate(f *os.File, off, n int64) error {
	zero := make([]byte, 1<<20)
	for n > 0 {
		k := min(n, int64(len(zero)))
		if _, err := f.WriteAt(zero[:k], off); err != nil {
			return err
		}
		off, n = off+k, n-k
	}
	return nil
}

// freeBytes is not known: a disk that is too small is found by writing to it.
func freeBytes(*os.File) (n int64, known bool) { return 0, false }

// adviseHuge does nothing: these systems choose page sizes themselves.
func adviseHuge([]byte) {}

// hugePages is false: see adviseHuge.
func hugePages() bool { return false }
