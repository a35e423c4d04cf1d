package ledger

// worker runs one function after the other, on a goroutine that stays between them: its stack has grown to what the store
// needs, and the stack of a new one would grow there again, copy by copy.
type worker struct{ next chan func() }

// do runs f when what was asked before has ended.
func (w *worker) do(f func()) {
	if w.next == nil {
		w.next = make(chan func())
		go func() {
			for f := range w.next {
				f()
			}
		}()
	}
	w.next <- f
}

// end lets the goroutine go.
func (w *worker) end() {
	if w.next != nil {
		close(w.next)
	}
}
