package postgres

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"corenode/node/store"
)

// PasswordOf reads the password of a file again with each call; key is what names the file.
func PasswordOf(key, path string) func() (string, error) {
	return func() (string, error) {
		password, err := readPassword(path)
		if err != nil {
			err = fmt.Errorf("%s: %w", key, err)
		}
		return password, err
	}
}

// readPassword reads the password of a file that others may not read; "" where none is named.
func readPassword(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	text, err := store.ReadSecret(path)
	return strings.TrimRight(text, "\r\n"), err
}

// settings are those of a connection as URL, variables and files say now, and what a node adds.
func (c Config) settings() (*pgxpool.Config, error) {
	settings, err := pgxpool.ParseConfig(c.URL)
	if err != nil {
		return settings, err
	}
	if settings.ConnConfig.ValidateConnect == nil { // as target_session_attrs=read-write: after a failover a host may be a standby
		settings.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	if settings.ConnConfig.ConnectTimeout == 0 {
		settings.ConnConfig.ConnectTimeout = 5 * time.Second
	}
	settings.ConnConfig.RuntimeParams["application_name"] = "corenode " + c.Node
	if settings.ConnConfig.RuntimeParams[idleTimeout] == "" { // a machine that is gone says no goodbye, and other nodes wait for its locks
		settings.ConnConfig.RuntimeParams[idleTimeout] = strconv.FormatInt(callMax.Milliseconds(), 10)
	}
	if c.Password == nil {
		return settings, nil
	}
	password, err := c.Password()
	if password != "" {
		settings.ConnConfig.Password = password
	}
	return settings, err
}

// renewal has each connection made with the password and the certificates that are in their files then: they change while
// nodes run. Where one of them cannot be read, all are as they were read last, first in opened.
func (c Config) renewal(opened *pgxpool.Config) func(to *pgx.ConnConfig) {
	var last atomic.Pointer[pgconn.Config]
	last.Store(&opened.ConnConfig.Config)
	return func(to *pgx.ConnConfig) {
		if now, err := c.settings(); err == nil {
			last.Store(&now.ConnConfig.Config)
		}
		to.Config = *last.Load().Copy() // whole: it finds a client's certificate by its TLSConfig
	}
}
