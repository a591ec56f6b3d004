//go:build !linux && !darwin && !windows

package vfs

import (
	"errors"
	"os"
)

func freeSpace(string) (uint64, error) { return 0, errors.ErrUnsupported }

func freeSpaceOf(*os.File) (uint64, error) { return 0, errors.ErrUnsupported }
