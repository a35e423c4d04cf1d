package model

import (
	"fmt"
	"strings"
	"testing"
)

// TestCheck: what Check says is what Load says of every file, though it reads no weights.
func TestCheck(t *testing.T) {
	for name, r := range folderRecordings(t) {
		if c, err := Check(openFolder(t, r.Config, r.stored(), 1)); err != nil || c.Layers < 1 {
			t.Errorf("%s: %d layers, %v", name, c.Layers, err)
		}
	}
	for want, change := range map[string]func(e *edit){
		"tensor blk.1.ffn_down.weight is missing":  func(e *edit) { e.remove("blk.1.ffn_down.weight") },
		"tensor blk.0.gates of shape [1]":          func(e *edit) { e.add("blk.0.gates", []float32{1}, 1) },
		"tensor blk.0.attn_norm.weight: shape [1]": func(e *edit) { e.add("blk.0.attn_norm.weight", []float32{1}, 1) },
		"blk.0.ffn_up.weight: type Q8_1 is not one of F32, ": func(e *edit) {
			x := e.tensor("blk.0.ffn_up.weight")
			x.Type = 9
			x.Data = make([]byte, x.Size())
		},
	} {
		e := newEdit(t, "tiny-qwen3-f16")
		change(e)
		f := e.open(t)
		c, err := Check(f)
		if err == nil || !strings.Contains(err.Error(), want) || c.Layers < 1 {
			t.Errorf("%d layers and %v, want an error with %q", c.Layers, err, want)
		}
		if _, loaded := Load(f, exactMakers(t)[1].make(t, 1)); fmt.Sprint(loaded) != fmt.Sprintf("load model: %v", err) {
			t.Errorf("Load says %v, Check %v", loaded, err)
		}
	}
}
