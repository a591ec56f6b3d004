//go:build !bloomkvcheck

package sstable

// A selfCheck does nothing, except in tests with the build tag bloomkvcheck.
type selfCheck struct{}

func (selfCheck) add([]byte)                        {}
func (selfCheck) check([]byte, func([]byte) []byte) {}
