package stats

import "time"

// line is a row of equal buckets of time from 0 on. When it would have more than
// bucketsMax, neighbors are merged and the buckets are twice as wide: a line is
// bounded however long a run is.
type line[T any] struct {
	width      time.Duration
	bucketsMax int // even
	merge      func(into, from *T)
	list       []T
}

// at returns the bucket of a moment; it is valid until the next call. Moments
// before 0 are in the first.
func (l *line[T]) at(t time.Duration) *T {
	t = max(t, 0)
	for t/l.width >= time.Duration(l.bucketsMax) {
		l.halve()
	}
	i := int(t / l.width)
	for len(l.list) <= i {
		l.list = append(l.list, *new(T))
	}
	return &l.list[i]
}

func (l *line[T]) halve() {
	half := make([]T, (len(l.list)+1)/2)
	for i := range l.list {
		l.merge(&half[i/2], &l.list[i])
	}
	l.list, l.width = half, 2*l.width
}
