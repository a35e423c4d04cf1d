package main

import (
	"crypto/sha256"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"corenode/node/admin"
	"corenode/node/config"
	"corenode/node/console/browsertest"
)

// hostile are names as an attacker would choose them, if names were not checked.
const hostile = `<img src=x onerror=alert(1)>"'&`

// consolePages are all screens; those with names come from what the node has.
func consolePages(acct, request, digest string) []string {
	return []string{"", "requests", "requests/past", "requests/" + request, "why", "accounts", "accounts/" + acct, "ledger", "ledger?model=" + url.QueryEscape(hostile), "charges/" + request, "modules",
		"modules/" + digest, "models", "models?model=core-1.1-mini", "models/why", "models/why?first=" + request, "logs", "logs?level=info&kind=request", "config", "config?all=1", "doctor", "drain", "upstreams", "cluster", "audit", "playground", "accounts?find=" + url.QueryEscape(hostile)}
}

const viewerToken = "a viewer's token, which is long enough"

// startConsole is a node with something to show: an account with a hostile note, a charge.
func startConsole(t testing.TB) (n *node, base, account, request string) {
	t.Helper()
	n, api, _, operator := startWithModules(t, func(cfg *config.Config) {
		cfg.Admin.Operators = []string{fmt.Sprintf("eve:viewer:%x", sha256.Sum256([]byte(viewerToken)))}
	})
	made, err := operator.CreateAccount(admin.NewAccount{Name: "alice", Balance: admin.Amount{USD: "10"}})
	if err != nil {
		t.Fatal(err)
	}
	note := hostile + strings.Repeat("x", 300)
	if _, err := operator.TopUp(made.ID, admin.TopUp{Amount: admin.Amount{USD: "1"}, Note: note}); err != nil {
		t.Fatal(err)
	}
	status, _, id := wholeChat(t, api, made.Key, `{"model":"core-1.1-mini","max_tokens":8,"messages":[{"role":"user","content":"Say hello."}]}`)
	if status != http.StatusOK {
		t.Fatalf("status %d", status)
	}
	e := settled(t, n, id)
	return n, "http://" + n.admin.Addr().String(), made.ID, e.RequestID
}

func adminToken(t testing.TB, n *node) string {
	t.Helper()
	token, err := os.ReadFile(filepath.Join(n.cfg.DataDir, "admin.token"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(token))
}

// TestConsoleInABrowser drives every screen as an operator does.
func TestConsoleInABrowser(t *testing.T) {
	b := browsertest.Start(t)
	n, base, acct, request := startConsole(t)
	b.Open(base + "/")
	b.Fill("#operator_token", "wrong")
	b.Key("Enter")
	b.Until(`document.querySelector('.failed')`)
	b.Problems() // the 401 that was asked for
	b.Fill("#operator_token", adminToken(t, n))
	b.Eval(`window.before = true`, nil)
	b.Key("Enter")
	b.Loaded()
	b.Until(`document.querySelector('.chart canvas')`)

	digest := ""
	b.Open(base + "/console/modules")
	b.Eval(`document.querySelector('td a').pathname.split('/').pop()`, &digest)
	for _, page := range consolePages(acct, request, digest) {
		lookAt(t, b, base, page)
	}
	if dir := os.Getenv("CONSOLE_PICTURES"); dir != "" { // those of the documentation, made anew
		for name, page := range map[string]string{"now": "", "request": "requests/" + request, "account": "accounts/" + acct,
			"charge": "charges/" + request, "modules": "modules"} {
			b.Open(base + "/console/" + page)
			b.Until(`document.readyState === 'complete' && (!document.querySelector('.chart') || document.querySelector('.chart canvas'))`)
			b.Picture(filepath.Join(dir, name+".png"))
		}
	}
	t.Run("acts", func(t *testing.T) { actInABrowser(t, b, base, acct) })
	t.Run("keyboard", func(t *testing.T) {
		b.Open(base + "/console/accounts")
		b.Key("Tab")
		var at string
		b.Eval(`document.activeElement.className`, &at)
		if at != "skip" {
			t.Errorf("the first stop is %q, want the way past the navigation", at)
		}
		for range 5 { // the name, Now, Requests, Accounts, Ledger
			b.Key("Tab")
		}
		b.Eval(`window.before = true`, nil)
		b.Key("Enter")
		b.Loaded()
		b.Until(`location.pathname.endsWith('/ledger')`)
	})
	t.Run("live", func(t *testing.T) {
		b.Open(base + "/console/")
		b.Until(`document.querySelector('[data-live]').dataset.last`)
		b.Click(`[data-span="1h"]`, false)
		b.Until(`document.querySelector('[data-span="1h"]').getAttribute('aria-pressed') === 'true'`)
	})
	t.Run("shows", func(t *testing.T) { showInABrowser(t, b, base) })
	t.Run("stands", func(t *testing.T) { standInABrowser(t, b, base) })
	t.Run("playground", func(t *testing.T) { playInABrowser(t, b, n, base) })
	t.Run("cache", func(t *testing.T) { compareInABrowser(t, b, n, base) })
	for _, asked := range b.Requests() {
		if u, err := url.Parse(asked); err != nil || u.Scheme == "http" && "http://"+u.Host != base {
			t.Errorf("a page asked another host: %s", asked)
		}
	}
}

// lookAt opens a page at two widths, with and without scripts.
func lookAt(t *testing.T, b *browsertest.Browser, base, page string) {
	t.Helper()
	b.Open(base + "/console/" + page)
	b.Eval(`document.querySelectorAll('details').forEach(d => { d.open = true })`, nil)
	for _, finding := range b.Reader() {
		t.Errorf("/%s: %s", page, finding)
	}
	b.Size(320, 740)
	wide := 0
	b.Eval(`document.scrollingElement.scrollWidth`, &wide)
	if wide > 320 {
		t.Errorf("/%s is %d pixels wide on a screen of 320", page, wide)
	}
	b.Size(1280, 900)
	injected := 0
	b.Eval(`document.querySelectorAll('main img').length`, &injected)
	if injected > 0 {
		t.Errorf("/%s has an element of somebody's name", page)
	}
	for _, p := range b.Problems() {
		if !strings.Contains(p, "status of 404") || !strings.Contains(page, "find=") {
			t.Errorf("/%s: %s", page, p)
		}
	}
	text := b.Text()
	b.Scripts(false)
	b.Open(base + "/console/" + page)
	b.Scripts(true)
	if plain := b.Text(); len(plain) < len(text)/2 {
		t.Errorf("/%s without scripts: %.300s", page, plain)
	}
	b.Problems()
}

// actInABrowser uses the forms of an account.
func actInABrowser(t *testing.T, b *browsertest.Browser, base, acct string) {
	unfold := func() {
		b.Open(base + "/console/accounts/" + acct)
		b.Eval(`document.querySelectorAll('details').forEach(d => { d.open = true })`, nil)
	}
	unfold()
	b.Fill(`form[action$="/topup"] [name=amount]`, "2.5")
	b.Click(`form[action$="/topup"] button`, true)
	if text := b.Text(); !strings.Contains(text, "The balance is $13.4") {
		t.Errorf("after a top-up: %.300s", text)
	}
	unfold()
	b.Fill(`form[action*="/accounts/"][action$="/limits"] [name=concurrency]`, "many")
	b.Click(`form[action*="/accounts/"][action$="/limits"] button`, true)
	if text := b.Text(); !strings.Contains(text, `concurrency is "many", want a whole number`) {
		t.Errorf("a wrong number: %.300s", text)
	}
	b.Problems() // the 400 that was asked for
	unfold()
	b.Fill(`form[action*="/accounts/"][action$="/limits"] [name=models]`, "core-1.1-mini core-1.l")
	b.Click(`form[action*="/accounts/"][action$="/limits"] button`, true)
	if text := b.Text(); !strings.Contains(text, "The node does not serve core-1.l. It serves core-1.1, core-1.1-mini. The limits are set") {
		t.Errorf("after a mistyped model: %.300s", text)
	}
	unfold()
	b.Eval(`(async () => { // a double click
		const form = document.querySelector('form[action$="/keys"]'), fields = new URLSearchParams(new FormData(form));
		await Promise.all([1, 2].map(() => fetch(form.action, {method: 'POST', body: fields, redirect: 'manual'})));
	})()`, nil)
	b.Open(base + "/console/accounts/" + acct)
	keys := 0
	b.Eval(`document.querySelectorAll('form[action$="/revoke"]').length`, &keys)
	if text := b.Text(); !strings.Contains(text, "shown this once") || keys != 2 {
		t.Errorf("after a key: %d keys, %.300s", keys, text)
	}
	b.Open(base + "/console/accounts/" + acct)
	if text := b.Text(); strings.Contains(text, "shown this once") {
		t.Error("a key is shown twice")
	}
	b.Click(`form[action*="/revoke"] button`, true)
	if text := b.Text(); !strings.Contains(text, "is refused from now on") {
		t.Errorf("after a revocation: %.300s", text)
	}
	if p := b.Problems(); len(p) > 0 {
		t.Error(p)
	}
}

// showInABrowser looks at what is on paper, and where colors are the user's own.
func showInABrowser(t *testing.T, b *browsertest.Browser, base string) {
	holds := func(what, expression string) {
		t.Helper()
		ok := false
		if b.Eval(expression, &ok); !ok {
			t.Error(what)
		}
	}
	defer b.Media("", "", "")
	b.Open(base + "/console/ledger")
	holds("a long note widens the ledger", `document.querySelector('.wide').scrollWidth < 1600`)
	b.Media("print", "", "")
	holds("a table is cut on paper", `[...document.querySelectorAll('.wide')].every(w => getComputedStyle(w).overflowX === 'visible')`)
	holds("forms and links are on paper", `[...document.querySelectorAll('nav, form')].every(e => e.getClientRects().length === 0)`)
	b.Open(base + "/console/")
	b.Media("", "forced-colors", "active")
	const ground = `(s => getComputedStyle(document.querySelector(s)).backgroundColor)`
	holds("which page this is is not seen", ground+`('nav [aria-current]') !== `+ground+`('nav a:not([aria-current])')`)
	holds("which button is pressed is not seen", ground+`('[aria-pressed=true]') !== `+ground+`('[aria-pressed=false]')`)
	b.Until(`document.querySelector('.u-marker')`)
	holds("which line is which is not seen", `new Set([...document.querySelectorAll('.chart')[0].querySelectorAll('.u-marker')]
		.map(m => getComputedStyle(m).borderColor)).size > 2`)
}

// standInABrowser renews a live part: it stays where it was scrolled to, and a page that stands still says so.
func standInABrowser(t *testing.T, b *browsertest.Browser, base string) {
	const live, note = `document.querySelector('[data-live]')`, `document.querySelector('.stands').textContent`
	holds := func(what, expression string) {
		t.Helper()
		ok := false
		if b.Eval(expression, &ok); !ok {
			t.Errorf("%s: %.300s", what, b.Text())
		}
	}
	b.Size(360, 740)
	defer b.Size(1280, 900)
	b.Open(base + "/console/models")
	// Each answer is another one, as with a node that works.
	b.Eval(`void (window.fetch = async () => new Response(document.querySelector('[data-live]').innerHTML + ' '))`, nil)
	b.Eval(`window.old = `+live+`.querySelector('.wide'); old.scrollLeft = 120`, nil)
	b.Until(`!old.isConnected`)
	holds("a table that was scrolled aside", live+`.querySelector('.wide').scrollLeft === 120`)
	b.Eval(live+`.querySelector('.wide').focus()`, nil)
	b.Until(note + `.includes('stands still')`)
	b.Eval(`document.activeElement.blur()`, nil)
	b.Until(note + ` === ''`)
	// Somebody comes while the answer is on its way.
	b.Eval(`void (window.fetch = () => new Promise(answer => { window.answer = answer; }))`, nil)
	b.Until(`window.answer`)
	b.Eval(`window.old = `+live+`.querySelector('.wide'); old.focus(); answer(new Response('<p>another</p>'))`, nil)
	b.Until(note + `.includes('stands still')`)
	holds("the focus that came meanwhile", `old.isConnected && document.activeElement === old`)
	b.Eval(`old.blur(); void (window.fetch = async () => { throw new TypeError('away'); })`, nil)
	b.Until(note + `.includes('cannot be read')`)
	holds("a node that is away", live+`.classList.contains('off')`)
	b.Eval(`void (window.fetch = async () => new Response('<p>it is back</p>'))`, nil)
	b.Until(note + ` === ''`)
	b.Eval(`void (window.fetch = (_, asked) => new Promise((_, fail) => asked.signal.addEventListener('abort', () => fail(asked.signal.reason))))`, nil)
	b.Until(note + `.includes('cannot be read')`)
	holds("a node that never answers", live+`.classList.contains('off')`)
}

// playInABrowser asks the model from the page.
func playInABrowser(t *testing.T, b *browsertest.Browser, n *node, base string) {
	key, err := os.ReadFile(n.keyFile)
	if err != nil {
		t.Fatal(err)
	}
	b.Open(base + "/console/playground")
	b.Fill("[name=key]", strings.TrimSpace(string(key)))
	b.Eval(`delete ReadableStream.prototype[Symbol.asyncIterator]`, nil) // as in Safari
	b.Fill("[name=message]", "Say hello.")
	for _, name := range []string{"temperature", "max_tokens"} { // what is no number is not left out without a word
		before := ""
		b.Eval(`document.querySelector('[name=`+name+`]').value`, &before)
		b.Fill("[name="+name+"]", "1,5")
		b.Click("#playground [type=submit]", false)
		b.Until(`document.querySelector('#usage').textContent.includes('is "1,5", want a number')`)
		b.Eval(`document.querySelector('[name=`+name+`]').value = '`+before+`'; document.querySelector('#usage').textContent = ''`, nil)
	}
	b.Click("#playground [type=submit]", false)
	b.Until(`document.querySelector('#raw').textContent.includes('message_stop') && document.querySelector('#usage').textContent.includes('output')`)
	stopInABrowser(t, b)
	if p := b.Problems(); len(p) > 0 {
		t.Error(p)
	}
}

// stopInABrowser stops answers that call a tool: what the page then shows is what goes out the next time.
func stopInABrowser(t *testing.T, b *browsertest.Browser) {
	b.Eval(`void (window.fetch = async (_, asked) => {
		window.body = JSON.parse(asked.body.get('body'));
		window.sent = body.messages;
		window.signal = asked.signal;
		const event = e => new TextEncoder().encode('data: ' + JSON.stringify(e) + '\n');
		return new Response(new ReadableStream({start(c) {
			c.enqueue(event({type: 'content_block_start', index: 0, content_block: {type: 'tool_use', id: 'call_1', name: 'look', input: {}}}));
			if (window.breaks) return c.enqueue(event({type: 'error', error: {message: 'It broke.'}}));
			if (!window.ends) return asked.signal.addEventListener('abort', () => c.error(new DOMException('', 'AbortError')));
			c.enqueue(event({type: 'message_stop'}));
			c.close();
		}}));
	})`, nil)
	const send, stop = "#playground [type=submit]", "[data-do=stop]"
	idle := `document.querySelector('[data-do=stop]').disabled`
	calls := func(n int) string {
		return fmt.Sprintf(`document.querySelectorAll('[placeholder="the result of look"]').length === %d`, n)
	}
	holds := func(what, expression string) {
		t.Helper()
		ok := false
		if b.Eval(expression, &ok); !ok {
			t.Errorf("%s: %.600s", what, b.Text())
		}
	}
	b.Until(idle)
	b.Fill("[name=message]", "Look.")
	b.Click(send, false)
	b.Until(calls(1))
	b.Click(stop, false)
	b.Until(idle)
	holds("an empty box switches thinking off", `body.thinking.type === 'disabled'`)
	b.Eval(`document.querySelector('[name=thinking]').checked = true`, nil)
	holds("the page after a stop", calls(0)+` && document.querySelector('#turns').children.length === 2
		&& document.querySelector('[name=message]').value === 'Look.'`)
	b.Eval(`window.ends = true`, nil)
	b.Fill("[name=message]", "Look.")
	b.Click(send, false)
	b.Until(calls(1) + " && " + idle)
	holds("a ticked box switches it on", `body.thinking.type === 'enabled'`)
	holds("what went out after a stop", `sent.length === 3 && sent[2].content.length === 1`)
	b.Eval(`window.ends = false`, nil)
	b.Fill("[data-call]", "a tree")
	b.Click(send, false)
	b.Until(calls(2))
	b.Click(stop, false)
	b.Until(idle)
	holds("the result after a stop", calls(1)+` && !document.querySelector('[data-call=call_1]').readOnly`)
	b.Eval(`window.ends = true`, nil)
	b.Click(send, false)
	b.Until(calls(2) + " && " + idle)
	holds("the result that went out", `sent.length === 5 && sent[4].content.length === 1 && sent[4].content[0].content === 'a tree'`)
	holds("an answer that ended is not given up", `!signal.aborted`)
	b.Eval(`window.breaks = true`, nil)
	b.Click(send, false)
	b.Until(`document.querySelector('#usage').textContent === 'It broke.' && ` + idle)
	holds("what nobody reads any more is given up", `signal.aborted`)
}

// compareInABrowser asks why two requests did not share what was cached.
func compareInABrowser(t *testing.T, b *browsertest.Browser, n *node, base string) {
	operator, err := admin.Dial(n.cfg.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	past := pastRequests(t, operator, url.Values{}, 2) // the playground's and that of startConsole
	b.Open(base + "/console/models/why")
	b.Fill("[name=first]", past[0].ID)
	b.Fill("[name=second]", past[1].ID)
	b.Click("form.filter button", true)
	if text := b.Text(); !strings.Contains(text, "different models") || !strings.Contains(text, "corenode cache why "+past[0].ID) {
		t.Errorf("two requests compared: %.400s", text)
	}
	if p := b.Problems(); len(p) > 0 {
		t.Error(p)
	}
}

// TestConsoleDoor: without a token there is the sign-in page and nothing else, and a form that is
// not of the console's own page does nothing.
func TestConsoleDoor(t *testing.T) {
	n, base, acct, request := startConsole(t)
	jar, _ := cookiejar.New(nil)
	h := &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	do := func(method, path, origin string, form url.Values) *http.Response {
		r, err := http.NewRequest(method, base+path, strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		answer, err := h.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		return answer
	}
	for _, page := range append(consolePages(acct, request, "x"), "series?span=1m", "ledger.csv", "nothing") {
		if answer := do("GET", "/console/"+page, "", nil); answer.StatusCode != http.StatusSeeOther || !strings.HasPrefix(answer.Header.Get("Location"), "/console/sign-in") {
			t.Errorf("/%s without a session: %d to %s", page, answer.StatusCode, answer.Header.Get("Location"))
		}
	}
	topup := "/console/accounts/" + acct + "/topup"
	if answer := do("POST", topup, base, url.Values{"amount": {"5"}}); answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("a form without a session: %d", answer.StatusCode)
	}
	token := url.Values{"operator_token": {adminToken(t, n)}, "to": {"//evil.example/"}}
	if answer := do("POST", "/console/sign-in", "http://evil.example", token); answer.StatusCode != http.StatusForbidden {
		t.Errorf("signing in from another page: %d", answer.StatusCode)
	}
	if answer := do("POST", "/console/sign-in", base, token); answer.StatusCode != http.StatusSeeOther || answer.Header.Get("Location") != "/console/" {
		t.Errorf("signing in: %d to %s", answer.StatusCode, answer.Header.Get("Location"))
	}
	for _, c := range []struct{ what, origin, token string }{{"no form token", base, ""}, {"another's form token", base, "AAAA"}, {"no origin", "", ""}, {"another origin", "http://evil.example", ""}, {"a null origin", "null", ""}} {
		if answer := do("POST", topup, c.origin, url.Values{"amount": {"5"}, "token": {c.token}}); answer.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %d", c.what, answer.StatusCode)
		}
	}
	for range 5 {
		do("POST", "/console/sign-in", base, url.Values{"operator_token": {"wrong"}})
	}
	if answer := do("POST", "/console/sign-in", base, token); answer.StatusCode != http.StatusTooManyRequests {
		t.Errorf("after five wrong tokens: %d", answer.StatusCode)
	}
	if answer := do("GET", "/console/", "", nil); answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Security-Policy") == "" {
		t.Errorf("who is signed in stays so: %d", answer.StatusCode)
	}
}

// consoleClient sends requests to the console at base as one browser does, which keeps its cookies.
func consoleClient(t *testing.T, base string) func(method, path string, form url.Values) (status int, page string) {
	jar, _ := cookiejar.New(nil)
	h := &http.Client{Jar: jar}
	return func(method, path string, form url.Values) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, base+path, strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", base)
		answer, err := h.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		page, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(page)
	}
}

// TestConsoleViewer: who may only look sees every page and changes nothing, whatever is sent.
func TestConsoleViewer(t *testing.T) {
	n, base, acct, request := startConsole(t)
	send := consoleClient(t, base)
	status, page := send("POST", "/console/sign-in", url.Values{"operator_token": {viewerToken}, "to": {"/console/accounts/" + acct}})
	if status != http.StatusOK || !strings.Contains(page, "alice") || strings.Contains(page, "/topup") {
		t.Fatalf("signing in: %d %.200s", status, page)
	}
	_, rest, _ := strings.Cut(page, `name="token" value="`)
	token, _, _ := strings.Cut(rest, `"`)
	forms := []string{"requests/x/cancel", "accounts", "accounts/" + acct + "/topup", "accounts/" + acct + "/limits", "accounts/" + acct + "/switch",
		"accounts/" + acct + "/keys", "keys/x/revoke", "charges/" + request + "/refund", "modules", "modules/x/activate", "modules/x/canary",
		"slots/chat/rollback", "upstreams/x/drain", "cluster/x/drain", "drain"}
	for _, path := range forms {
		form := url.Values{"token": {token}, "amount": {"5"}, "name": {"mallory"}, "disabled": {"true"}, "url": {"http://x"}}
		if status, page := send("POST", "/console/"+path, form); status != http.StatusForbidden {
			t.Errorf("%s by a viewer: %d %.200s", path, status, page)
		}
	}
	if rows, err := n.store.Audited("eve", 0, 100); err != nil || len(rows) != len(forms) || rows[0].Path != "/console/drain" || rows[0].Status != 403 {
		t.Errorf("the audit has %+v, %v, want the %d forms that were refused", rows, err, len(forms))
	}
	for _, page := range consolePages(acct, request, "builtin") {
		if status, text := send("GET", "/console/"+page, nil); status != http.StatusOK && !strings.Contains(page, "find=") && !strings.Contains(page, "builtin") {
			t.Errorf("/%s for a viewer: %d %.200s", page, status, text)
		}
	}
	_, page = send("GET", "/console/doctor", nil)
	found, _ := n.examine()
	for _, f := range found {
		if shown := html.EscapeString(f.Check) + "</td><td>"; !strings.Contains(page, shown) || f.Check == "disk sync" && !strings.Contains(page, "for a small write") {
			t.Errorf("the doctor's page does not show %+v: %.300s", f, page)
		}
	}
	if len(found) < 5 || !strings.Contains(page, "<strong>warn</strong></td><td>none was ever made") || !strings.Contains(page, "<td>it answers</td>") {
		t.Errorf("the doctor's page has %d checks: %s", len(found), page)
	}
	if a, err := n.store.Account(acct); err != nil || a.Disabled {
		t.Errorf("%+v, %v", a, err)
	}
	if _, err := n.store.Account("mallory"); err == nil {
		t.Error("a viewer made an account")
	}
	n.server.SetOperators(n.token, nil)
	if status, page := send("GET", "/console/accounts", nil); status != http.StatusOK || !strings.Contains(page, "Operator token") {
		t.Errorf("an operator who is not there any more: %d %.200s", status, page)
	}
}
