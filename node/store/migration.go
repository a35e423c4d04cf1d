package store

import "fmt"

// Migration is what became of the schema of a database.
type Migration struct {
	From, To int // versions of the schema; equal where it was left as it was
	Reader   int // programs that know no version from this one on refuse the database now
}

// Changed says whether the schema was changed. A new database, which has none before, was made and not changed.
func (m Migration) Changed() bool { return m.From > 0 && m.From < m.To }

// String says which way back is closed.
func (m Migration) String() string {
	said := fmt.Sprintf("the database was migrated from schema %d to %d: ", m.From, m.To)
	if m.Reader > m.From {
		return said + "an older program refuses it"
	}
	return said + fmt.Sprintf("a program that knows schema %d goes on with it", m.Reader)
}
