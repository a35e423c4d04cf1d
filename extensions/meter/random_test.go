package meter

import "corenode/extensions/meter/wasmtest"

// maker builds a valid module out of arbitrary bytes: the same bytes give the
// same module, and no bytes left gives the shortest code. Every loop counts
// down, and recursion is bounded by a global, so each module comes to an end.
type maker struct {
	in    []byte
	m     wasmtest.Module
	c     *wasmtest.Code
	open  []label
	depth int // of statements
	size  int // statements left in this function
}

// label is an open block: whether it leaves an i32, and whether a branch to it
// goes back to a loop.
type label struct{ value, loop bool }

// Locals of every made function: a parameter, two values, a vector, and one
// counter per loop that can be open at once.
const (
	localParam   = 0
	localValue   = 1
	localOther   = 2
	localVector  = 3
	localCounter = 4
	countersMax  = 3
	makersMax    = 4 // functions
)

func (k *maker) byte() byte {
	if len(k.in) == 0 {
		return 0
	}
	b := k.in[0]
	k.in = k.in[1:]
	return b
}

func (k *maker) pick(n int) int { return int(k.byte()) % n }

// randomModule exports f0, which takes and gives an i32. It may trap.
func randomModule(in []byte) []byte {
	k := &maker{in: in}
	m := &k.m
	sig := m.Type([]byte{wasmtest.I32}, []byte{wasmtest.I32})
	m.Memory(1, 3)
	m.Table(wasmtest.Funcref, 8, 20)
	m.Global(wasmtest.I32, true, wasmtest.I32Const(60)) // calls that are left
	m.Global(wasmtest.I32, true, wasmtest.I32Const(3))
	m.Global(wasmtest.V128, true, wasmtest.Asm().Vec(0x0c, make([]byte, 16)...))
	n := 1 + k.pick(makersMax)
	for i := range n {
		m.Elements(i, uint32(i))
	}
	m.PassiveElements(0)
	m.Data(8, []byte("some bytes to begin with"))
	m.PassiveData([]byte("and some more for memory.init to copy"))
	for i := range n {
		name := ""
		if i == 0 {
			name = "f0"
		}
		k.function(name, uint32(n), sig)
	}
	m.Export("g1", wasmtest.KindGlobal, 1)
	return m.Bytes()
}

func (k *maker) function(name string, n, sig uint32) {
	k.c = wasmtest.Asm()
	k.open = []label{{value: true}}
	k.size = 12
	k.block(n, sig)
	k.value(n, sig)
	locals := []byte{wasmtest.I32, wasmtest.I32, wasmtest.V128}
	for range countersMax {
		locals = append(locals, wasmtest.I32)
	}
	k.m.Func(name, []byte{wasmtest.I32}, []byte{wasmtest.I32}, locals, k.c)
}

// block makes up to four statements.
func (k *maker) block(n, sig uint32) {
	for range k.pick(5) {
		if k.size--; k.size < 0 {
			return
		}
		k.statement(n, sig)
	}
}

// statement is one switch over all kinds.
func (k *maker) statement(n, sig uint32) {
	c := k.c
	k.depth++
	defer func() { k.depth-- }()
	switch k.pick(19) {
	case 0, 1:
		k.value(n, sig)
		c.Set(uint32(localValue + k.pick(2)))
	case 2:
		k.address()
		k.value(n, sig)
		c.Mem([]byte{wasmtest.I32Store, wasmtest.I32Store8}[k.pick(2)], uint32(k.byte()))
	case 3:
		c.Block(wasmtest.Void)
		k.nested(label{}, n, sig)
		c.End()
	case 4, 5:
		k.loop(n, sig)
	case 6:
		k.value(n, sig)
		c.If(wasmtest.Void)
		k.nested(label{}, n, sig)
		if k.pick(2) == 1 {
			c.Else()
			k.nested(label{}, n, sig)
		}
		c.End()
	case 7:
		k.branch(n, sig)
	case 8:
		k.address()
		c.Get(localValue)
		k.length()
		c.Misc(0x0b, 0)
	case 9:
		k.address()
		k.address()
		k.length()
		c.Misc(0x0a, 0, 0)
	case 10:
		k.address()
		c.I32(int32(k.pick(8))).I32(int32(k.pick(24))).Misc(0x08, 1, 0)
	case 11:
		c.I32(int32(k.pick(9))).I32(int32(k.pick(9))).I32(int32(k.pick(4))).Misc(0x0e, 0, 0)
	case 12:
		c.I32(int32(k.pick(9))).I32(0).I32(int32(k.pick(3))).Misc(0x0c, uint32(int(n)), 0)
	case 13:
		c.I32(0).Imm(0x25, 0).I32(int32(k.pick(12))).Misc(0x0f, 0).Set(localOther)
	case 14:
		c.I32(int32(k.pick(3))).Op(0x40, 0).Set(localOther)
	case 15:
		k.vector()
	case 16:
		k.value(n, sig)
		c.GlobalSet(1)
	case 17:
		for range 60 + int(k.byte()) { // straight code
			c.Get(localValue).I32(7).Op(wasmtest.I32Add).Set(localValue)
		}
	case 18:
		c.Get(localVector).GlobalGet(2).Vec(0x6e).GlobalSet(2)
	}
}

// nested makes the inside of a block.
func (k *maker) nested(l label, n, sig uint32) {
	k.open = append(k.open, l)
	if k.depth < 6 {
		k.block(n, sig)
	}
	k.open = k.open[:len(k.open)-1]
}

func (k *maker) loop(n, sig uint32) {
	counter := uint32(localCounter)
	for _, l := range k.open {
		if l.loop {
			counter++
		}
	}
	if counter >= localCounter+countersMax {
		return
	}
	c := k.c
	c.I32(int32(1 + k.pick(9))).Set(counter)
	if k.pick(3) == 0 { // a loop with a parameter
		t := k.m.Type([]byte{wasmtest.I32}, nil)
		c.I32(5).BlockOf(0x03, t).Set(localOther)
		k.nested(label{loop: true}, n, sig)
		c.Get(localOther).Get(counter).I32(1).Op(wasmtest.I32Sub).Tee(counter).BrIf(0).Op(wasmtest.Drop).End()
		return
	}
	c.Loop(wasmtest.Void)
	k.nested(label{loop: true}, n, sig)
	c.Get(counter).I32(1).Op(wasmtest.I32Sub).Tee(counter).BrIf(0).End()
}

// branch leaves through br, br_if, br_table or return, never to a loop.
func (k *maker) branch(n, sig uint32) {
	c := k.c
	var labels []uint32 // of blocks without a value
	for i := range k.open {
		if l := k.open[len(k.open)-1-i]; !l.loop && !l.value {
			labels = append(labels, uint32(i))
		}
	}
	function := uint32(len(k.open) - 1)
	switch k.pick(6) {
	case 0:
		k.value(n, sig)
		k.value(n, sig)
		c.If(wasmtest.Void).Get(localOther).Op(wasmtest.Return).End().Set(localOther)
	case 1:
		k.value(n, sig)
		k.value(n, sig)
		c.BrIf(function).Set(localOther)
	case 2:
		c.Get(localValue).If(wasmtest.Void).Get(localValue).Get(localOther).BrTable(function+1, function+1).End()
	case 3:
		c.Get(localParam).If(wasmtest.Void).Get(localValue).Br(function + 1).End()
	case 4:
		if len(labels) > 0 {
			k.value(n, sig)
			c.BrIf(labels[k.pick(len(labels))])
		}
	case 5:
		if len(labels) > 0 {
			c.Get(localValue).If(wasmtest.Void).Get(localOther)
			c.BrTable(labels[k.pick(len(labels))]+1, labels[k.pick(len(labels))]+1, 0).End()
		}
	}
}

// value pushes an i32.
func (k *maker) value(n, sig uint32) {
	c := k.c
	k.depth++
	defer func() { k.depth-- }()
	kind := k.pick(13)
	if k.depth > 6 {
		kind %= 4
	}
	switch kind {
	case 0, 1:
		c.Get(uint32(k.pick(3)))
	case 2:
		c.I32(int32(k.byte()) - 100)
	case 3:
		c.GlobalGet(1)
	case 4, 5:
		k.value(n, sig)
		k.value(n, sig)
		c.Op([]byte{wasmtest.I32Add, wasmtest.I32Sub, wasmtest.I32Mul, wasmtest.I32Xor, wasmtest.I32Rotl, wasmtest.I32LtS,
			wasmtest.I32DivS, wasmtest.I32RemU}[k.pick(8)])
	case 6:
		k.address()
		c.Mem([]byte{wasmtest.I32Load, wasmtest.I32Load8U}[k.pick(2)], uint32(k.byte()))
	case 7, 8:
		k.callIf(func(c *wasmtest.Code) { c.Call(uint32(k.pick(int(n)))) })
	case 9:
		k.callIf(func(c *wasmtest.Code) { c.I32(int32(k.pick(int(n)+2))).CallIndirect(sig, 0) })
	case 10:
		c.Block(wasmtest.I32)
		k.open = append(k.open, label{value: true})
		if k.depth < 6 {
			k.block(n, sig)
		}
		k.value(n, sig)
		k.open = k.open[:len(k.open)-1]
		c.End()
	case 11:
		k.value(n, sig)
		c.If(wasmtest.I32)
		k.open = append(k.open, label{value: true})
		k.value(n, sig)
		c.Else()
		k.value(n, sig)
		k.open = k.open[:len(k.open)-1]
		c.End()
	case 12:
		c.Get(localVector).Vec(0x1b, byte(k.pick(4)))
	}
}

// callIf calls while calls are left.
func (k *maker) callIf(call func(c *wasmtest.Code)) {
	c := k.c
	c.GlobalGet(0).If(wasmtest.I32).GlobalGet(0).I32(1).Op(wasmtest.I32Sub).GlobalSet(0).Get(localValue)
	call(c)
	c.Else().I32(1).End()
}

func (k *maker) vector() {
	c := k.c
	switch k.pick(4) {
	case 0:
		c.Get(localValue).Vec(0x11).Get(localVector).Vec(0xae).Set(localVector) // splat, add
	case 1:
		k.address()
		c.Vec(0x00, 0, 0).Set(localVector)
	case 2:
		k.address()
		c.Get(localVector).Vec(0x0b, 0, 0)
	case 3:
		c.Get(localVector).Get(localVector).Vec(0x0d, 15, 14, 13, 12, 11, 10, 9, 8, 0, 1, 2, 3, 4, 5, 6, 7).Vec(0x80,
			nil...).Set(localVector)
	}
}

// address pushes an address that is mostly in bounds.
func (k *maker) address() {
	k.c.Get(uint32(k.pick(3))).I32(0x7fff).Op(wasmtest.I32And)
}

// length pushes a length, constant or not.
func (k *maker) length() {
	if k.pick(2) == 0 {
		k.c.I32(int32(k.byte()) * 16)
		return
	}
	k.c.Get(localValue).I32(0xfff).Op(wasmtest.I32And)
}
