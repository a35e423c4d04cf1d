package trace

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// Config says where traces go and which are kept.
type Config struct {
	Endpoint string // URL that takes them
	Headers  [][2]string
	Timeout  time.Duration // of one request to the collector
	Delay    time.Duration // longest time that a trace waits for others to go with
	Plain    bool          // not compressed
	TLS      *tls.Config   // nil is the system's
	// Share is how many of the requests are kept that neither failed nor were slow, 0 to 1.
	Share float64
	// Peers says that what peer nodes keep is kept here, too.
	Peers bool
	// SlowCall is from where on a call of a module has a span.
	SlowCall time.Duration
	// Attributes are what OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say of the node.
	Attributes [][2]string
}

const (
	shareDefault    = 0.01
	timeoutDefault  = 10 * time.Second
	delayDefault    = 5 * time.Second
	slowCallDefault = time.Millisecond
)

// FromEnv reads the standard variables. It is nil where no endpoint is named, or traces are turned
// off: then nothing is traced. An error says all that cannot be used.
func FromEnv(getenv func(string) string) (*Config, error) {
	e := env{getenv: getenv}
	c := &Config{Endpoint: e.endpoint(), Share: shareDefault, Peers: true, SlowCall: slowCallDefault}
	if c.Endpoint == "" || strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") || getenv("OTEL_TRACES_EXPORTER") == "none" {
		return nil, nil
	}
	if p := e.otlp("PROTOCOL"); p != "" && p != "http/json" {
		e.fail("OTEL_EXPORTER_OTLP_PROTOCOL", p, "http/json: the node speaks no other")
	}
	switch z := e.otlp("COMPRESSION"); z {
	case "", "gzip":
	case "none":
		c.Plain = true
	default:
		e.fail("OTEL_EXPORTER_OTLP_COMPRESSION", z, "gzip or none")
	}
	c.Headers = e.pairs("OTEL_EXPORTER_OTLP_HEADERS", e.otlp("HEADERS"))
	c.Timeout = e.milliseconds("OTEL_EXPORTER_OTLP_TIMEOUT", e.otlp("TIMEOUT"), timeoutDefault)
	c.Delay = e.milliseconds("OTEL_BSP_SCHEDULE_DELAY", getenv("OTEL_BSP_SCHEDULE_DELAY"), delayDefault)
	c.Attributes = e.pairs("OTEL_RESOURCE_ATTRIBUTES", getenv("OTEL_RESOURCE_ATTRIBUTES"))
	if name := getenv("OTEL_SERVICE_NAME"); name != "" {
		c.Attributes = append(c.Attributes, [2]string{serviceName, name})
	}
	e.sampler(c)
	c.TLS = e.tls()
	return c, errors.Join(e.errs...)
}

type env struct {
	getenv func(string) string
	errs   []error
}

// otlp is a variable of the exporter: the one for traces, else the one for all signals.
func (e *env) otlp(name string) string {
	if v := e.getenv("OTEL_EXPORTER_OTLP_TRACES_" + name); v != "" {
		return v
	}
	return e.getenv("OTEL_EXPORTER_OTLP_" + name)
}

func (e *env) fail(name, value, want string) {
	e.errs = append(e.errs, fmt.Errorf("%s is %q, want %s", name, value, want))
}

// endpoint is where traces go: a URL for traces as it stands, one for all signals with their path.
func (e *env) endpoint() string {
	name := "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	v := e.getenv(name)
	if v == "" {
		if name = "OTEL_EXPORTER_OTLP_ENDPOINT"; e.getenv(name) == "" {
			return ""
		}
		v = strings.TrimSuffix(e.getenv(name), "/") + "/v1/traces"
	}
	if u, err := url.Parse(v); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		e.errs = append(e.errs, fmt.Errorf("%s is no URL of http or https", name)) // it may have a secret
	}
	return v
}

// pairs reads name=value,name=value with values that are escaped as in a URL.
func (e *env) pairs(name, list string) (all [][2]string) {
	for part := range strings.SplitSeq(list, ",") {
		key, value, found := strings.Cut(part, "=")
		key = strings.TrimSpace(key)
		plain, err := url.PathUnescape(strings.TrimSpace(value))
		switch {
		case strings.TrimSpace(part) == "":
		case !found || key == "" || err != nil:
			e.errs = append(e.errs, fmt.Errorf("%s has an entry that is not name=value", name)) // it may be a secret
		default:
			all = append(all, [2]string{key, plain})
		}
	}
	return all
}

func (e *env) milliseconds(name, value string, or time.Duration) time.Duration {
	if value == "" {
		return or
	}
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil || n <= 0 {
		e.fail(name, value, "milliseconds above 0")
		return or
	}
	return time.Duration(n) * time.Millisecond
}

// sampler reads which share is kept. That a sampler is based on the parent is meant of peer nodes:
// clients decide nothing.
func (e *env) sampler(c *Config) {
	name, based := strings.CutPrefix(e.getenv("OTEL_TRACES_SAMPLER"), "parentbased_")
	if name == "" {
		return
	}
	c.Peers = based
	switch name {
	case "always_on":
		c.Share = 1
	case "always_off":
		c.Share = 0
	case "traceidratio":
		c.Share = 1
		if arg := e.getenv("OTEL_TRACES_SAMPLER_ARG"); arg != "" {
			share, err := strconv.ParseFloat(arg, 64)
			if err != nil || !(share >= 0 && share <= 1) {
				e.fail("OTEL_TRACES_SAMPLER_ARG", arg, "0 to 1")
			}
			c.Share = share
		}
	default:
		e.fail("OTEL_TRACES_SAMPLER", e.getenv("OTEL_TRACES_SAMPLER"), "always_on, always_off or traceidratio, with "+
			"parentbased_ or without")
	}
}

// tls reads the files of certificates; nil where none is named.
func (e *env) tls() *tls.Config {
	ca, cert, key := e.otlp("CERTIFICATE"), e.otlp("CLIENT_CERTIFICATE"), e.otlp("CLIENT_KEY")
	if ca == "" && cert == "" {
		return nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if c.RootCAs = x509.NewCertPool(); err != nil || !c.RootCAs.AppendCertsFromPEM(pem) {
			e.fail("OTEL_EXPORTER_OTLP_CERTIFICATE", ca, "a file of certificates in PEM")
		}
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			e.fail("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", cert, "a certificate, and its key in OTEL_EXPORTER_OTLP_CLIENT_KEY")
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c
}
