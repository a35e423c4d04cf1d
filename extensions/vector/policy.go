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

// filter runs a block's text through the module in each way in which it may be cut.
func (r *runner) filter(see func(how string, got *want) error) error {
	text := r.v.spec.Filter.Text
	var runes []string
	for _, c := range text {
		runes = append(runes, string(c))
	}
	try := func(how string, pieces ...string) error {
		got, err := r.filtered(pieces)
		if err != nil {
			return fmt.Errorf("%s%w", how, err)
		}
		return see(how, got)
	}
	if err := try("", text); err != nil {
		return err
	}
	if err := try("character by character: ", runes...); err != nil {
		return err
	}
	for i := range text { // between two characters
		if err := try(fmt.Sprintf("cut at byte %d: ", i), text[:i], text[i:]); err != nil {
			return err
		}
	}
	return nil
}

// filtered gives the pieces, and then says that the block ends, as the host does.
func (r *runner) filtered(pieces []string) (*want, error) {
	in := abi.FilterInput{Facts: r.v.facts(), Block: abi.BlockText}
	if r.v.spec.Filter.Block == "thinking" {
		in.Block = abi.BlockThinking
	}
	all := ""
	for i := range len(pieces) + 1 {
		in.Last, in.Text = i == len(pieces), ""
		if !in.Last {
			in.Text = pieces[i]
		}
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
