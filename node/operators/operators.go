// Package operators says who may do what on the admin listener: people and programs with a
// name, a role and a token, of which the node knows only the SHA-256.
package operators

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Role is what an operator may do; each may do what those before it may.
type Role int

const (
	// Viewer may look.
	Viewer Role = iota + 1
	// Manager runs the node: accounts, keys, money, requests, modules, servers elsewhere, drain.
	Manager
	// Owner also writes backups and takes profiles.
	Owner
)

// roles are the names of the roles, from Viewer on.
var roles = []string{"viewer", "operator", "owner"}

// String returns the role's name in the configuration.
func (r Role) String() string {
	if r < Viewer || r > Owner {
		return "nobody"
	}
	return roles[r-Viewer]
}

// Operator is one of them. The zero value may do nothing.
type Operator struct {
	Name string
	Role Role
	Hash [sha256.Size]byte // of the token
}

// Admin is the name of who has the node's own token, and Local of who has the data folder
// while no node runs.
const Admin, Local = "admin", "local"

var namePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9._@-]{0,63}$`)

// Parse reads NAME:ROLE:SHA256, the hash of the token in hexadecimal. An error repeats nothing of the text: any part
// of it may be the token, in the wrong place.
func Parse(text string) (o Operator, err error) {
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return o, fmt.Errorf("want NAME:ROLE:SHA256, with the SHA-256 of the token in 64 hexadecimal digits")
	}
	o.Name = parts[0]
	if !namePattern.MatchString(o.Name) || o.Name == Admin || o.Name == Local {
		return o, fmt.Errorf("the name has to be 1 to 64 of a-z, 0-9 or . _ @ -, first a letter or digit, and not %s or %s", Admin, Local)
	}
	o.Role = Role(slices.Index(roles, parts[1])) + Viewer
	if o.Role < Viewer {
		return o, fmt.Errorf("the role has to be viewer, operator or owner")
	}
	hash, err := hex.DecodeString(parts[2])
	if err != nil || len(hash) != len(o.Hash) {
		return o, fmt.Errorf("the hash has to be the SHA-256 of the token in 64 hexadecimal digits")
	}
	copy(o.Hash[:], hash)
	return o, nil
}

// String writes what Parse reads.
func (o Operator) String() string { return fmt.Sprintf("%s:%s:%x", o.Name, o.Role, o.Hash) }

// ParseAll reads a list, in which each name and each token is there once. Every mistake is in the error.
func ParseAll(texts []string) (all []Operator, err error) {
	var errs []error
	for i, text := range texts {
		o, err := Parse(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("entry %d: %w", i+1, err))
			continue
		}
		if slices.ContainsFunc(all, func(other Operator) bool { return other.Name == o.Name || other.Hash == o.Hash }) {
			errs = append(errs, fmt.Errorf("entry %d: the name or the token of %s is there twice", i+1, o.Name))
		}
		all = append(all, o)
	}
	return all, errors.Join(errs...)
}

// New makes an operator and its token, which is kept nowhere.
func New(name string, role Role) (o Operator, token string) {
	token = NewToken()
	return Operator{Name: name, Role: role, Hash: sha256.Sum256([]byte(token))}, token
}

// NewToken makes a token of 256 random bits.
func NewToken() string {
	var random [32]byte
	rand.Read(random[:])
	return base64.RawURLEncoding.EncodeToString(random[:])
}

// Find returns who has a token. Hashes are compared, all of them, so neither content nor
// length shows in the time.
func Find(all []Operator, token []byte) (found Operator, ok bool) {
	hash := sha256.Sum256(token)
	for _, o := range all {
		if subtle.ConstantTimeCompare(hash[:], o.Hash[:]) == 1 {
			found, ok = o, true
		}
	}
	return found, ok
}

type key struct{}

// With says in a context who calls.
func With(ctx context.Context, o Operator) context.Context { return context.WithValue(ctx, key{}, o) }

// From is who calls. Where nobody was named the call comes from this process, of whoever has
// the data folder: that is an owner.
func From(ctx context.Context) Operator {
	if o, named := ctx.Value(key{}).(Operator); named {
		return o
	}
	return Operator{Name: Local, Role: Owner}
}
