package grammar

// Allows says, for tests, whether a token may come next.
func (m *Matcher) Allows(token int32) bool {
	return token >= 0 && int(token) < m.v.size && m.allowed()[token>>6]>>(token&63)&1 != 0
}

// Complete says, for tests, whether the answer may end here.
func (m *Matcher) Complete() bool { return m.at == nowhere || m.sets[m.at].complete }
