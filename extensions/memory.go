package extensions

import "github.com/tetratelabs/wazero/experimental"

// linear is the memory of one instance: its most bytes are reserved as address
// space once, so that growing neither copies nor moves it. It is not Go heap:
// the collector does not see it, and it must not be touched after Free.
type linear struct {
	reserved []byte
	used     uint64
	denied   bool // the guest wanted more than its cap
}

// allocator reserves limit bytes for each memory that is made with it.
func allocator(limit int64, made func(*linear)) experimental.MemoryAllocator {
	return experimental.MemoryAllocatorFunc(func(_, _ uint64) experimental.LinearMemory {
		l := &linear{reserved: reserve(int(limit))}
		made(l)
		return l
	})
}

// Reallocate gives the first size bytes, nil when that is over the cap.
func (l *linear) Reallocate(size uint64) []byte {
	if size > uint64(len(l.reserved)) {
		l.denied = true
		return nil
	}
	l.used = size
	return l.reserved[:size]
}

// Free gives the memory back.
func (l *linear) Free() {
	release(l.reserved)
	l.reserved = nil
}
