package grammar

// Allowed are the tokens that Mask leaves possible, a bit each: for a draw that is made
// elsewhere. It is nil where nothing is held, and valid until Accept, as Ending is.
func (m *Matcher) Allowed() []uint64 {
	if m.at == idle {
		return nil
	}
	if m.at >= 0 {
		m.lent = m.sets[m.at]
	}
	return m.allowed(m.at)
}

// Allows says whether a token may come next. Where nothing is held each may.
func (m *Matcher) Allows(token int32) bool {
	return m.at == idle || int(token) < m.v.size && m.allowed(m.at)[token>>6]>>(token&63)&1 != 0
}

// Ending is what Allowed would be after End.
func (m *Matcher) Ending() []uint64 {
	at := m.at
	if at == idle {
		return nil
	}
	m.End()
	allowed := m.allowed(m.at)
	m.at = at
	return allowed
}

// Triggered looks at a matcher that holds nothing as it would be behind the token that begins a call.
func (m *Matcher) Triggered(look func()) {
	m.start()
	look()
	m.at = idle
}
