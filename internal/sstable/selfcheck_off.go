//go:build !bloomkvcheck

package sstable

// A selfCheck does nothing, but in tests that are built with the tag bloomkvcheck.
type selfCheck struct{}

func (selfCheck) add([]byte)                        {}
func (selfCheck) check([]byte, func([]byte) []byte) {}
