package extensions

// syncFolder does nothing: Windows refuses to sync a folder, whose names its
// file system keeps in a log of its own.
func syncFolder(string) error { return nil }
