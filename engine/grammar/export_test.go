package grammar

// Complete says, for tests, whether the answer may end here.
func (m *Matcher) Complete() bool { return m.at == nowhere || m.sets[m.at].complete }
