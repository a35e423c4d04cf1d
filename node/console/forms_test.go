package console

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"html"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"corenode/actors/account"
	"corenode/extensions"
	"corenode/extensions/compare"
	"corenode/node/admin"
	"corenode/node/operators"
	"corenode/node/store"
	"corenode/wasm/abi"
)

// TestFormOfASessionThatIsOver: the page says that nothing was done, and leads back to where the form was.
func TestFormOfASessionThatIsOver(t *testing.T) {
	c := New(Deps{})
	r := httptest.NewRequest("POST", "http://node:1"+Root+"accounts/alice/topup", nil)
	r.Header.Set("Accept", "text/html,*/*;q=0.8")
	r.Header.Set("Referer", "http://node:1"+Root+"accounts/alice?x=1")
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	if page := w.Body.String(); w.Code != http.StatusUnauthorized || !strings.Contains(page, "Nothing was done") ||
		!strings.Contains(page, `name="to" value="`+Root+`accounts/alice?x=1"`) {
		t.Errorf("%d %s", w.Code, page)
	}
	r.Header.Set("Referer", "http://evil.example//evil.example/"+Root)
	w = httptest.NewRecorder()
	c.ServeHTTP(w, r)
	if !strings.Contains(w.Body.String(), `name="to" value="`+Root+`"`) {
		t.Errorf("it leads elsewhere: %s", w.Body)
	}
}

// TestWhatARollbackSays: before it what it will do, if anything, and after it what serves.
func TestWhatARollbackSays(t *testing.T) {
	native := extensions.Info{State: extensions.StateBuiltin, Shipped: true}
	ships := extensions.Info{Name: "tariff", Version: "1", State: extensions.StateActive, Shipped: true}
	theirs := extensions.Info{Name: "discount", Version: "2", State: extensions.StateActive}
	in := func(m extensions.Info, state string) extensions.Info { m.State = state; return m }
	for _, c := range []struct {
		modules []extensions.Info
		want    string
	}{
		{[]extensions.Info{native, ships}, ""},
		{[]extensions.Info{native, in(ships, extensions.StatePrevious), theirs}, "What served s before serves it again."},
		{[]extensions.Info{native, in(ships, extensions.StateFailed), theirs}, "What served s before serves it again."},
		{[]extensions.Info{native, ships, in(theirs, extensions.StateCanary)}, "The canary of s ends."},
		{[]extensions.Info{native, ships, in(theirs, extensions.StateShadow)}, ""},
		{[]extensions.Info{ships}, "No module serves s any more."},
		{[]extensions.Info{in(ships, extensions.StateStored)}, ""},
		{[]extensions.Info{theirs}, "No module serves s any more."},
		{[]extensions.Info{{State: extensions.StateMissing}}, "The node does without the module of s that is missing."},
	} {
		if got := (moduleSlot{"s", c.modules}).Undo(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.modules, got, c.want)
		}
	}
	for m, want := range map[*extensions.Info]string{&theirs: "discount@2 serves s.", {Slot: "s"}: "No module serves s any more."} {
		if got := rolledBack("s", *m); got != want {
			t.Errorf("after it: %q, want %q", got, want)
		}
	}
}

// slotModules is a slot in which a rollback ends a canary, and then goes back.
type slotModules struct {
	anyModules
	states []string // of what is rolled back to each time
	undone *int
}

func (m slotModules) Modules() []extensions.Info {
	return []extensions.Info{{Slot: "s", Digest: "a", State: extensions.StateActive}, {Slot: "s", Digest: "b", State: m.states[*m.undone]}}
}

func (m slotModules) Rollback(extensions.Slot) (extensions.Info, error) {
	*m.undone++
	return extensions.Info{Name: "m"}, nil
}

// TestARollbackIsOfWhatIsShown: a button that is pressed twice undoes one step.
func TestARollbackIsOfWhatIsShown(t *testing.T) {
	m := slotModules{states: []string{extensions.StateCanary, extensions.StatePrevious, extensions.StateStored}, undone: new(int)}
	cl := admin.Local(admin.New(unaudited{}, nil, m, nil, nil))
	form := url.Values{"serves": {slotOf("s", m.Modules()).Serves()}}
	for i, want := range []error{nil, &admin.Error{Kind: admin.KindConflict}} {
		r := httptest.NewRequest("POST", "http://node:1", strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.SetPathValue("slot", "s")
		_, _, err := rollback(r, cl)
		if e := (*admin.Error)(nil); (err == nil) != (want == nil) || want != nil && (!errors.As(err, &e) || e.Kind != admin.KindConflict) {
			t.Errorf("press %d: %v", i, err)
		}
	}
	if *m.undone != 1 {
		t.Errorf("%d steps were undone", *m.undone)
	}
}

// TestWhatATrialSays: a module that serves its slot is made no canary, whatever percentage was asked for.
func TestWhatATrialSays(t *testing.T) {
	for _, c := range []struct {
		module extensions.Info
		want   string
	}{
		{extensions.Info{State: extensions.StateCanary, Percent: 5}, "5 of it"},
		{extensions.Info{State: extensions.StateActive}, "It is no canary: its state is active."},
		{extensions.Info{State: extensions.StateLoaded}, "It is no canary: its state is loaded."},
	} {
		if got := tried(c.module, extensions.StateCanary, "%d of it"); got != c.want {
			t.Errorf("%+v: %q, want %q", c.module, got, c.want)
		}
	}
}

// anyModules has another name than its method Modules, beside which it is embedded.
type anyModules admin.Modules

// lateModules are those of a cluster in which a node does not follow in time.
type lateModules struct{ anyModules }

func lateInfo() (extensions.Info, error) {
	return extensions.Info{Note: "nodes that do not follow yet: node_b, node_c"}, nil
}

func (lateModules) Modules() []extensions.Info { return nil }

func (lateModules) Activate(string) (extensions.Info, error) { return lateInfo() }

func (lateModules) Enable(string) (extensions.Info, error) { return lateInfo() }

func (lateModules) Disable(string) (extensions.Info, error) { return lateInfo() }

func (lateModules) Canary(string, int) (extensions.Info, error) { return lateInfo() }

func (lateModules) Shadow(string, int) (extensions.Info, error) { return lateInfo() }

func (lateModules) Rollback(extensions.Slot) (extensions.Info, error) { return lateInfo() }

// TestNodesThatAreLateAreNamed: a change of what serves that a node does not follow is not said as if all did.
func TestNodesThatAreLateAreNamed(t *testing.T) {
	cl := admin.Local(admin.New(unaudited{}, nil, lateModules{}, nil, nil))
	for _, verb := range []string{"activate", "enable", "disable", "canary", "shadow", "rollback"} {
		r := httptest.NewRequest("POST", "http://node:1", nil)
		r.SetPathValue("module", "m")
		r.SetPathValue("slot", "s")
		r.SetPathValue("verb", verb)
		do := changeModule
		if verb == "rollback" {
			do = rollback
		}
		said, _, err := do(r, cl)
		if err != nil || !strings.HasSuffix(said, " These nodes do not follow yet: node_b, node_c. See Cluster.") {
			t.Errorf("%s: %q, %v", verb, said, err)
		}
	}
}

// unaudited is a store that keeps no audit.
type unaudited struct{ admin.Store }

func (unaudited) Audit(store.AuditRow) error { return nil }

// TestAFormThatComesTwiceIsActedOnOnce: a double click makes one key, whose secret the page shows that stays.
func TestAFormThatComesTwiceIsActedOnOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s session
		did := 0
		slow := func() (said, to string, err error) {
			did++
			time.Sleep(time.Second)
			return "the key", "/there", nil
		}
		var values [sha256.Size]byte
		go s.act("form", values, slow)
		synctest.Wait()
		for range 2 { // while the first is at work, and when the page that it led to was never read
			if to, err := s.act("form", values, slow); to != "/there" || err != nil || s.take() != "the key" || did != 1 {
				t.Errorf("a form that came again: %q, %v, done %d times", to, err, did)
			}
		}
		broken := errors.New("away")
		fails := func() (said, to string, err error) { did++; return "", "", broken }
		if _, err := s.act("other", values, fails); err != broken {
			t.Errorf("a form that failed: %v", err)
		}
		if to, err := s.act("other", values, slow); to != "/there" || err != nil || did != 3 {
			t.Errorf("a form that failed and came again: %q, %v, done %d times", to, err, did)
		}
		for range 2 {
			_, _ = s.act("", values, slow) // a form without a name is another one each time
		}
		if did != 5 {
			t.Errorf("forms without a name: done %d times in all", did)
		}
		for i := range 2 * sentMax {
			_, _ = s.act(fmt.Sprint(i), values, slow) // it cannot fail
		}
		if len(s.sent) != sentMax {
			t.Errorf("%d forms are kept", len(s.sent))
		}
	})
}

// TestAFormThatComesAgainWithOtherValues is sent from two tabs that show one page: nobody is told that the second did what
// the first one did. A form that did not work may be corrected.
func TestAFormThatComesAgainWithOtherValues(t *testing.T) {
	var s session
	send := func(path, amount string, failed error) (said string, err error) {
		r := httptest.NewRequest("POST", "http://node:1"+path, strings.NewReader(url.Values{"once": {"form"}, "amount": {amount}}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		_, err = s.act(r.PostFormValue("once"), valuesOf(r), func() (said, to string, err error) {
			return amount + " to " + path, "/", failed
		})
		return s.take(), err
	}
	broken := errors.New("no amount")
	if said, err := send("/alice", "five", broken); err != broken {
		t.Errorf("a form that failed: %q, %v", said, err)
	}
	for range 2 {
		if said, err := send("/alice", "5", nil); err != nil || said != "5 to /alice" {
			t.Errorf("the form: %q, %v", said, err)
		}
	}
	for _, other := range [][2]string{{"/alice", "50"}, {"/bob", "5"}} {
		said, err := send(other[0], other[1], nil)
		if e, ok := errors.AsType[*admin.Error](err); said != "" || !ok || e.Kind != admin.KindConflict {
			t.Errorf("%v: %q, %v", other, said, err)
		}
	}
}

// TestStatesOfServersElsewhere: one that drains says so though it is down, as its button does.
func TestStatesOfServersElsewhere(t *testing.T) {
	c := New(Deps{Log: slog.New(slog.DiscardHandler)})
	for _, r := range []struct {
		replica admin.Replica
		want    string
	}{
		{admin.Replica{Up: true, Ready: true}, "<td>up</td>"},
		{admin.Replica{Up: true, Ready: true, Draining: true}, "<td>up, draining</td>"},
		{admin.Replica{Draining: true, Reason: "refused"}, `<td>down, draining <span class="failed">refused</span></td>`},
		{admin.Replica{Up: true, Draining: true}, "<td>not ready, draining</td>"},
		{admin.Replica{Ready: true, EjectedForMS: 2040}, "<td>ejected for 2s</td>"},
	} {
		w := httptest.NewRecorder()
		body := []admin.UpstreamModel{{Model: "m", Replicas: []admin.Replica{r.replica}}}
		c.render(w, http.StatusOK, "upstreams", "live", shown{Body: body})
		if !strings.Contains(w.Body.String(), r.want) {
			t.Errorf("%+v, want %s: %s", r.replica, r.want, w.Body)
		}
	}
}

// TestEmptyListsOfAFilter: a list that is empty for what was asked does not say that there is nothing at all.
func TestEmptyListsOfAFilter(t *testing.T) {
	c := New(Deps{Log: slog.New(slog.DiscardHandler)})
	look := admin.CacheLook{Models: []admin.CachedModel{{Model: "m"}}}
	asked, all := url.Values{"account": {"a"}}, url.Values{}
	for _, p := range []struct {
		page, block string
		body        any
		want        string
	}{
		{"requests", "live", requestsPage{Query: all}, "Nothing runs."},
		{"requests", "live", requestsPage{Query: asked}, "No such request runs."},
		{"past", "page", pastPage{Query: all}, "No request has ended since"},
		{"past", "page", pastPage{Query: asked}, "No such request is among the latest that ended."},
		{"cluster", "live", clusterPage{Query: all}, "Nothing is lent now: requests"},
		{"cluster", "live", clusterPage{Query: asked}, "Nothing such is lent now."},
		{"models", "page", modelsPage{Look: look, Query: all}, "No account has anything there."},
		{"models", "page", modelsPage{Look: look, Query: asked}, "The account has nothing there."},
	} {
		w := httptest.NewRecorder()
		c.render(w, http.StatusOK, p.page, p.block, shown{Body: p.body})
		if !strings.Contains(w.Body.String(), p.want) {
			t.Errorf("%s of %v does not say %q: %s", p.page, p.body, p.want, w.Body)
		}
	}
}

// TestARequestWithoutRowsHasNoLinkToThem: one that was refused is not in the ledger.
func TestARequestWithoutRowsHasNoLinkToThem(t *testing.T) {
	c := New(Deps{Log: slog.New(slog.DiscardHandler)})
	for reason, want := range map[string]bool{"finished": true, "": false} {
		w := httptest.NewRecorder()
		past := &admin.PastRequest{ID: "r", Reason: reason, ChargeUSD: "0.00"}
		c.render(w, http.StatusOK, "request", "live", shown{Body: requestPage{ID: "r", Past: past}})
		if got := strings.Contains(w.Body.String(), `"/console/charges/r"`); got != want || !strings.Contains(w.Body.String(), "$0.00") {
			t.Errorf("reason %q: a link %v: %s", reason, got, w.Body)
		}
	}
}

// TestAnAdjustmentAddsUp: the lines of a re-rating are those of the whole charge; less what was charged before they are its row.
// Neither a hold nor a refund has tokens to show.
func TestAnAdjustmentAddsUp(t *testing.T) {
	c := New(Deps{Log: slog.New(slog.DiscardHandler)})
	used := &admin.Usage{InputUncached: 5}
	again := admin.Entry{Kind: account.Adjustment, Settles: 2, AmountNanoUSD: -2e6, Usage: used}
	page := func(e admin.ExplainedRow) string {
		w := httptest.NewRecorder()
		c.render(w, http.StatusOK, "charge", "page", shown{Body: admin.ExplainedCharge{RequestID: "r", Rows: []admin.ExplainedRow{e}}})
		_, section, _ := strings.Cut(w.Body.String(), `<section class="row">`)
		return section
	}
	lines := []compare.Line{{Unit: "input", AmountNanoUSD: 5e6}, {Unit: "output", AmountNanoUSD: 7e6}}
	text := page(admin.ExplainedRow{Entry: again, Lines: lines, BeforeNanoUSD: 10e6})
	for name, amount := range map[string]string{"the charge": "$0.012", "charged before": "−$0.01", "the row": "$0.002"} {
		if !strings.Contains(text, "<td>"+name+`</td><td></td><td></td><td class="n">`+amount+"</td>") {
			t.Errorf("%s is not %s: %s", name, amount, text)
		}
	}
	settled := admin.Entry{Kind: account.Settlement, AmountNanoUSD: -12e6, Usage: used}
	text = page(admin.ExplainedRow{Entry: settled, Lines: lines})
	if strings.Contains(text, "before") || !strings.Contains(text, "<p>5 input") {
		t.Errorf("a settlement: %s", text)
	}
	for _, e := range []admin.Entry{{Kind: account.Hold, HeldNanoUSD: 9, Usage: &admin.Usage{}},
		{Kind: account.Adjustment, Refund: true, Usage: &admin.Usage{}}} {
		if text := page(admin.ExplainedRow{Entry: e}); strings.Contains(text, " input") {
			t.Errorf("%+v shows tokens: %s", e, text)
		}
	}
}

// TestAShadowIsToldAsByCommand: what bounds the sums, what is not among them and that a shadow has ended stand on its page too.
func TestAShadowIsToldAsByCommand(t *testing.T) {
	c := New(Deps{Log: slog.New(slog.DiscardHandler)})
	page := func(r compare.Report) string {
		w := httptest.NewRecorder()
		m := extensions.Info{Name: "discount", Faults: map[string]uint64{"ticks": 1}}
		c.render(w, http.StatusOK, "module", "page", shown{Body: modulePage{Module: m, Shadow: &r}})
		return html.UnescapeString(w.Body.String())
	}
	at := time.Date(2026, 1, 31, 8, 40, 12, 0, time.UTC)
	runs := page(compare.Report{Percent: 10, Since: at, Beside: []string{"tariff@1"}, Dropped: 3, Charges: &compare.Charges{
		NotMade: 4, AgainstRules: 5, Rule: "negative", Accounts: []compare.AccountCharges{{Account: "a", MissedNanoUSD: 50e9}, {Account: "b"}}}})
	for _, want := range []string{"It repeats 10 % of the requests since 2026-01-31 08:40:12 UTC, beside tariff@1.", "Not repeated, for lack of time: 3.",
		"since it failed or declined: 4. The built-in tariff would make these, provisionally.", "which are not among them: 5, the latest: negative.",
		`<th class="n">Not counted</th>`, `<td class="n">at most $50.00</td>`, `<td class="n">–</td>`} {
		if !strings.Contains(runs, want) {
			t.Errorf("no %q: %s", want, runs)
		}
	}
	named := map[string]bool{}
	for _, region := range regexp.MustCompile(`role="region" aria-label="([^"]*)"`).FindAllStringSubmatch(runs, -1) {
		if named[region[1]] {
			t.Errorf("two regions are named %s", region[1])
		}
		named[region[1]] = true
	}
	ended := page(compare.Report{Since: at, Charges: &compare.Charges{}})
	if !strings.Contains(ended, "It is a shadow no more; it repeated calls since 2026-01-31 08:40:12 UTC, beside no call yet.") {
		t.Error(ended)
	}
	for _, no := range []string{"Not repeated", "failed or declined", "not among them"} {
		if strings.Contains(ended, no) {
			t.Errorf("a shadow of nothing says %q: %s", no, ended)
		}
	}
}

// TestAPromptElsewhereHasNoPercentage: how far a server elsewhere is with a prompt is not known.
func TestAPromptElsewhereHasNoPercentage(t *testing.T) {
	c := New(Deps{Log: slog.New(slog.DiscardHandler)})
	for replica, want := range map[string]bool{"": true, "http://far": false} {
		r := admin.Request{ID: "r", Phase: "prefill", Prompt: 10, Computed: 5, Replica: replica}
		for page, body := range map[string]any{"requests": requestsPage{Live: admin.LivePage{Data: []admin.Request{r}}},
			"request": requestPage{ID: "r", Live: &r}} {
			w := httptest.NewRecorder()
			c.render(w, http.StatusOK, page, "live", shown{Body: body})
			if got := strings.Contains(w.Body.String(), "prefill 50 %"); got != want || !strings.Contains(w.Body.String(), "prefill") {
				t.Errorf("%s at %q: a percentage is there: %v: %s", page, replica, got, w.Body)
			}
		}
	}
}

// TestForbiddenFormsAreNoted sends every form as a viewer: one that the role forbids never gets to the admin API, which
// would note it. What is noted has nothing of what was sent.
func TestForbiddenFormsAreNoted(t *testing.T) {
	var noted []string
	_, send := signedIn(Deps{Audit: func(who operators.Operator, method, path string, status int) {
		noted = append(noted, fmt.Sprintln(who.Name, method, path, status))
	}})
	fill := strings.NewReplacer("{", "sk-", "}", "")
	for _, a := range slices.Concat(acts, clusterActs) {
		if a.role <= operators.Viewer {
			continue
		}
		noted = nil
		w := send(fill.Replace(a.path), "http://node:1", url.Values{"amount": {"5"}})
		want := fmt.Sprintln("a POST", Root+a.path, http.StatusForbidden)
		if w.Code != http.StatusForbidden || !slices.Equal(noted, []string{want}) {
			t.Errorf("%s: %d, noted %q, want %q", a.path, w.Code, noted, want)
		}
	}
}

// limitedStore has one account with one key.
type limitedStore struct {
	unaudited
	account account.Account
	key     account.Key
}

func (s *limitedStore) Account(string) (account.Account, error) { return s.account, nil }

func (s *limitedStore) UpdateAccount(_ string, edit func(*account.Account)) (account.Account, error) {
	edit(&s.account)
	return s.account, nil
}

func (s *limitedStore) Balance(string) (balance, held abi.Nano, err error) { return 0, 0, nil }

func (s *limitedStore) Counters(string) ([]account.CounterUse, error) { return nil, nil }

func (s *limitedStore) Key(string) (account.Key, error) { return s.key, nil }

func (s *limitedStore) UpdateKey(_ string, edit func(*account.KeyLimits)) (account.Key, error) {
	edit(&s.key.KeyLimits)
	return s.key, nil
}

func (s *limitedStore) KeysCharged(string, time.Time) ([]account.KeyUse, error) { return nil, nil }

// untoldNode is told of changes, and does nothing.
type untoldNode struct{ admin.Node }

func (untoldNode) Changed(string) {}

func (untoldNode) KeyChanged(string, string) {}

var inputTag, inputPart = regexp.MustCompile(`<input [^>]*>`), regexp.MustCompile(`(name|value)="([^"]*)"`)

// fieldsOf are those of a form of a page, as a browser sends them when nothing is typed.
func fieldsOf(page, action string) url.Values {
	_, form, _ := strings.Cut(page, `action="`+action+`"`)
	form, _, _ = strings.Cut(form, "</form>")
	fields := url.Values{}
	for _, input := range inputTag.FindAllString(form, -1) {
		part := map[string]string{}
		if strings.Contains(input, `"checkbox"`) {
			part["value"] = "on"
		}
		for _, p := range inputPart.FindAllStringSubmatch(input, -1) {
			part[p[1]] = html.UnescapeString(p[2])
		}
		if !strings.Contains(input, `"checkbox"`) || strings.Contains(input, " checked") {
			fields.Add(part["name"], part["value"])
		}
	}
	return fields
}

// limitsForm is a form of limits on the page of the account.
func limitsForm(t *testing.T, cl *admin.Client, action string) url.Values {
	t.Helper()
	var p accountPage
	var errs [2]error
	p.Account, errs[0] = cl.Account("alice")
	p.Keys = make([]admin.Key, 1)
	p.Keys[0], errs[1] = cl.Key("key_1")
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	manager := operators.Operator{Name: "a", Role: operators.Manager}
	New(Deps{Log: slog.New(slog.DiscardHandler)}).render(w, http.StatusOK, "account", "page", shown{Operator: manager, Body: p})
	fields := fieldsOf(w.Body.String(), Root+action)
	if !fields.Has("models") {
		t.Fatalf("no form for %s: %d %s", action, w.Code, w.Body)
	}
	return fields
}

// sendForm acts on a form of alice or of her key.
func sendForm(t *testing.T, cl *admin.Client, fields url.Values, do func(*http.Request, *admin.Client) (said, to string, err error)) {
	t.Helper()
	r := httptest.NewRequest("POST", "http://node:1", strings.NewReader(fields.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetPathValue("account", "alice")
	r.SetPathValue("key", "key_1")
	if _, _, err := do(r, cl); err != nil {
		t.Errorf("%v: %v", fields, err)
	}
}

// TestLimitsThatOthersSetStay: a form of limits changes the fields that were edited. What another operator has set since the
// page was loaded stays.
func TestLimitsThatOthersSetStay(t *testing.T) {
	s := &limitedStore{}
	cl := admin.Local(admin.New(s, untoldNode{}, nil, nil, nil))
	for _, c := range []struct {
		loaded, theirs bool // whether no money is checked
		field, typed   string
		want           string
	}{
		{false, true, "", "", "8 200 [c] true"},
		{true, false, "", "", "8 200 [c] false"},
		{true, true, "unlimited", "", "8 200 [c] false"},
		{false, false, "unlimited", "on", "8 200 [c] true"},
		{true, true, "concurrency", "5", "5 200 [c] true"},
		{true, true, "concurrency", "", "0 200 [c] true"},
		{true, true, "tokens_per_minute", "", "8 0 [c] true"},
		{true, true, "models", "b, d", "8 200 [b d] true"},
		{true, true, "models", "", "8 200 [] true"},
	} {
		s.account = account.Account{ID: "acct_1", Name: "alice", Concurrency: 4, TokensPerMinute: 100, Models: []string{"a", "b"},
			Unlimited: c.loaded}
		form := limitsForm(t, cl, "accounts/acct_1/limits")
		s.account.Concurrency, s.account.TokensPerMinute, s.account.Models, s.account.Unlimited = 8, 200, []string{"c"}, c.theirs
		if c.field != "" {
			form.Set(c.field, c.typed)
		}
		sendForm(t, cl, form, setLimits)
		a := s.account
		if got := fmt.Sprint(a.Concurrency, a.TokensPerMinute, a.Models, a.Unlimited); got != c.want {
			t.Errorf("%q of the account set to %q: %s, want %s", c.field, c.typed, got, c.want)
		}
	}
	for _, c := range []struct{ field, typed, want string }{
		{"", "", "200 [c] 9"},
		{"tokens_per_minute", "70", "70 [c] 9"},
		{"models", "", "200 [] 9"},
		{"budget", "3.5", "200 [c] 3500000000"},
		{"budget", "", "200 [c] 0"},
	} {
		s.key = account.Key{ID: "key_1", AccountID: "acct_1",
			KeyLimits: account.KeyLimits{Models: []string{"a", "b"}, TokensPerMinute: 100, Budget: 2e9}}
		form := limitsForm(t, cl, "keys/key_1/limits")
		s.key.KeyLimits = account.KeyLimits{Models: []string{"c"}, TokensPerMinute: 200, Budget: 9}
		if c.field != "" {
			form.Set(c.field, c.typed)
		}
		sendForm(t, cl, form, limitKey)
		k := s.key
		if got := fmt.Sprint(k.TokensPerMinute, k.Models, k.Budget); got != c.want {
			t.Errorf("%q of the key set to %q: %s, want %s", c.field, c.typed, got, c.want)
		}
	}
}
