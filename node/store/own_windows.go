package store

import "os"

// Own does nothing: on Windows the rights of a folder are those of what is made in it.
func Own(*os.File) {}

func openFolder(path string) (*os.File, error) { return os.Open(path) }
