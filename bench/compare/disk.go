package main

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/bloomkv/bloomkv/tools/cli"
)

// diskBytes returns the disk space of the files below dir. Files that vanish in the meantime are not counted.
func diskBytes(dir string) (int64, error) {
	var sum int64
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var info fs.FileInfo
			if info, err = d.Info(); err == nil {
				sum += allocated(info)
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	return sum, err
}

// restingBytes returns diskBytes once it no longer changes: engines remove old files after their other work.
func restingBytes(ctx context.Context, dir string) (sum int64, err error) {
	err = quiet(ctx, func() ([]int64, bool, error) {
		var failed error
		sum, failed = diskBytes(dir)
		return []int64{sum}, true, failed
	})
	return sum, err
}

// watchDisk measures diskBytes fifty times a second, and once more when stop is called, which returns the maximum.
func watchDisk(dir string) (stop func() (int64, error)) {
	var most int64
	var failed error
	look := func() {
		now, err := diskBytes(dir)
		most, failed = max(most, now), cmp.Or(failed, err)
	}
	end := cli.Every(20*time.Millisecond, look)
	return func() (int64, error) {
		end()
		look()
		return most, failed
	}
}

// syncFiles writes the files below dir to the disk, so that the system does not do so during the next engine's turn.
func syncFiles(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	})
}
