package meter

// The call graph says which functions can come to call themselves. Only those
// count depth: any other function is on the stack at most once, so what all of
// them take together is bounded by the size of the module.
//
// Nodes are the functions and, behind them, one node per type: an indirect
// call goes to the node of its type, and from there to every function of that
// type that a table or a reference can hold. Host functions must not call back
// into the module, and have no edges.

// markCyclic sets body.cyclic.
func (m *module) markCyclic() {
	g := m.newGraph()
	for n := range g.order {
		if g.order[n] == 0 {
			g.visit(uint32(n))
		}
	}
}

// graph is the state of Tarjan's algorithm, without recursion: a module may
// hold chains of calls as long as it likes.
type graph struct {
	m        *module
	canon    []uint32   // type -> the first type equal to it
	byType   [][]uint32 // canonical type -> addressable functions
	order    []uint32   // 0: not visited yet
	low      []uint32
	onStack  []bool
	stack    []uint32 // of the components
	work     []visit
	counter  uint32
	selfLoop []bool
}

// visit is one activation of what would be the recursive function.
type visit struct {
	node uint32
	next int // edge to follow next
}

func (m *module) newGraph() *graph {
	nodes := m.functionCount() + len(m.types)
	g := &graph{m: m, canon: make([]uint32, len(m.types)), byType: make([][]uint32, len(m.types)),
		order: make([]uint32, nodes), low: make([]uint32, nodes), onStack: make([]bool, nodes), selfLoop: make([]bool, nodes)}
	first := map[string]uint32{}
	for i, t := range m.types {
		key := string(t.params) + ">" + string(t.results)
		if _, ok := first[key]; !ok {
			first[key] = uint32(i)
		}
		g.canon[i] = first[key]
	}
	for fn := range m.addressable {
		t := g.canon[m.functionTypes[fn]]
		g.byType[t] = append(g.byType[t], fn)
	}
	return g
}

// edges returns what a node leads to. Type nodes among them may not be
// canonical yet; see target.
func (g *graph) edges(n uint32) []uint32 {
	functions := uint32(g.m.functionCount())
	if n >= functions {
		return g.byType[n-functions]
	}
	i := int(n) - g.m.importedFunctions()
	if i < 0 {
		return nil
	}
	e := g.m.bodies[i].edges
	return g.m.edges[e[0]:e[1]]
}

func (g *graph) target(n uint32) uint32 {
	if functions := uint32(g.m.functionCount()); n >= functions {
		return functions + g.canon[n-functions]
	}
	return n
}

func (g *graph) enter(n uint32) {
	g.counter++
	g.order[n], g.low[n] = g.counter, g.counter
	g.stack = append(g.stack, n)
	g.onStack[n] = true
	g.work = append(g.work, visit{node: n})
}

func (g *graph) visit(root uint32) {
	g.enter(root)
	for len(g.work) > 0 {
		v := &g.work[len(g.work)-1]
		if edges := g.edges(v.node); v.next < len(edges) {
			n, to := v.node, g.target(edges[v.next])
			v.next++
			switch {
			case to == n:
				g.selfLoop[n] = true
			case g.order[to] == 0:
				g.enter(to)
			case g.onStack[to]:
				g.low[n] = min(g.low[n], g.order[to])
			}
			continue
		}
		n := v.node
		g.work = g.work[:len(g.work)-1]
		if len(g.work) > 0 {
			p := g.work[len(g.work)-1].node
			g.low[p] = min(g.low[p], g.low[n])
		}
		if g.low[n] == g.order[n] {
			g.component(n)
		}
	}
}

// component pops the component whose root is n and marks its functions.
func (g *graph) component(n uint32) {
	top := len(g.stack) - 1
	for g.stack[top] != n {
		top--
	}
	members := g.stack[top:]
	for _, k := range members {
		g.onStack[k] = false
		i := int(k) - g.m.importedFunctions()
		if i >= 0 && i < len(g.m.bodies) {
			g.m.bodies[i].cyclic = len(members) > 1 || g.selfLoop[k]
		}
	}
	g.stack = g.stack[:top]
}
