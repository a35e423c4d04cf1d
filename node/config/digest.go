package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Digest is a short text that two configurations share only when they are the same.
func (c *Config) Digest() string {
	text, err := json.Marshal(c)
	if err != nil {
		panic(fmt.Sprintf("config: a configuration does not marshal: %v", err)) // plain fields always do
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}
