package store

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// nodeIDName is the file of a data folder whose node keeps its rows in a database that nodes
// share: it has the node's id, which open holds there name.
const nodeIDName = "node.id"

// NodeID reads the id of a data folder's node, or makes one.
func NodeID(dir string) (string, error) {
	path := filepath.Join(dir, nodeIDName)
	text, err := os.ReadFile(path)
	if err == nil {
		return strings.TrimSpace(string(text)), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	var random [8]byte
	rand.Read(random[:])
	id := "node_" + hex.EncodeToString(random[:])
	return id, WriteSecret(path, id)
}

// InCluster says whether the rows of a data folder's node are in a database that nodes share.
func InCluster(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, nodeIDName))
	return err == nil
}

// LeaveCluster takes the id away: the rows are in the data folder.
func LeaveCluster(dir string) error {
	err := os.Remove(filepath.Join(dir, nodeIDName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
