//go:build unix && !linux

package outfile

import "errors"

func makeFullDevice(string) error { return errors.ErrUnsupported }
