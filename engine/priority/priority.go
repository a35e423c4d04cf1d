// Package priority says in which order requests of different priorities are served that wait
// for one thing. Those of one priority wait together, in an order that is their queue's.
package priority

import "time"

// Wait is what one level of priority is worth in waiting, where nothing else is said.
const Wait = 10 * time.Second

// Due is by what priorities are ordered, the earliest first: one level is worth a wait of level.
// since is when the priority began to wait, or was last served. So the first stays first until
// it is served, and each becomes first in the end.
func Due(priority int8, since time.Time, level time.Duration) time.Time {
	return since.Add(-time.Duration(priority) * level)
}
