// Package store says what a node must not lose, accounts, keys and the ledger,
// and what every place that keeps it promises. Package sqlite keeps it in the data
// folder of one node; package postgres in a database that many nodes share. Package rules
// has what both decide alike, and package storetest the tests that both pass. The spill
// journal and the lock of the data folder are here: a node has both, wherever its rows are.
//
// The ledger is append-only. The balance of an account is the sum of its rows. That sum,
// the open holds, the sums of usage and of counters are kept in tables of their own,
// changed in the transaction that adds the rows, so that reading them scans no ledger.
package store

import (
	"context"
	"errors"
	"time"

	"corenode/actors/account"
	"corenode/wasm/abi"
)

var (
	// ErrLocked means that another process, usually a running node, owns the data folder.
	ErrLocked = errors.New("the data folder is in use by another process")
	// ErrNewerSchema means that the database was written by a newer binary.
	ErrNewerSchema = errors.New("the database is newer than this binary")
	// ErrNotFound means that no account, key or row has that id or name.
	ErrNotFound = errors.New("not found")
	// ErrNameTaken means that an account of that name exists.
	ErrNameTaken = errors.New("the account name is taken")
	// ErrInvalid means that a value cannot be stored; the message names it.
	ErrInvalid = errors.New("invalid value")
	// ErrNoRoom means that there is too little room for a copy, or for what is written while a proof or a copy reads.
	ErrNoRoom = errors.New("there is too little room")
	// ErrClosed means that the store was used after Close.
	ErrClosed = errors.New("the store is closed")
	// ErrIdempotencyMismatch means that an idempotency key was used before for something else.
	ErrIdempotencyMismatch = errors.New("the idempotency key was used for another top-up")
)

// Rejects says whether an error is about what was to be stored, and not about
// the store: asking again will not help.
func Rejects(err error) bool { return errors.Is(err, ErrInvalid) || errors.Is(err, ErrNotFound) }

// Store keeps accounts, keys and the ledger. Every change is one transaction and durable
// when the call returns. All methods are safe for concurrent use.
type Store interface {
	Accounts
	Keys
	Ledger

	// Secret returns 32 random bytes that stay the same for the life of the store.
	// They are made at the first call for a name.
	Secret(name string) ([]byte, error)
	// KeptPrices are those that KeepPrices was given last, by model; none when it never was.
	KeptPrices() (map[string]abi.Prices, error)
	// KeepPrices keeps the prices at which the holds from now on are made.
	KeepPrices(map[string]abi.Prices) error
	// DefaultMade says whether there is, or ever was, the account that a first start makes.
	DefaultMade() (bool, error)
	// MakeDefault makes that account with its key, once in the life of the store. made is
	// false when another did it before.
	MakeDefault(First) (made bool, err error)
	// Audit adds a row. Its ID and time are given here. It does not wait long for a database that does not answer.
	Audit(AuditRow) error
	// Audited returns a page of the audit, newest first: of an operator unless that is empty,
	// with an ID below before unless that is 0.
	Audited(operator string, before int64, limit int) ([]AuditRow, error)
	// Verify proves the ledger. It reads one consistent state beside running nodes and
	// holds up nobody. Where what they write meanwhile takes too much room it ends with ErrNoRoom.
	Verify() (Verification, error)
	// VerifyWithin is Verify that ends, with an error, when ctx does.
	VerifyWithin(ctx context.Context) (Verification, error)
	// Backup writes a consistent copy to a new file, where the store can, and the modules of
	// the data folder beside it. missing are the modules that rows name and that have no file.
	Backup(path string) (missing []string, err error)
	// Close waits for the changes that run. Reads that run may give ErrClosed, as later calls do. It is safe to call twice.
	Close() error
}

// Accounts are who is limited and billed.
type Accounts interface {
	// CreateAccount stores a new account with a fresh ID and creation time; an
	// initial balance other than 0 becomes a top-up row in the same transaction.
	CreateAccount(a account.Account, initial abi.Nano) (account.Account, error)
	// UpdateAccount changes the account with that ID and returns it as it is then. edit gets it as it is when
	// nobody else can change it, and may change everything but its ID and creation time. It must not call
	// the store, and may be called again.
	UpdateAccount(id string, edit func(*account.Account)) (account.Account, error)
	// Holders returns a page of the accounts by name: those whose name is above
	// after, which is the last one of the page before. limit is 1 to HoldersMax.
	Holders(after string, limit int) ([]Holder, error)
	// Account finds an account by its ID or its name, or gives ErrNotFound.
	Account(idOrName string) (account.Account, error)
	// TopUp adds money to an account, or takes it for a negative amount, and
	// returns the new balance. The same idempotency key (empty = none) with the
	// same account and amount does it once; with others it is ErrIdempotencyMismatch.
	TopUp(accountID string, amount abi.Nano, note, idempotencyKey string) (abi.Nano, error)
	// Balance returns the sum of the account's rows and what its open holds reserve.
	Balance(accountID string) (balance, held abi.Nano, err error)
	// Counters returns what an account used of counters and what its open holds have of
	// them, in the periods from account.OldestPeriod on, the latest last.
	Counters(accountID string) ([]account.CounterUse, error)
}

// Keys are secrets that act for accounts; only their hashes are kept.
type Keys interface {
	// CreateKey makes a key that acts for an account within limits until expires (zero =
	// for ever) and returns its secret, which is stored nowhere.
	CreateKey(accountID string, limits account.KeyLimits, expires time.Time) (account.Key, string, error)
	// UpdateKey changes the limits of a key and returns it as it is then. edit is as that of UpdateAccount.
	UpdateKey(id string, edit func(*account.KeyLimits)) (account.Key, error)
	// Key finds a key by its ID, or gives ErrNotFound.
	Key(id string) (account.Key, error)
	// KeysCharged returns what was charged to each key of an account that has a budget, in the
	// calendar month of a time, UTC.
	KeysCharged(accountID string, at time.Time) ([]account.KeyUse, error)
	// Keys returns the keys of an account, oldest first; of all accounts for "".
	Keys(accountID string) ([]account.Key, error)
	// RevokeKey ends a key now and returns it. Revoking it again changes nothing.
	RevokeKey(id string) (account.Key, error)
	// TouchKeys records when keys were last used. It is coarse: call it every
	// minute or so with what was seen, some hundred keys at a time: it is one
	// transaction, and ledger rows may wait for it. Keys that do not exist are skipped,
	// and a time never moves back.
	TouchKeys(used map[string]time.Time) error
	// Scan visits all accounts and then all keys that are not revoked, of one
	// moment, for the index that authenticates requests without the store. Others
	// who read may wait for it, and what it visits must not call the store.
	Scan(visitAccount func(account.Account) error, visitKey func(account.Key) error) error
	// AccountKeys returns an account and all its keys, of one moment, or ErrNotFound.
	AccountKeys(id string) (account.Account, []account.Key, error)
}

// Ledger is what requests and operators did to money.
type Ledger interface {
	// Append adds ledger rows in one durable transaction: all of them or, with an
	// error, none. It sets the ID of each entry.
	//
	// A second hold or a second settlement of a request changes nothing and gets
	// the ID of the first, so a batch whose outcome is unknown can be appended
	// again. A settlement closes the open hold of its request; one without a hold
	// is charged all the same, because money that was spent must not be lost. A
	// checkpoint or a hold of a settled request is kept and means nothing.
	//
	// A refund gets its amount here: what its settlement and a re-rating charged
	// together. A second one changes nothing and gets the ID of the first.
	//
	// An entry of an unknown account is ErrNotFound. One that breaks a rule of its kind (a
	// settlement that credits, usage below zero) or that does not fit the balance is
	// ErrInvalid.
	Append([]account.Entry) error
	// OpenHolds returns the hold rows that have no settlement yet, oldest first.
	// Usage is that of the last checkpoint of each, zero when there is none.
	OpenHolds() ([]account.Entry, error)
	// AccountHolds returns those of an account.
	AccountHolds(accountID string) ([]account.Entry, error)
	// OwnHolds returns those of this node's requests.
	OwnHolds() ([]account.Entry, error)
	// Entries returns one page of ledger rows. Who reads page behind page misses none.
	Entries(Query) ([]account.Entry, error)
	// Entry finds a row by its id.
	Entry(id int64) (account.Entry, error)
	// Statement returns a page of rows. next is After of the page behind it, 0 when there is
	// none: a page may have few rows, or none, and still not be the last.
	Statement(StatementQuery) (page []account.Entry, next int64, err error)
	// Request returns the rows of a request that are found by it: its hold, its settlement,
	// and the adjustments of that.
	Request(id string) ([]account.Entry, error)
	// Usage returns a page of sums in the order of day, model and key.
	Usage(UsageQuery) ([]UsageSum, error)
	// Settlement finds a charge by the id of its row or of its request.
	Settlement(ref string) (account.Entry, error)
	// Provisional returns settlements that were charged provisionally and have neither
	// a re-rating nor a refund yet, oldest first, with an id above after, at most EntriesMax. In a cluster one may have been
	// corrected by its node since: then it is the row of that adjustment, with all that is charged for the request.
	Provisional(after int64) ([]account.Entry, error)
	// Adjust appends a re-rating of the row that Settles names, one of Provisional, unless its settlement has another
	// adjustment: a charge is rated again once, however often that is asked for. done says whether it did.
	Adjust(account.Entry) (done bool, err error)
	// Refund takes back all that a settlement charged, and returns the row. done is
	// false when that was done before: then it is the row of that time.
	Refund(settlement account.Entry, note string) (e account.Entry, done bool, err error)
}
