package vfs_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/bloomkv/bloomkv/vfs"
)

// BenchmarkWrite measures what a log does: small writes at the end of a file, with or without space reserved ahead (64
// KiB at first, later up to 4 MiB), and with a Sync after a number of writes, or none. A new file is begun at 64 MiB.
func BenchmarkWrite(b *testing.B) {
	for _, size := range []int{140, 500, 1000, 2000, 4000, 13_600, 40_000, 100_000} {
		for _, every := range []int{0, 1, 10, 100} {
			if every > 0 && size != 140 {
				continue
			}
			for _, ahead := range []bool{false, true} {
				b.Run(fmt.Sprintf("bytes=%d/sync=%d/reserved=%t", size, every, ahead), func(b *testing.B) {
					var f vfs.File
					var left, next, total int64
					p := make([]byte, size)
					defer func() { must(b, f.Close()) }()
					for n := 0; b.Loop(); n++ {
						if total += int64(size); f == nil || total > 64<<20 {
							b.StopTimer()
							if f != nil {
								must(b, f.Close())
							}
							var err error
							f, err = vfs.OS.Create(filepath.Join(b.TempDir(), strconv.Itoa(n)))
							must(b, err)
							left, next, total = 0, 64<<10, 0
							b.StartTimer()
						}
						if left -= int64(size); ahead && left < 0 {
							r, ok := f.(vfs.Reserver)
							if !ok {
								b.Skip("this system reserves nothing")
							}
							err := r.Reserve(next)
							if errors.Is(err, errors.ErrUnsupported) {
								b.Skip(err)
							}
							must(b, err)
							left, next = next-int64(size), min(2*next, 4<<20)
						}
						if _, err := f.Write(p); err != nil {
							b.Fatal(err)
						}
						if every > 0 && n%every == 0 {
							must(b, f.Sync())
						}
					}
				})
			}
		}
	}
}
