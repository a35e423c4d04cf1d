package admin

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"corenode/extensions"
	"corenode/extensions/guest"
	"corenode/node/store"
)

// Kinds of error that the API answers with.
const (
	KindInvalid  = "invalid_request"
	KindNotFound = "not_found"
	KindConflict = "conflict"
	KindMethod   = "method_not_allowed"
	// KindForbidden is of an operator whose role is too low.
	KindForbidden = "forbidden"
	KindInternal  = "internal"
	// KindUnauthenticated is of a token that opens nothing.
	KindUnauthenticated = "unauthenticated"
)

// How messages begin that a client gets of a node which does not know its call. They stay: clients of later versions read them.
const (
	unknownPath      = "unknown path "
	unknownParameter = "unknown query parameter "
	unknownField     = "unknown field "
)

// ErrorBody is the answer of a failed call.
type ErrorBody struct {
	Error *Error `json:"error"`
}

// Error is what it says. The last three kinds are those of the listener, which looks at who calls, and reads the body, before
// the API is asked; of the others it uses some.
type Error struct {
	Kind    string `json:"kind" enum:"invalid_request,not_found,conflict,method_not_allowed,forbidden,internal,unauthenticated,too_large,read_timeout"`
	Message string `json:"message"`
}

// Error gives the message; operators see what went wrong inside.
func (e *Error) Error() string { return e.Message }

// statuses are those of HTTP by kind.
var statuses = map[string]int{
	KindInvalid: http.StatusBadRequest, KindNotFound: http.StatusNotFound, KindConflict: http.StatusConflict,
	KindForbidden: http.StatusForbidden, KindMethod: http.StatusMethodNotAllowed, KindInternal: http.StatusInternalServerError,
}

// kinds are those of the errors that the store and the extension host return.
var kinds = []struct {
	kind   string
	causes []error
}{
	{KindNotFound, []error{store.ErrNotFound, extensions.ErrUnknownModule, extensions.ErrSlot, extensions.ErrNotOff,
		extensions.ErrNoCapture}},
	{KindInvalid, []error{store.ErrInvalid, extensions.ErrCapture, extensions.ErrOtherSlot}},
	{KindConflict, []error{store.ErrNameTaken, store.ErrIdempotencyMismatch, store.ErrOutdated, store.ErrNoRoom,
		extensions.ErrAmbiguous, extensions.ErrInUse,
		extensions.ErrNoPrevious, extensions.ErrNoShadow, extensions.ErrBeside, extensions.ErrShipped,
		extensions.ErrPath, extensions.ErrOtherRoutes, extensions.ErrNotEnabled, extensions.ErrNotInMemory}},
}

// asError classifies what a verb returns.
func asError(err error) *Error {
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	if errors.Is(err, context.Canceled) { // a caller who has left does not read it
		return &Error{Kind: KindInternal, Message: "the node is stopping: " + err.Error()}
	}
	for _, k := range kinds {
		if slices.ContainsFunc(k.causes, func(cause error) bool { return errors.Is(err, cause) }) {
			return &Error{Kind: k.kind, Message: err.Error()}
		}
	}
	if _, ok := errors.AsType[*guest.LoadError](err); ok {
		return &Error{Kind: KindInvalid, Message: err.Error()}
	}
	return &Error{Kind: KindInternal, Message: err.Error()}
}

// invalid makes an error the caller's fault; nil stays nil.
func invalid(err error) error {
	if err == nil {
		return nil
	}
	return &Error{Kind: KindInvalid, Message: err.Error()}
}

func refused(err error) (status int, value any) {
	e := asError(err)
	return statuses[e.Kind], ErrorBody{e}
}
