package server

import (
	"io"
	"strings"
	"testing"
)

// TestMisframed: what a proxy may read in another way is refused, and the
// connection ends: nothing behind it is taken for a request.
func TestMisframed(t *testing.T) {
	n := start(t, Config{}, newFakeBackend(say("x")))
	length := "Content-Length: 80"
	for name, headers := range map[string][]string{
		"space in a name":           {withKey, "X Odd: 1"},
		"space before the colon":    {withKey, "X-Odd : 1"},
		"name of no characters":     {withKey, ": 1"},
		"bracket in a name":         {withKey, "X(Odd): 1"},
		"folded header":             {withKey, "X-Odd: 1\r\n 2"},
		"folded coding":             {withKey, "Transfer-Encoding:\r\n chunked"},
		"folded coding, tab":        {withKey, "Transfer-Encoding: \r\n\tchunked", length},
		"identity beside a length":  {withKey, "Transfer-Encoding: identity", length},
		"identity":                  {withKey, "Transfer-Encoding: identity"},
		"chunks beside a length":    {withKey, "Transfer-Encoding: chunked", length},
		"length beside chunks":      {withKey, length, "Transfer-Encoding: chunked"},
		"two codings":               {withKey, "Transfer-Encoding: gzip, chunked"},
		"coding twice":              {withKey, "Transfer-Encoding: chunked", "Transfer-Encoding: chunked"},
		"unknown coding":            {withKey, "Transfer-Encoding: xchunked"},
		"two lengths":               {withKey, length, length},
		"two different lengths":     {withKey, length, "Content-Length: 3"},
		"list of lengths":           {withKey, "Content-Length: 80, 80"},
		"length with a sign":        {withKey, "Content-Length: +80"},
		"length with a space in it": {withKey, "Content-Length: 8 0"},
		"negative length":           {withKey, "Content-Length: -80"},
		"hexadecimal length":        {withKey, "Content-Length: 0x50"},
		"without a key":             {"Transfer-Encoding: identity", length},
	} {
		t.Run(name, func(t *testing.T) {
			c := n.dialT(t)
			defer c.Close()
			head := "POST /v1/messages HTTP/1.1\r\nHost: node\r\n" + strings.Join(headers, "\r\n") + "\r\n\r\n"
			behind := request("GET", "/healthz", "")
			if _, err := io.WriteString(c, head+behind); err != nil {
				t.Fatal(err)
			}
			if err := c.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			all, _ := io.ReadAll(c) // a reset behind the answer is an end too
			if got := string(all); !strings.HasPrefix(got, "HTTP/1.1 400 ") || strings.Count(got, "HTTP/1.1 ") != 1 ||
				!strings.Contains(got, `"invalid_request_error"`) || !strings.Contains(got, "X-Llm-Request-Id") {
				t.Errorf("%q", got)
			}
		})
	}
}

// TestUnknownQueryParametersAreIgnored: on the public side, as SDKs send their own.
func TestUnknownQueryParametersAreIgnored(t *testing.T) {
	n := start(t, Config{}, newFakeBackend(say("x")))
	if r := n.raw(request("POST", "/v1/messages?beta=true&beta=1", ask, withKey)); r.StatusCode != 200 {
		t.Errorf("%d %q", r.StatusCode, r.body)
	}
}
