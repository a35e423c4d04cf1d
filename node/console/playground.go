package console

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"time"

	"corenode/node/admin"
)

// playgroundPage is what the form begins with.
type playgroundPage struct {
	Models []string
	API    string
}

func (c *Console) playground(*http.Request, *admin.Client) (any, error) {
	return playgroundPage{c.deps.Models(), c.deps.API}, nil
}

const (
	askBytesMax = 4 << 20
	askTimeout  = 15 * time.Minute
)

// newAPI sends what the playground asks: no proxy of the environment, no redirects.
func newAPI(secure *tls.Config) *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: secure},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// ask hands a body of the messages protocol to the node's own API, with the key that the operator
// pasted, and the answer back as it comes. It is a request like any other: limited, logged and
// billed. The page may only speak to its own listener, so it passes through here.
func (c *Console) ask(w http.ResponseWriter, r *http.Request, s *session) {
	// Not the request's context: it does not end when the browser leaves, and says so in a race with
	// a server that stops. A write that fails ends the request; a stream is never silent for long.
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	body := r.PostFormValue("body")
	if len(body) > askBytesMax {
		c.fail(w, r, s, invalid("the body has %d bytes, want at most %d", len(body), askBytesMax))
		return
	}
	asked, err := http.NewRequestWithContext(ctx, http.MethodPost, c.deps.API+"/v1/messages", strings.NewReader(body))
	if err != nil {
		c.fail(w, r, s, err)
		return
	}
	asked.Header.Set("Content-Type", "application/json")
	asked.Header.Set("X-Api-Key", r.PostFormValue("key"))
	answer, err := c.api.Do(asked)
	if err != nil {
		http.Error(w, "the API does not answer: "+err.Error(), http.StatusBadGateway)
		return
	}
	defer answer.Body.Close()
	w.Header().Set("Content-Type", answer.Header.Get("Content-Type"))
	w.Header().Set("Request-Id", answer.Header.Get("Request-Id"))
	w.WriteHeader(answer.StatusCode)
	pass(w, answer.Body)
}

// pass writes what comes as soon as it comes.
func pass(w http.ResponseWriter, from io.Reader) {
	flusher, _ := w.(http.Flusher)
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if _, failed := w.Write(buf[:n]); failed != nil {
				return
			}
			if flusher != nil {
				flusher.Flush()
			}
		}
		if err != nil {
			return
		}
	}
}
