// Package corrupt describes damage in files: the file, the offset, what was found and what was expected.
package corrupt

import (
	"errors"
	"fmt"
	"path/filepath"
)

// Err is matched by every error that reports damage.
var Err = errors.New("corruption")

// ErrUnsupportedVersion is matched by errors for a file format that this program does not know. It is not damage.
var ErrUnsupportedVersion = errors.New("unsupported format version")

// Error is damage found in a file.
type Error struct {
	File   string // base name
	Offset int64  // start of the damaged part, in bytes
	Err    error  // the defect
}

// Error returns "FILE: offset N: reason".
func (e *Error) Error() string { return fmt.Sprintf("%s: offset %d: %v", e.File, e.Offset, e.Err) }

// Unwrap returns Err and the reason, for errors.Is.
func (e *Error) Unwrap() []error { return []error{Err, e.Err} }

// At returns an Error for a reason. If file is a path, only its base is kept.
func At(file string, offset int64, reason error) error {
	return &Error{File: filepath.Base(file), Offset: offset, Err: reason}
}

// Newf returns an Error with a formatted reason.
func Newf(file string, offset int64, format string, args ...any) error {
	return At(file, offset, fmt.Errorf(format, args...))
}
