//go:build !unix

package cpu

// store keeps nothing on systems without mmap: every start packs in memory.
type store struct{}

func openStore(_, key string, _ int64) (*store, error) {
	_, err := storeName(key)
	return &store{}, err
}

func (*store) kept() bool             { return false }
func (*store) find(*weight) []byte    { return nil }
func (*store) reserve(*weight) []byte { return nil }
func (*store) size() int              { return 0 }
func (*store) release([]byte)         {}
func (*store) seal() error            { return nil }
func (*store) close()                 {}
