package salvage

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
)

var errSector = errors.New("bad sector")

// sectors fails if a read touches a bad page.
type sectors struct {
	io.ReaderAt
	bad map[int64]bool
}

func (s sectors) ReadAt(b []byte, off int64) (int, error) {
	for p := off / page; p*page < off+int64(len(b)); p++ {
		if s.bad[p] {
			return 0, errSector
		}
	}
	return s.ReaderAt.ReadAt(b, off)
}

func TestWhatCannotBeReadIsZeros(t *testing.T) {
	data := bytes.Repeat([]byte("bloomkv."), page/8*5+3)
	for name, test := range map[string]struct {
		bad  []int64
		from int64
		n    int
		err  error
	}{
		"a whole file":                          {nil, 0, len(data), nil},
		"a bad page in the middle":              {[]int64{2}, 0, len(data), errSector},
		"bad pages at both ends":                {[]int64{0, 5}, 0, len(data), errSector},
		"a bad page that is not wanted":         {[]int64{3}, 10, 2 * page, nil},
		"a part of a bad page":                  {[]int64{1}, page + 7, 9, errSector},
		"more than the file has":                {nil, 100, len(data), nil},
		"behind the end":                        {nil, int64(len(data)) + 5, 10, nil},
		"a file that became shorter":            {nil, 0, len(data) + 10, errShorter},
		"nothing":                               {[]int64{0}, 0, 0, nil},
		"a bad page, and the end of the file":   {[]int64{5}, 4 * page, 3 * page, errSector},
		"from the middle of one page to others": {[]int64{1, 3}, page / 2, 3 * page, errSector},
	} {
		t.Run(name, func(t *testing.T) {
			s := sectors{bytes.NewReader(data), map[int64]bool{}}
			for _, p := range test.bad {
				s.bad[p] = true
			}
			size := uint64(len(data))
			if errors.Is(test.err, errShorter) {
				size += 10
			}
			got := bytes.Repeat([]byte{0xee}, test.n)
			if err := openDamaged(t.Context(), s, size).read(got, uint64(test.from)); !errors.Is(err, test.err) {
				t.Errorf("error is %v, want %v", err, test.err)
			}
			for i, c := range got {
				at, want := test.from+int64(i), byte(0)
				if at < int64(len(data)) && !s.bad[at/page] {
					want = data[at]
				}
				// A page that became shorter is not read at all.
				if c != want && !(errors.Is(test.err, errShorter) && at/page == int64(len(data))/page) {
					t.Fatalf("byte %d is %02x, want %02x", at, c, want)
				}
			}
		})
	}
}

func TestNothingIsReadOnceTheContextHasEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := openDamaged(ctx, bytes.NewReader([]byte("bloomkv")), 7)
	got := make([]byte, 7)
	if err := r.read(got, 0); err != nil || string(got) != "bloomkv" || r.ctx.Err() != nil {
		t.Errorf("%q, %v, %v", got, err, r.ctx.Err())
	}
	cancel()
	if err := r.read(got, 0); !errors.Is(err, context.Canceled) || !bytes.Equal(got, make([]byte, 7)) ||
		!errors.Is(r.ctx.Err(), context.Canceled) {
		t.Errorf("after the end: %q, %v, %v; want zeros and %v", got, err, r.ctx.Err(), context.Canceled)
	}
}
