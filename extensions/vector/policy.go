package vector

import (
	"fmt"

	"corenode/wasm/abi"
)

type rewrite struct {
	Body     content `json:"body"`
	Counting bool    `json:"counting"`
	At       *int64  `json:"at"`
	Account  *string `json:"account"`
	Key      string  `json:"key"`
	Protocol *string `json:"protocol"`
}

func (w *rewrite) abi() abi.RewriteInput {
	return abi.RewriteInput{At: or(w.At, defaultTime), Counting: w.Counting, Account: or(w.Account, defaultAccount), Key: w.Key,
		Protocol: or(w.Protocol, "messages"), Body: w.Body}
}

type filter struct {
	Block string `json:"block"`
	Text  string `json:"text"`
}

// filter runs a block's text through the module in each way in which it may be cut. The end of
// the block comes alone, and of what never served also with the last piece, as an answer has it that is no stream.
func (r *runner) filter(see func(how string, got *want) error) error {
	text := r.v.spec.Filter.Text
	if b := r.v.spec.Filter.Block; !r.served && b != "" && b != "text" && b != "thinking" {
		return fmt.Errorf("filter.block is %q, want text or thinking", b)
	}
	var runes []string
	for _, c := range text {
		runes = append(runes, string(c))
	}
	try := func(how string, last bool, pieces ...string) error {
		got, err := r.filtered(pieces, last)
		if err != nil {
			return fmt.Errorf("%s%w", how, err)
		}
		return see(how, got)
	}
	ends := []bool{false, true}
	if r.served {
		ends = ends[:1]
	}
	for _, last := range ends {
		how := ""
		if last {
			how = "with last: "
		}
		if err := try(how, last, text); err != nil {
			return err
		}
		if err := try("character by character: "+how, last, runes...); err != nil {
			return err
		}
		for i := range text { // between two characters
			if err := try(fmt.Sprintf("cut at byte %d: %s", i, how), last, text[:i], text[i:]); err != nil {
				return err
			}
		}
	}
	return nil
}

// filtered gives the pieces and says that the block ends, as the host does: after them, or with the last of them.
func (r *runner) filtered(pieces []string, last bool) (*want, error) {
	in := abi.FilterInput{Facts: r.v.facts(), Block: abi.BlockText}
	if r.v.spec.Filter.Block == "thinking" {
		in.Block = abi.BlockThinking
	}
	if !last || len(pieces) == 0 {
		pieces = append(pieces[:len(pieces):len(pieces)], "")
	}
	all := ""
	for i, piece := range pieces {
		in.Last, in.Text = i == len(pieces)-1, piece
		out, err := r.output(abi.OpFilter, in.Append(nil))
		if err != nil {
			return nil, err
		}
		if out.Status != abi.StatusOK {
			return refused(abi.OpFilter, out)
		}
		f, err := abi.ParseFiltered(out.Payload)
		if err != nil {
			return nil, fmt.Errorf("op filter: %w", err)
		}
		in.State = append([]byte(nil), f.State...)
		all += string(f.Text)
	}
	if len(in.State) > 0 {
		return nil, fmt.Errorf("op filter: the block has ended, and %d bytes are held back", len(in.State))
	}
	return &want{Text: &all}, nil
}
