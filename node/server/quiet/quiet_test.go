package quiet

import (
	"bytes"
	"log"
	"testing"
)

// TestOneLineIsUnsaid: all others are said as they are.
func TestOneLineIsUnsaid(t *testing.T) {
	var said bytes.Buffer
	l := log.New(lines{&said}, "", 0)
	l.Printf("%s because of failed init: no such file", unsaid)
	l.Print("http: a handler failed")
	if got := said.String(); got != "http: a handler failed\n" {
		t.Errorf("%q", got)
	}
}
