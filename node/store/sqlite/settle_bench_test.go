package sqlite

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/node/store/storetest"
	"corenode/wasm/abi"
)

// BenchmarkSettlements writes what short requests leave: batches of settlements
// whose holds were never written, as a module charged them.
func BenchmarkSettlements(b *testing.B) {
	for _, rows := range []int{4, 16} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			s := open(b, b.TempDir())
			id := storetest.MustCreate(b, s, "a", 1e15).ID
			input, now, n := make([]byte, 120), time.Now(), 0
			batch := make([]account.Entry, rows)
			start := cpuTime(b)
			for b.Loop() {
				for i := range batch {
					n++
					e := storetest.Settlement(id, fmt.Sprintf("req_%024x", n), -900-abi.Nano(n%7))
					e.Time, e.Provisional, e.KeyID = now.Add(time.Duration(n)*time.Microsecond), false, "key_f3ca18b2bc15e158b8e8"
					e.ModuleDigest = "sha256:" + strings.Repeat("05839d29", 8)
					e.InputHash, e.ChargeInput = fmt.Sprintf("%064x", n), input
					e.NeverHeld = true
					batch[i] = e
				}
				if err := s.Append(batch); err != nil {
					b.Fatal(err)
				}
			}
			total := float64(b.N) * float64(rows)
			b.ReportMetric(float64((cpuTime(b)-start).Nanoseconds())/1e3/total, "cpu-us/row")
		})
	}
}
