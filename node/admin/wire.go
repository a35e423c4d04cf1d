package admin

import (
	"errors"
	"fmt"
	"math"
	"time"

	"corenode/actors/account"
	"corenode/node/store"
	"corenode/wasm/abi"
	"corenode/wasm/builtin"
)

// Account is an account as the API shows it.
type Account struct {
	account.Account
	BalanceNanoUSD abi.Nano             `json:"balance_nano_usd" doc:"Nano-dollars."`
	HeldNanoUSD    abi.Nano             `json:"held_nano_usd" doc:"Nano-dollars reserved by requests that run."`
	BalanceUSD     string               `json:"balance_usd"`
	HeldUSD        string               `json:"held_usd"`
	Counters       []account.CounterUse `json:"counters,omitempty" doc:"Counters of the billing module, of this month and the one before. In lists there are none."`
	UnawareNodes   []string             `json:"unaware_nodes,omitempty" doc:"Nodes that did not say in time that they know that the account was disabled; absent when all do."`
}

// CreatedAccount is a new account with its first key, shown this once.
type CreatedAccount struct {
	Account
	KeyID string `json:"key_id"`
	Key   string `json:"key" doc:"The secret, shown this once."`
}

// Amount is money that a caller sends: an integer of nano-dollars or a text in
// dollars, exact, not both. One that is sent has one of them.
type Amount struct {
	NanoUSD *abi.Nano `json:"nano_usd,omitempty"`
	USD     string    `json:"usd,omitempty" doc:"Dollars such as \"12.50\", at most nine decimals."`
}

// NewAccount asks for an account. Zero limits are none.
type NewAccount struct {
	Name            string   `json:"name" doc:"1 to 64 letters, digits or . _ @ -, unique."`
	Balance         Amount   `json:"balance,omitzero"`
	Concurrency     int      `json:"concurrency,omitempty"`
	TokensPerMinute int64    `json:"tokens_per_minute,omitempty"`
	Models          []string `json:"models,omitempty"`
	Unlimited       bool     `json:"unlimited,omitempty"`
}

// AccountChange sets what is not nil.
type AccountChange struct {
	Name            *string   `json:"name,omitempty"`
	Concurrency     *int      `json:"concurrency,omitempty"`
	TokensPerMinute *int64    `json:"tokens_per_minute,omitempty"`
	Models          *[]string `json:"models,omitempty"` // empty list = all
	Unlimited       *bool     `json:"unlimited,omitempty"`
	Disabled        *bool     `json:"disabled,omitempty"`
}

// TopUp adds money. A repeated call with the same IdempotencyKey adds it once.
type TopUp struct {
	Amount         Amount `json:"amount"`
	Note           string `json:"note,omitempty"`
	IdempotencyKey string `json:"idempotency_key,omitempty"`
}

// NewKey asks for a key; a zero Expires is never, and zero limits are none.
type NewKey struct {
	Expires         time.Time `json:"expires,omitzero" doc:"Absent = never."`
	Models          []string  `json:"models,omitempty" doc:"Ids it may use, of those of its account; none = all of them."`
	TokensPerMinute int64     `json:"tokens_per_minute,omitempty" doc:"0 = no limit beside the account's."`
	Budget          Amount    `json:"budget,omitzero" doc:"Most that it is charged in a calendar month, UTC; 0 = no limit."`
}

// KeyChange sets what is not nil.
type KeyChange struct {
	Models          *[]string `json:"models,omitempty" doc:"An empty list = all of its account."`
	TokensPerMinute *int64    `json:"tokens_per_minute,omitempty" doc:"0 = no limit beside the account's."`
	Budget          *Amount   `json:"budget,omitempty" doc:"A calendar month, UTC; 0 = no limit."`
}

// Key is a key as the API shows it. Its secret is there in the answer that creates it only.
type Key struct {
	account.Key
	BudgetUSD      string    `json:"budget_usd"`
	ChargedNanoUSD *abi.Nano `json:"charged_nano_usd,omitempty" doc:"Charged to it this month, UTC, less what was given back; absent where it has no budget."`
	ChargedUSD     string    `json:"charged_usd,omitempty" doc:"The same in dollars."`
	Secret         string    `json:"key,omitempty" doc:"The secret; only in the answer that creates it."`
	UnawareNodes   []string  `json:"unaware_nodes,omitempty" doc:"Nodes that did not say in time that they know of the revocation; absent when all do."`
}

// Entry is one row of the ledger.
type Entry struct {
	ID            int64             `json:"id"`
	Kind          account.EntryKind `json:"kind" enum:"topup,hold,checkpoint,settlement,adjustment"`
	AccountID     string            `json:"account_id"`
	RequestID     string            `json:"request_id,omitempty"`
	KeyID         string            `json:"key_id,omitempty"`
	Model         string            `json:"model,omitempty"`
	Time          time.Time         `json:"time"`
	AmountNanoUSD abi.Nano          `json:"amount_nano_usd" doc:"What it adds to the balance."`
	AmountUSD     string            `json:"amount_usd"`
	HeldNanoUSD   abi.Nano          `json:"held_nano_usd,omitempty" doc:"The money that a hold reserves."`
	Counters      []abi.Counter     `json:"counters,omitempty" doc:"What a hold has of counters, a settlement took, or an adjustment gives back."`
	Usage         *Usage            `json:"usage,omitempty"`
	Tier          int               `json:"tier,omitempty" doc:"1, or 2 above 200,000 tokens of context."`
	Reason        account.Reason    `json:"reason,omitempty" enum:"finished,cancelled,crashed,error"`
	ModuleDigest  string            `json:"module_digest,omitempty" doc:"The billing module."`
	InputHash     string            `json:"input_hash,omitempty" doc:"SHA-256 of the module's input."`
	Provisional   bool              `json:"provisional,omitempty" doc:"Charged by the built-in tariff in place of a module that failed."`
	Settles       int64             `json:"settles,omitempty" doc:"The settlement that an adjustment changes."`
	Refund        bool              `json:"refund,omitempty" doc:"The adjustment takes back all that was charged; otherwise it is a re-rating."`
	Note          string            `json:"note,omitempty"`
	// Where a server elsewhere answered: see account.Source.
	Replica           string `json:"replica,omitempty" doc:"The base URL of the server elsewhere that answered."`
	UpstreamRequestID string `json:"upstream_request_id,omitempty" doc:"What that server calls the request."`
	UsageSource       string `json:"usage_source,omitempty" doc:"Who counted the tokens of an answer from elsewhere: that server, or the node. A prompt that the node counts exactly is its own count also with reported." enum:"reported,counted"`
	ChargeInput       []byte `json:"charge_input,omitempty" doc:"With inputs=true: the record that the charge was computed from."`
}

// Refund asks for a charge to be taken back.
type Refund struct {
	Note string `json:"note,omitempty" doc:"Why, for the ledger."`
}

// Refunded is the row that takes a charge back.
type Refunded struct {
	Entry Entry `json:"entry"`
	Done  bool  `json:"done" doc:"False when it was refunded before."`
}

// Usage is the token counts of an entry.
type Usage struct {
	InputUncached int64 `json:"input_uncached"`
	CacheRead     int64 `json:"cache_read"`
	CacheWrite    int64 `json:"cache_write"`
	Output        int64 `json:"output"`
	Reasoning     int64 `json:"reasoning"`
}

// Backup names the file that a copy of the database goes to.
type Backup struct {
	Path string `json:"path" doc:"Absolute, on the node's machine; it must not exist."`
}

// BackedUp is a backup that was made.
type BackedUp struct {
	Path           string   `json:"path"`
	ModulesMissing []string `json:"modules_missing" doc:"Digests that charges name and of which the node has no file, and of files with other bytes, which are left out."`
}

// Status says what the node is doing.
type Status struct {
	Draining bool `json:"draining"`
}

// list is how the API wraps several of a thing.
type list[T any] struct {
	Data []T `json:"data"`
}

// listOf shows several of a thing.
func listOf[S, T any](all []S, show func(S) T) list[T] {
	shown := list[T]{Data: make([]T, len(all))}
	for i, one := range all {
		shown.Data[i] = show(one)
	}
	return shown
}

// said refuses an amount that was sent and says none: it would be 0, which is no limit of a budget.
func (a Amount) said(field string) error {
	if a == (Amount{}) {
		return fmt.Errorf("%s is empty, want nano_usd or usd", field)
	}
	return nil
}

// nano gives the amount that was sent; none is 0.
func (a Amount) nano(field string) (abi.Nano, error) {
	switch {
	case a.NanoUSD != nil && a.USD != "":
		return 0, invalid(fmt.Errorf("%s has both nano_usd and usd, want one", field))
	case a.NanoUSD != nil:
		return *a.NanoUSD, nil
	case a.USD == "":
		return 0, nil
	}
	amount, err := builtin.ParseUSD(a.USD)
	if errors.Is(err, builtin.ErrOverflow) {
		return 0, invalid(fmt.Errorf("%s.usd is %q, which is too large: want at most %s dollars", field, a.USD,
			builtin.FormatUSD(math.MaxInt64)))
	}
	if err != nil {
		return 0, invalid(fmt.Errorf("%s.usd is %q, want dollars such as \"12.50\" with at most nine decimals", field, a.USD))
	}
	return amount, nil
}

func showAccount(a account.Account, money store.Money) Account {
	a.Models = append([]string{}, a.Models...) // in JSON none is a list too
	return Account{Account: a, BalanceNanoUSD: money.Balance, HeldNanoUSD: money.Held,
		BalanceUSD: builtin.FormatUSD(money.Balance), HeldUSD: builtin.FormatUSD(money.Held)}
}

// showKey shows a key, and of one with a budget what it was charged, of what those of its account were.
func showKey(k account.Key, charged []account.KeyUse) Key {
	k.Models = append([]string{}, k.Models...) // as of an account
	shown := Key{Key: k, BudgetUSD: builtin.FormatUSD(k.Budget)}
	if k.Budget == 0 {
		return shown
	}
	shown.ChargedNanoUSD = new(abi.Nano)
	for _, use := range charged {
		if use.KeyID == k.ID {
			*shown.ChargedNanoUSD = use.Charged
		}
	}
	shown.ChargedUSD = builtin.FormatUSD(*shown.ChargedNanoUSD)
	return shown
}

// showWithInput shows a row with what its charge was computed from.
func showWithInput(e account.Entry) Entry {
	shown := showEntry(e)
	shown.ChargeInput = e.ChargeInput
	return shown
}

func showEntry(e account.Entry) Entry {
	shown := Entry{
		ID: e.ID, Kind: e.Kind, AccountID: e.AccountID, HeldNanoUSD: e.Held, RequestID: e.RequestID, KeyID: e.KeyID,
		Model: e.Model, Time: e.Time, AmountNanoUSD: e.Amount, AmountUSD: builtin.FormatUSD(e.Amount), Tier: e.Tier, Reason: e.Reason,
		ModuleDigest: e.ModuleDigest, InputHash: e.InputHash, Provisional: e.Provisional, Settles: e.Settles, Refund: e.Refund,
		Counters: e.Counters, Note: e.Note, Replica: e.Source.Replica, UpstreamRequestID: e.Source.RequestID, UsageSource: e.Source.Usage,
	}
	if e.Kind != account.TopUp {
		u := Usage(e.Usage)
		shown.Usage = &u
	}
	return shown
}
