package admin

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"corenode/extensions"
	"corenode/extensions/capture"
	"corenode/extensions/compare"
	"corenode/node/operators"
	"corenode/node/store"
	"corenode/node/why"
)

// TokenName is the file of the data folder in which a running node leaves the token of its admin listener.
const TokenName = "admin.token"

// Its address and certificate are in these; all are readable by the owner only.
const (
	addressFile = store.AddressName
	// certificateFile is there where the listener speaks TLS: the certificates that it shows, in
	// PEM, which is all that a client of this machine trusts.
	certificateFile = "admin.cert"
)

// answerBytesMax bounds what a client reads of one answer: far more than a page of anything.
const answerBytesMax = 256 << 20

// ErrNoNode means that no node answers for a data folder.
var ErrNoNode = errors.New("no running node answers")

// Announce leaves the token and the address of the admin listener, as this machine reaches it,
// in the data folder. from is the file that has the token, "" of one that was made for this run:
// where that is the folder's own it stays as it is. withdraw removes what else is there when the
// node stops.
func Announce(dir, address, token, from string) (withdraw func(), err error) {
	// What an encrypted listener left that was killed; one that is encrypted announces its certificate itself.
	if err := os.Remove(filepath.Join(dir, certificateFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	tokenPath := filepath.Join(dir, TokenName)
	stays := sameFile(from, tokenPath)
	// The token first: whoever finds the address finds its token.
	if err := AnnounceToken(dir, token, from); err != nil {
		return nil, err
	}
	if err := store.WriteSecret(filepath.Join(dir, addressFile), Reachable(address)); err != nil {
		return nil, fmt.Errorf("write admin address: %w", err)
	}
	return func() {
		os.Remove(filepath.Join(dir, addressFile)) // left behind, they only say that no node answers
		if !stays {
			os.Remove(tokenPath)
		}
		os.Remove(filepath.Join(dir, certificateFile))
	}, nil
}

// AnnounceToken leaves the token alone, where from is not the folder's own file.
func AnnounceToken(dir, token, from string) error {
	path := filepath.Join(dir, TokenName)
	if sameFile(from, path) {
		return nil
	}
	if err := store.WriteSecret(path, token); err != nil {
		return fmt.Errorf("write admin token: %w", err)
	}
	return nil
}

// tokenMin is the least length of a token in a file: of fewer characters one is guessed.
const tokenMin = 20

// ReadToken reads the token of a file, which others may not read. Where there is no file it makes one.
func ReadToken(path string) (string, error) {
	text, err := store.ReadSecret(path)
	if errors.Is(err, os.ErrNotExist) {
		token := operators.NewToken()
		return token, store.WriteSecret(path, token)
	}
	token := strings.TrimSpace(text)
	if err == nil && (len(token) < tokenMin || strings.ContainsAny(token, " \t\r\n")) {
		err = fmt.Errorf("%s has to hold one token of at least %d characters", path, tokenMin)
	}
	return token, err
}

// sameFile says whether two paths lead to one file.
func sameFile(path, other string) bool {
	one, err := os.Stat(path)
	two, otherErr := os.Stat(other)
	return err == nil && otherErr == nil && os.SameFile(one, two)
}

// HasCertificate says whether a file is the one in which AnnounceCertificates leaves certificates,
// and which the node removes.
func HasCertificate(dir, path string) bool {
	return sameFile(path, filepath.Join(dir, certificateFile))
}

// AnnounceCertificates leaves the certificates that the admin listener shows or is about to, in DER.
func AnnounceCertificates(dir string, shown ...[]byte) error {
	var text strings.Builder
	for _, der := range shown {
		if err := pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: der}); err != nil {
			return err
		}
	}
	return store.WriteSecret(filepath.Join(dir, certificateFile), text.String())
}

// Reachable is an address that a client on this machine can dial, of one on
// which a listener listens: all addresses are none.
func Reachable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsUnspecified() {
		return address
	}
	return net.JoinHostPort("127.0.0.1", port) // a listener on all of IPv6 has those of IPv4 as well
}

// AnnounceAPI leaves the base URL of the node's API in the data folder, for who asks whether it is ready.
func AnnounceAPI(dir, base string) (withdraw func(), err error) {
	path := filepath.Join(dir, store.APIAddressName)
	if err := store.WriteSecret(path, base); err != nil {
		return nil, fmt.Errorf("write the address of the API: %w", err)
	}
	return func() { os.Remove(path) }, nil
}

// APIOf is the base URL of the API of the node that owns a data folder. ErrNoNode says that none does, or that it is of a
// release that leaves none.
func APIOf(dir string) (base string, err error) { return leftBy(dir, store.APIAddressName) }

// BaseOf is the base URL of the admin listener of the node that owns a data folder. ErrNoNode says that none left an address there,
// or that what it left is out of date.
func BaseOf(dir string) (base string, err error) {
	address, err := leftBy(dir, addressFile)
	if err != nil {
		return "", err
	}
	scheme, _, err := trust(dir)
	return scheme + "://" + address, err
}

// leftBy is what the node that owns a data folder left in a file there. Of a node that was killed others may have the port.
func leftBy(dir, name string) (text string, err error) {
	text, err = readLine(dir, name)
	if err != nil {
		return "", err
	}
	if held, err := store.Held(dir); err != nil || !held {
		return "", cmp.Or(err, fmt.Errorf("%w: the one at %s was killed", ErrNoNode, text))
	}
	return text, nil
}

// Client calls an API. What it sends has an escaped path.
type Client struct {
	send func(method, path string, query url.Values, body []byte) (status int, answer []byte, err error)
}

// Local makes a client that calls an API in this process.
func Local(api *API) *Client {
	return LocalFor(context.Background(), api, operators.From(context.Background()))
}

// LocalFor is Local for an operator, who leaves when ctx ends.
func LocalFor(ctx context.Context, api *API, who operators.Operator) *Client {
	ctx = operators.With(ctx, who)
	return &Client{send: func(method, path string, query url.Values, body []byte) (int, []byte, error) {
		status, _, answer := api.Handle(ctx, method, path, []byte(query.Encode()), body)
		return status, answer, nil
	}}
}

// Dial makes a client of the node that owns a data folder. ErrNoNode says that
// none left an address there, or that what it left is out of date: of a node that was
// killed others may have the port, and they get no token.
func Dial(dir string) (*Client, error) {
	address, err := leftBy(dir, addressFile)
	if err != nil {
		return nil, err
	}
	token, err := readLine(dir, TokenName)
	if err != nil {
		return nil, err
	}
	scheme, known, err := trust(dir)
	if err != nil {
		return nil, err
	}
	base := scheme + "://" + address
	if _, err := remote(base, token, known, answerTimeout).Status(); err != nil {
		return nil, fmt.Errorf("%w at %s: %w", ErrNoNode, address, err)
	}
	return remote(base, token, known, workTimeout), nil
}

// trust says how a folder's node is spoken to. With TLS it has to show a certificate that it left
// in the folder: whom that was made out to does not matter here.
func trust(dir string) (scheme string, known *tls.Config, err error) {
	text, err := os.ReadFile(filepath.Join(dir, certificateFile))
	if errors.Is(err, os.ErrNotExist) {
		return "http", nil, nil
	}
	var ours [][]byte
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		ours = append(ours, block.Bytes)
	}
	return "https", &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true, // what follows is stricter
		VerifyConnection: func(s tls.ConnectionState) error {
			if !slices.ContainsFunc(ours, func(der []byte) bool { return bytes.Equal(der, s.PeerCertificates[0].Raw) }) {
				return fmt.Errorf("the certificate is not the one in %s", certificateFile)
			}
			return nil
		}}, err
}

func readLine(dir, name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(dir, name))
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("%w: %w", ErrNoNode, err)
	}
	return strings.TrimSpace(string(text)), err
}

// answerTimeout is how long a node may take to say that it is there, workTimeout
// how long it may work: a module is compiled while a call waits.
const answerTimeout, workTimeout = 10 * time.Second, 10 * time.Minute

// Calls of these paths take as long as the ledger has rows: only a connection that is lost, which
// TCP finds out, ends one.
const verifyPath, backupPath, reratePath = Root + "/ledger/verify", Root + "/backup", Root + "/rerate"

func remote(base, token string, known *tls.Config, timeout time.Duration) *Client {
	// No proxy of the environment: the token goes to the node and to nobody else.
	h := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: known}}
	return &Client{send: func(method, path string, query url.Values, body []byte) (int, []byte, error) {
		ctx := context.Background()
		if path != verifyPath && path != backupPath && path != reratePath {
			within, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			ctx = within
		}
		request, err := http.NewRequestWithContext(ctx, method, base+path+"?"+query.Encode(), bytes.NewReader(body))
		if err != nil {
			return 0, nil, err
		}
		request.Header.Set("Authorization", "Bearer "+token)
		request.Header.Set("Content-Type", "application/json")
		response, err := h.Do(request)
		if err != nil {
			return 0, nil, err
		}
		defer response.Body.Close()
		answer, err := io.ReadAll(io.LimitReader(response.Body, answerBytesMax))
		return response.StatusCode, answer, err
	}}
}

// roundTrip sends in as JSON, or nothing when it is nil, and reads the answer into out.
func (c *Client) roundTrip(method, path string, query url.Values, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return err
		}
	}
	status, answer, err := c.send(method, path, query, body)
	if err != nil {
		return err
	}
	if status/100 == 2 {
		return json.Unmarshal(answer, out)
	}
	var failed ErrorBody
	if json.Unmarshal(answer, &failed) == nil && failed.Error != nil && failed.Error.Message != "" {
		if isOfAnother(failed.Error) && !strings.Contains(path+"/", "//") { // an empty name is the caller's
			return fmt.Errorf("%w: the running node is of another version than this command. After the program was replaced, "+
				"start the node again; until then use the program that it was started by", failed.Error)
		}
		return failed.Error
	}
	return fmt.Errorf("%s %s: status %d", method, path, status)
}

// isOfAnother says whether an error is that of a node which does not know the call. A client's calls are those of the API
// of its own version.
func isOfAnother(e *Error) bool {
	for _, unknown := range []string{unknownPath, unknownParameter, unknownField} {
		if strings.HasPrefix(e.Message, unknown) {
			return true
		}
	}
	return e.Kind == KindMethod
}

// Metrics are the node's series in the text format of Prometheus. Without a node there are none.
func (c *Client) Metrics() (string, error) {
	status, answer, err := c.send("GET", "/metrics", nil, nil)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("GET /metrics: status %d", status)
	}
	return string(answer), err
}

func accountPath(idOrName, rest string) string {
	return Root + "/accounts/" + url.PathEscape(idOrName) + rest
}

// Status asks what the node is doing.
func (c *Client) Status() (s Status, err error) {
	return s, c.roundTrip("GET", Root+"/status", nil, nil, &s)
}

// CreateAccount makes an account and its first key.
func (c *Client) CreateAccount(in NewAccount) (made CreatedAccount, err error) {
	return made, c.roundTrip("POST", Root+"/accounts", nil, in, &made)
}

// Accounts returns the accounts by name whose names come after one; at most limit of them.
func (c *Client) Accounts(after string, limit int) ([]Account, error) {
	var page list[Account]
	err := c.roundTrip("GET", Root+"/accounts", url.Values{"after": {after}, "limit": {strconv.Itoa(limit)}}, nil, &page)
	return page.Data, err
}

// AccountPages visits all accounts by name, a page at a time.
func (c *Client) AccountPages(visit func(page []Account) error) error {
	for after := ""; ; {
		page, err := c.Accounts(after, store.HoldersMax)
		if err != nil || len(page) == 0 {
			return err
		}
		if err := visit(page); err != nil || len(page) < store.HoldersMax {
			return err
		}
		after = page[len(page)-1].Name
	}
}

// Account shows one account.
func (c *Client) Account(idOrName string) (a Account, err error) {
	return a, c.roundTrip("GET", accountPath(idOrName, ""), nil, nil, &a)
}

// ChangeAccount sets some of an account and returns all of it.
func (c *Client) ChangeAccount(idOrName string, change AccountChange) (a Account, err error) {
	return a, c.roundTrip("PATCH", accountPath(idOrName, ""), nil, change, &a)
}

// TopUp adds money and returns the account.
func (c *Client) TopUp(idOrName string, in TopUp) (a Account, err error) {
	return a, c.roundTrip("POST", accountPath(idOrName, "/topups"), nil, in, &a)
}

// Ledger returns a page of all rows: those after an id (0 = from the first) and not
// older than since (zero = any).
func (c *Client) Ledger(since time.Time, after int64) ([]Entry, error) {
	query := url.Values{"after": {strconv.FormatInt(after, 10)}}
	if !since.IsZero() {
		query.Set("since", since.Format(time.RFC3339Nano))
	}
	var page list[Entry]
	err := c.roundTrip("GET", Root+"/ledger", query, nil, &page)
	return page.Data, err
}

// StatementPage returns a page of what moved money. query has the parameters of the verb.
func (c *Client) StatementPage(query url.Values) (page StatementPage, err error) {
	return page, c.roundTrip("GET", Root+"/statement", query, nil, &page)
}

// Statement visits the pages from one on.
func (c *Client) Statement(query url.Values, visit func(page []Entry) error) error {
	for {
		page, err := c.StatementPage(query)
		if err == nil {
			err = visit(page.Data)
		}
		if err != nil || page.Next == 0 {
			return err
		}
		query.Set("after", strconv.FormatInt(page.Next, 10))
	}
}

// Usage returns an account's sums. query has the parameters of the verb.
func (c *Client) Usage(idOrName string, query url.Values) (all []UsageSum, err error) {
	for all = []UsageSum{}; ; {
		var page UsagePage
		if err := c.roundTrip("GET", accountPath(idOrName, "/usage"), query, nil, &page); err != nil {
			return nil, err
		}
		if all = append(all, page.Data...); page.Next == "" {
			return all, nil
		}
		query.Set("after", page.Next)
	}
}

// Explain shows what a request cost and why. charge is the id of its row or its request.
func (c *Client) Explain(charge string) (e ExplainedCharge, err error) {
	return e, c.roundTrip("GET", Root+"/charges/"+url.PathEscape(charge), nil, nil, &e)
}

// Inputs is Explain with what each charge was computed from in place of its lines: the node runs no module.
func (c *Client) Inputs(charge string) (e ExplainedCharge, err error) {
	return e, c.roundTrip("GET", Root+"/charges/"+url.PathEscape(charge), url.Values{"inputs": {"true"}}, nil, &e)
}

// VerifyLedger proves the ledger.
func (c *Client) VerifyLedger() (v store.Verification, err error) {
	return v, c.roundTrip("POST", verifyPath, nil, nil, &v)
}

// Backup writes a copy of the database to a new file, and of the modules beside it.
func (c *Client) Backup(path string) (done BackedUp, err error) {
	return done, c.roundTrip("POST", backupPath, nil, Backup{path}, &done)
}

// Keys lists the keys of an account.
func (c *Client) Keys(idOrName string) ([]Key, error) {
	var all list[Key]
	err := c.roundTrip("GET", accountPath(idOrName, "/keys"), nil, nil, &all)
	return all.Data, err
}

// CreateKey makes a key; its secret is in the answer and nowhere else.
func (c *Client) CreateKey(idOrName string, in NewKey) (k Key, err error) {
	return k, c.roundTrip("POST", accountPath(idOrName, "/keys"), nil, in, &k)
}

// Key shows a key and what of its budget is spent this month.
func (c *Client) Key(id string) (k Key, err error) {
	return k, c.roundTrip("GET", keyPath(id), nil, nil, &k)
}

// ChangeKey changes limits of a key.
func (c *Client) ChangeKey(id string, change KeyChange) (k Key, err error) {
	return k, c.roundTrip("PATCH", keyPath(id), nil, change, &k)
}

func keyPath(id string) string { return Root + "/keys/" + url.PathEscape(id) }

// RevokeKey ends a key at once.
func (c *Client) RevokeKey(id string) (k Key, err error) {
	return k, c.roundTrip("POST", keyPath(id)+"/revoke", nil, nil, &k)
}

func modulePath(ref, verb string) string { return Root + "/modules/" + url.PathEscape(ref) + verb }

// Modules lists what the node has loaded, by slot.
func (c *Client) Modules() ([]extensions.Info, error) {
	var all list[extensions.Info]
	err := c.roundTrip("GET", Root+"/modules", nil, nil, &all)
	return all.Data, err
}

// Module shows one module.
func (c *Client) Module(ref string) (m extensions.Info, err error) {
	return m, c.roundTrip("GET", modulePath(ref, ""), nil, nil, &m)
}

// LoadModule checks and compiles a module; it serves nothing yet.
func (c *Client) LoadModule(in NewModule) (m extensions.Info, err error) {
	return m, c.roundTrip("POST", Root+"/modules", nil, in, &m)
}

// ActivateModule makes a module serve its slot.
func (c *Client) ActivateModule(ref string) (m extensions.Info, err error) {
	return m, c.roundTrip("POST", modulePath(ref, "/activate"), nil, nil, &m)
}

// EnableModule lets a module of the program serve that is off by default, by its name.
func (c *Client) EnableModule(name string) (m extensions.Info, err error) {
	return m, c.roundTrip("POST", modulePath(name, "/enable"), nil, nil, &m)
}

// DisableModule ends what EnableModule began.
func (c *Client) DisableModule(name string) (m extensions.Info, err error) {
	return m, c.roundTrip("POST", modulePath(name, "/disable"), nil, nil, &m)
}

// CanaryModule lets a module serve a percentage of the accounts.
func (c *Client) CanaryModule(ref string, percent int) (m extensions.Info, err error) {
	return m, c.roundTrip("POST", modulePath(ref, "/canary"), nil, Share{percent}, &m)
}

// ShadowModule runs a module beside the active one on a percentage of the calls.
func (c *Client) ShadowModule(ref string, percent int) (m extensions.Info, err error) {
	return m, c.roundTrip("POST", modulePath(ref, "/shadow"), nil, Share{percent}, &m)
}

// ShadowReport says how the answers of a shadow differ from those that clients got.
func (c *Client) ShadowReport(ref string) (r compare.Report, err error) {
	return r, c.roundTrip("GET", modulePath(ref, "/shadow"), nil, nil, &r)
}

// Rollback makes a slot's previous module serve again.
func (c *Client) Rollback(slot string) (m extensions.Info, err error) {
	return m, c.roundTrip("POST", Root+"/slots/"+url.PathEscape(slot)+"/rollback", nil, nil, &m)
}

// Capture begins to keep what a slot's requests ask, in the node's memory.
func (c *Client) Capture(slot string, in NewCapture) (s capture.Status, err error) {
	return s, c.roundTrip("POST", capturePath(slot), nil, in, &s)
}

// Captured says what is kept.
func (c *Client) Captured(slot string) (s capture.Status, err error) {
	return s, c.roundTrip("GET", capturePath(slot), nil, nil, &s)
}

// EndCapture forgets it.
func (c *Client) EndCapture(slot string) error {
	return c.roundTrip("DELETE", capturePath(slot), nil, nil, &struct{}{})
}

func capturePath(slot string) string { return Root + "/slots/" + url.PathEscape(slot) + "/capture" }

// CompareModule runs what is kept on a module and on an older one, which may be empty:
// what served before it, or serves now.
func (c *Client) CompareModule(ref, older string) (r capture.Report, err error) {
	return r, c.roundTrip("POST", modulePath(ref, "/compare"), nil, Older{older}, &r)
}

// RemoveModule forgets a module that serves nothing.
func (c *Client) RemoveModule(ref string) error {
	return c.roundTrip("DELETE", modulePath(ref, ""), nil, nil, &struct{}{})
}

// Replay computes a charge again. charge is the id of its row or its request.
func (c *Client) Replay(charge string) (r Replayed, err error) {
	return r, c.roundTrip("POST", Root+"/charges/"+url.PathEscape(charge)+"/replay", nil, nil, &r)
}

// Refund takes back all that a request was charged. charge is the id of its row or its request.
func (c *Client) Refund(charge, note string) (r Refunded, err error) {
	return r, c.roundTrip("POST", Root+"/charges/"+url.PathEscape(charge)+"/refund", nil, Refund{note}, &r)
}

// Requests lists those of this moment. query has the parameters of the verb.
func (c *Client) Requests(query url.Values) (page LivePage, err error) {
	return page, c.roundTrip("GET", Root+"/requests", query, nil, &page)
}

// PastRequests returns a page of requests that ended, newest first. query has the parameters of the verb.
func (c *Client) PastRequests(query url.Values) (page PastPage, err error) {
	return page, c.roundTrip("GET", Root+"/requests/past", query, nil, &page)
}

// CancelRequest ends a request.
func (c *Client) CancelRequest(id string) error {
	return c.roundTrip("POST", Root+"/requests/"+url.PathEscape(id)+"/cancel", nil, nil, &Canceled{})
}

// Why watches the node for some seconds and says what it is slow for.
func (c *Client) Why(seconds int) (d why.Diagnosis, err error) {
	return d, c.roundTrip("GET", Root+"/why", url.Values{"seconds": {strconv.Itoa(seconds)}}, nil, &d)
}

// Audit returns a page of the audit, newest first. query has the parameters of the verb.
func (c *Client) Audit(query url.Values) (page AuditPage, err error) {
	return page, c.roundTrip("GET", Root+"/audit", query, nil, &page)
}

// Reload makes the node read its configuration again.
func (c *Client) Reload() (r Reloaded, err error) {
	return r, c.roundTrip("POST", Root+"/reload", nil, nil, &r)
}

// Upstreams lists the models that servers elsewhere answer, with their replicas.
func (c *Client) Upstreams() ([]UpstreamModel, error) {
	var all list[UpstreamModel]
	err := c.roundTrip("GET", Root+"/upstreams", nil, nil, &all)
	return all.Data, err
}

// ChangeReplica does to a replica of a model, by its URL, what verb says: add, drain, undrain or remove.
func (c *Client) ChangeReplica(model, verb, replica string) (m UpstreamModel, err error) {
	return m, c.roundTrip("POST", Root+"/upstreams/"+url.PathEscape(model)+"/"+url.PathEscape(verb), nil, ReplicaURL{replica}, &m)
}

// Rerate rates all provisional charges again.
func (c *Client) Rerate() (r Rerated, err error) {
	return r, c.roundTrip("POST", reratePath, nil, nil, &r)
}
