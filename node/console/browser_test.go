package console

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"corenode/node/admin"
	"corenode/node/console/browsertest"
	"corenode/node/operators"
	"corenode/node/why"
)

// longID is a model's id as long as one may be, without a place to break it.
var longID = strings.Repeat("m", 128)

// browse is a console with two minutes of known numbers, at base, and a browser that is signed in there. Under /shown/
// are pages of models with a longID.
func browse(t *testing.T) (b *browsertest.Browser, base string) {
	t.Helper()
	b = browsertest.Start(t)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for _, event := range []string{`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"text":"Hello."}}`,
			`{"type":"message_stop","usage":{"output_tokens":1230}}`} {
			fmt.Fprintf(w, "data: %s\n\n", event)
		}
	}))
	t.Cleanup(api.Close)
	who := operators.Operator{Name: "a", Role: operators.Viewer}
	c := New(Deps{API: api.URL, Log: slog.New(slog.DiscardHandler), Named: func(string) operators.Operator { return who },
		Models: func() []string { return []string{longID} },
		Client: func(context.Context, operators.Operator) *admin.Client { return nil }}) // no page that is opened calls it
	began := time.Now().Add(-2 * time.Minute)
	for i := range 120 {
		text := fmt.Sprintf("corenode_requests_total{kind=\"ok\"} %d\ncorenode_requests_total{kind=\"internal\"} %d\n"+
			"corenode_refusals_total{kind=\"overloaded\"} 0\ncorenode_sequences_running 1230\n"+
			"corenode_ttft_seconds_bucket{le=\"0.9\"} 0\ncorenode_ttft_seconds_bucket{le=\"1.1\"} %d\n", 1230*i, 2*i, i)
		c.history.add(read([]byte(text), began.Add(time.Duration(i)*time.Second)))
	}
	long := map[string]any{
		"upstreams": []admin.UpstreamModel{{Model: longID}},
		"models":    modelsPage{Look: admin.CacheLook{Models: []admin.CachedModel{{Model: longID}}}},
		"why":       whyPage{Diagnosis: why.Diagnosis{Sentence: longID + " waits"}},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := r.Cookie(cookieOf(r.Host)); err != nil {
			cookie := &http.Cookie{Name: cookieOf(r.Host), Value: c.sessions.begin(who, r.Host, time.Now()), Path: "/"}
			r.AddCookie(cookie)
			http.SetCookie(w, cookie)
		}
		if page, is := strings.CutPrefix(r.URL.Path, "/shown/"); is {
			block := "base"
			if r.Header.Get("X-Fragment") != "" {
				block = "live"
			}
			c.render(w, http.StatusOK, page, block, c.shown(r, c.session(r), page, long[page]))
			return
		}
		c.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return b, server.URL
}

// holds says what of a page is not so.
func holds(t *testing.T, b *browsertest.Browser, what, expression string) {
	t.Helper()
	ok := false
	if b.Eval(expression, &ok); !ok {
		t.Errorf("%s: not %s; the page says: %.400s", what, expression, b.Text())
	}
}

// TestPauseInABrowser: who presses Pause, by key, keeps what is on the page, and is shown another time that is chosen.
func TestPauseInABrowser(t *testing.T) {
	b, base := browse(t)
	b.Open(base + Root)
	b.Until(`document.querySelector('.chart canvas')`)
	b.Eval(`void (() => { // each answer is another one
		const before = window.fetch;
		window.asked = window.ticks = window.refused = 0;
		window.fetch = async (to, how) => {
			asked++;
			window.last = to;
			if (refused-- > 0) throw new Error('the node is away');
			if (how.headers) return new Response(document.querySelector('[data-live]').innerHTML + ' ');
			const answer = await before(to, how), read = answer.json.bind(answer);
			answer.json = async () => {
				window.reading = true;
				const fresh = await read();
				await window.late;
				return fresh;
			};
			return answer;
		};
		setInterval(() => ticks++, 1000);
	})()`, nil)
	at := ""
	for range 30 {
		b.Key("Tab")
		if b.Eval(`document.activeElement.textContent`, &at); at == "Pause" {
			break
		}
	}
	if at != "Pause" {
		t.Fatalf("no key leads to the button; the last leads to %q", at)
	}
	b.Key("Enter")
	holds(t, b, "the button is pressed", `document.activeElement.getAttribute('aria-pressed') === 'true'`)
	b.Until(`document.querySelector('.stands').textContent.includes('paused')`) // what was on its way has come
	b.Eval(`window.old = document.querySelector('[data-live]').firstElementChild; asked = ticks = 0`, nil)
	b.Until(`ticks > 3`) // those of the page are as often
	holds(t, b, "what is shown stays", `old.isConnected && asked === 0`)
	holds(t, b, "a drag marks nothing: the next answer would end its zoom", `(over => {
		const r = over.getBoundingClientRect(), y = r.top + 20;
		for (const [type, x] of [['mouseenter', 90], ['mousemove', 90], ['mousedown', 90], ['mousemove', 200]])
			over.dispatchEvent(new MouseEvent(type, {clientX: r.left + x, clientY: y, movementX: 1, bubbles: true}));
		return over.querySelector('.u-select').clientWidth === 0;
	})(document.querySelector('.u-over'))`)
	b.Eval(`window.late = new Promise(come => { window.come = come; }); reading = false`, nil)
	b.Click(`[data-span="1h"]`, false)
	b.Until(`reading`) // whoever asks for another time is shown it
	b.Eval(`['15m', '24h', '15m'].forEach(s => document.querySelector('[data-span="' + s + '"]').click()); refused = 1; come()`, nil)
	b.Until(`last.includes('span=15m&behind=0&') && refused < 0`) // also behind another answer, and one that does not come
	b.Eval(`asked = ticks = 0`, nil)
	b.Until(`ticks > 3`)
	holds(t, b, "what is shown stands still again", `asked <= 1`)
	b.Key("Enter")
	b.Until(`!old.isConnected && asked > 2`)
	b.Open(base + Root + "playground")
	holds(t, b, "a page where nothing renews itself has no button", `document.querySelector('#pause').getClientRects().length === 0`)
}

// TestChartsSayWhatTheyDraw: a chart says in words what it draws, and no line is known by its color alone.
func TestChartsSayWhatTheyDraw(t *testing.T) {
	b, base := browse(t)
	b.Open(base + Root)
	b.Until(`document.querySelector('.chart canvas')`)
	holds(t, b, "the text of a chart", `document.querySelector('.chart [role=img]').getAttribute('aria-label') ===
		'requests: latest 1\u202f232, highest 1\u202f232; refused: latest 0, highest 0; failed: latest 2, highest 2'`)
	holds(t, b, "a number that is not there", `[...document.querySelectorAll('.chart [role=img]')].some(chart =>
		chart.getAttribute('aria-label').startsWith('itl p50: latest –, highest –;'))`)
	holds(t, b, "the marks of the legend", `new Set([...document.querySelector('.chart').querySelectorAll('.u-marker')].slice(1)
		.map(m => getComputedStyle(m).borderTopStyle)).size === 3`)
	holds(t, b, "a tile of what fails", `/^Refused\s+0 .s\s+2 .s failed$/.test([...document.querySelectorAll('.tiles div')]
		.map(d => d.innerText.trim()).find(t => t.startsWith('Refused')))`)
}

// TestNumbersOfTheScriptAreThoseOfPages: tiles, legends, axes and the words of a chart write numbers and times in one way,
// whatever the browser's language.
func TestNumbersOfTheScriptAreThoseOfPages(t *testing.T) {
	b, base := browse(t)
	b.Locale("de-DE")
	b.Open(base + Root)
	b.Until(`document.querySelector('.chart canvas')`)
	values := []float64{0, 1e-4, 0.00123456, 0.5, 0.9999, 1, 1.23, 9.999, 12.345, 99.94, 99.96, 100, 999.4, 1000, 1230, 1234.6, 1234567}
	text, err := json.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	var got [][2]string
	b.Eval(string(text)+`.map(v => [decimal(v), seconds(v)])`, &got)
	for i, v := range values {
		if want := [2]string{decimal(v), seconds(v)}; got[i] != want {
			t.Errorf("%v is %q in the script, %q in pages", v, got[i], want)
		}
	}
	none := ""
	if b.Eval(`seconds(null)`, &none); none != seconds(math.NaN()) {
		t.Errorf("none is %q in the script, %q in pages", none, seconds(math.NaN()))
	}
	b.Eval(`void (() => { // what is drawn as text
		window.drawn = [];
		const before = CanvasRenderingContext2D.prototype.fillText;
		CanvasRenderingContext2D.prototype.fillText = function(text, ...at) { drawn.push(text); before.call(this, text, ...at); };
	})()`, nil)
	b.Until(`drawn.includes('0 µs') && drawn.some(t => t.includes(':'))`)
	var drawn []string
	b.Eval(`drawn`, &drawn)
	for _, text := range drawn {
		if !regexp.MustCompile(`^([\d\x{202f}]+(\.\d+)?( µs| ms| s)?|\d\d:\d\d(:\d\d)?)$`).MatchString(text) {
			t.Errorf("an axis has %q", text)
		}
	}
	b.Eval(`(over => { // the pointer comes over the first chart
		const r = over.getBoundingClientRect(), at = {clientX: r.right - 30, clientY: r.top + 20, bubbles: true};
		for (const type of ['mouseenter', 'mousemove']) over.dispatchEvent(new MouseEvent(type, at));
	})(document.querySelector('.u-over'))`, nil)
	b.Until(`document.querySelector('.chart .u-value').textContent !== '--'`)
	legend := `[...document.querySelector('.chart').querySelectorAll('.u-value')].map(v => v.textContent)`
	holds(t, b, "the legend's time", `/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/.test(`+legend+`[0])`)
	holds(t, b, "the legend says of which clock", `document.querySelector('.chart .u-label').textContent === 'UTC'`)
	holds(t, b, "the legend has the digits of the tile", legend+`[1] === document.querySelector('.tiles dd').firstChild.data.trim()`)
}

// TestChartsFollowTheColors: charts follow the colors of the page, those that are paused too.
func TestChartsFollowTheColors(t *testing.T) {
	b, base := browse(t)
	b.Media("", "prefers-color-scheme", "light")
	b.Open(base + Root)
	b.Until(`document.querySelector('.chart canvas')`)
	b.Click("#pause", false)
	b.Until(`document.querySelector('.stands').textContent.includes('paused')`)
	const mark = `getComputedStyle(document.querySelectorAll('.chart .u-marker')[1]).borderTopColor`
	b.Eval(`window.light = document.querySelector('.chart canvas').toDataURL(); window.mark = `+mark, nil)
	b.Media("", "prefers-color-scheme", "dark")
	b.Until(`document.querySelector('.chart canvas').toDataURL() !== light`)
	holds(t, b, "the marks of the legend", mark+` !== mark`)
}

// TestTurnsSayWhoSpeaks: each turn of the playground says whose it is, in words.
func TestTurnsSayWhoSpeaks(t *testing.T) {
	b, base := browse(t)
	b.Media("", "forced-colors", "active")
	b.Open(base + Root + "playground")
	b.Fill("[name=key]", "sk-1")
	b.Fill("[name=message]", "Say hello.")
	b.Click("#playground [type=submit]", false)
	b.Until(`document.querySelector('[data-do=stop]').disabled && document.querySelector('#turns').innerText.includes('Hello.')`)
	holds(t, b, "the turns", `document.querySelector('#turns').innerText.replaceAll(/\s+/g, ' ') === 'You Say hello. Model Hello.'`)
	holds(t, b, "the numbers of the answer", `document.querySelector('#usage').textContent.includes(' 1\u202f230 output')`)
}

// TestLongIDsFitOnANarrowScreen: no id widens a page on a narrow screen.
func TestLongIDsFitOnANarrowScreen(t *testing.T) {
	b, base := browse(t)
	b.Size(320, 740)
	for _, page := range []string{"/shown/upstreams", "/shown/models", "/shown/why", Root + "playground"} {
		b.Open(base + page)
		holds(t, b, page+" has the id", `document.querySelector('main').textContent.includes('`+longID+`')`)
		holds(t, b, page+" at 320 pixels", `document.scrollingElement.scrollWidth <= 320`)
	}
}

// TestANodeThatIsAwayIsReadable: what is shown while the node is away can be read, and is told from what is of now.
func TestANodeThatIsAwayIsReadable(t *testing.T) {
	b, base := browse(t)
	for _, colors := range []string{"light", "dark"} {
		b.Media("", "prefers-color-scheme", colors)
		b.Open(base + Root)
		b.Until(`document.querySelector('.chart canvas')`)
		b.Eval(`void (window.fetch = async () => { throw new TypeError('away'); })`, nil)
		b.Until(`document.querySelector('.off')`)
		for _, finding := range b.Reader() {
			t.Errorf("%s: %s", colors, finding)
		}
		holds(t, b, "what is said of it lies above the charts", `(note => {
			const place = e => e.getBoundingClientRect(), chart = document.querySelectorAll('.u-over')[4], x = place(note).right - 20;
			scrollBy(0, place(chart).top - place(note).top);
			return document.elementsFromPoint(x, place(note).top + 10).includes(chart) &&
				document.elementFromPoint(x, place(note).top + 10) === note;
		})(document.querySelector('.stands'))`)
		holds(t, b, "it is marked", `getComputedStyle(document.querySelector('.off')).outlineStyle === 'dashed'`)
	}
}
