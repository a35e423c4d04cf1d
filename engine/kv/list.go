package kv

// none is the absent index, in lists and in links between pages.
const none = int32(-1)

// pop takes the last of what is free, of which there is some.
func pop(free *[]int32) int32 {
	last := len(*free) - 1
	id := (*free)[last]
	*free = (*free)[:last]
	return id
}

// absent marks an index that is in no list of its links.
const absent = int32(-2)

// links are the list pointers of a fixed set of indices. An index is in at
// most one list of its links at a time.
type links []struct{ prev, next int32 }

func newLinks(n int) links {
	l := make(links, n)
	for i := range l {
		l[i].prev, l[i].next = absent, absent
	}
	return l
}

// list is a doubly linked list of indices without allocation: newest at head.
type list struct {
	links      links
	head, tail int32
	len        int
}

func newList(l links) list { return list{links: l, head: none, tail: none} }

func (l *list) has(i int32) bool { return l.links[i].next != absent }

func (l *list) pushFront(i int32) {
	if l.has(i) {
		panic("kv: index is in a list already")
	}
	l.links[i].prev, l.links[i].next = none, l.head
	if l.head != none {
		l.links[l.head].prev = i
	} else {
		l.tail = i
	}
	l.head = i
	l.len++
}

func (l *list) pushBack(i int32) {
	if l.tail == none {
		l.pushFront(i)
		return
	}
	l.insertAfter(i, l.tail)
}

// insertAfter puts i on the older side of at, which is in the list.
func (l *list) insertAfter(i, at int32) {
	if l.has(i) || !l.has(at) {
		panic("kv: index is in a list already, or its neighbor in none")
	}
	next := l.links[at].next
	l.links[i].prev, l.links[i].next = at, next
	l.links[at].next = i
	if next != none {
		l.links[next].prev = i
	} else {
		l.tail = i
	}
	l.len++
}

func (l *list) remove(i int32) {
	at := l.links[i]
	if at.next == absent {
		panic("kv: index is in no list")
	}
	if at.prev != none {
		l.links[at.prev].next = at.next
	} else {
		l.head = at.next
	}
	if at.next != none {
		l.links[at.next].prev = at.prev
	} else {
		l.tail = at.prev
	}
	l.links[i].prev, l.links[i].next = absent, absent
	l.len--
}
