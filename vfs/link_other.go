//go:build !unix && !windows

package vfs

import "errors"

// cannotLink reports whether err means that links are not allowed here, as opposed to other errors.
func cannotLink(err error) bool { return errors.Is(err, errors.ErrUnsupported) }
