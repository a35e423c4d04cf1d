package embedded_test

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"corenode/engine/template"
	"corenode/engine/tokenizer"
)

// vocabulary is the file that the trainer's own tokenizer reads.
type vocabulary struct {
	Pre     string   `json:"pre"`
	EOS     int32    `json:"eos_token_id"`
	Padding int32    `json:"padding_token_id"`
	Tokens  []string `json:"tokens"`
	Types   []int32  `json:"types"`
	Merges  []string `json:"merges"`
}

// recorded is what the trainer's Python made of conversations and of texts (train/record.py).
type recorded struct {
	Prompts []struct {
		Messages []struct {
			Role      string  `json:"role"`
			Content   string  `json:"content"`
			Reasoning *string `json:"reasoning_content"`
			Calls     []struct {
				Function struct {
					Name      string          `json:"name"`
					Arguments json.RawMessage `json:"arguments"`
				} `json:"function"`
			} `json:"tool_calls"`
		} `json:"messages"`
		Tools    []json.RawMessage `json:"tools"`
		Schema   json.RawMessage   `json:"schema"`
		Thinking bool              `json:"thinking"`
		Prompt   string            `json:"prompt"`
		IDs      []int32           `json:"ids"`
	} `json:"prompts"`
	Texts []struct {
		Text string  `json:"text"`
		IDs  []int32 `json:"ids"`
	} `json:"texts"`
}

func readJSON(t *testing.T, path string, to any) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, to); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

func trained(t *testing.T) (*tokenizer.Tokenizer, recorded) {
	t.Helper()
	var v vocabulary
	readJSON(t, "train/tokenizer.json", &v)
	tok, err := tokenizer.New(tokenizer.Vocab{
		Pre: v.Pre, Tokens: v.Tokens, Types: v.Types, Merges: v.Merges, BOS: -1, EOS: v.EOS, EOT: -1, Pad: v.Padding})
	if err != nil {
		t.Fatal(err)
	}
	var r recorded
	readJSON(t, "train/tests/testdata/prompts.json", &r)
	if len(r.Prompts) == 0 || len(r.Texts) == 0 {
		t.Fatal("nothing was recorded")
	}
	return tok, r
}

// What the models were trained on is what the engine renders and tokenizes.
func TestTrainedPromptsAreTheEngines(t *testing.T) {
	tok, r := trained(t)
	tmpl, err := template.New(template.Builtin)
	if err != nil {
		t.Fatal(err)
	}
	schemas := 0
	for i, p := range r.Prompts {
		in := template.Input{Tools: p.Tools, GenerationPrompt: true, Thinking: p.Thinking}
		if string(p.Schema) != "null" {
			in.ResponseSchema, schemas = p.Schema, schemas+1
		}
		for _, m := range p.Messages {
			to := template.Message{Role: m.Role, Content: m.Content}
			if m.Reasoning != nil {
				to.Reasoning, to.HasReasoning = *m.Reasoning, true
			}
			for _, c := range m.Calls {
				to.ToolCalls = append(to.ToolCalls, template.ToolCall{Name: c.Function.Name, Arguments: c.Function.Arguments})
			}
			in.Messages = append(in.Messages, to)
		}
		text, err := tmpl.Render(in)
		if err != nil {
			t.Fatalf("prompt %d: %v", i, err)
		}
		if text != p.Prompt {
			t.Errorf("prompt %d is\n%s\nwant\n%s", i, text, p.Prompt)
		}
		if ids := tok.EncodePrompt(nil, text); !slices.Equal(ids, p.IDs) {
			t.Errorf("prompt %d has ids\n%v\nwant\n%v", i, ids, p.IDs)
		}
	}
	if schemas == 0 {
		t.Error("no prompt has the schema of an answer")
	}
}

func TestTrainedVocabularyGivesTheSameIDs(t *testing.T) {
	tok, r := trained(t)
	for _, c := range r.Texts {
		if ids := tok.Encode(nil, c.Text); !slices.Equal(ids, c.IDs) {
			t.Errorf("%q has ids %v, want %v", c.Text, ids, c.IDs)
		}
	}
	end, ok := tok.ID("<|im_end|>")
	if !ok || !slices.Contains(tok.Stops(), end) {
		t.Errorf("<|im_end|> (%d, %v) is none of the stops %v", end, ok, tok.Stops())
	}
	if open := tok.Unreachable(); len(open) != 0 {
		t.Errorf("tokens %v are unused", open)
	}
}
