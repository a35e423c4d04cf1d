package admin

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"corenode/node/operators"
	"corenode/node/store"
)

// AuditRow is one call that changed something, or tried to.
type AuditRow struct {
	ID        int64     `json:"id"`
	Time      time.Time `json:"time"`
	Operator  string    `json:"operator"`
	Method    string    `json:"method"`
	Path      string    `json:"path" doc:"Of the verb, with its segment in braces; of a form of the console that the role forbids, that one's."`
	Target    string    `json:"target,omitempty" doc:"That segment, of a call that found something of that name, and behind it the digest of a module."`
	AccountID string    `json:"account_id,omitempty"`
	KeyID     string    `json:"key_id,omitempty"`
	Status    int64     `json:"status"`
	Node      string    `json:"node,omitempty" doc:"That was called, where nodes share a database; of rows of an older release not known."`
}

// AuditPage is a page of the audit. Next is before of the page behind it, absent at the end.
type AuditPage struct {
	Data []AuditRow `json:"data"`
	Next int64      `json:"next,omitempty" doc:"before of the page behind it; absent at the end."`
}

// Reloaded is what reading the configuration again came to. With problems nothing changed, but where they
// are of certificates: then the rest is in force.
type Reloaded struct {
	Changed  []string `json:"changed" doc:"Keys that are in force now."`
	Waiting  []string `json:"wait_for_restart" doc:"Keys that differ and need a restart."`
	Problems []string `json:"problems" doc:"Mistakes of the configuration, of which nothing is in force then, or certificates that cannot be used: the ones before stay."`
}

// needs is the role that a verb asks for.
func (r route) needs() operators.Role {
	verb := strings.TrimPrefix(r.path, Root)
	switch {
	case r.method == http.MethodGet, verb == "/ledger/verify", verb == "/charges/{charge}/replay":
		return operators.Viewer
	case verb == "/backup":
		return operators.Owner
	}
	return operators.Manager
}

// permit refuses a verb to an operator whose role is too low.
func (r route) permit(who operators.Operator) error {
	if need := r.needs(); who.Role < need {
		return &Error{Kind: KindForbidden, Message: fmt.Sprintf("%s has the role %s, this needs %s", who.Name, who.Role, need)}
	}
	return nil
}

// audit keeps who called a verb that changes something. The call has been done by then: where
// the row cannot be written the log has its line, and says so.
func (a *API) audit(verb route, c call, target string, status int) {
	err := a.store.Audit(store.AuditRow{Operator: operators.From(c.ctx).Name, Method: verb.method, Path: verb.path, Target: target,
		AccountID: c.about.account, KeyID: c.about.key, Status: int64(status)})
	if err != nil {
		a.log.Error("the audit could not be written", "error", err.Error())
	}
}

func (a *API) listAudit(c call) (shown AuditPage, err error) {
	var before int64
	if text := c.query.Get("before"); text != "" {
		if before, err = strconv.ParseInt(text, 10, 64); err != nil || before < 1 {
			return shown, invalid(fmt.Errorf("before is %q, want next of the page before", clip(text)))
		}
	}
	limit, err := pageLimit(c.query, store.EntriesMax)
	if err != nil {
		return shown, err
	}
	rows, err := a.store.Audited(c.query.Get("operator"), before, limit)
	if err != nil {
		return shown, err
	}
	shown = AuditPage{Data: listOf(rows, func(r store.AuditRow) AuditRow { return AuditRow(r) }).Data}
	if len(rows) == limit {
		shown.Next = rows[limit-1].ID
	}
	return shown, nil
}

func reload(a *API, _ call) (Reloaded, error) { return a.live.Reload() }
