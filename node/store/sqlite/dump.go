package sqlite

import (
	"fmt"
	"strings"

	"github.com/ncruces/go-sqlite3"
)

// Each visits the rows of a table in the order of its first column, with the values of
// columns: int64, string or bytes. It is for a move to another store.
func (s *Store) Each(table string, columns []string, visit func(values []any) error) error {
	err := s.read.view(func() error {
		return s.read.each(`SELECT `+strings.Join(columns, `, `)+` FROM `+table+` ORDER BY 1`, func(r row) error {
			values := make([]any, len(columns))
			for i := range values {
				switch kind := r.sql.ColumnType(i); kind {
				case sqlite3.INTEGER:
					values[i] = r.num(i)
				case sqlite3.TEXT:
					values[i] = r.text(i)
				case sqlite3.BLOB:
					values[i] = append([]byte{}, r.blob(i)...)
				default:
					return fmt.Errorf("column %s has a %v", columns[i], kind)
				}
			}
			return visit(values)
		})
	})
	return wrapped(err, "read the table %s", table)
}

// Count is how many rows a table has.
func (s *Store) Count(table string) (n int64, err error) {
	err = s.read.viewEach(`SELECT count(*) FROM `+table, func(r row) error {
		n = r.num(0)
		return nil
	})
	return n, wrapped(err, "count the table %s", table)
}
