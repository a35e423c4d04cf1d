package sqlite

import (
	"os"
	"path/filepath"
	"testing"
)

// TestWALGivesItsRoomBack: what it grew to while nothing could be taken out of it does not stay.
func TestWALGivesItsRoomBack(t *testing.T) {
	s := open(t, t.TempDir())
	if err := s.Exec(`INSERT INTO settings (name, value) VALUES ('large', zeroblob(36 << 20))`); err != nil {
		t.Fatal(err)
	}
	wal := filepath.Join(s.dir, DatabaseName+"-wal")
	if info, err := os.Stat(wal); err != nil || info.Size() < 36<<20 {
		t.Fatalf("the WAL has not grown: %v", err)
	}
	if _, err := s.Secret("small"); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(wal); err != nil || info.Size() > 32<<20 {
		t.Errorf("the WAL has %d bytes, %v", info.Size(), err)
	}
}
