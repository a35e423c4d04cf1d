package wire

import "corenode/wasm/sdk/scan"

// object walks the JSON text of one frame. The first error sticks: from then on there are
// no members, and every value is empty. A value that nobody reads is passed, and checked.
type object struct {
	scan scan.Scanner
	err  error // of what the frame means
}

// open reads data, which must not change until the walk is over.
func (o *object) open(data []byte) {
	o.scan.Reset(data)
	o.err = nil
}

// bad is the first error, of the text or of what it means.
func (o *object) bad() error {
	if o.err != nil {
		return o.err
	}
	if err := o.scan.Err(); err != nil {
		return err
	}
	return nil
}

// fail ends the walk.
func (o *object) fail(err error) {
	o.err = err
	o.scan.Stop()
}

// members calls do with the name of each member of the object that comes next; do may read
// the value. What is no object is passed.
func (o *object) members(do func(name []byte)) {
	if o.scan.Kind() != scan.Object {
		o.scan.Skip()
		return
	}
	for o.scan.Open(); o.scan.Next(); {
		do(o.scan.Key())
	}
}

// detail reads the integer of that name in the object that comes next, if it has one.
func (o *object) detail(want string, n *int64, known *bool) {
	o.members(func(name []byte) {
		if string(name) == want {
			*n, *known = o.int()
		}
	})
}

// elements calls do before each element of the array that comes next; do may read it.
func (o *object) elements(do func()) {
	if o.scan.Kind() != scan.Array {
		o.scan.Skip()
		return
	}
	for o.scan.Open(); o.scan.Next(); {
		do()
	}
}

// string reads a string; another value is passed, and empty.
func (o *object) string() string {
	text, _ := o.scan.Text()
	return string(text)
}

// intMax bounds an index or a count of tokens: what is larger is a lie, and sums of lies overflow.
const intMax = 1 << 32

// int reads an integer from 0 to intMax; another value is passed: 0, and not ok.
func (o *object) int() (n int64, ok bool) {
	if n, ok = o.scan.Int(); !ok || n < 0 || n > intMax {
		return 0, false
	}
	return n, true
}

// raw reads a value as its text.
func (o *object) raw() string { return string(o.scan.Raw()) }
