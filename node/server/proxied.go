package server

import "time"

// proxyHeaders are those by which a request says that a proxy passed it on.
var proxyHeaders = [...][]byte{[]byte("X-Forwarded-For"), []byte("Via"), []byte("Forwarded")}

// proxied says whether a proxy passed the request on.
func (x *exchange) proxied() bool {
	for _, name := range proxyHeaders {
		if len(x.ctx.Request.Header.PeekCanonical(name)) > 0 {
			return true
		}
	}
	return false
}

// letProxyRead waits until ProxyPause after the request has arrived, if a proxy passed it on. Proxies made with Go's net/http
// have sent a whole body before they read that it has ended. The head of an answer that they pass on in between closes the body,
// and then they close the connection to this node: the client gets a part of its stream and pays for it (golang/go#40747).
func (a *streamed) letProxyRead() {
	if !a.x.proxied() {
		return
	}
	pause := startTimer(a.x.s.cfg.ProxyPause - time.Since(a.x.arrived))
	defer stopTimer(pause)
	select {
	case <-pause.C:
	case <-a.gone:
	case <-a.x.s.life.Done():
	}
}
