package console

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"corenode/extensions"
	"corenode/node/admin"
	"corenode/node/operators"
)

// acts are all forms. What they do is the admin API's; an error of it is shown as it is.
var acts = []act{
	{path: "requests/{request}/cancel", role: operators.Manager, do: cancelRequest},
	{path: "accounts", role: operators.Manager, do: createAccount},
	{path: "accounts/{account}/topup", role: operators.Manager, do: topUp},
	{path: "accounts/{account}/limits", role: operators.Manager, do: setLimits},
	{path: "accounts/{account}/switch", role: operators.Manager, do: switchAccount},
	{path: "accounts/{account}/keys", role: operators.Manager, do: createKey},
	{path: "keys/{key}/limits", role: operators.Manager, do: limitKey},
	{path: "keys/{key}/revoke", role: operators.Manager, do: revokeKey},
	{path: "charges/{charge}/refund", role: operators.Manager, do: refund},
	{path: "charges/{charge}/replay", role: operators.Viewer, do: replay},
	{path: "ledger/verify", role: operators.Viewer, do: verify},
	{path: "modules", role: operators.Manager, do: loadModule},
	{path: "modules/{module}/{verb}", role: operators.Manager, do: changeModule},
	{path: "slots/{slot}/rollback", role: operators.Manager, do: rollback, alone: true},
	{path: "upstreams/{model}/{verb}", role: operators.Manager, do: changeReplica},
	{path: "drain", role: operators.Manager, do: beginDrain},
}

func cancelRequest(r *http.Request, cl *admin.Client) (said, to string, err error) {
	id := r.PathValue("request")
	return "The request " + id + " is told to end.", Root + "requests", cl.CancelRequest(id)
}

func accountPagePath(name string) string { return Root + "accounts/" + url.PathEscape(name) }

func invalid(format string, args ...any) error {
	return &admin.Error{Kind: admin.KindInvalid, Message: fmt.Sprintf(format, args...)}
}

// number reads an integer of a form; empty is zero.
func number[T int | int64](r *http.Request, name string) (T, error) {
	text := strings.TrimSpace(r.PostFormValue(name))
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || int64(T(n)) != n {
		return 0, invalid("%s is %q, want a whole number", strings.ReplaceAll(name, "_", " "), text)
	}
	return T(n), nil
}

// words reads a list that is separated by spaces or commas.
func words(r *http.Request, name string) []string {
	return strings.FieldsFunc(r.PostFormValue(name), func(c rune) bool { return c == ',' || unicode.IsSpace(c) })
}

// edited is a value of a form of limits, or nil where its field is as it was when the page was loaded, which the page
// sends beside it: what another operator has set since then stays.
func edited[T any](r *http.Request, name string, value T) *T {
	if was := "was_" + name; r.PostForm.Has(was) && slices.Equal(words(r, name), words(r, was)) {
		return nil
	}
	return &value
}

// noted is what to know of the models that were given, before what was done.
func noted(cl *admin.Client, models []string) string {
	if note := cl.Unserved(models); note != "" {
		return note + " "
	}
	return ""
}

func createAccount(r *http.Request, cl *admin.Client) (said, to string, err error) {
	asked := admin.NewAccount{Name: strings.TrimSpace(r.PostFormValue("name")),
		Balance: admin.Amount{USD: strings.TrimSpace(r.PostFormValue("balance"))},
		Models:  words(r, "models"), Unlimited: r.PostFormValue("unlimited") != ""}
	if asked.Concurrency, err = number[int](r, "concurrency"); err != nil {
		return "", "", err
	}
	if asked.TokensPerMinute, err = number[int64](r, "tokens_per_minute"); err != nil {
		return "", "", err
	}
	made, err := cl.CreateAccount(asked)
	if err != nil {
		return "", "", err
	}
	return noted(cl, asked.Models) + "Made the account. Its key, shown this once: " + made.Key, accountPagePath(made.Name), nil
}

// topUp adds money once, however often the form is sent: it carries a key of its own.
func topUp(r *http.Request, cl *admin.Client) (said, to string, err error) {
	a, err := cl.TopUp(r.PathValue("account"), admin.TopUp{Amount: admin.Amount{USD: strings.TrimSpace(r.PostFormValue("amount"))},
		Note: r.PostFormValue("note"), IdempotencyKey: r.PostFormValue("once")})
	return "The balance is " + dollars(a.BalanceUSD) + ".", accountPagePath(a.Name), err
}

func setLimits(r *http.Request, cl *admin.Client) (said, to string, err error) {
	concurrency, err := number[int](r, "concurrency")
	if err != nil {
		return "", "", err
	}
	tokens, err := number[int64](r, "tokens_per_minute")
	if err != nil {
		return "", "", err
	}
	models := words(r, "models")
	a, err := cl.ChangeAccount(r.PathValue("account"), admin.AccountChange{
		Concurrency: edited(r, "concurrency", concurrency), TokensPerMinute: edited(r, "tokens_per_minute", tokens),
		Models: edited(r, "models", models), Unlimited: edited(r, "unlimited", r.PostFormValue("unlimited") != "")})
	if err != nil {
		return "", "", err
	}
	return noted(cl, models) + "The limits are set, for requests from now on.", accountPagePath(a.Name), nil
}

func switchAccount(r *http.Request, cl *admin.Client) (said, to string, err error) {
	disabled := r.PostFormValue("disabled") == "true"
	a, err := cl.ChangeAccount(r.PathValue("account"), admin.AccountChange{Disabled: &disabled})
	said = "The account's keys are accepted again."
	if disabled {
		said = "Every key of the account is refused from now on." + unaware(a.UnawareNodes)
	}
	return said, accountPagePath(a.Name), err
}

func createKey(r *http.Request, cl *admin.Client) (said, to string, err error) {
	var asked admin.NewKey
	if text := r.PostFormValue("expires"); text != "" {
		if asked.Expires, err = time.Parse(time.DateOnly, text); err != nil {
			return "", "", invalid("expires is %q, want a day such as 2026-01-31", text)
		}
	}
	asked.Models, asked.Budget.USD = words(r, "models"), strings.TrimSpace(r.PostFormValue("budget"))
	if asked.TokensPerMinute, err = number[int64](r, "tokens_per_minute"); err != nil {
		return "", "", err
	}
	k, err := cl.CreateKey(r.PathValue("account"), asked)
	if err != nil {
		return "", "", err
	}
	return noted(cl, asked.Models) + "The key, shown this once: " + k.Secret, accountPagePath(r.PathValue("account")), nil
}

func limitKey(r *http.Request, cl *admin.Client) (said, to string, err error) {
	tokens, err := number[int64](r, "tokens_per_minute")
	if err != nil {
		return "", "", err
	}
	models := words(r, "models")
	budget := admin.Amount{USD: cmp.Or(strings.TrimSpace(r.PostFormValue("budget")), "0")} // an empty field is no limit
	k, err := cl.ChangeKey(r.PathValue("key"), admin.KeyChange{Models: edited(r, "models", models),
		TokensPerMinute: edited(r, "tokens_per_minute", tokens), Budget: edited(r, "budget", budget)})
	if err != nil {
		return "", "", err
	}
	return noted(cl, models) + "The limits of the key are set, for requests from now on.", accountPagePath(k.AccountID), nil
}

func revokeKey(r *http.Request, cl *admin.Client) (said, to string, err error) {
	k, err := cl.RevokeKey(r.PathValue("key"))
	return "The key " + k.ID + " is refused from now on." + unaware(k.UnawareNodes), accountPagePath(k.AccountID), err
}

func chargePath(id string) string { return Root + "charges/" + url.PathEscape(id) }

func refund(r *http.Request, cl *admin.Client) (said, to string, err error) {
	done, err := cl.Refund(r.PathValue("charge"), r.PostFormValue("note"))
	said = "It was refunded before; nothing changed."
	if done.Done {
		said = "Refunded " + dollars(done.Entry.AmountUSD) + "."
	}
	return said, chargePath(r.PathValue("charge")), err
}

func replay(r *http.Request, cl *admin.Client) (said, to string, err error) {
	again, err := cl.Replay(r.PathValue("charge"))
	said = "Computed again: the charge is another one. See corenode module replay " + r.PathValue("charge") + "."
	if again.Same {
		said = "Computed again: the same amount, tier and input."
	}
	return said, chargePath(r.PathValue("charge")), err
}

func verify(_ *http.Request, cl *admin.Client) (said, to string, err error) {
	v, err := cl.VerifyLedger()
	if err != nil {
		return "", "", err
	}
	said = fmt.Sprintf("The ledger is sound: %s rows of %s accounts.", count(v.Rows), count(v.Accounts))
	if len(v.Findings) > 0 {
		said = fmt.Sprintf("The ledger is not sound: %d findings, the first: %s", len(v.Findings), v.Findings[0])
	}
	return said, Root + "ledger", nil
}

func modulePagePath(ref string) string { return Root + "modules/" + url.PathEscape(ref) }

// fileBytesMax bounds each file of a form.
const fileBytesMax = 8 << 20

// file reads a file of a form; none is nil.
func file(r *http.Request, name string) ([]byte, error) {
	f, head, err := r.FormFile(name)
	if err == http.ErrMissingFile {
		return nil, nil
	}
	if err != nil {
		return nil, invalid("%s cannot be read: %v", name, err)
	}
	defer f.Close()
	if head.Size > fileBytesMax {
		return nil, invalid("%s has %d bytes, want at most %d", name, head.Size, fileBytesMax)
	}
	return io.ReadAll(f)
}

func loadModule(r *http.Request, cl *admin.Client) (said, to string, err error) {
	var asked admin.NewModule
	if asked.Wasm, err = file(r, "wasm"); err != nil {
		return "", "", err
	}
	if asked.Signature, err = file(r, "signature"); err != nil {
		return "", "", err
	}
	if config := strings.TrimSpace(r.PostFormValue("config")); config != "" {
		asked.Config = json.RawMessage(config)
		if !json.Valid(asked.Config) {
			return "", "", invalid("the configuration is no JSON")
		}
	}
	m, err := cl.LoadModule(asked)
	return "Checked and compiled. It serves nothing yet.", modulePagePath(m.Digest), err
}

func changeModule(r *http.Request, cl *admin.Client) (said, to string, err error) {
	ref, verb := r.PathValue("module"), r.PathValue("verb")
	percent := 0
	var m extensions.Info
	if verb == "canary" || verb == "shadow" {
		if percent, err = number[int](r, "percent"); err != nil {
			return "", "", err
		}
	}
	switch verb {
	case "activate":
		m, err = cl.ActivateModule(ref)
		said = "It serves its slot, for requests that start from now on."
	case "canary":
		m, err = cl.CanaryModule(ref, percent)
		said = tried(m, extensions.StateCanary, "It serves %d %% of the accounts.")
	case "shadow":
		m, err = cl.ShadowModule(ref, percent)
		said = tried(m, extensions.StateShadow, "It repeats %d %% of the requests, beside the one that serves.")
	case "enable":
		m, err = cl.EnableModule(ref)
		said = "It answers its paths."
	case "disable":
		m, err = cl.DisableModule(ref)
		said = "Its paths are unknown again."
	case "remove":
		return "It is forgotten.", Root + "modules", cl.RemoveModule(ref)
	default:
		err = &admin.Error{Kind: admin.KindNotFound, Message: "modules have no verb " + verb}
	}
	return said + late(m), modulePagePath(ref), err
}

// rollback undoes the last step on a slot, as long as that is the one that the page showed: pressed twice, it goes back once.
func rollback(r *http.Request, cl *admin.Client) (said, to string, err error) {
	slot := r.PathValue("slot")
	if all, err := cl.Modules(); err != nil {
		return "", "", err
	} else if now := slotOf(slot, all); now.Serves() != r.PostFormValue("serves") {
		return "", "", &admin.Error{Kind: admin.KindConflict,
			Message: "nothing was done: the modules of " + slot + " are others now than the page showed"}
	}
	m, err := cl.Rollback(slot)
	return rolledBack(slot, m) + late(m), Root + "modules", err
}

// rolledBack says what serves a slot after a rollback.
func rolledBack(slot string, m extensions.Info) string {
	if m.Name == "" {
		return "No module serves " + slot + " any more."
	}
	return m.Name + "@" + m.Version + " serves " + slot + "."
}

// tried says what became of a module that was to be a canary or a shadow: one that serves its slot is left alone, and
// 0 percent ends it.
func tried(m extensions.Info, state, does string) string {
	if m.State != state {
		return "It is no " + state + ": its state is " + m.State + "."
	}
	return fmt.Sprintf(does, m.Percent)
}

func changeReplica(r *http.Request, cl *admin.Client) (said, to string, err error) {
	verb := r.PathValue("verb")
	_, err = cl.ChangeReplica(r.PathValue("model"), verb, strings.TrimSpace(r.PostFormValue("url")))
	return "Done: " + verb + " " + r.PostFormValue("url"), Root + "upstreams", err
}
