package sstable

import (
	"errors"
	"io"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/epoch"
)

// A sparse file has a beginning, a header of a filter, an end, and holes between them.
type sparse struct {
	front, header, tail []byte
	at, size            uint64 // of the header; of the file
}

func (s *sparse) ReadAt(b []byte, off int64) (int, error) {
	clear(b)
	end := int64(min(s.size, math.MaxInt64))
	for _, part := range []struct {
		at int64
		b  []byte
	}{{0, s.front}, {int64(s.at), s.header}, {end - int64(len(s.tail)), s.tail}} {
		if to := part.at - off; to < 0 && -to < int64(len(part.b)) {
			copy(b, part.b[-to:])
		} else if to >= 0 && to < int64(len(b)) {
			copy(b[to:], part.b)
		}
	}
	if n := end - off; n < int64(len(b)) {
		return int(max(n, 0)), io.EOF
	}
	return len(b), nil
}

// A forgery is a small table whose filter of keys or of prefixes has another length and header. All checksums are
// right, and what is not in the small table is a hole.
type forgery struct {
	parts    bool
	prefixes bool   // the filter of prefixes is changed, not that of keys
	blocks   uint64 // of each unit
	keys     uint64 // of the header
	props    func(p *Properties)
	foot     func(f *footer)
}

func (g forgery) file(t *testing.T) (*sparse, Meta) {
	t.Helper()
	var old []byte
	if g.parts {
		old, _ = smallInParts(t, S2)
	} else {
		old, _, _ = small(t, S2)
	}
	size := uint64(len(old))
	f, err := parseFooter(old, size)
	must(t, err)
	seal := NewSeal(f.id)
	payload := func(at, n uint64) []byte { return old[at:][:n] }
	index, dels := payload(f.indexOff, f.indexLen), payload(f.rangeDelOff(), f.rangeDelLen)
	p, err := ParseProperties(payload(f.propsOff(), f.propsLen))
	must(t, err)
	at := f.filterOff
	if g.prefixes {
		at = f.indexOff - p.Prefixes.Bytes
	}
	h, err := bloomblock.ParseHeader(old[at:])
	must(t, err)
	if h.Keys = g.keys; g.blocks > 0 {
		for i := range h.Units {
			h.Units[i].Blocks = g.blocks
		}
	}
	s := &sparse{at: at, header: h.Append(nil)}
	if g.prefixes {
		s.front = old[:at]
		p.Prefixes.Bytes, p.Prefixes.Sum = h.BlockSize(), seal.filterSum(KindPrefixes, at, s.header)
		f.filterLen = at - f.filterOff + p.Prefixes.Bytes
	} else {
		s.front = old[:at]
		f.filterSum = seal.filterSum(KindFilter, at, s.header)
		f.filterLen = h.PrefixSize(len(h.Units)) + p.Prefixes.Bytes
	}
	if g.props != nil {
		g.props(&p)
	}
	f.indexOff = f.filterOff + f.filterLen
	add := func(k Kind, b []byte) uint64 {
		start := len(s.tail)
		s.tail = append(s.tail, b...)
		s.tail = seal.appendTrailer(s.tail, start, k, f.indexOff+uint64(start), None)
		return uint64(len(b))
	}
	add(f.indexKind(), index)
	add(KindRangeDels, dels)
	f.propsLen = add(KindProperties, p.append(nil))
	if g.foot != nil {
		g.foot(&f)
	}
	s.tail = f.append(s.tail, f.indexOff+uint64(len(s.tail)))
	s.size = f.indexOff + uint64(len(s.tail))
	m := Meta{Name: "000001.sst", ID: f.id, Size: s.size, TailLen: uint64(len(s.tail)), FilterLen: f.filterLen}
	return s, m
}

// TestWhatATableClaimsOfItsSizesIsNotAllocated uses sparse tables of up to many TiB, whose checksums are right.
func TestWhatATableClaimsOfItsSizesIsNotAllocated(t *testing.T) {
	const tib = 1 << 40
	prefixes := func(r *Reader) error {
		err := r.LoadPrefixes(smallRule, 0)
		return errors.Join(err, r.Prefixes.State().Damage)
	}
	for _, c := range []struct {
		name string
		forgery
		want string
	}{
		{"a filter of TiB", forgery{blocks: tib / 128, keys: 36}, "want at most"},
		{"a filter of TiB, and as many keys", forgery{blocks: tib / 128, keys: tib / 8, props: func(p *Properties) {
			p.FilterKeys, p.Entries = tib/8, tib/8
		}}, "want at most"},
		{"a prefix filter of TiB", forgery{prefixes: true, blocks: tib / 128, keys: 36}, "want at most"},
		{"a filter of MiB for few keys", forgery{blocks: 1 << 20, keys: 36}, "blocks for 36 keys"},
		{
			"a prefix filter of MiB for few prefixes",
			forgery{prefixes: true, blocks: 1 << 20, keys: 36},
			"blocks for 36",
		},
		{"a filter of MiB for keys not in the properties", forgery{blocks: 1 << 20, keys: 1 << 23}, "want 36 keys"},
		{"a prefix filter of MiB for prefixes not in the properties", forgery{
			prefixes: true, blocks: 1 << 20, keys: 1 << 23,
		}, "filter of 8388608 keys"},
		{"a filter of MiB for more entries than fit the data", forgery{
			blocks: 1 << 17, keys: 1 << 20,
			props: func(p *Properties) { p.FilterKeys, p.Entries = 1<<20, 1<<20 },
		}, "1048576 entries in"},
		{"an index in parts, and a filter of MiB", forgery{parts: true, blocks: 1 << 20, keys: 36}, "blocks for 36"},
		{"an index of GiB", forgery{keys: 36, foot: func(f *footer) { f.indexLen = maxTail }}, "tail of"},
		{"an index of TiB", forgery{keys: 36, foot: func(f *footer) { f.indexLen = tib }}, "want at most"},
		{"range deletes of TiB", forgery{keys: 36, foot: func(f *footer) { f.rangeDelLen = tib }}, "want at most"},
		{"properties of TiB", forgery{keys: 36, foot: func(f *footer) { f.propsLen = tib }}, "want at most"},
		{"a sample of GiB", forgery{keys: 36, foot: func(f *footer) { f.sampleLen = 1 << 30 }}, "sample of"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, m := c.file(t)
			for _, use := range []struct {
				name string
				call func(r *Reader) error
			}{
				{"Verify", func(r *Reader) error { return r.Verify(t.Context(), nil) }},
				{"VerifySums", func(r *Reader) error { return r.VerifySums(t.Context()) }},
				{"Load", func(r *Reader) error {
					err := r.Load(0)
					return errors.Join(err, r.Keys.State().Damage, prefixes(r))
				}},
				{"Info and a copy of the filter", func(r *Reader) error {
					_, err := r.Info()
					x, copyErr := r.CopyFilter(0)
					return errors.Join(err, copyErr, x.Damage, prefixes(r))
				}},
				{"Open", func(*Reader) error {
					r, err := Open(f, int64(m.Size), m.Name)
					if err == nil {
						err = r.Verify(t.Context(), nil)
						r.Close()
					}
					return err
				}},
			} {
				d := new(epoch.Domain)
				r := NewReader(f, m, cache.New(1<<20, d), anyParts(), d)
				before := allocatedBytes()
				err := use.call(r)
				if got := allocatedBytes() - before; got > 4<<20 {
					t.Errorf("%s allocates %d bytes", use.name, got)
				}
				if !errors.Is(err, corrupt.Err) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%s: %v, want damage with %q", use.name, err, c.want)
				}
				r.Close()
			}
		})
	}
}

func allocatedBytes() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}
