package page

import (
	"io"

	"corenode/bench/result"
)

// Tables writes a page of tables.
func Tables(w io.Writer, title string, lead []string, tables []result.Table) error {
	return content{Title: title, Lead: lead, Tables: tables}.write(w)
}
