package interp

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Written compares the registers that the kernels of a device keep for their next launch with what they are at first, and returns how
// many it compared: what a kernel wrote and does not know of, it would find again instead of poison.
func (d *Device) Written(t *testing.T) (compared int) {
	t.Helper()
	for _, cover := range d.kernels {
		k := cover.kernel
		special := func(slot int) bool {
			return slices.ContainsFunc(k.specials, func(s specialSlot) bool { return s.slot == slot })
		}
		for c, ok := k.blocks.Get().(*cta); ok; c, ok = k.blocks.Get().(*cta) {
			c.k = &kernelRun{kernel: k}
			c.forget()
			for _, w := range c.warps {
				for slot := range w.regs {
					if !special(slot) && w.regs[slot] != c.begin[slot] {
						t.Errorf("%s: register %d of warp %d is %x, at first %x", k.name, slot, w.id, w.regs[slot], c.begin[slot])
					}
					compared++
				}
			}
		}
	}
	return compared
}

// TestLaunchesBeginAnew runs a kernel that writes registers, predicates, local and shared memory where it is told to, and asks with
// the memory of that launch whether another finds anything of it.
func TestLaunchesBeginAnew(t *testing.T) {
	text := `.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 n)
{
.reg .b64 %a; .reg .b32 %n, %r, %l, %s, %q; .reg .pred %p, %w; .local .align 4 .b8 own[4]; .shared .align 4 .b8 all[4];
ld.param.u64 %a, [p]; ld.param.u32 %n, [n]; mov.u32 %q, 0;
setp.eq.u32 %w, %n, 0; @%w bra read;
mov.u32 %r, 5; setp.eq.u32 %p, %r, 5; st.local.u32 [own], %r; st.shared.u32 [all], %r;
read: ld.local.u32 %l, [own]; ld.shared.u32 %s, [all]; @%p mov.u32 %q, 1;
st.global.u32 [%a], %r; st.global.u32 [%a+4], %l; st.global.u32 [%a+8], %s; st.global.u32 [%a+12], %q; ret;
}
`
	r := newRig(t, Config{Seed: 7})
	f, p := r.function(text, "k"), r.room(16)
	for range 3 {
		for _, c := range []struct {
			writes int
			want   string
		}{{1, "05000000 05000000 05000000 01000000"}, {0, "ffffffff ffffffff ffffffff 00000000"}} {
			l, out := add(p, c.writes), make([]byte, 16)
			l.Block.X = 1
			r.must(r.stream.Launch(f, l))
			r.must(r.stream.CopyOut(out, p))
			r.must(r.stream.Synchronize())
			var words []string
			for w := range slices.Chunk(out, 4) {
				words = append(words, fmt.Sprintf("%x", w))
			}
			if got := strings.Join(words, " "); got != c.want {
				t.Errorf("a launch that writes %d: %s, want %s", c.writes, got, c.want)
			}
		}
	}
}
