// Package browsertest drives a real Chromium in tests, over the pipe that its DevTools protocol
// offers (https://chromedevtools.github.io/devtools-protocol/), without a driver of others.
package browsertest

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// waitMax is how long Until waits, and any command: a machine under load is slow.
const waitMax = 60 * time.Second

// Browser is one tab of a Chromium that has nothing of its user's.
type Browser struct {
	t       *testing.T
	to      *os.File
	session string

	mu       sync.Mutex
	next     int
	waiting  map[int]chan answer // guarded by mu, as are next and what follows
	requests []string
	problems []string
}

type answer struct {
	Result json.RawMessage
	Error  *struct{ Message string }
}

// Start starts a browser, or skips the test where there is none.
func Start(t *testing.T) *Browser {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Skip("no Chromium is installed: the console is not driven in a browser")
	}
	theirs, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, theirsOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-extensions", "--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--no-default-browser-check", "--force-color-profile=srgb", "--remote-debugging-pipe",
		"--user-data-dir="+t.TempDir(), "about:blank")
	cmd.ExtraFiles = []*os.File{theirs, theirsOut} // its descriptors 3 and 4
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	theirsOut.Close()
	b := &Browser{t: t, to: to, waiting: map[int]chan answer{}}
	read := make(chan struct{})
	go func() { defer close(read); b.read(from) }()
	t.Cleanup(func() {
		b.call("Browser.close", nil, nil)
		to.Close()
		done := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() }) // it may be gone
		_ = cmd.Wait()                                                            // how it ended says nothing of the test
		done.Stop()
		from.Close()
		<-read
	})
	var target struct{ TargetID, SessionID string }
	b.must("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	b.must("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &target)
	b.session = target.SessionID
	for _, domain := range []string{"Page", "Runtime", "Network", "Log"} {
		b.must(domain+".enable", nil, nil)
	}
	b.Size(1280, 900)
	return b
}

// read takes answers and events until the browser ends.
func (b *Browser) read(from *os.File) {
	in := bufio.NewReader(from)
	for {
		text, err := in.ReadBytes(0)
		if err != nil {
			break
		}
		var m struct {
			ID     int
			Method string
			Params json.RawMessage
			answer
		}
		if json.Unmarshal(text[:len(text)-1], &m) != nil {
			continue
		}
		if m.ID == 0 {
			b.event(m.Method, m.Params)
			continue
		}
		b.mu.Lock()
		wait := b.waiting[m.ID]
		delete(b.waiting, m.ID)
		b.mu.Unlock()
		if wait != nil {
			wait <- m.answer
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, wait := range b.waiting {
		close(wait)
		delete(b.waiting, id)
	}
}

// event keeps what tests ask for: requests, errors of scripts, reports of policies.
func (b *Browser) event(method string, params json.RawMessage) {
	var p struct {
		Request          struct{ URL string }
		Entry            struct{ Source, Level, Text, URL string }
		ExceptionDetails struct {
			Text      string
			Exception struct{ Description string }
		}
		Type, Message string
	}
	if json.Unmarshal(params, &p) != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch method {
	case "Network.requestWillBeSent":
		b.requests = append(b.requests, p.Request.URL)
	case "Log.entryAdded":
		if p.Entry.Level == "error" || p.Entry.Source == "security" {
			b.problems = append(b.problems, p.Entry.Source+": "+p.Entry.Text+" "+p.Entry.URL)
		}
	case "Runtime.exceptionThrown":
		b.problems = append(b.problems, "script: "+p.ExceptionDetails.Text+" "+p.ExceptionDetails.Exception.Description)
	case "Page.javascriptDialogOpening":
		if p.Type != "confirm" {
			b.problems = append(b.problems, "dialog: "+p.Type+" "+p.Message)
		}
		go b.call("Page.handleJavaScriptDialog", map[string]any{"accept": true}, nil)
	}
}

// call sends a command and reads its answer into out.
func (b *Browser) call(method string, params any, out any) error {
	if params == nil {
		params = struct{}{}
	}
	b.mu.Lock()
	b.next++
	id, wait := b.next, make(chan answer, 1)
	b.waiting[id] = wait
	message, err := json.Marshal(map[string]any{"id": id, "method": method, "params": params, "sessionId": b.session})
	if b.session == "" {
		message, err = json.Marshal(map[string]any{"id": id, "method": method, "params": params})
	}
	if err == nil {
		_, err = b.to.Write(append(message, 0))
	}
	b.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case got, open := <-wait:
		switch {
		case !open:
			return fmt.Errorf("%s: the browser has ended", method)
		case got.Error != nil:
			return fmt.Errorf("%s: %s", method, got.Error.Message)
		case out == nil:
			return nil
		}
		return json.Unmarshal(got.Result, out)
	case <-time.After(waitMax):
		return fmt.Errorf("%s: no answer", method)
	}
}

func (b *Browser) must(method string, params any, out any) {
	b.t.Helper()
	if err := b.call(method, params, out); err != nil {
		b.t.Fatal(err)
	}
}

// Size sets the window's size in pixels.
func (b *Browser) Size(width, height int) {
	b.t.Helper()
	b.must("Emulation.setDeviceMetricsOverride",
		map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}, nil)
}

// Media makes pages be shown as on paper ("print"), or with a feature of the user's, such as forced-colors active;
// both empty end it.
func (b *Browser) Media(kind, feature, value string) {
	b.t.Helper()
	p := map[string]any{"media": kind}
	if feature != "" {
		p["features"] = []map[string]string{{"name": feature, "value": value}}
	}
	b.must("Emulation.setEmulatedMedia", p, nil)
}

// Locale makes pages be shown as in a browser of that language, such as de-DE; empty ends it.
func (b *Browser) Locale(tag string) {
	b.t.Helper()
	b.must("Emulation.setLocaleOverride", map[string]any{"locale": tag}, nil)
}

// Scripts switches the scripts of pages on or off.
func (b *Browser) Scripts(on bool) {
	b.t.Helper()
	b.must("Emulation.setScriptExecutionDisabled", map[string]any{"value": !on}, nil)
}

// Open goes to a page and waits until it is there.
func (b *Browser) Open(url string) {
	b.t.Helper()
	b.Eval(`window.before = true`, nil)
	b.must("Page.navigate", map[string]any{"url": url}, nil)
	b.Loaded()
}

// Loaded waits for the page that a click or a form leads to.
func (b *Browser) Loaded() {
	b.t.Helper()
	b.Until(`window.before === undefined && document.readyState === 'complete'`)
}

// Click clicks what a selector finds, and with leads waits for the page behind it.
func (b *Browser) Click(selector string, leads bool) {
	b.t.Helper()
	b.Until(`document.querySelector(` + quoted(selector) + `) !== null`)
	b.Eval(`window.before = `+fmt.Sprint(leads)+`; document.querySelector(`+quoted(selector)+`).click()`, nil)
	if leads {
		b.Loaded()
	}
}

// Fill types a text into a field.
func (b *Browser) Fill(selector, text string) {
	b.t.Helper()
	b.Eval(`document.querySelector(`+quoted(selector)+`).focus(); document.querySelector(`+quoted(selector)+`).value = ''`, nil)
	b.must("Input.insertText", map[string]any{"text": text}, nil)
}

// Key presses a key, such as Tab or Enter.
func (b *Browser) Key(key string) {
	b.t.Helper()
	codes := map[string]int{"Tab": 9, "Enter": 13, "Escape": 27}
	p := map[string]any{"type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
	if key == "Enter" {
		p["text"] = "\r"
	}
	b.must("Input.dispatchKeyEvent", p, nil)
	p["type"] = "keyUp"
	delete(p, "text")
	b.must("Input.dispatchKeyEvent", p, nil)
}

// Eval runs an expression in the page and reads its value into out. A page that is replaced
// meanwhile is asked again.
func (b *Browser) Eval(expression string, out any) {
	b.t.Helper()
	if err := b.eval(expression, out); err != nil {
		b.t.Fatal(err)
	}
}

func (b *Browser) eval(expression string, out any) error {
	var got struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	err := b.call("Runtime.evaluate",
		map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true, "userGesture": true}, &got)
	if err == nil && got.ExceptionDetails != nil {
		err = fmt.Errorf("%s: %s", expression, got.ExceptionDetails.Exception.Description)
	}
	if err != nil || out == nil || len(got.Result.Value) == 0 {
		return err
	}
	return json.Unmarshal(got.Result.Value, out)
}

// Until waits until an expression is true.
func (b *Browser) Until(expression string) {
	b.t.Helper()
	var last error
	for end := time.Now().Add(waitMax); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		ok := false
		if last = b.eval("!!("+expression+")", &ok); last == nil && ok {
			return
		}
	}
	b.t.Fatalf("not true in %v: %s (%v); the page says: %.600s", waitMax, expression, last, b.Text())
}

// Text is what the page shows.
func (b *Browser) Text() (text string) {
	_ = b.eval(`document.body.innerText`, &text) // a page that is gone shows nothing
	return text
}

// Requests are the addresses that pages have asked for.
func (b *Browser) Requests() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.requests...)
}

// Problems are errors of scripts, reports of policies and failed requests since the last call.
func (b *Browser) Problems() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := b.problems
	b.problems = nil
	return found
}

// Picture writes what the page looks like to a PNG file.
func (b *Browser) Picture(path string) {
	b.t.Helper()
	var got struct{ Data string }
	b.must("Page.captureScreenshot", map[string]any{"format": "png"}, &got)
	png, err := base64.StdEncoding.DecodeString(got.Data)
	if err == nil {
		err = os.WriteFile(path, png, 0o644)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

func quoted(text string) string {
	b, _ := json.Marshal(text) // a string always does
	return string(b)
}

// Reader is what a screen reader misses on the page: findings of the rules of WCAG 2.2 that a
// program can check, each with the element it is about.
func (b *Browser) Reader() (findings []string) {
	b.t.Helper()
	b.Eval(strings.TrimSpace(readerRules), &findings)
	return findings
}
