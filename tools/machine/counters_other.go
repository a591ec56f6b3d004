//go:build !linux

package machine

// Read returns false: this system has no counters.
func Read() (Counters, bool) { return Counters{}, false }

// ResetPeak returns false: this system cannot do it.
func ResetPeak() bool { return false }
