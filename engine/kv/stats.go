package kv

// Stats is what a Pool holds now and has done since New.
type Stats struct {
	PagesFree   int // in no use
	PagesOwned  int // held by at least one table
	PagesCached int // held by none, findable; includes the pinned among them
	PagesPinned int // distinct pages that pins keep, idle or not
	StatesFree  int
	Snapshots   int
	OnHost      int // of them
	Guarded     int // snapshots that pins protect
	Handles     int // pins that stand
	Namespaces  int
	Tables      int // open ones

	Counters
}

// Counters are the numbers that only rise.
type Counters struct {
	Lookups          int64 // calls of CountHit
	Hits             int64 // of them, with at least one page
	HitTokens        int64
	PagesEvicted     int64 // cached pages that were reused
	SnapshotsTaken   int64
	SnapshotsEvicted int64
	SnapshotsMoved   int64 // to host memory
	SnapshotsSkipped int64 // not taken, all others being what waiting tables will start from
	PinsDisplaced    int64 // ended for newer ones, by their namespace's limit or that of all
	PinsBroken       int64 // ended because running sequences needed the memory, or their snapshots did
	StaleHandles     int64 // released twice, or after their pin had ended
}

// Stats returns the numbers; it looks at no page.
func (p *Pool) Stats() Stats {
	s := Stats{Counters: p.count}
	s.PagesFree = len(p.free)
	s.PagesCached = p.idle.len + p.idlePinned
	s.PagesOwned = p.config.Pages - s.PagesFree - s.PagesCached
	s.StatesFree = len(p.freeStates)
	s.Snapshots, s.OnHost = p.snapshots, p.hostSnapshots
	s.Handles = p.byAge.len
	s.Namespaces = len(p.spaces)
	s.Tables = len(p.tables)
	s.PagesPinned, s.Guarded = p.pinned, p.guarded
	return s
}
