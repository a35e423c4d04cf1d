package engine

import (
	"encoding/hex"
	"testing"

	"corenode/engine/messages"
)

// TestConversationStaysTheSame: nodes of two versions that share a store know a conversation by one hash.
func TestConversationStaysTheSame(t *testing.T) {
	const body = `{"model":"m","max_tokens":1,"system":"Be brief.","messages":[{"role":"user","content":"Hello."},{"role":"assistant","content":"Hi."},
		{"role":"user","content":"More."}],"tools":[{"name":"a","description":"does","input_schema":{"type":"object"}},{"name":"b","input_schema":{"type":"object"}}]}`
	q, err := messages.Parse([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	hash := Conversation(q)
	if got, want := hex.EncodeToString(hash[:]), "9d53ba2eb2105131dbdbed2a9580d73d3a6bca4aa156ed2f543abfe12c97228d"; got != want {
		t.Errorf("the hash is %s, want %s", got, want)
	}
}
