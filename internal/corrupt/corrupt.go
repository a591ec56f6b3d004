// Package corrupt describes damage in files: the file, the offset, what was found and what was expected. Whatever bytes
// a file has, code that reads it returns such an error and never panics (I23).
package corrupt

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
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

// As lets errors.As find an Error as the public type of the root package, which this package cannot import. The root
// declares that type with the fields of Error, so that a pointer to one converts to a pointer to the other.
func (e *Error) As(target any) bool {
	want, from := reflect.TypeOf(target).Elem(), reflect.ValueOf(e)
	if want.Kind() != reflect.Pointer || want.Elem().PkgPath() != root || !from.CanConvert(want) {
		return false
	}
	reflect.ValueOf(target).Elem().Set(from.Convert(want))
	return true
}

// root is the import path of the root package.
var root = strings.TrimSuffix(reflect.TypeFor[Error]().PkgPath(), "/internal/corrupt")

// At returns an Error for a reason, or nil without one. If file is a path, only its base is kept. A reason that matches
// ErrUnsupportedVersion only gets the address.
func At(file string, offset int64, reason error) error {
	e := &Error{File: filepath.Base(file), Offset: offset, Err: reason}
	switch {
	case reason == nil:
		return nil
	case errors.Is(reason, ErrUnsupportedVersion):
		return fmt.Errorf("%s: offset %d: %w", e.File, offset, reason)
	}
	return e
}

// Newf returns an Error with a formatted reason.
func Newf(file string, offset int64, format string, args ...any) error {
	return At(file, offset, fmt.Errorf(format, args...))
}
