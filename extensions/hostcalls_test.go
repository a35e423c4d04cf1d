package extensions

import (
	"testing"

	"corenode/extensions/guest"
	"corenode/extensions/meter/wasmtest"
	"corenode/wasm/abi"
)

// TestHostCallsCost: a guest that spends its time in the host is stopped as one
// that spends it in its own code, however it gets there.
func TestHostCallsCost(t *testing.T) {
	i32, i64 := wasmtest.I32, wasmtest.I64
	const vector = 2 * pageBytes // where a list for fd_write lies
	cases := []struct {
		name string
		most int64 // calls within 10,000 ticks, each beside one of metric
		call func(g *handmade) *wasmtest.Code
	}{
		{"log", 120, func(g *handmade) *wasmtest.Code {
			f := g.module.Import("corenode", "log", []byte{i32, i32, i32}, nil)
			return wasmtest.Asm().I32(3).I32(0).I32(1024).Call(f)
		}},
		{"random_get", 1, func(g *handmade) *wasmtest.Code {
			f := g.module.Import("wasi_snapshot_preview1", "random_get", []byte{i32, i32}, []byte{i32})
			return wasmtest.Asm().I32(4 * pageBytes).I32(2 * pageBytes).Call(f).Op(wasmtest.Drop)
		}},
		{"fd_write", 10, func(g *handmade) *wasmtest.Code {
			f := g.module.Import("wasi_snapshot_preview1", "fd_write", []byte{i32, i32, i32, i32}, []byte{i32})
			g.module.Data(vector, []byte{0, 0, 3, 0, 0, 4, 0, 0}) // 1,024 bytes at 3*pageBytes
			return wasmtest.Asm().I32(1).I32(vector).I32(1).I32(0).Call(f).Op(wasmtest.Drop)
		}},
		{"sched_yield", 120, func(g *handmade) *wasmtest.Code {
			f := g.module.Import("wasi_snapshot_preview1", "sched_yield", nil, []byte{i32})
			return wasmtest.Asm().Call(f).Op(wasmtest.Drop)
		}},
		{"path_open", 120, func(g *handmade) *wasmtest.Code {
			f := g.module.Import("wasi_snapshot_preview1", "path_open", nil, []byte{i32})
			return wasmtest.Asm().Call(f).Op(wasmtest.Drop)
		}},
		{"memory.grow by nothing", 120, func(*handmade) *wasmtest.Code {
			return wasmtest.Asm().I32(0).Imm(0x40, 0).Op(wasmtest.Drop)
		}},
		{"memory.grow beyond the cap", 120, func(*handmade) *wasmtest.Code {
			return wasmtest.Asm().I32(-1).Imm(0x40, 0).Op(wasmtest.Drop)
		}},
		{"table.grow by nothing", 120, func(g *handmade) *wasmtest.Code {
			g.module.Table(wasmtest.Externref, 1, -1)
			return wasmtest.Asm().Op(0xd0, wasmtest.Externref).I32(0).Misc(0x0f, 0).Op(wasmtest.Drop)
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h, l := openTest(t, Options{})
			g := newGuest(SlotChat, "busy")
			g.manifest.Runtime, g.manifest.Ticks = guest.RuntimeGo, guest.Ticks{Call: 10_000, PerKB: 1}
			body := c.call(g)
			metric := g.module.Import("corenode", "metric", []byte{i32, i64}, nil)
			g.call = wasmtest.Asm().Loop(wasmtest.Void).I32(0).I64(1).Call(metric).Op(body.Bytes()...).Br(0).End().I64(0)
			digest := activate(t, h, g.bytes(t)).Digest
			tr := h.Translate(SlotChat, "a", "", abi.Facts{})
			defer tr.Close()
			if _, err := tr.Request([]byte("{}")); err != nil {
				t.Fatal(err)
			}
			info, err := h.info(digest)
			if err != nil || info.Faults["ticks"] != 1 || info.Metrics[0] == 0 || info.Metrics[0] > c.most {
				t.Errorf("%d calls of %s, want 1 to %d, then no more ticks: %+v, %v\n%s", info.Metrics[0], c.name, c.most,
					info.Faults, err, l)
			}
		})
	}
}
