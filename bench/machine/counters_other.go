//go:build !linux

package machine

// Read has no counters to read on this system.
func Read() (Counters, bool) { return Counters{}, false }

// ResetPeak is not known on this system.
func ResetPeak() bool { return false }
