package store

// SyncFolder does nothing: Windows refuses to sync a folder, whose names its
// file system keeps in a log of its own.
func SyncFolder(string) error { return nil }
