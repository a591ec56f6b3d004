package salvage

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/rangedel"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

// A kv is one version and its value.
type kv struct {
	key   string
	t     ikey.Trailer
	value string
}

func (v kv) ikey() ikey.Key { return ikey.Key{User: []byte(v.key), Trailer: v.t} }

func set(key string, seq ikey.Seq, value string) kv {
	return kv{key, ikey.MakeTrailer(seq, ikey.Set), value}
}

// smallDels holds the range tombstones of small.
var smallDels = rangedel.List{
	{Start: []byte("key"), End: []byte("key003"), Seqs: []ikey.Seq{3}},
	{Start: []byte("key003"), End: []byte("key0031"), Seqs: []ikey.Seq{3, 5, 1 << 40}},
	{Start: []byte("key9"), Seqs: []ikey.Seq{ikey.MaxSeq}},
}

// small builds a table with every feature and few bytes.
func small(tb testing.TB, c sstable.Codec, inParts bool) ([]byte, sstable.Info, []kv) {
	tb.Helper()
	var kvs []kv
	for i := range 36 {
		key := fmt.Sprintf("key%03d", i)
		kvs = append(kvs, kv{key, ikey.MakeTrailer(7, ikey.Delete), ""},
			set(key, ikey.Seq(i%3), strings.Repeat("value", i%7)))
	}
	filter, err := bloomblock.ParamsNested(0.05, 0.01)
	must(tb, err)
	if inParts {
		sstable.SetPartSize(1)
		defer sstable.SetPartSize(0)
	}
	file, info := build(tb, sstable.WriterOptions{
		ID: 0x0123456789abcdef, BlockSize: 512, Codec: c, Filter: filter, Prefix: sstable.PrefixLen(5),
	}, kvs, smallDels...)
	if info.IndexInParts != inParts {
		tb.Fatalf("the index is in parts: %v, want %v", info.IndexInParts, inParts)
	}
	return file, info, kvs
}

// build writes a table into memory.
func build(
	tb testing.TB, o sstable.WriterOptions, kvs []kv, dels ...rangedel.Fragment,
) ([]byte, sstable.Info) {
	tb.Helper()
	var buf bytes.Buffer
	w := sstable.NewWriter(&buf, o)
	for _, v := range kvs {
		must(tb, w.Add(v.ikey(), []byte(v.value)))
	}
	for _, d := range dels {
		must(tb, w.AddRangeDel(d))
	}
	info, err := w.Finish()
	must(tb, err)
	return buf.Bytes(), info
}

func metaOf(i sstable.Info) sstable.Meta {
	return sstable.Meta{Name: "000001.sst", ID: i.ID, Size: i.Size, TailLen: i.TailLen, FilterLen: i.FilterLen}
}

// salvaged reads what can be read of a table, and what is lost of it.
func salvaged(t *testing.T, f io.ReaderAt, size int, m sstable.Meta) (r *remains, got []kv, lost []Loss) {
	t.Helper()
	r, err := readTail(t.Context(), f, uint64(size), m, nil)
	must(t, err)
	lost = slices.Clone(r.lost)
	for k, value := range r.versions(func(l Loss) { lost = append(lost, l) }) {
		got = append(got, kv{string(k.User), k.Trailer, string(value)})
	}
	return r, got, lost
}

// notLost returns a function that fails the test for a loss.
func notLost(t *testing.T) func(Loss) {
	t.Helper()
	return func(l Loss) { t.Errorf("lost %+v", l) }
}

// extents returns the positions of the data blocks of a whole table, with their trailers, and the number of versions
// before each.
func extents(t *testing.T, file []byte) (starts []int, before []int) {
	t.Helper()
	r, err := readTail(t.Context(), bytes.NewReader(file), uint64(len(file)), sstable.Meta{}, nil)
	must(t, err)
	n, end := 0, 0
	for range r.versions(notLost(t)) {
		if int(r.at) > end { // the first version of a block
			starts, before = append(starts, end), append(before, n)
			end = int(r.at)
		}
		n++
	}
	return append(starts, end), append(before, n)
}

// TestOneDamagedByteCostsOneBlock damages each byte of tables, cuts them off at each length, and reads them with a
// manifest and, if the footer is intact, without.
func TestOneDamagedByteCostsOneBlock(t *testing.T) {
	testkit.Long(t)
	for codec, inParts := range map[sstable.Codec]bool{sstable.Zstd: false, sstable.S2: true} {
		t.Run(fmt.Sprintf("%v, index in parts: %v", codec, inParts), func(t *testing.T) {
			file, info, kvs := small(t, codec, inParts)
			whole, err := sstable.ParseFooter(file[len(file)-2*sstable.FooterSize:], info.Size)
			must(t, err)
			footer := int(whole.Properties.Offset + whole.Properties.Length + sstable.TrailerSize)
			starts, versions := extents(t, file)
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
			check := func(what string, data []byte, m sstable.Meta, from, to int) {
				t.Helper()
				r, got, lost := salvaged(t, bytes.NewReader(data), len(data), m)
				if want := without(from, to); !slices.Equal(got, want) {
					t.Fatalf("%s: %d versions, want %d; lost %v", what, len(got), len(want), lost)
				}
				harmless := !slices.ContainsFunc(lost, harmful)
				if data := from < starts[len(starts)-1]; data && harmless {
					t.Errorf("%s: %v is lost, want a block", what, lost)
				}
				dels := reflect.DeepEqual(r.dels, smallDels)
				if !dels && harmless || r.dels != nil && !dels {
					t.Errorf("%s: range deletes %v, and %v is lost", what, r.dels, lost)
				}
				for _, l := range lost {
					if l.Err == nil || l.Bytes == 0 || l.Part == "" || uint64(l.Offset) > info.Size ||
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
			for i := range file {
				bad := bytes.Clone(file)
				bad[i] ^= 0x41
				check(fmt.Sprintf("byte %d", i), bad, metaOf(info), i, i+1)
				if i < footer {
					check(fmt.Sprintf("byte %d without a manifest", i), bad, sstable.Meta{Name: "x"}, i, i+1)
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
	file, _, _ := small(t, sstable.S2, false)
	file[len(file)-1]++
	r, got, lost := salvaged(t, bytes.NewReader(file), len(file), sstable.Meta{Name: "x"})
	if len(got) > 0 || len(lost) != 1 || lost[0].Harmless || !errors.Is(lost[0].Err, errNoID) || r.readable() {
		t.Errorf("%d versions, lost %v", len(got), lost)
	}
}

// TestAManifestCanClaimNoTailThatIsLargerThanItsTable has a damaged footer, so that only the manifest knows the sizes.
func TestAManifestCanClaimNoTailThatIsLargerThanItsTable(t *testing.T) {
	file, info, _ := small(t, sstable.S2, false)
	file[len(file)-1]++
	for _, c := range []struct {
		tail, filter uint64
		want         string // what is lost first
	}{
		{info.TailLen, info.FilterLen, "footer"},
		{sstable.FooterSize, info.Size - sstable.FooterSize, "footer"},
		{sstable.FooterSize, info.Size - sstable.FooterSize + 1, "table"},
		{sstable.FooterSize - 1, 0, "table"},
		{info.Size, 0, "footer"},
		{info.Size + 1, 0, "table"},
	} {
		m := metaOf(info)
		m.TailLen, m.FilterLen = c.tail, c.filter
		_, _, lost := salvaged(t, bytes.NewReader(file), len(file), m)
		whole := c.tail == info.TailLen && c.filter == info.FilterLen // the rest of the tail is found
		if lost[0].Part != c.want || lost[0].Harmless != (c.want == "footer") || whole && len(lost) > 1 {
			t.Errorf("a tail of %d bytes and a filter of %d, of %d: lost %+v, want the %s first", c.tail, c.filter,
				info.Size, lost, c.want)
		}
	}
}

// TestAPartOfTheTailThatCannotBeReadIsLost damages one part in several ways, of which only one has a wrong checksum.
func TestAPartOfTheTailThatCannotBeReadIsLost(t *testing.T) {
	for _, inParts := range []bool{false, true} {
		whole, info, kvs := small(t, sstable.S2, inParts)
		f, err := sstable.ParseFooter(whole[len(whole)-2*sstable.FooterSize:], info.Size)
		must(t, err)
		index := map[bool]string{false: "index", true: "top of the index"}[inParts]
		for name, e := range map[string]sstable.Extent{
			index: f.Index, "range deletes": f.RangeDels, "properties": f.Properties,
		} {
			sector := badSector{bytes.NewReader(whole), int64(e.Offset), int64(e.Offset) + 1}
			for what, change := range map[string]func(body []byte){
				"a wrong checksum": func(body []byte) { body[0]++ },
				"garbage": func(body []byte) {
					for i := range body[:e.Length] {
						body[i] = 0xff
					}
					reseal(f, e, body)
				},
				"a codec": func(body []byte) {
					body[e.Length] = byte(sstable.S2)
					reseal(f, e, body)
				},
			} {
				file := bytes.Clone(whole)
				change(file[e.Offset:][:e.Length+sstable.TrailerSize])
				r, got, lost := salvaged(t, bytes.NewReader(file), len(file), metaOf(info))
				if len(lost) != 1 || lost[0].Part != name || lost[0].Harmless != (name != "range deletes") ||
					uint64(lost[0].Offset) != e.Offset || uint64(lost[0].Bytes) != e.Length+sstable.TrailerSize ||
					!slices.Equal(got, kvs) {
					t.Errorf("%s with %s: %d versions, lost %+v; want the part", name, what, len(got), lost)
				}
				if want := kvs[len(kvs)-1].key; string(r.upper()) != want {
					t.Errorf("%s with %s: the largest key is %q, want %q", name, what, r.upper(), want)
				}
			}
			_, _, lost := salvaged(t, sector, len(whole), metaOf(info))
			if !slices.ContainsFunc(lost, func(l Loss) bool {
				return l.Part == name && errors.Is(l.Err, errBadSector)
			}) {
				t.Errorf("%s in a bad sector: lost %+v", name, lost)
			}
		}
		m := metaOf(info)
		m.ID++
		_, got, lost := salvaged(t, bytes.NewReader(whole), len(whole), m)
		want := fmt.Sprintf("table %016x, want %016x", info.ID, m.ID)
		if len(got) > 0 || lost[0].Part != "footer" || lost[0].Err.Error() != want {
			t.Errorf("of another table: %d versions, lost %+v, want that it is %s", len(got), lost, want)
		}
	}
}

// TestALossOfABlockHasItsBounds damages a block with its index and without.
func TestALossOfABlockHasItsBounds(t *testing.T) {
	for _, inParts := range []bool{false, true} {
		whole, info, kvs := small(t, sstable.S2, inParts)
		starts, versions := extents(t, whole)
		for b := range len(starts) - 1 {
			for _, indexed := range []bool{true, false} {
				file := bytes.Clone(whole)
				file[starts[b]]++
				if !indexed {
					file[info.Size-info.TailLen]++
				}
				_, _, lost := salvaged(t, bytes.NewReader(file), len(file), metaOf(info))
				end := starts[b+1]
				if !indexed && !inParts && b == len(starts)-2 { // nothing says where zeros begin
					f, err := sstable.ParseFooter(whole[len(whole)-2*sstable.FooterSize:], info.Size)
					must(t, err)
					end = int(f.Limit)
				}
				l, lower, upper := lost[len(lost)-1], kvs[max(versions[b]-1, 0)].key, kvs[versions[b+1]-1].key
				if int(l.Offset) != starts[b] || int(l.Offset+l.Bytes) != end || l.Harmless ||
					string(l.Lower) != lower || string(l.Upper) != upper {
					t.Errorf("in parts %v, indexed %v, block %d: lost %+v, want %d to %d, %s to %s", inParts, indexed,
						b, l, starts[b], end, lower, upper)
				}
			}
		}
	}
}

// TestABlockOfZerosIsLost has no index. Less than FilterAlign of zeros, and only in front of a filter, are no loss.
func TestABlockOfZerosIsLost(t *testing.T) {
	large, _, _ := small(t, sstable.S2, false) // with a filter
	tiny, _ := build(t, sstable.WriterOptions{ID: 77}, []kv{set("a", 9, "")})
	for name, file := range map[string][]byte{"large, with a filter": large, "tiny, without": tiny} {
		f, err := sstable.ParseFooter(file[len(file)-min(len(file), 2*sstable.FooterSize):], uint64(len(file)))
		must(t, err)
		starts, _ := extents(t, file)
		from, to := starts[len(starts)-2], starts[len(starts)-1]
		clear(file[from:to])
		file[f.Index.Offset]++
		m := sstable.Meta{ID: f.ID, Size: uint64(len(file)), TailLen: f.TailLen, FilterLen: f.FilterLen}
		_, _, lost := salvaged(t, bytes.NewReader(file), len(file), m)
		if l := lost[len(lost)-1]; l.Part != "data blocks" || int(l.Offset) != from {
			t.Errorf("%s: a block of %d bytes is zeros: lost %+v", name, to-from, lost)
		}
	}
}

// reseal corrects the checksum of a part of the tail.
func reseal(f sstable.Footer, e sstable.Extent, body []byte) {
	n := len(body) - 4
	sum := crc32.Update(^sstable.NewSeal(f.ID).Before(e.Kind, e.Offset), castagnoli, body[:n])
	binary.LittleEndian.PutUint32(body[n:], sum)
}

func TestATableOfTheFutureIsRefused(t *testing.T) {
	file, info, _ := small(t, sstable.S2, false)
	foot := file[len(file)-sstable.FooterSize:]
	binary.LittleEndian.PutUint32(foot[68:], sstable.FormatVersion+1)
	sealFooter(foot)
	_, err := readTail(t.Context(), bytes.NewReader(file), uint64(len(file)), metaOf(info), nil)
	if !errors.Is(err, sstable.ErrVersion) || errors.Is(err, corrupt.Err) {
		t.Errorf("error is %v, want %v", err, sstable.ErrVersion)
	}
}

// TestBlocksAreFoundByTheirChecksums damages index, footer and blocks: small, large and huge ones.
func TestBlocksAreFoundByTheirChecksums(t *testing.T) {
	testkit.Long(t)
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
	file, info := build(t, sstable.WriterOptions{ID: 77}, kvs)
	starts, versions := extents(t, file)
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
			file[starts[b+1]-sstable.TrailerSize-1]++
			continue
		}
		want = append(want, kvs[versions[b]:versions[b+1]]...)
	}
	_, got, lost := salvaged(t, bytes.NewReader(file), len(file), metaOf(info))
	if !slices.Equal(got, want) {
		t.Errorf("%d versions, want %d; lost %v", len(got), len(want), lost)
	}
}

// sealed returns blocks that follow each other from offset 0 on, of one payload each, with right checksums.
func sealed(of sstable.Seal, payloads ...string) (file []byte) {
	for _, p := range payloads {
		sum := ^of.Before(sstable.KindData, uint64(len(file)))
		body := append([]byte(p), byte(sstable.None))
		file = append(file, body...)
		file = binary.LittleEndian.AppendUint32(file, crc32.Update(sum, castagnoli, body))
	}
	return file
}

// TestASearchFindsBlocksOfAnyLength searches in zeros, whose end is near that of a chunk, for short blocks, and for one
// of more blocks than may be refused.
func TestASearchFindsBlocksOfAnyLength(t *testing.T) {
	of := sstable.NewSeal(7)
	calls := 0
	search := func(file []byte, accepts bool) *blockSearch {
		calls = 0
		src := openDamaged(t.Context(), bytes.NewReader(file), uint64(len(file)))
		return newBlockSearch(src, of, sstable.KindData, uint64(len(file)), func([]byte, sstable.Codec) bool {
			calls++
			return accepts
		})
	}
	for _, least := range []int{0, 64<<10 - 6} {
		for n := range 12 {
			if got, ok := search(make([]byte, least+n), false).length(0, nearBlock); ok {
				t.Errorf("%d bytes are found in %d zeros", got, least+n)
			}
		}
	}
	for _, before := range []string{"", "x"} {
		for _, payload := range []string{"", "1", "22"} {
			file := sealed(of, payload)
			if before != "" {
				file = sealed(of, before, payload)
				file[0]++
			}
			want := uint64(len(file) - len(payload) - sstable.TrailerSize)
			at, n, ok := search(file, true).next(0)
			if ok != (payload != "") || ok && (at != want || n != len(payload)) {
				t.Errorf("%d bytes at %d, %v; want %q at %d", n, at, ok, payload, want)
			}
		}
	}
	last := append([]byte("1"), byte(sstable.LastCodec))
	last = binary.LittleEndian.AppendUint32(last, crc32.Update(^of.Before(sstable.KindData, 0), castagnoli, last))
	if n, ok := search(last, true).length(0, nearBlock); n != 1 || !ok {
		t.Errorf("%d bytes of the last codec, %v", n, ok)
	}
	many := sealed(of, strings.Split(strings.Repeat("x", 2*maxWrong), "")...)
	if _, _, ok := search(many, false).next(0); ok || calls != maxWrong {
		t.Errorf("%d blocks are refused, want that the search gives up after %d", calls, maxWrong)
	}
	q, found := search(many, true), 0
	for at, n, ok := q.next(0); ok; at, n, ok = q.next(at + uint64(n) + sstable.TrailerSize) {
		found++
	}
	if found != 2*maxWrong {
		t.Errorf("%d blocks are found, want %d", found, 2*maxWrong)
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
	file, info := build(t, sstable.WriterOptions{ID: 77, BlockSize: 1024}, kvs)
	starts, versions := extents(t, file)
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

// FuzzTable reads any bytes as a damaged table: versions in order and no panic.
func FuzzTable(f *testing.F) {
	for _, codec := range []sstable.Codec{sstable.None, sstable.S2, sstable.Zstd} {
		for _, inParts := range []bool{false, true} {
			file, info, _ := small(f, codec, inParts)
			f.Add(file, uint64(0), uint64(0), false)
			f.Add(file, info.TailLen, info.FilterLen, true)
			f.Add(file[:len(file)-1], info.TailLen, info.FilterLen, true)
		}
	}
	f.Fuzz(func(t *testing.T, file []byte, tail, filter uint64, known bool) {
		m := sstable.Meta{Name: "x"}
		if known {
			m = sstable.Meta{
				Name: "x", ID: 0x0123456789abcdef, Size: uint64(len(file)) + 1, TailLen: tail, FilterLen: filter,
			}
		}
		r, err := readTail(t.Context(), bytes.NewReader(file), uint64(len(file)), m, nil)
		if err != nil {
			if !errors.Is(err, sstable.ErrVersion) {
				t.Fatal(err)
			}
			return
		}
		var last *kv
		for k, value := range r.versions(func(Loss) {}) {
			v := kv{string(k.User), k.Trailer, string(value)}
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
	r, err := readTail(ctx, hole, size, sstable.Meta{ID: 1, Size: size, TailLen: sstable.FooterSize + 100}, nil)
	must(t, err)
	for range r.versions(func(Loss) {}) {
		t.Error("a version of nothing")
	}
	if reads > 40 {
		t.Errorf("%d reads, want none after the end of the context", reads)
	}
}

type readerAt func(b []byte, off int64) (int, error)

func (f readerAt) ReadAt(b []byte, off int64) (int, error) { return f(b, off) }

// TestWhatATableClaimsOfItsSizesIsNotAllocated reads tables with a hole in front of their tail, and a footer that
// claims large parts. All checksums are right.
func TestWhatATableClaimsOfItsSizesIsNotAllocated(t *testing.T) {
	whole, info, kvs := small(t, sstable.S2, false)
	f, err := sstable.ParseFooter(whole, info.Size)
	must(t, err)
	front := whole[:f.Index.Offset]
	for _, hole := range []uint64{0, 1 << 20, 1 << 29, 1 << 40} {
		for _, c := range []struct {
			name  string
			at    int // in the footer; 0 for none
			claim uint64
		}{
			{"nothing", 0, 0},
			{"an index of GiB", 32, 1 << 30},
			{"an index of TiB", 32, 1 << 40},
			{"range deletes of TiB", 40, 1 << 40},
			{"properties of TiB", 48, 1 << 40},
			{"a sample of GiB", 60, 1 << 30},
		} {
			tail := bytes.Clone(whole[f.Index.Offset:])
			size, end := info.Size+hole, f.Index.Offset+hole
			for _, e := range []sstable.Extent{f.Index, f.RangeDels, f.Properties} { // at their new offsets
				body := tail[e.Offset-f.Index.Offset:][:e.Length+sstable.TrailerSize]
				n := len(body) - 4
				sum := crc32.Update(^sstable.NewSeal(f.ID).Before(e.Kind, e.Offset+hole), castagnoli, body[:n])
				binary.LittleEndian.PutUint32(body[n:], sum)
			}
			foot := tail[len(tail)-sstable.FooterSize:]
			binary.LittleEndian.PutUint64(foot[16:], info.FilterLen+hole)
			binary.LittleEndian.PutUint64(foot[24:], end)
			if c.at == 60 {
				binary.LittleEndian.PutUint32(foot[c.at:], uint32(c.claim))
			} else if c.at > 0 {
				binary.LittleEndian.PutUint64(foot[c.at:], c.claim)
			}
			sealFooter(foot)
			file := readerAt(func(b []byte, off int64) (int, error) {
				clear(b)
				if off < int64(len(front)) {
					copy(b, front[off:])
				}
				if at := int64(end) - off; at < 0 {
					copy(b, tail[min(-at, int64(len(tail))):])
				} else if at < int64(len(b)) {
					copy(b[at:], tail)
				}
				return len(b), nil
			})
			m := metaOf(info)
			m.Size, m.FilterLen = size, info.FilterLen+hole
			before := allocatedBytes()
			r, err := readTail(t.Context(), file, size, m, nil)
			must(t, err)
			n := 0
			for range r.versions(func(Loss) {}) {
				n++
			}
			if got := allocatedBytes() - before; got > 64<<20 {
				t.Errorf("%s, a hole of %d bytes: %d bytes are allocated", c.name, hole, got)
			}
			if n != len(kvs) {
				t.Errorf("%s, a hole of %d bytes: %d versions, want %d", c.name, hole, n, len(kvs))
			}
		}
	}
}

func allocatedBytes() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// sealFooter corrects the checksum of a footer.
func sealFooter(foot []byte) {
	sum := crc32.Update(crc32.Checksum(foot[:64], castagnoli), castagnoli, foot[68:])
	binary.LittleEndian.PutUint32(foot[64:], sum)
}
