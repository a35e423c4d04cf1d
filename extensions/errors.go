package extensions

import (
	"errors"

	"corenode/extensions/guest"
)

var (
	// ErrUnknownModule means that no module goes by a reference.
	ErrUnknownModule = errors.New("no such module")
	// ErrAmbiguous means that a reference fits more than one module.
	ErrAmbiguous = errors.New("the reference fits more than one module: name it by its digest")
	// ErrInUse means that a module serves, or is tried out, and cannot be removed.
	ErrInUse = errors.New("the module is in use: let another one serve, or end its canary or shadow, first")
	// ErrShipped means that a module is part of the program.
	ErrShipped = errors.New("the module is part of the program")
	// ErrNotSigned means that a module has no signature of a trusted key.
	ErrNotSigned = errors.New("no signature of a trusted key")
	// ErrNoPrevious means that a slot has nothing to go back to.
	ErrNoPrevious = errors.New("there is no earlier module to go back to")
	// ErrNoShadow means that a module was no shadow since it was brought into memory.
	ErrNoShadow = errors.New("the module repeats no calls: make it a shadow first")
	// ErrBeside means that a slot would have a canary and a shadow at once.
	ErrBeside = errors.New("a slot has a canary or a shadow, not both: end the one there is first (0 %)")
	// ErrPath means that a path of a module is that of one that serves.
	ErrPath = errors.New("a path belongs to one active module: let the other one go first")
	// ErrOtherRoutes means that a module cannot serve beside the active one.
	ErrOtherRoutes = errors.New("a canary or a shadow has the routes of the module that is active: activate it instead")
	// ErrNotOff means that no module of the program goes by a name that is off by default.
	ErrNotOff = errors.New("no module of the program that is off by default has this name")
	// ErrNotEnabled means that a module does not serve, or that another does.
	ErrNotEnabled = errors.New("the module is not enabled")
	// ErrSlot means that a slot does not exist.
	ErrSlot = errors.New("no such slot, want chat, responses, billing, admission, rewrite, filter, a later place such as filter.2, " +
		"or the protocol of a module with routes")
	// ErrCapture means that a capture cannot be as asked for.
	ErrCapture = errors.New("a capture")
	// ErrNoCapture means that nothing is kept of a slot's calls.
	ErrNoCapture = errors.New("nothing is kept of its calls: begin with corenode module capture SLOT --for 5m")
	// ErrNotInMemory means that a module has to be loaded first.
	ErrNotInMemory = errors.New("the module is not in memory: load or activate it first")
	// ErrOtherSlot means that two modules are not of one slot.
	ErrOtherSlot = errors.New("the modules are not of one slot")
	// ErrClosed means that the host is closed.
	ErrClosed = errors.New("the module host is closed")

	errDeclined = errors.New("the module declines")
)

// ErrDenied means that the operator withdrew a module.
var ErrDenied = errors.New("the module is denied")

// ErrNoPrice means that a model has no price. Nothing is free by accident:
// such a request is neither quoted nor charged.
var ErrNoPrice = errors.New("the model has no price")

// declined is what a policy's decline counts as: the builtin must answer.
var declined = &guest.Fault{Cause: guest.CauseProtocol, Detail: "the module declines"}

// overQuota is what a call counts as that is declined because its slot is over
// its share. It is no fault of the module, and no breaker hears of it.
var overQuota = &guest.Fault{Cause: guest.CauseOverloaded, Detail: "its slot is over its share of the processors"}
