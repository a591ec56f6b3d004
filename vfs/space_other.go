//go:build !linux && !darwin && !windows

package vfs

import "errors"

func freeSpace(string) (uint64, error) { return 0, errors.ErrUnsupported }
