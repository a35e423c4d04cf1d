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

// NodeID reads the id of a data folder's node, or makes one up, which JoinCluster keeps.
func NodeID(dir string) (string, error) {
	text, err := os.ReadFile(filepath.Join(dir, nodeIDName))
	if err == nil {
		return strings.TrimSpace(string(text)), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	var random [8]byte
	rand.Read(random[:])
	return "node_" + hex.EncodeToString(random[:]), nil
}

// InCluster says whether the rows of a data folder's node are in a database that nodes share.
func InCluster(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, nodeIDName))
	return err == nil
}

// JoinCluster keeps the id that NodeID gave: from now on the rows are in a database that nodes share. So it is for
// when that has been opened.
func JoinCluster(dir, id string) error {
	if InCluster(dir) {
		return nil
	}
	return WriteSecret(filepath.Join(dir, nodeIDName), id)
}

// LeaveCluster takes the id away: the rows are in the data folder.
func LeaveCluster(dir string) error {
	err := os.Remove(filepath.Join(dir, nodeIDName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
