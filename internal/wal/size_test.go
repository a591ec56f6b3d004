package wal

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/bloomkv/bloomkv/internal/corrupt"
)

// A sparse file has records at its beginning, and then a hole.
type sparse struct {
	data   []byte
	size   int64
	bytes  int64 // read
	onRead func()
}

func (s *sparse) Size() (int64, error) { return s.size, nil }

func (s *sparse) ReadAt(b []byte, off int64) (int, error) {
	if s.onRead != nil {
		s.onRead()
	}
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
		if !ok || damage.Offset != MaxSize || r.Size != size || f.bytes > 0 {
			t.Errorf("%d bytes: error is %v, read %d bytes of %d, want damage at %d and nothing read",
				size, err, f.bytes, r.Size, int64(MaxSize))
		}
	}
}

func TestSalvageReadsNoMoreThanALogCanHave(t *testing.T) {
	data, _ := build(t, "a", "b")
	f := &sparse{data: data, size: 8 << 40}
	var got []string
	var lost []stretch
	err := Salvage(t.Context(), f, "x", testNumber, func(p []byte, _ int64) error {
		got = append(got, string(p))
		return nil
	}, func(from, to int64, _ error) { lost = append(lost, stretch{from, to}) })
	if want := []stretch{{MaxSize, f.size}}; err != nil || !slices.Equal(got, []string{"a", "b"}) ||
		!slices.Equal(lost, want) {
		t.Errorf("records %q, lost %v, %v; want a, b and %v", got, lost, err, want)
	}
	if limit := int64(4 * MaxSize); f.bytes > limit {
		t.Errorf("read %d bytes, want at most %d", f.bytes, limit)
	}
}

func TestSalvageEndsWithItsContext(t *testing.T) {
	data, _ := build(t, "a", "b")
	for _, reads := range []int{0, 1, 2, 100} {
		ctx, cancel := context.WithCancel(t.Context())
		f := &sparse{data: data, size: MaxSize}
		f.onRead = func() {
			if reads--; reads < 0 {
				cancel()
			}
		}
		each := func([]byte, int64) error { return nil }
		err := Salvage(ctx, f, "x", testNumber, each, func(from, to int64, _ error) {
			t.Errorf("lost %d to %d, want no loss that is none", from, to)
		})
		if limit := int64(110 * scanChunk); !errors.Is(err, context.Canceled) || f.bytes > limit {
			t.Errorf("error is %v, read %d bytes; want %v and at most %d", err, f.bytes, context.Canceled, limit)
		}
		cancel()
	}
}
