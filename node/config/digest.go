package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
)

// own are the keys in which nodes of one service differ: their addresses, and where their files are.
var own = []string{"listen", "data_dir", "server.tls_certificate", "server.tls_key", "admin.listen", "admin.token_file",
	"admin.tls_certificate", "admin.tls_key", "modules.cache_dir", "store.password_file", "cluster.listen", "cluster.address"}

// Digest is a short text that two configurations share only when they are the same, but for the keys that are a node's own.
func (c *Config) Digest() string {
	common := *c
	for _, l := range leavesOf(&common) {
		if slices.Contains(own, l.key) {
			l.value.SetZero()
		}
	}
	text, err := json.Marshal(common)
	if err != nil {
		panic(fmt.Sprintf("config: a configuration does not marshal: %v", err)) // plain fields always do
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}
