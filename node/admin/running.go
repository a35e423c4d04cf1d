package admin

import (
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"time"
)

// Running is what a node tells of itself: its configuration, its log, its drain.
type Running interface {
	// Settings are the values in force, in the order of the file.
	Settings() []Setting
	// Logs are the lines that a query selects, the oldest of them first.
	Logs(LogQuery) LogPage
	// DrainState is how far a drain is.
	DrainState() DrainState
}

// Setting is one value of the configuration that is in force.
type Setting struct {
	Key     string `json:"key"`
	Value   string `json:"value"`
	Default string `json:"default"`
	Source  string `json:"source" doc:"A file, a variable of the environment, \"command line\", or \"default\"."`
	Line    int    `json:"line,omitempty"`
	Changed bool   `json:"changed" doc:"It is not the default."`
	Reload  bool   `json:"reload" doc:"A reload changes it; the others wait for the next start."`
}

// LogLine is one line of the node's log.
type LogLine struct {
	Number    uint64 `json:"number" doc:"Rises with every line since the start."`
	Time      string `json:"time"`
	Level     string `json:"level"`
	Kind      string `json:"kind" doc:"Its message, such as request or admin."`
	AccountID string `json:"account_id,omitempty"`
	Text      string `json:"text" doc:"Its other fields, as JSON."`
}

// LogPage is an answer with lines of the log.
type LogPage struct {
	Data   []LogLine `json:"data"`
	Next   uint64    `json:"next" doc:"What after is for the lines that come."`
	Missed uint64    `json:"missed,omitempty" doc:"How many lines behind after, of any kind, the node had forgotten."`
}

// LogQuery selects lines. Empty texts match all.
type LogQuery struct {
	Level           slog.Level // the least severe one
	Kind, AccountID string
	After           uint64 // only lines with a higher number, the first of them; 0 is the latest of all
	Limit           int
}

// Select says whether a line is wanted.
func (q LogQuery) Select(l LogLine) (LogLine, bool) {
	var level slog.Level
	_ = level.UnmarshalText([]byte(l.Level)) // of an odd line it is info
	return l, level >= q.Level && (q.Kind == "" || q.Kind == l.Kind) && (q.AccountID == "" || q.AccountID == l.AccountID)
}

// DrainState is how far the node is on its way down.
type DrainState struct {
	Draining  bool  `json:"draining"`
	Requests  int   `json:"requests" doc:"That live."`
	Rows      int64 `json:"rows" doc:"Of the ledger that wait for the database."`
	LeftMS    int64 `json:"left_ms" doc:"Until what is left is ended; 0 before the drain has begun."`
	TimeoutMS int64 `json:"timeout_ms" doc:"How long a drain may take: limits.drain_delay and limits.drain_timeout."`
}

func listSettings(a *API, _ call) (list[Setting], error) {
	return list[Setting]{Data: append([]Setting{}, a.live.Settings()...)}, nil
}

// LogLinesMax is the most lines of one answer.
const LogLinesMax = 1000

func listLogs(a *API, c call) (shown LogPage, err error) {
	accountID, err := a.of(c.query)
	if err != nil {
		return shown, err
	}
	q := LogQuery{Kind: c.query.Get("kind"), AccountID: accountID, Level: slog.LevelDebug}
	if text := c.query.Get("level"); text != "" {
		if err := q.Level.UnmarshalText([]byte(text)); err != nil {
			return shown, invalid(fmt.Errorf("level is %q, want debug, info, warn or error", clip(text)))
		}
	}
	if text := c.query.Get("after"); text != "" {
		if q.After, err = strconv.ParseUint(text, 10, 64); err != nil {
			return shown, invalid(fmt.Errorf("after is %q, want the number of a line", clip(text)))
		}
	}
	if q.Limit, err = pageLimit(c.query, LogLinesMax); err != nil {
		return shown, err
	}
	return a.live.Logs(q), nil
}

func showDrain(a *API, _ call) (DrainState, error) { return a.live.DrainState(), nil }

// Settings lists the configuration that is in force.
func (c *Client) Settings() ([]Setting, error) {
	var all list[Setting]
	err := c.roundTrip("GET", Root+"/config", nil, nil, &all)
	return all.Data, err
}

// Logs returns lines of the log, the oldest first. query has the parameters of the verb.
func (c *Client) Logs(query url.Values) (page LogPage, err error) {
	return page, c.roundTrip("GET", Root+"/logs", query, nil, &page)
}

// Drain begins the shutdown of the node.
func (c *Client) Drain() (s Status, err error) {
	return s, c.roundTrip("POST", Root+"/drain", nil, nil, &s)
}

// DrainState says how far the shutdown is.
func (c *Client) DrainState() (s DrainState, err error) {
	return s, c.roundTrip("GET", Root+"/drain", nil, nil, &s)
}

// Left is how long what is left may still take.
func (s DrainState) Left() time.Duration { return time.Duration(s.LeftMS) * time.Millisecond }
