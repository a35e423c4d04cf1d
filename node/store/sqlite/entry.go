package sqlite

import (
	"fmt"
	"strings"

	"corenode/actors/account"
	"corenode/node/store/rules"
	"corenode/wasm/abi"
)

// column binds one field of an entry to a parameter.
type column struct {
	name string
	bind func(s *statement, i int, e *account.Entry)
}

// entryKind is how one kind of entry is stored. Columns that a kind does not
// use take their default, so that a hold costs 8 binds and not 20.
type entryKind struct {
	columns []column
	once    bool // at most one per request
	insert  string
}

func text(name string, field func(*account.Entry) string) column {
	return column{name, func(s *statement, i int, e *account.Entry) { s.text(i, field(e)) }}
}

func num(name string, field func(*account.Entry) int64) column {
	return column{name, func(s *statement, i int, e *account.Entry) { s.num(i, field(e)) }}
}

func blob(name string, field func(*account.Entry) []byte) column {
	return column{name, func(s *statement, i int, e *account.Entry) { s.blob(i, field(e)) }}
}

var (
	accountID = text("account_id", func(e *account.Entry) string { return e.AccountID })
	requestID = text("request_id", func(e *account.Entry) string { return e.RequestID })
	keyID     = text("key_id", func(e *account.Entry) string { return e.KeyID })
	modelID   = text("model", func(e *account.Entry) string { return e.Model })
	written   = num("time", func(e *account.Entry) int64 { return rules.FromTime(e.Time) })
	amount    = num("amount", func(e *account.Entry) int64 { return int64(e.Amount) })
	held      = num("held", func(e *account.Entry) int64 { return int64(e.Held) })
	settles   = num("settles", func(e *account.Entry) int64 { return e.Settles })
	refund    = num("refund", func(e *account.Entry) int64 { return fromBool(e.Refund) })
	note      = text("note", func(e *account.Entry) string { return e.Note })

	module      = text("module_digest", func(e *account.Entry) string { return e.ModuleDigest })
	provisional = num("provisional", func(e *account.Entry) int64 { return fromBool(e.Provisional) })

	request = []column{accountID, requestID, keyID, modelID, written}
	usage   = []column{
		num("input_uncached", func(e *account.Entry) int64 { return e.Usage.InputUncached }),
		num("cache_read", func(e *account.Entry) int64 { return e.Usage.CacheRead }),
		num("cache_write", func(e *account.Entry) int64 { return e.Usage.CacheWrite }),
		num("output", func(e *account.Entry) int64 { return e.Usage.Output }),
		num("reasoning", func(e *account.Entry) int64 { return e.Usage.Reasoning }),
	}
	rating = []column{
		amount,
		num("tier", func(e *account.Entry) int64 { return int64(e.Tier) }),
		module,
		blob("charge_input", func(e *account.Entry) []byte { return e.ChargeInput }),
		text("input_hash", func(e *account.Entry) string { return e.InputHash }),
		provisional,
		text("reason", func(e *account.Entry) string { return string(e.Reason) }),
	}
)

// source is stored only of what was answered elsewhere: most rows are spared its binds.
var source = []column{
	text("replica", func(e *account.Entry) string { return e.Source.Replica }),
	text("upstream_request_id", func(e *account.Entry) string { return e.Source.RequestID }),
	text("usage_source", func(e *account.Entry) string { return e.Source.Usage }),
}

// settledElsewhere is a settlement with its source.
var settledElsewhere = storedAs(account.Settlement, true, request, usage, rating, []column{note}, source)

// kindOf is how an entry is stored.
func kindOf(e *account.Entry) entryKind {
	if e.Kind == account.Settlement && e.Source != (account.Source{}) {
		return settledElsewhere
	}
	return entryKinds[e.Kind]
}

// entryKinds is every kind there is.
var entryKinds = map[account.EntryKind]entryKind{
	account.TopUp:      storedAs(account.TopUp, false, []column{accountID, written, amount, note}),
	account.Hold:       storedAs(account.Hold, true, request, []column{held, module, provisional}),
	account.Checkpoint: storedAs(account.Checkpoint, false, request, usage),
	account.Settlement: storedAs(account.Settlement, true, request, usage, rating, []column{note}),
	account.Adjustment: storedAs(account.Adjustment, false, request, usage, rating, []column{settles, refund, note}),
}

func storedAs(kind account.EntryKind, once bool, groups ...[]column) entryKind {
	k := entryKind{once: once}
	var names []string
	for _, group := range groups {
		for _, column := range group {
			k.columns = append(k.columns, column)
			names = append(names, column.name)
		}
	}
	k.insert = fmt.Sprintf(`INSERT INTO ledger (kind, %s) VALUES ('%s'%s)`,
		strings.Join(names, ", "), kind, strings.Repeat(", ?", len(names)))
	if once {
		k.insert += ` ON CONFLICT DO NOTHING`
	}
	return k
}

// entryColumns are what scanEntry reads, in its order.
const entryColumns = `id, kind, account_id, request_id, key_id, model, time, amount, held, input_uncached, cache_read,
	cache_write, output, reasoning, tier, reason, module_digest, input_hash, provisional, settles, refund, note, charge_input,
	replica, upstream_request_id, usage_source`

func scanEntry(r row) account.Entry {
	return account.Entry{
		ID: r.num(0), Kind: account.EntryKind(r.text(1)), AccountID: r.text(2), RequestID: r.text(3),
		KeyID: r.text(4), Model: r.text(5), Time: r.time(6), Amount: abi.Nano(r.num(7)), Held: abi.Nano(r.num(8)),
		Usage: abi.Usage{InputUncached: r.num(9), CacheRead: r.num(10), CacheWrite: r.num(11),
			Output: r.num(12), Reasoning: r.num(13)},
		Tier: int(r.num(14)), Reason: account.Reason(r.text(15)), ModuleDigest: r.text(16), InputHash: r.text(17),
		Provisional: r.flag(18), Settles: r.num(19), Refund: r.flag(20), Note: r.text(21), ChargeInput: r.blob(22),
		Source: account.Source{Replica: r.text(23), RequestID: r.text(24), Usage: r.text(25)},
	}
}
