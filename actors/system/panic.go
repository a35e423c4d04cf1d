package system

// OnPanic is deferred by a handler that owes an answer. If the handler panics it calls
// answer with the reason, and the panic goes on to the supervisor.
func OnPanic(answer func(reason any)) {
	if r := recover(); r != nil {
		answer(r)
		panic(r)
	}
}

// Hook is called at named points inside actors and may panic. Only tests set one.
type Hook func(point string)

// At calls the hook, if there is one.
func (h Hook) At(point string) {
	if h != nil {
		h(point)
	}
}
