//go:build !linux

package machine

import "errors"

// Read returns false: this system has no counters.
func Read() (Counters, bool) { return Counters{}, false }

// ResetPeak returns false: this system cannot do it.
func ResetPeak() bool { return false }

// DropCached returns an error matching errors.ErrUnsupported.
func DropCached(string) error { return errors.ErrUnsupported }
