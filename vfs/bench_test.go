package vfs_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/bloomkv/bloomkv/vfs"
)

// BenchmarkWrite is what a log does: small writes at the end of a file, with room reserved ahead, 64 KiB and then up to 4 MiB at
// a time, or without; with a Sync after each so many, or none. A file is left at 64 MiB.
func BenchmarkWrite(b *testing.B) {
	for _, size := range []int{140, 500, 1000, 2000, 4000, 13_600, 40_000, 100_000} {
		for _, every := range []int{0, 1, 10, 100} {
			if every > 0 && size != 140 {
				continue
			}
			for _, ahead := range []bool{false, true} {
				b.Run(fmt.Sprintf("bytes=%d/sync=%d/reserved=%t", size, every, ahead), func(b *testing.B) {
					var f vfs.File
					var left, room, total int64
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
							left, room, total = 0, 64<<10, 0
							b.StartTimer()
						}
						if left -= int64(size); ahead && left < 0 {
							r, ok := f.(vfs.Reserver)
							if !ok {
								b.Skip("this system reserves nothing")
							}
							err := r.Reserve(room)
							if errors.Is(err, errors.ErrUnsupported) {
								b.Skip(err)
							}
							must(b, err)
							left, room = room-int64(size), min(2*room, 4<<20)
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
