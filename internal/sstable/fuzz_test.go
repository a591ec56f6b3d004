package sstable

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

func FuzzBlock(f *testing.F) {
	for _, kvs := range shapes() {
		if b := encode(kvs[:min(len(kvs), 20)]); len(b) < 1<<12 {
			f.Add(b, "key")
		}
	}
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, "")
	f.Fuzz(func(t *testing.T, data []byte, key string) {
		if checkBlock(data, anySeq) != nil {
			return
		}
		b := parseBlock(data)
		var again blockBuilder
		var keys []ikey.Key
		ordered := true
		for i := range b.n {
			e := b.entry(i)
			k := ikey.Key{User: b.appendKey(nil, i, &e), Trailer: e.trailer}
			if i > 0 && ikey.Compare(keys[i-1], k) >= 0 {
				ordered = false
			}
			keys = append(keys, k)
			again.add(k, e.value, again.with(k, e.value))
		}
		for _, k := range append(keys, ikey.Key{User: []byte(key), Trailer: plainSet}) {
			i := b.seek(k.User, k.Trailer, 64, prefetched)
			_, v := b.get(k.User, k.Trailer)
			if !ordered {
				continue
			}
			if i < b.n && ikey.Compare(keys[i], k) < 0 || i > 0 && ikey.Compare(keys[i-1], k) >= 0 {
				t.Fatalf("seek(%q, %d) = %d", k.User, k.Trailer, i)
			}
			if here := i < b.n && bytes.Equal(keys[i].User, k.User); here != (v == found) {
				t.Fatalf("get(%q, %d) = %d, want found %v", k.User, k.Trailer, v, here)
			}
		}
		if !ordered {
			return
		}
		// A block may be written in a longer form than the builder's, so it is the builder's that must come back as it
		// is.
		once := again.append(nil)
		if err := checkBlock(once, anySeq); err != nil {
			t.Fatalf("built again: %v", err)
		}
		if b = parseBlock(once); b.n != len(keys) {
			t.Fatalf("built again: %d entries, want %d", b.n, len(keys))
		}
		for i := range b.n {
			e := b.entry(i)
			if k := b.appendKey(nil, i, &e); !bytes.Equal(k, keys[i].User) || e.trailer != keys[i].Trailer {
				t.Fatalf("built again: entry %d is %q", i, k)
			}
		}
	})
}

func FuzzFooter(f *testing.F) {
	file, _, _ := small(f, None)
	f.Add(file[len(file)-footerSize:], uint64(len(file)))
	file, _ = smallInParts(f, None)
	f.Add(file[len(file)-extraSize-footerSize:], uint64(len(file)))
	f.Fuzz(func(t *testing.T, b []byte, size uint64) {
		b = bytes.Clone(b)
		fixFooter(b, size)
		if ft, err := parseFooter(b, size); err == nil &&
			!bytes.HasSuffix(b, ft.append(nil, size-ft.size())) {
			t.Fatal("encoded again it differs")
		}
	})
}

func FuzzProperties(f *testing.F) {
	file, _, _ := small(f, None)
	p := partsOf(f, file)
	f.Add(file[p.props : len(file)-footerSize-trailerSize])
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := ParseProperties(b); err == nil && !bytes.Equal(p.append(nil), b) {
			t.Fatal("encoded again it differs")
		}
	})
}

// FuzzRangeDels: what parses re-encodes to itself, and a search in it finds what a walk finds.
func FuzzRangeDels(f *testing.F) {
	for i := range smallDels {
		var b rangeDelBuilder
		for _, d := range smallDels[i:] {
			if err := b.add(&d); err != nil {
				f.Fatal(err)
			}
		}
		f.Add(b.append(nil), "key003", uint64(4))
	}
	var b rangeDelBuilder
	for _, d := range overlappingDels {
		if err := b.add(&d); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(b.append(nil), "d", uint64(4))
	f.Fuzz(func(t *testing.T, b []byte, key string, seq uint64) {
		x, err := parseRangeDels(b)
		if err != nil {
			return
		}
		l := x.List()
		var again rangeDelBuilder
		want := ikey.Seq(0)
		for i := range l {
			d := &l[i]
			if err := again.add(d); err != nil {
				t.Fatalf("fragment %d is read and cannot be written: %v", i, err)
			}
			if string(d.Start) <= key && (d.End == nil || key < string(d.End)) {
				for _, s := range d.Seqs {
					if s <= ikey.Seq(seq) {
						want = max(want, s)
					}
				}
			}
		}
		if !bytes.Equal(again.append(nil), b) || again.overlaps != l.Overlaps() {
			t.Fatal("encoded again it differs")
		}
		if got := x.Covering([]byte(key), ikey.Seq(seq)); got != want {
			t.Fatalf("Covering(%q, %d) = %d, want %d", key, seq, got, want)
		}
	})
}

func FuzzIndex(f *testing.F) {
	file, _, _ := small(f, None)
	p := partsOf(f, file)
	f.Add(file[p.index:p.dels-trailerSize], p.filter, "key011")
	f.Add(make([]byte, indexHeader), uint64(0), "key011")
	f.Fuzz(func(t *testing.T, b []byte, end uint64, key string) {
		x, err := parseIndex(b, end, filterAlign-1)
		if err != nil {
			return
		}
		var again partBuilder
		for i := range x.blocks() {
			_, stored, decoded := x.extent(i)
			again.add(append(bytes.Clone(x.prefix), x.sep(i)...), stored, decoded)
		}
		// The prefix may have been shorter than the builder's.
		if y, err := parseIndex(again.appendIndex(nil), end, filterAlign-1); err != nil || y.blocks() != x.blocks() ||
			y.end != x.end {
			t.Fatalf("built again it differs: %v", err)
		}
		i := x.find([]byte(key))
		sep := func(i int) string { return string(x.prefix) + string(x.sep(i)) }
		if i > x.blocks() || i < x.blocks() && sep(i) < key || i > 0 && sep(i-1) >= key {
			t.Fatalf("find(%q) = %d of %d", key, i, x.blocks())
		}
	})
}

// FuzzTable damages a table and makes its checksums right again. Reading it must not panic, and each error must be
// damage.
func FuzzTable(f *testing.F) {
	for _, c := range []Codec{None, S2, Zstd} {
		file, _, _ := small(f, c)
		p := partsOf(f, file)
		f.Add(file, uint32(0), []byte{0}, "key010")
		f.Add(file, uint32(4), []byte{0xff, 0, 0, 1}, "key010")
		f.Add(file, uint32(p.index), []byte{0xff, 0xff}, "key011")
		f.Add(file, uint32(p.dels+4), []byte{0xff}, "key003")
		f.Add(file, uint32(p.props), []byte{0, 0, 1}, "")
		f.Add(file, uint32(p.filter+128), []byte{0, 0, 0, 0}, "key00")
		f.Add(file, uint32(p.sample+10), []byte{1, 0}, "key010")
		f.Add(file, uint32(len(file)-footerSize+9), []byte{1}, "key0")
	}
	file, _ := buildWith(f, WriterOptions{ID: 5, Filter: filterParams(f, 0.01)}, nil, smallDels)
	f.Add(file, uint32(0), []byte{}, "key003")
	file, _ = smallInParts(f, None)
	f.Add(file, uint32(len(file)-footerSize-extraSize), []byte{0}, "key003")
	top := partsOf(f, file).index
	f.Add(file, uint32(top), []byte{0xff, 0xff}, "key011")
	f.Add(file, uint32(top+40), []byte{0, 1, 0xff}, "key011")
	f.Fuzz(func(t *testing.T, file []byte, at uint32, patch []byte, key string) {
		if len(file) > 1<<16 || len(file) < footerSize || int64(at) > int64(len(file)) {
			return
		}
		file = bytes.Clone(file)
		copy(file[at:], patch)
		fixSums(file)
		mustNotPanic(t, file, key)
	})
}

func TestHostileTablesWithRightChecksumsDoNoHarm(t *testing.T) {
	testkit.LongUnderRace(t)
	for partSize, c := range []Codec{None, Zstd, None} {
		file, _, _ := smallWith(t, c, partSize&2)
		for i := range file {
			for _, patch := range []byte{0x80, 0xff} {
				damaged := bytes.Clone(file)
				damaged[i] = patch
				fixSums(damaged)
				mustNotPanic(t, damaged, "key011"[patch&1:])
			}
		}
	}
}

func TestAVersionOfTheFutureIsNotDamage(t *testing.T) {
	file, info, _ := small(t, None)
	binary.LittleEndian.PutUint32(file[len(file)-footerSize+68:], version+1)
	fixFooter(file, uint64(len(file)))
	if _, err := Open(bytes.NewReader(file), int64(len(file)), "x"); !errors.Is(err, ErrVersion) ||
		errors.Is(err, corrupt.Err) {
		t.Errorf("Open: %v, want %v", err, ErrVersion)
	}
	if err := newReader(file, info, 0).Load(0); !errors.Is(err, ErrVersion) || errors.Is(err, corrupt.Err) {
		t.Errorf("Load: %v, want %v", err, ErrVersion)
	}
	for at, want := range map[int]error{0: ErrVersion, 7: ErrVersion, 8: corrupt.Err, extraSize - 5: corrupt.Err} {
		file, info := smallInParts(t, None)
		file[len(file)-footerSize-extraSize+at] |= 0x40 // flags, reserved bytes
		err := newReader(file, info, 0).Load(0)
		if !errors.Is(err, corrupt.Err) || !strings.Contains(err.Error(), "footer: checksum") {
			t.Errorf("byte %d in front of the footer: %v, want damage of the footer", at, err)
		}
		fixFooter(file, info.Size)
		if err := newReader(file, info, 0).Load(0); !errors.Is(err, want) {
			t.Errorf("byte %d in front of the footer: %v, want %v", at, err, want)
		}
	}
}

// mustNotPanic makes every use of a hostile table. A key of odd length stands for a sequence number from the manifest.
func mustNotPanic(t *testing.T, file []byte, key string) {
	t.Helper()
	honest := func(err error) {
		t.Helper()
		if err != nil && !errors.Is(err, corrupt.Err) && !errors.Is(err, ErrVersion) {
			t.Fatalf("error is not damage: %v", err)
		}
	}
	r, err := Open(bytes.NewReader(file), int64(len(file)), "fuzz.sst")
	honest(err)
	if err != nil {
		return
	}
	if len(key)%2 != 0 {
		r.seq, r.meta.Seq = 4, 4
	}
	honest(r.Load(0))
	honest(r.LoadPrefixes(smallRule, 0))
	_, _ = r.Prefixes.MayContain(bloomblock.HashKey([]byte(key)))
	_, _, err = get(r, key, 5)
	honest(err)
	for _, o := range []IterOptions{{}, {Bypass: true}} {
		it := r.Iter(o)
		for ok := it.First(); ok; ok = it.Next() {
			_, _ = it.Key(), it.Value()
		}
		for ok := it.SeekLT(ikey.Key{User: []byte(key), Trailer: 700}); ok; ok = it.Prev() {
			_, _ = it.Key(), it.Value()
		}
		honest(it.Close())
	}
	honest(r.Verify(t.Context(), nil))
	_, err = r.ApproximateOffset([]byte(key))
	honest(err)
	_ = r.RangeDels().Covering([]byte(key), 5)
	if s, err := r.Sample(); !errors.Is(err, bloomblock.ErrUnknownKind) {
		honest(err)
		if s != nil {
			s.Overlap(r.Filter())
		}
	}
	if err := r.Dump(io.Discard, true); err != nil {
		honest(err)
	}
}

// Offsets of the parts of an intact table.
type parts struct{ sample, filter, index, dels, props uint64 }

func partsOf(tb testing.TB, file []byte) parts {
	tb.Helper()
	ft, err := parseFooter(file, uint64(len(file)))
	must(tb, err)
	return parts{ft.sampleOff(), ft.filterOff, ft.indexOff, ft.rangeDelOff(), ft.propsOff()}
}

// fixFooter makes the checksums of a footer right, at the end of b and of a file of size bytes.
func fixFooter(b []byte, size uint64) {
	if len(b) < footerSize {
		return
	}
	before := b[:len(b)-footerSize]
	b = b[len(before):]
	copy(b[72:], magic)
	binary.LittleEndian.PutUint32(b[64:], footerSum(b))
	if n := len(before) - extraSize; n >= 0 && binary.LittleEndian.Uint32(b[68:]) == version {
		extra, sealed := before[n:], extraSize-4
		sum := NewSeal(binary.LittleEndian.Uint64(b)).sum(KindExtra, size-footerSize-extraSize, extra[:sealed])
		binary.LittleEndian.PutUint32(extra[sealed:], sum)
	}
}

// fixSums makes the checksums of a damaged table right, as far as its parts can still be found.
func fixSums(file []byte) {
	size := uint64(len(file))
	fixFooter(file, size)
	ft, err := parseFooter(file, size)
	if err != nil {
		return
	}
	s := NewSeal(ft.id)
	fix := func(k Kind, offset, n uint64) {
		if offset < size && n < size-offset && trailerSize <= size-offset-n {
			binary.LittleEndian.PutUint32(file[offset+n+1:], s.sum(k, offset, file[offset:offset+n+1]))
		}
	}
	fix(ft.indexKind(), ft.indexOff, ft.indexLen)
	if ft.rangeDelLen > 0 {
		fix(KindRangeDels, ft.rangeDelOff(), ft.rangeDelLen)
	}
	fix(KindProperties, ft.propsOff(), ft.propsLen)
	if ft.sampleLen >= 24 {
		b := file[ft.sampleOff():][:ft.sampleLen]
		binary.LittleEndian.PutUint32(b[12:], crc32.Update(crc32.Checksum(b[:12], castagnoli), castagnoli, b[16:]))
		fix(KindSample, ft.sampleOff(), uint64(ft.sampleLen))
	}
	// The properties have the length of the prefix filter and the checksum of its header.
	if at := ft.propsOff(); at < size && ft.propsLen < size-at {
		if p, err := ParseProperties(file[at:][:ft.propsLen]); err == nil && p.Prefixes.Bytes > 0 &&
			p.Prefixes.Bytes < ft.indexOff {
			offset := ft.indexOff - p.Prefixes.Bytes
			h := file[offset:][:bloomblock.HeaderSize]
			binary.LittleEndian.PutUint32(h[bloomblock.HeaderSize-4:],
				crc32.Checksum(h[:bloomblock.HeaderSize-4], castagnoli))
			p.Prefixes.Sum = s.filterSum(KindPrefixes, offset, h)
			copy(file[at:], p.append(nil))
			fix(KindProperties, at, ft.propsLen)
		}
	}
	payload := file[ft.indexOff:][:ft.indexLen]
	if ft.inParts() {
		top, err := parseTop(payload, ft.sampleOff(), filterAlign)
		if err != nil {
			return
		}
		for p := range top.parts {
			w := &top.parts[p]
			fix(KindPart, w.offset, uint64(w.length))
			v, err := viewPart(file[w.offset:][:w.length])
			for i := 0; err == nil && i < v.blocks(); i++ {
				if start, end := v.span(i); start < end {
					fix(KindData, w.start+uint64(start), uint64(end-start-min(trailerSize, end-start)))
				}
			}
		}
		return
	}
	if x, err := parseIndex(payload, ft.sampleOff(), filterAlign); err == nil {
		for i := range x.blocks() {
			offset, stored, _ := x.extent(i)
			fix(KindData, offset, uint64(stored))
		}
	}
}
