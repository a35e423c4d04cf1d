package upstream

import "strings"

// withoutKey takes the keys that the servers ask for, or asked for of late, out of what they say: clients and the
// log see it. mu is not held.
func (m *Model) withoutKey(msg string) string {
	m.mu.Lock()
	keys := m.keys
	m.mu.Unlock()
	for _, key := range keys {
		if key != "" {
			msg = strings.ReplaceAll(msg, key, "***")
		}
	}
	return msg
}

// keyless is an error without the key in its text, which may quote how an answer began.
func (m *Model) keyless(err error) error {
	if err == nil {
		return nil
	}
	if text := m.withoutKey(err.Error()); text != err.Error() {
		return keyless{err, text}
	}
	return err
}

type keyless struct {
	cause error
	text  string
}

// Error implements error.
func (k keyless) Error() string { return k.text }

// Unwrap gives what errors.Is and errors.As look at.
func (k keyless) Unwrap() error { return k.cause }
