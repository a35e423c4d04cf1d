//go:build !wasip1

package sdk

func serve(Handler, Configurable) {}

func log(Level, string) {}

func count(int32, int64) {}
