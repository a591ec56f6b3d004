package sstable

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/ikey"
)

// salvaged reads what can be read of a table, and what is lost of it.
func salvaged(t *testing.T, f io.ReaderAt, size int, m Meta) (r *Remains, got []kv, lost []Loss) {
	t.Helper()
	r, err := Survey(t.Context(), f, uint64(size), m, nil)
	must(t, err)
	lost = slices.Clone(r.Lost())
	it := r.Iter()
	for more := true; more; {
		if more = it.Next(); more {
			k := it.Key()
			got = append(got, kv{string(k.User), k.Trailer, string(it.Value())})
		}
		lost = append(lost, it.TakeLosses()...)
	}
	return r, got, lost
}

// extents returns the positions of the data blocks of a whole table, with their trailers.
func extents(t *testing.T, file []byte, info Info) (starts []int, versions []int) {
	t.Helper()
	it := newReader(file, info, 1<<20).Iter(IterOptions{Bypass: true})
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		if it.i == 0 {
			offset, _, _ := it.x.extent(it.local(it.at))
			starts, versions = append(starts, int(offset)), append(versions, n)
		}
		n++
	}
	end := it.end()
	starts, versions = append(starts, int(end)), append(versions, n)
	must(t, it.Close())
	return starts, versions
}

// TestOneDamagedByteCostsOneBlock damages each byte of tables, cuts them off at each length, and reads them with a
// manifest and, if the footer is intact, without.
func TestOneDamagedByteCostsOneBlock(t *testing.T) {
	for _, partSize := range []int{0, 1} {
		codec := []Codec{Zstd, S2}[partSize]
		t.Run(fmt.Sprintf("%v, index in parts: %v", codec, partSize > 0), func(t *testing.T) {
			file, info, kvs := smallWith(t, codec, partSize)
			footer := len(file) - footerSize
			if info.IndexInParts {
				footer -= extraSize
			}
			starts, versions := extents(t, file, info)
			if len(starts) < 4 {
				t.Fatalf("blocks at %v, want more", starts)
			}
			tail := int(info.Size - info.TailLen)
			without := func(from, to int) []kv { // what is outside of the blocks in these bytes
				var want []kv
				for b := range len(starts) - 1 {
					if starts[b+1] <= from || starts[b] >= to {
						want = append(want, kvs[versions[b]:versions[b+1]]...)
					}
				}
				return want
			}
			check := func(what string, data []byte, m Meta, from, to int) {
				t.Helper()
				r, got, lost := salvaged(t, bytes.NewReader(data), len(data), m)
				if want := without(from, to); !slices.Equal(got, want) {
					t.Fatalf("%s: %d versions, want %d; lost %v", what, len(got), len(want), lost)
				}
				harmless := !slices.ContainsFunc(lost, func(l Loss) bool { return !l.Harmless })
				if data := from < starts[len(starts)-1]; data && harmless {
					t.Errorf("%s: %v is lost, want a block", what, lost)
				}
				dels := reflect.DeepEqual(r.RangeDels(), smallDels)
				if !dels && harmless || r.RangeDels() != nil && !dels {
					t.Errorf("%s: range deletes %v, and %v is lost", what, r.RangeDels(), lost)
				}
				for _, l := range lost {
					if l.Err == nil || l.Bytes == 0 || l.Part == "" || l.Offset > info.Size ||
						l.Upper != nil && bytes.Compare(l.Lower, l.Upper) > 0 {
						t.Errorf("%s: lost %+v", what, l)
					}
				}
				// The lost versions are within the reported bounds.
				for _, v := range kvs {
					if slices.Contains(got, v) {
						continue
					}
					if !slices.ContainsFunc(lost, func(l Loss) bool {
						return bytes.Compare(l.Lower, []byte(v.key)) <= 0 &&
							(l.Upper == nil || bytes.Compare([]byte(v.key), l.Upper) <= 0)
					}) {
						t.Errorf("%s: %q is lost, and not between the keys of any of %v", what, v.key, lost)
					}
				}
			}
			for i := 0; i < len(file); i += stride() {
				bad := bytes.Clone(file)
				bad[i] ^= 0x41
				check(fmt.Sprintf("byte %d", i), bad, metaOf(info), i, i+1)
				if i < footer {
					check(fmt.Sprintf("byte %d without a manifest", i), bad, Meta{Name: "x"}, i, i+1)
				}
				check(fmt.Sprintf("%d bytes", i), file[:i], metaOf(info), i, len(file))
			}
			_, got, lost := salvaged(t, bytes.NewReader(file), len(file), metaOf(info))
			if len(lost) > 0 || !slices.Equal(got, kvs) {
				t.Errorf("of a whole table %v is lost", lost)
			}
			// Two damages: without the index and one block, the other blocks are still found.
			for _, b := range []int{0, 1, len(starts) - 2} {
				bad := bytes.Clone(file)
				bad[starts[b]+9] ^= 1
				bad[tail+9] ^= 1
				check(fmt.Sprintf("block %d and the index", b), bad, metaOf(info), starts[b], starts[b]+1)
				bad[len(bad)-1] ^= 1
				check(fmt.Sprintf("block %d, index and footer", b), bad, metaOf(info), starts[b], starts[b]+1)
			}
		})
	}
}

func TestATableThatNothingNamesIsNotRead(t *testing.T) {
	file, _, _ := small(t, S2)
	file[len(file)-1]++
	r, got, lost := salvaged(t, bytes.NewReader(file), len(file), Meta{Name: "x"})
	if len(got) > 0 || len(lost) != 1 || lost[0].Harmless || !errors.Is(lost[0].Err, errNoID) || r.Readable() {
		t.Errorf("%d versions, lost %v", len(got), lost)
	}
}

func TestATableOfTheFutureIsRefused(t *testing.T) {
	file, info, _ := small(t, S2)
	foot := file[len(file)-footerSize:]
	binary.LittleEndian.PutUint32(foot[68:], version+1)
	binary.LittleEndian.PutUint32(foot[64:], footerSum(foot))
	f := bytes.NewReader(file)
	if _, err := Survey(t.Context(), f, uint64(len(file)), metaOf(info), nil); !errors.Is(err, ErrVersion) ||
		errors.Is(err, corrupt.Err) {
		t.Errorf("error is %v, want %v", err, ErrVersion)
	}
}

// TestBlocksAreFoundByTheirChecksums damages index, footer and blocks: small, large and huge ones.
func TestBlocksAreFoundByTheirChecksums(t *testing.T) {
	var kvs []kv
	for i := range 300 {
		n := 100
		switch {
		case i%100 == 50:
			n = 3 * nearBlock
		case i%10 == 0:
			n = 100_000
		}
		kvs = append(kvs, set(fmt.Sprintf("key%03d", i), 9, strings.Repeat(strconv.Itoa(i), n)[:n]))
	}
	file, info := build(t, WriterOptions{ID: 77}, kvs)
	starts, versions := extents(t, file, info)
	damage := []int{0, 3, 4, len(starts) - 2}
	for i, at := range starts[:len(starts)-1] {
		if size := starts[i+1] - at; size > 90_000 && size < 110_000 {
			damage = append(damage, i)
			break
		}
	}
	clear(file[len(file)-int(info.TailLen):])
	var want []kv
	for b := range len(starts) - 1 {
		if slices.Contains(damage, b) {
			file[starts[b+1]-trailerSize-1]++
			continue
		}
		want = append(want, kvs[versions[b]:versions[b+1]]...)
	}
	_, got, lost := salvaged(t, bytes.NewReader(file), len(file), metaOf(info))
	if !slices.Equal(got, want) {
		t.Errorf("%d versions, want %d; lost %v", len(got), len(want), lost)
	}
}

// badSector fails to read one page.
type badSector struct {
	io.ReaderAt
	from, to int64
}

func (b badSector) ReadAt(p []byte, off int64) (int, error) {
	if off < b.to && off+int64(len(p)) > b.from {
		return 0, errBadSector
	}
	return b.ReaderAt.ReadAt(p, off)
}

var errBadSector = errors.New("bad sector")

func TestABadSectorCostsItsBlocks(t *testing.T) {
	var kvs []kv
	for i := range 2000 {
		kvs = append(kvs, set(fmt.Sprintf("key%04d", i), 9, strings.Repeat(strconv.Itoa(i), 20)))
	}
	file, info := build(t, WriterOptions{ID: 77, BlockSize: 1024}, kvs)
	starts, versions := extents(t, file, info)
	sector := badSector{bytes.NewReader(file), 2 * 4096, 3 * 4096}
	var want []kv
	for b := range len(starts) - 1 {
		if int64(starts[b+1]) <= sector.from || int64(starts[b]) >= sector.to {
			want = append(want, kvs[versions[b]:versions[b+1]]...)
		}
	}
	_, got, lost := salvaged(t, sector, len(file), metaOf(info))
	if !slices.Equal(got, want) || len(lost) == 0 || !errors.Is(lost[0].Err, errBadSector) {
		t.Errorf("%d versions, want %d; lost %v", len(got), len(want), lost)
	}
}

// FuzzSurvey reads any bytes as a damaged table: versions in order and no panic.
func FuzzSurvey(f *testing.F) {
	for _, codec := range []Codec{None, S2, Zstd} {
		file, info, _ := small(f, codec)
		f.Add(file, info.TailLen, info.FilterLen, true)
		f.Add(file[:len(file)-1], info.TailLen, info.FilterLen, true)
		f.Add(file, uint64(0), uint64(0), false)
		file, info = smallInParts(f, codec)
		f.Add(file, info.TailLen, info.FilterLen, true)
		f.Add(file[:len(file)-1], info.TailLen, info.FilterLen, true)
	}
	f.Fuzz(func(t *testing.T, file []byte, tail, filter uint64, known bool) {
		m := Meta{Name: "x"}
		if known {
			m = Meta{Name: "x", ID: 0x0123456789abcdef, Size: uint64(len(file)) + 1, TailLen: tail, FilterLen: filter}
		}
		r, err := Survey(t.Context(), bytes.NewReader(file), uint64(len(file)), m, nil)
		if err != nil {
			if !errors.Is(err, ErrVersion) {
				t.Fatal(err)
			}
			return
		}
		var last *kv
		it := r.Iter()
		for it.Next() {
			v := kv{string(it.Key().User), it.Key().Trailer, string(it.Value())}
			if last != nil && ikey.Compare(last.ikey(), v.ikey()) >= 0 {
				t.Fatalf("%v after %v", v, *last)
			}
			last = &v
		}
	})
}

// TestASearchForBlocksEndsWithItsContext reads a table of 8 TiB without an index, as far as the manifest knows.
func TestASearchForBlocksEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reads := 0
	hole := readerAt(func(b []byte, _ int64) (int, error) {
		if reads++; reads > 4 {
			cancel()
		}
		clear(b)
		return len(b), nil
	})
	const size = 8 << 40
	r, err := Survey(ctx, hole, size, Meta{ID: 1, Size: size, TailLen: footerSize + 100}, nil)
	must(t, err)
	if it := r.Iter(); it.Next() || reads > 40 {
		t.Errorf("%d reads, want none after the end of the context, and no version", reads)
	}
}

type readerAt func(b []byte, off int64) (int, error)

func (f readerAt) ReadAt(b []byte, off int64) (int, error) { return f(b, off) }
