// Package filename prints and parses the names of a store's files.
package filename

import (
	"path/filepath"
	"strconv"
	"strings"
)

// Kind is the kind of a file in a store's directory.
type Kind uint8

const (
	Unknown  Kind = iota
	Log           // NNNNNN.log
	Table         // NNNNNN.sst
	Manifest      // MANIFEST-NNNNNN
	Temp          // NNNNNN.tmp: unfinished when a crash left it
	Current       // CURRENT
	Lock          // LOCK
)

const (
	CurrentName = "CURRENT"
	LockName    = "LOCK"

	manifestPrefix = "MANIFEST-"
	logExt         = ".log"
	tableExt       = ".sst"
	tempExt        = ".tmp"
	minDigits      = 6
)

// Make returns the path of the file in dir with that kind and number.
func Make(dir string, kind Kind, number uint64) string { return filepath.Join(dir, Base(kind, number)) }

// Base returns the name of a file without its directory. Current and Lock have no number.
func Base(kind Kind, number uint64) string {
	switch kind {
	case Log:
		return numbered("", number, logExt)
	case Table:
		return numbered("", number, tableExt)
	case Manifest:
		return numbered(manifestPrefix, number, "")
	case Temp:
		return numbered("", number, tempExt)
	case Current:
		return CurrentName
	case Lock:
		return LockName
	case Unknown:
	}
	panic("filename: no name for kind " + strconv.Itoa(int(kind)))
}

// numbered formats a number with at least six digits. It avoids fmt, since opening a store of many tables makes as many
// names.
func numbered(prefix string, number uint64, ext string) string {
	b := append(make([]byte, 0, 32), prefix...)
	for least := uint64(100_000); number < least && least > 1; least /= 10 {
		b = append(b, '0')
	}
	return string(append(strconv.AppendUint(b, number, 10), ext...))
}

// Parse parses a name without its directory. It accepts only what Base returns: no signs, no spaces, no other padding.
func Parse(name string) (kind Kind, number uint64) {
	switch name {
	case CurrentName:
		return Current, 0
	case LockName:
		return Lock, 0
	}
	digits := name
	switch {
	case strings.HasSuffix(name, logExt):
		kind, digits = Log, name[:len(name)-len(logExt)]
	case strings.HasSuffix(name, tableExt):
		kind, digits = Table, name[:len(name)-len(tableExt)]
	case strings.HasSuffix(name, tempExt):
		kind, digits = Temp, name[:len(name)-len(tempExt)]
	case strings.HasPrefix(name, manifestPrefix):
		kind, digits = Manifest, name[len(manifestPrefix):]
	}
	n, err := strconv.ParseUint(digits, 10, 64) // which accepts digits only
	if kind == Unknown || err != nil || len(digits) < minDigits || len(digits) > minDigits && digits[0] == '0' {
		return Unknown, 0
	}
	return kind, n
}
