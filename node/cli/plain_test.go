package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/cobra"

	"corenode/engine/modelfile"
	"corenode/extensions"
	"corenode/extensions/capture"
	"corenode/node/admin"
)

// evil is a text that a terminal would act on: by control characters of ASCII, by one of those behind it that begins a sequence
// alone, by one that turns the direction, and by marks that nobody sees.
const evil = "a\x1b]0;title\a\r\u009b2J\u202eb\u200b\ufeff\x7f"

// TestOthersSayNothingToTerminals: what models, modules and servers of others say is printed without what terminals act on.
func TestOthersSayNothingToTerminals(t *testing.T) {
	shown := func(text func(io.Writer)) string {
		cmd := &cobra.Command{}
		cmd.Flags().Bool("json", false, "")
		var out bytes.Buffer
		cmd.SetOut(&out)
		if err := show(cmd, result{text: text}); err != nil {
			t.Error(err)
		}
		return out.String()
	}
	file := changedModel(t, map[string]any{"general.name": evil, "tokenizer.ggml.pre": evil, "tokenizer.chat_template": "{{ " + evil},
		func(x []*modelfile.Tensor) []*modelfile.Tensor { return x })
	inspected, err := typed("model", "inspect", file)
	if err != nil {
		t.Error(err)
	}
	var failed, developed, logged bytes.Buffer
	_, err = typed("model", "verify", file)
	SayError(&failed, errors.Join(err, errors.New(evil)))
	(&devLoop{slot: "chat"}).show(&developed, false, devRound{State: devBuild, Said: "one\n" + evil, Vectors: []string{evil}})
	printFollowed(plainWriter{&logged}, false, admin.LogPage{Data: []admin.LogLine{{Kind: evil, Text: evil}}})
	replicas := shown(func(w io.Writer) {
		printUpstreams(w, []admin.UpstreamModel{{Model: "away", Replicas: []admin.Replica{{URL: "http://a", Version: evil + "\n1",
			Reason: "<html>\r\n" + evil + "</html>\tx"}}}})
	})
	if strings.Count(replicas, "\n") != 2 {
		t.Errorf("a replica in more than a line: %q", replicas)
	}
	for what, text := range map[string]string{
		"replicas": replicas,
		"a module": shown(func(w io.Writer) {
			printDetail(w, extensions.Info{Description: evil, ConfigSchema: json.RawMessage(`{"title":"` + "\u202e\u009b" + `"}`)})
		}),
		"a comparison": shown(func(w io.Writer) {
			printCompared(w, capture.Report{First: []capture.Difference{{Account: evil, Text: evil}}})
		}),
		"a model": inspected, "an error": failed.String(), "a build": developed.String(), "a log": logged.String(),
	} {
		for _, r := range text {
			if r < ' ' && r != '\n' && r != '\t' || unicode.IsControl(r) && r >= 0x7f || unicode.Is(unicode.Cf, r) {
				t.Errorf("%s has %U: %q", what, r, text)
				break
			}
		}
		if !strings.Contains(text, "a") {
			t.Errorf("%s says nothing", what)
		}
	}
}
