package model

import (
	"testing"

	"corenode/engine/kernel"
	"corenode/engine/kernel/ref"
)

// keeping counts the buffers of a backend that wants them back.
type keeping struct {
	kernel.Backend
	made, given, most int
}

func (k *keeping) NewBuffer(n int) kernel.Buffer {
	k.made++
	k.most = max(k.most, k.made-k.given)
	return k.Backend.NewBuffer(n)
}

func (k *keeping) Release(buffers ...kernel.Buffer) { k.given += len(buffers) }

// pass computes a step of n rows, all of which ask for their logits.
func (k *keeping) pass(t *testing.T, m *Model, n int) {
	t.Helper()
	newSequence(t, m, newCache(t, m, 16, sequencePages(16), sequencesMax, kernel.KVF32), 0, 16).feed(t, someTokens(m, n, 3))
}

// TestNoStepTakesMemoryThatIsReserved: neither more rows nor more of them that ask for logits.
func TestNoStepTakesMemoryThatIsReserved(t *testing.T) {
	k := &keeping{Backend: ref.New()}
	m := loadOn(t, openParity(t, "tiny-qwen3-f16"), k)
	m.Reserve(headRowsMax + 9)
	made := k.made
	for _, n := range []int{1, 2, rowsAtStart + 1, headRowsMax + 9} {
		if k.pass(t, m, n); k.made != made {
			t.Fatalf("a step of %d rows takes %d buffers", n, k.made-made)
		}
	}
}

// TestBuffersAreGivenBackBeforeLargerOnesAreTaken: there are never more of them than a step needs.
func TestBuffersAreGivenBackBeforeLargerOnesAreTaken(t *testing.T) {
	k := &keeping{Backend: ref.New()}
	m := loadOn(t, openParity(t, "tiny-qwen3-f16"), k)
	k.pass(t, m, 1)
	there, made := k.made-k.given, k.made
	for _, n := range []int{2, rowsAtStart + 1, 2*rowsAtStart + 1, 5 * rowsAtStart} {
		k.pass(t, m, n)
	}
	if k.made == made || k.made-k.given != there || k.most != there {
		t.Errorf("%d buffers at first, %d were made in all, %d are there, %d were at most", there, k.made, k.made-k.given, k.most)
	}
}
