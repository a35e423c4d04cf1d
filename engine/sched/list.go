package sched

// link is a place in one list. An element has one link per kind of list.
type link[T any] struct {
	prev, next *T
	in         bool
}

// list is an intrusive doubly linked list: no allocation, removal in O(1).
type list[T any] struct {
	head, tail *T
	len        int
	at         func(*T) *link[T]
}

func (l *list[T]) pushBack(x *T) { l.insertBefore(x, nil) }

// insertBefore puts x before y, or last when y is nil.
func (l *list[T]) insertBefore(x, y *T) {
	at := l.at(x)
	if at.in {
		panic("sched: element is in the list already")
	}
	*at = link[T]{prev: l.tail, next: y, in: true}
	if y != nil {
		at.prev = l.at(y).prev
		l.at(y).prev = x
	} else {
		l.tail = x
	}
	if at.prev != nil {
		l.at(at.prev).next = x
	} else {
		l.head = x
	}
	l.len++
}

// remove takes x out; if it is not in, nothing happens.
func (l *list[T]) remove(x *T) {
	at := l.at(x)
	if !at.in {
		return
	}
	if at.prev != nil {
		l.at(at.prev).next = at.next
	} else {
		l.head = at.next
	}
	if at.next != nil {
		l.at(at.next).prev = at.prev
	} else {
		l.tail = at.prev
	}
	*at = link[T]{}
	l.len--
}
