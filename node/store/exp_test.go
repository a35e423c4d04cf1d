package store

import (
	"os"
	"testing"
)

func expOpen(b *testing.B, s *Store) {
	if q := os.Getenv("EXP"); q != "" {
		s.write.mu.Lock()
		defer s.write.mu.Unlock()
		if err := s.write.db.Exec(q); err != nil {
			b.Fatal(err)
		}
	}
}
