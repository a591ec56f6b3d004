// Package filename prints and parses the names of a store's files.
package filename

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// Kind is what a file in a store's directory is.
type Kind uint8

const (
	Unknown  Kind = iota
	Log           // NNNNNN.log
	Table         // NNNNNN.sst
	Manifest      // MANIFEST-NNNNNN
	Temp          // NNNNNN.tmp: what a crash left half-made
	Current       // CURRENT
	Lock          // LOCK
)

const (
	CurrentName = "CURRENT"
	LockName    = "LOCK"
)

// Make is the path of the numbered file of that kind in dir.
func Make(dir string, kind Kind, number uint64) string { return filepath.Join(dir, Base(kind, number)) }

// Base is the name of a file without its directory. Current and Lock have no number.
func Base(kind Kind, number uint64) string {
	switch kind {
	case Log:
		return fmt.Sprintf("%06d.log", number)
	case Table:
		return fmt.Sprintf("%06d.sst", number)
	case Manifest:
		return fmt.Sprintf("MANIFEST-%06d", number)
	case Temp:
		return fmt.Sprintf("%06d.tmp", number)
	case Current:
		return CurrentName
	case Lock:
		return LockName
	case Unknown:
	}
	panic("filename: no name for kind " + strconv.Itoa(int(kind)))
}

// Parse reads a name without its directory. Only what Base prints is known: no signs, no spaces, no other padding.
func Parse(name string) (kind Kind, number uint64) {
	switch name {
	case CurrentName:
		return Current, 0
	case LockName:
		return Lock, 0
	}
	digits := name
	switch {
	case strings.HasSuffix(name, ".log"):
		kind, digits = Log, name[:len(name)-4]
	case strings.HasSuffix(name, ".sst"):
		kind, digits = Table, name[:len(name)-4]
	case strings.HasSuffix(name, ".tmp"):
		kind, digits = Temp, name[:len(name)-4]
	case strings.HasPrefix(name, "MANIFEST-"):
		kind, digits = Manifest, name[len("MANIFEST-"):]
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	if kind == Unknown || err != nil || Base(kind, n) != name {
		return Unknown, 0
	}
	return kind, n
}
