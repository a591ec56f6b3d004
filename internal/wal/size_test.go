package wal

import (
	"errors"
	"testing"

	"github.com/bloomkv/bloomkv/internal/corrupt"
)

// A sparse file has records at its beginning, and then a hole.
type sparse struct {
	data  []byte
	size  int64
	bytes int64 // read
}

func (s *sparse) Size() (int64, error) { return s.size, nil }

func (s *sparse) ReadAt(b []byte, off int64) (int, error) {
	s.bytes += int64(len(b))
	n := 0
	if off < int64(len(s.data)) {
		n = copy(b, s.data[off:])
	}
	clear(b[n:])
	return len(b), nil
}

func TestAFileLongerThanAnyLogIsDamageAndIsNotRead(t *testing.T) {
	data, _ := build(t, "a", "b")
	for _, size := range []int64{MaxSize + 1, 8 << 40, 1<<63 - 1} {
		f := &sparse{data: data, size: size}
		r, err := Replay(f, "x", testNumber, func([]byte, int64) error { return errors.New("a record") })
		damage, ok := errors.AsType[*corrupt.Error](err)
		if !ok || damage.Offset != MaxSize || damage.Err == nil || r.Size != size || f.bytes > 0 {
			t.Errorf("%d bytes: error is %v, read %d bytes of %d, want damage at %d and nothing read",
				size, err, f.bytes, r.Size, int64(MaxSize))
		}
	}
}
