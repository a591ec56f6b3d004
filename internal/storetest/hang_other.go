//go:build !unix

package storetest

import "time"

// processorTime is not available on this system: only the timeout of go test ends a test that hangs.
func processorTime() (used time.Duration, ok bool) { return 0, false }
