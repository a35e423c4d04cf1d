package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/node/admin"
	"corenode/wasm/abi"
)

// consoleRows says how many rows the ledger has under BenchmarkConsole, whose gate is for
// 10,000,000 of them: they take some minutes and 5 GB.
const consoleRows = "CORENODE_CONSOLE_ROWS"

// BenchmarkConsole is the processor time of each page, its client's included, and of a console
// that is open at its first page, in per cent of one processor for ten of them.
func BenchmarkConsole(b *testing.B) {
	n, base, acct, request := startConsole(b)
	jar, _ := cookiejar.New(nil)
	client := &http.Client{Jar: jar}
	r, err := http.NewRequest(http.MethodPost, base+"/console/sign-in",
		strings.NewReader(url.Values{"operator_token": {adminToken(b, n)}}.Encode()))
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", base)
	get(b, client, r)
	rows, _ := strconv.Atoi(os.Getenv(consoleRows))
	fillLedger(b, n, acct, rows)
	ask := func(path, fragment string) {
		r, err := http.NewRequest(http.MethodGet, base+"/console/"+path, nil)
		if err != nil {
			b.Fatal(err)
		}
		if fragment != "" {
			r.Header.Set("X-Fragment", fragment)
		}
		get(b, client, r)
	}
	pages := slices.DeleteFunc(consolePages(acct, request, ""), func(p string) bool {
		return p == "why" || p == "doctor" || strings.HasSuffix(p, "/") || strings.Contains(p, "find=") // they watch for seconds, or find nothing
	})
	for _, page := range append(pages, "ledger?account="+acct, "ledger?kind=settlement&order=oldest", "accounts/"+acct+"?by=day,model,key") {
		b.Run("page="+page, func(b *testing.B) {
			var took []time.Duration
			before := processTime()
			for b.Loop() {
				began := time.Now()
				ask(page, "")
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64((processTime()-before).Microseconds())/float64(b.N)/1e3, "cpu-ms/page")
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1e3, "p50-ms")
		})
	}
	b.Run("open", func(b *testing.B) {
		before := processTime()
		for b.Loop() { // what the script of an open page asks each second
			ask("", "1")
			ask(fmt.Sprintf("series?span=15m&behind=%d&names=", time.Now().Unix()-1), "")
		}
		second := (processTime() - before).Seconds() / float64(b.N)
		b.ReportMetric(100*10*second, "%-of-a-processor-for-ten")
	})
}

// get asks for a page, which must be there.
func get(b *testing.B, client *http.Client, r *http.Request) {
	b.Helper()
	answer, err := client.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != http.StatusOK {
		b.Fatalf("%s: status %d, %v", r.URL, answer.StatusCode, err)
	}
}

// fillLedger adds rows of requests over the last 90 days: half of them holds, of 100 accounts, an
// eighth of them of one.
func fillLedger(b *testing.B, n *node, busy string, rows int) {
	b.Helper()
	if rows == 0 {
		return
	}
	operator, err := admin.Dial(n.cfg.DataDir)
	if err != nil {
		b.Fatal(err)
	}
	accounts := []string{}
	for i := range 100 {
		made, err := operator.CreateAccount(admin.NewAccount{Name: fmt.Sprint("filled-", i), Balance: admin.Amount{USD: "100000"}})
		if err != nil {
			b.Fatal(err)
		}
		accounts = append(accounts, made.ID)
	}
	models := []string{"core-1.1", "core-1.1-mini"}
	const batch = 500
	start, step := time.Now().AddDate(0, 0, -90), 90*24*time.Hour/time.Duration(rows)
	for at := 0; at < rows; at += 2 * batch {
		entries := make([]account.Entry, 0, 2*batch)
		for i := range batch {
			number := at + 2*i
			who := accounts[number/2%len(accounts)]
			if number/2%8 == 0 {
				who = busy
			}
			e := account.Entry{Kind: account.Hold, AccountID: who, RequestID: fmt.Sprint("req_filled_", number), KeyID: "key_" + who,
				Model: models[number/2%2], Time: start.Add(time.Duration(number) * step), Held: 2000}
			entries = append(entries, e)
			e.Kind, e.Held, e.Amount, e.Reason = account.Settlement, 0, -abi.Nano(1000+number%7), account.Finished
			e.Usage = abi.Usage{InputUncached: 60, Output: 16}
			entries = append(entries, e)
		}
		if err := n.store.Append(entries); err != nil {
			b.Fatal(err)
		}
	}
}
