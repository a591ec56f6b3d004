// Package corrupt gives damage an address: which file, at which offset, what was found and what was wanted.
package corrupt

import (
	"errors"
	"fmt"
	"path/filepath"
)

// Err is what every damage Is.
var Err = errors.New("corruption")

// ErrUnsupportedVersion is what a file of a format that this program does not know Is. It is not damage.
var ErrUnsupportedVersion = errors.New("unsupported format version")

// Error is damage found in a file.
type Error struct {
	File   string // base name
	Offset int64  // where the damaged part begins, in bytes
	Err    error  // what is wrong with it
}

// Error is "FILE: offset N: reason".
func (e *Error) Error() string { return fmt.Sprintf("%s: offset %d: %v", e.File, e.Offset, e.Err) }

// Unwrap lets errors.Is find Err and the reason.
func (e *Error) Unwrap() []error { return []error{Err, e.Err} }

// At wraps a reason with its address; file may be a path, of which the base is kept.
func At(file string, offset int64, reason error) error {
	return &Error{File: filepath.Base(file), Offset: offset, Err: reason}
}

// Newf is At with a formatted reason.
func Newf(file string, offset int64, format string, args ...any) error {
	return At(file, offset, fmt.Errorf(format, args...))
}
