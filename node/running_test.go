package main

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"corenode/node/admin"
)

// TestNodeTellsOfItself: a node says with what configuration it runs and why, shows its log with
// the lines of its start, and says how far its drain is until it has ended.
func TestNodeTellsOfItself(t *testing.T) {
	if testing.Short() {
		t.Skip("a node in a process of its own; takes 3 s")
	}
	c := newChild(t, t.TempDir(), "keepalive: 7s")
	c.start()
	all, err := c.admin.Settings()
	if err != nil {
		t.Fatal(err)
	}
	byKey := map[string]admin.Setting{}
	for _, s := range all {
		byKey[s.Key] = s
	}
	if s := byKey["limits.keepalive"]; s.Value != "7s" || s.Default != "10s" || s.Source != c.config || s.Line == 0 || !s.Changed {
		t.Errorf("%+v", s)
	}
	if s := byKey["limits.body_timeout"]; s.Source != "default" || s.Changed {
		t.Errorf("%+v", s)
	}
	page, err := c.admin.Logs(url.Values{"kind": {"model loaded"}})
	if err != nil || len(page.Data) != 2 || !strings.Contains(page.Data[0].Text, slowModel) || page.Next < page.Data[1].Number {
		t.Errorf("%+v, %v", page, err)
	}
	if _, err := c.admin.Logs(url.Values{"level": {"loud"}}); err == nil {
		t.Error("a level that there is not")
	}
	if s, err := c.admin.DrainState(); err != nil || s.Draining || s.LeftMS != 0 || s.TimeoutMS != time.Minute.Milliseconds() {
		t.Errorf("before a drain %+v, %v", s, err)
	}
	if s, err := c.admin.Drain(); err != nil || !s.Draining {
		t.Errorf("%+v, %v", s, err)
	}
	for range 600 {
		if _, err := c.admin.DrainState(); err != nil {
			return // it has ended
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Error("the node lives a minute after its drain began")
}
