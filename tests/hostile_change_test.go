package tests

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/sstable"
)

// A vandal changes fields of a store at random.
type vandal struct {
	rng *rand.Rand
	s   *forgedStore
	did []string // what it changed, for the report

	late []func(files map[string][]byte) // changes of the written files, which leave the checksums as they are
}

func (v *vandal) note(format string, args ...any) {
	v.did = append(v.did, fmt.Sprintf(format, args...))
}

// number returns a replacement for old: a number near it, an extreme, or a random one.
func (v *vandal) number(old uint64) uint64 {
	switch r := v.rng; r.IntN(10) {
	case 0:
		return 0
	case 1:
		return old + 1
	case 2:
		return old - 1
	case 3:
		return math.MaxUint64
	case 4:
		return old ^ 1<<r.IntN(64)
	case 5:
		return 1 << r.IntN(64)
	case 6:
		return r.Uint64N(64)
	case 7:
		return old + uint64(r.IntN(256)) - 128
	case 8:
		return r.Uint64() >> r.IntN(64)
	default:
		return 1<<r.IntN(64) - 1
	}
}

// word changes the n-byte number at the start of b in place.
func (v *vandal) word(b []byte, n int) {
	var old [8]byte
	copy(old[:], b[:n])
	var now [8]byte
	binary.LittleEndian.PutUint64(now[:], v.number(binary.LittleEndian.Uint64(old[:])))
	copy(b[:n], now[:n])
}

// bytes returns a copy of b with a bit, a byte, a word or the length changed.
func (v *vandal) bytes(b []byte) []byte {
	b = bytes.Clone(b)
	r := v.rng
	if len(b) == 0 {
		return append(b, byte(r.Uint32()))
	}
	at := r.IntN(len(b))
	switch r.IntN(8) {
	case 0:
		b[at] ^= 1 << r.IntN(8)
	case 1:
		b[at] = byte(r.Uint32())
	case 2:
		v.word(b[at:], min(4, len(b)-at))
	case 3:
		v.word(b[at:], min(8, len(b)-at))
	case 4:
		b = b[:at]
	case 5:
		b = slices.Insert(b, at, byte(r.Uint32()))
	case 6:
		b = slices.Delete(b, at, min(len(b), at+1+r.IntN(8)))
	default: // copy one range over another
		from, n := r.IntN(len(b)), 1+r.IntN(16)
		copy(b[at:], bytes.Clone(b[from:min(len(b), from+n)]))
	}
	return b
}

// aligned returns a copy of b, a sequence of n-byte numbers, with one of them changed.
func (v *vandal) aligned(b []byte, n int) []byte {
	b = bytes.Clone(b)
	if len(b) >= n {
		v.word(b[v.rng.IntN(len(b)/n)*n:], n)
	}
	return b
}

// key returns a key that bounds a table of the store, or one similar to its keys.
func (v *vandal) key() []byte {
	var all [][]byte
	for _, b := range v.s.edits {
		if e, err := manifest.ParseEdit(b); err == nil {
			for _, a := range e.Added {
				all = append(all, a.Table.Smallest, a.Table.Largest)
			}
		}
	}
	if len(all) == 0 || v.rng.IntN(4) == 0 {
		return fmt.Appendf(nil, "%c%c/%02d-key-of-some-length", 'a'+v.rng.IntN(3), 'a'+v.rng.IntN(2), v.rng.IntN(40))
	}
	return all[v.rng.IntN(len(all))]
}

// change makes one random change.
func (v *vandal) change() {
	switch n := v.rng.IntN(100); {
	case n < 45 && len(v.s.tables) > 0:
		numbers := slices.Sorted(maps.Keys(v.s.tables))
		number := numbers[v.rng.IntN(len(numbers))]
		v.s.change(number, func(t *forgedTable) {
			v.note("table %d", number)
			v.table(t)
		})
		if v.rng.IntN(2) == 0 {
			v.note("the manifest is made consistent")
			v.s.agree(number)
		}
	case n < 80:
		v.manifest()
	case n < 90 && len(v.s.logs) > 0:
		v.log()
	case n < 94:
		v.names()
	default:
		names := slices.Sorted(maps.Keys(v.s.files))
		name := names[v.rng.IntN(len(names))]
		v.note("bytes of %s, checksums unchanged", name)
		v.late = append(v.late, func(files map[string][]byte) { files[name] = v.bytes(files[name]) })
	}
}

// table changes a part of a table.
func (v *vandal) table(t *forgedTable) {
	r := v.rng
	block := func() *forgedBlock { return &t.blocks[r.IntN(len(t.blocks))] }
	if r.IntN(4) == 0 && (t.cuts != nil || r.IntN(8) == 0) {
		v.parts(t)
		return
	}
	n := r.IntN(16)
	if n < 7 && len(t.blocks) == 0 {
		n = 7 + r.IntN(9)
	}
	switch n {
	case 0, 1, 2:
		v.block(block())
	case 3:
		i, j := r.IntN(len(t.blocks)), r.IntN(len(t.blocks))
		a, b := &t.blocks[i], &t.blocks[j]
		v.note("blocks %d and %d swapped", i, j)
		a.payload, b.payload, a.codec, b.codec = b.payload, a.payload, b.codec, a.codec
		if r.IntN(4) > 0 {
			a.decoded, b.decoded = b.decoded, a.decoded
		}
		if r.IntN(4) == 0 {
			a.suffix, b.suffix = b.suffix, a.suffix
		}
	case 4:
		b := block()
		b.suffix = v.bytes(b.suffix)
		v.note("separator %q", b.suffix)
	case 5:
		b := block()
		b.decoded = uint32(v.number(uint64(b.decoded)))
		v.note("decoded length %d", b.decoded)
	case 6:
		b := block()
		b.payload = v.bytes(b.payload)
		v.note("stored bytes of a block")
		if r.IntN(4) == 0 {
			b.codec = sstable.Codec(r.IntN(4))
		}
	case 7, 8:
		t.props = v.aligned(t.props, 8)
		v.note("properties, a word")
	case 9:
		t.props = v.bytes(t.props)
		v.note("properties, bytes")
	case 10:
		t.index = v.bytes(t.indexPayload())
		v.note("index, bytes")
	case 11:
		t.index = v.aligned(t.indexPayload(), 4)
		v.note("index, a word")
	case 12:
		if t.dels != nil {
			if t.dels = v.bytes(t.dels); len(t.dels) == 0 {
				t.dels = nil
			}
			v.note("range deletes")
		}
	case 13:
		if t.keys != nil {
			which := &t.keys
			if t.second != nil && r.IntN(2) == 0 {
				which = &t.second
			}
			if r.IntN(8) == 0 {
				*which = v.hole(*which)
			} else {
				v.filter(*which)
			}
		}
	case 14:
		if t.sample != nil {
			t.sample = v.bytes(t.sample)
			v.note("sample")
		}
	default:
		at, with := r.IntN(8), r.Uint64()
		t.foot = func(words []uint64, sample *uint32) {
			v := &vandal{rng: rand.New(rand.NewPCG(with, 0))}
			if at == len(words) {
				*sample = uint32(v.number(uint64(*sample)))
			} else {
				words[at] = v.number(words[at])
			}
		}
		v.note("footer, word %d", at)
	}
}

// parts changes the parts of a table's index, their borders, or whether there are any.
func (v *vandal) parts(t *forgedTable) {
	r := v.rng
	switch n := len(t.cuts); {
	case n == 0:
		first := r.IntN(len(t.blocks) + 1)
		t.cuts = []int{first, len(t.blocks) - first}
		v.note("an index in two parts, the first of %d blocks", first)
	case r.IntN(2) == 0:
		i := r.IntN(n)
		b := t.partPayload(i)
		switch r.IntN(4) {
		case 0:
			b = v.bytes(b)
		case 1:
			j := r.IntN(n)
			t.setPart(j, b)
			b = t.partPayload(j)
			v.note("parts of the index, %d in place of %d", i, j)
		default:
			b = v.aligned(b, 4)
		}
		t.setPart(i, b)
		v.note("part %d of the index", i)
	case r.IntN(3) == 0:
		i, blocks := r.IntN(n), int(v.number(uint64(t.cuts[r.IntN(n)]))&0xff)
		t.cuts[i] = blocks
		v.note("part %d of the index has %d blocks", i, blocks)
	case r.IntN(3) == 0 && n > 1:
		i := r.IntN(n - 1)
		move := 1 + r.IntN(t.cuts[i]+1)
		t.cuts[i], t.cuts[i+1] = t.cuts[i]-min(move, t.cuts[i]), t.cuts[i+1]+min(move, t.cuts[i])
		v.note("%d blocks of part %d in the next one", move, i)
	case r.IntN(3) == 0:
		t.cuts = nil
		v.note("an index in one block")
	default:
		t.extra = t.extraPayload()
		if r.IntN(2) == 0 {
			t.extra = v.aligned(t.extra, 4)
		} else {
			t.extra = v.bytes(t.extra)
		}
		v.note("in front of the footer: %x", t.extra)
	}
}

// block changes the decoded data of a block.
func (v *vandal) block(x *forgedBlock) {
	data, err := x.decode()
	if err != nil || len(data) < 8 {
		return
	}
	decoded := x.decoded
	r := v.rng
	prefix := (int(binary.LittleEndian.Uint32(data[4:])&0xffffff) + 7) &^ 7
	count := int(binary.LittleEndian.Uint32(data))
	switch heads := 8 + prefix; {
	case r.IntN(4) == 0 && count > 0 && heads+8*count <= len(data):
		i, j := heads+8*r.IntN(count), heads+8*r.IntN(count)
		a, b := bytes.Clone(data[i:i+8]), bytes.Clone(data[j:j+8])
		copy(data[i:], b)
		if r.IntN(2) == 0 {
			copy(data[j:], a)
		}
		v.note("heads of a block")
	case r.IntN(3) == 0:
		data = v.aligned(data, 8)
		v.note("a word of a block")
	default:
		data = v.bytes(data)
		v.note("bytes of a block")
	}
	x.encode(data, sstable.Codec(r.IntN(3)))
	if r.IntN(8) == 0 {
		x.decoded = decoded
	}
}

// filter changes a filter in place: its header or its bits.
func (v *vandal) filter(b []byte) {
	h, err := bloomblock.ParseHeader(b)
	if err != nil {
		return
	}
	r := v.rng
	sums := b[bloomblock.HeaderSize:]
	sums = sums[min(h.UnitsSize(), uint64(len(sums))):]
	switch {
	case r.IntN(4) == 0 && len(sums) > 0:
		v.word(sums[4*r.IntN(len(sums)/4):], 4)
		v.note("checksums of the pages of a filter")
		binary.LittleEndian.PutUint32(b[forgeSums:], crc32.Checksum(sums, castagnoli))
		sealFilter(b)
		return
	case r.IntN(3) == 0 && len(b) > bloomblock.HeaderSize:
		at := bloomblock.HeaderSize + r.IntN(len(b)-bloomblock.HeaderSize)
		b[at] ^= 1 << r.IntN(8)
		v.note("bits of a filter")
	case r.IntN(2) == 0:
		b[8+r.IntN(bloomblock.HeaderSize-12)] ^= 1 << r.IntN(8)
		v.note("header of a filter, a bit")
	default:
		v.word(b[8+8*r.IntN((bloomblock.HeaderSize-16)/8):], 8)
		v.note("header of a filter, a word")
	}
	resumFilter(b, h)
}

// hole returns a filter whose header claims units of up to 32 MiB, with a hole in their place.
func (v *vandal) hole(b []byte) []byte {
	h, err := bloomblock.ParseHeader(b)
	if err != nil || len(h.Units) == 0 || h.Units[0].Columns > 0 {
		return b
	}
	blocks := uint64(1) << (19 - v.rng.IntN(4)*v.rng.IntN(4))
	for i := range h.Units {
		h.Units[i].Blocks = blocks
	}
	if v.rng.IntN(2) == 0 {
		h.Keys = 16 * blocks
	}
	v.note("filter of %d keys with units of %d blocks, a hole", h.Keys, blocks)
	return append(h.Append(nil), make([]byte, uint64(len(h.Units))*blocks*64)...)
}

// manifest makes a random change to the manifest's edits.
func (v *vandal) manifest() {
	r, s := v.rng, v.s
	if len(s.edits) == 0 {
		return
	}
	i := r.IntN(len(s.edits))
	e, err := manifest.ParseEdit(s.edits[i])
	if err != nil || r.IntN(8) == 0 {
		s.edits[i] = v.bytes(s.edits[i])
		v.note("bytes of edit %d", i)
		return
	}
	n := len(e.Added)
	switch k := r.IntN(12); {
	case k == 0 && n > 1:
		a, b := e.Added[r.IntN(n)].Table, e.Added[r.IntN(n)].Table
		a.Smallest, b.Smallest, a.Largest, b.Largest, a.Flags, b.Flags = b.Smallest, a.Smallest, b.Largest, a.Largest,
			b.Flags, a.Flags
		v.note("bounds of tables %d and %d swapped", a.Number, b.Number)
	case k == 1 && n > 0:
		a := e.Added[r.IntN(n)].Table
		switch r.IntN(3) {
		case 0:
			a.Smallest = v.key()
		case 1:
			a.Largest, a.Flags = v.key(), a.Flags&^manifest.LargestInfinite
		default:
			a.Largest, a.Flags = nil, a.Flags&^manifest.LargestExclusive|manifest.LargestInfinite
		}
		v.note("bounds of table %d: %v", a.Number, a.Bounds())
	case k == 2 && n > 1:
		a, b := &e.Added[r.IntN(n)], &e.Added[r.IntN(n)]
		a.Run, b.Run, a.Level, b.Level = b.Run, a.Run, b.Level, a.Level
		v.note("positions of tables %d and %d swapped", a.Table.Number, b.Table.Number)
	case k == 3 && n > 0:
		a := &e.Added[r.IntN(n)]
		a.Level, a.Run = r.IntN(manifest.NumLevels), a.Run+uint64(r.IntN(5))-2
		v.note("table %d at level %d, run %d", a.Table.Number, a.Level, a.Run)
	case k == 4 && n > 0:
		j := r.IntN(n)
		v.note("table %d removed", e.Added[j].Table.Number)
		e.Added = slices.Delete(e.Added, j, j+1)
	case k == 5 && n > 0:
		a := e.Added[r.IntN(n)]
		c := *a.Table
		a.Table = &c
		a.Level = r.IntN(manifest.NumLevels)
		e.Added = append(e.Added, a)
		v.note("table %d duplicated", c.Number)
	case k == 6:
		s.edits = slices.Insert(s.edits, r.IntN(len(s.edits)+1), s.edits[i])
		v.note("edit %d duplicated", i)
		return
	case k == 7 && n > 1:
		a, b := e.Added[r.IntN(n)].Table, e.Added[r.IntN(n)].Table
		v.note("files of tables %d and %d swapped", a.Number, b.Number)
		a.Number, b.Number = b.Number, a.Number
	default:
		v.leaf(reflect.ValueOf(e).Elem(), fmt.Sprintf("edit %d: ", i))
	}
	s.edits[i] = manifest.AppendEdit(nil, e)
}

// leaf changes one field of the struct, or of a value reachable from it.
func (v *vandal) leaf(x reflect.Value, path string) {
	switch x.Kind() { //nolint:exhaustive // the fields of edits have no other kinds
	case reflect.Pointer:
		if x.IsNil() {
			x.Set(reflect.New(x.Type().Elem()))
		}
		v.leaf(x.Elem(), path)
	case reflect.Struct:
		i := v.rng.IntN(x.NumField())
		if x.Field(i).CanSet() {
			v.leaf(x.Field(i), path+" "+x.Type().Field(i).Name)
		}
	case reflect.Slice:
		switch {
		case x.Type().Elem().Kind() == reflect.Uint8:
			x.SetBytes(v.bytes(x.Bytes()))
			v.note("%s: %q", path, x.Bytes())
		case x.Len() == 0 || v.rng.IntN(16) == 0:
			x.Set(reflect.Append(x, reflect.Zero(x.Type().Elem())))
			if e := x.Index(x.Len() - 1); e.Kind() == reflect.Struct {
				for _, f := range e.Fields() {
					if f.Kind() == reflect.Pointer {
						f.Set(reflect.New(f.Type().Elem()))
					}
				}
			}
			fallthrough
		default:
			v.leaf(x.Index(v.rng.IntN(x.Len())), path)
		}
	case reflect.Bool:
		x.SetBool(!x.Bool())
		v.note("%s: %v", path, x.Bool())
	case reflect.Int, reflect.Int64:
		x.SetInt(int64(v.number(uint64(x.Int()))))
		v.note("%s: %d", path, x.Int())
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		x.SetUint(v.number(x.Uint()))
		v.note("%s: %d", path, x.Uint())
	case reflect.Float64:
		x.SetFloat(math.Float64frombits(v.number(math.Float64bits(x.Float()))))
		v.note("%s: %v", path, x.Float())
	case reflect.String:
		x.SetString(string(v.bytes([]byte(x.String()))))
		v.note("%s: %q", path, x.String())
	}
}

// log changes a log: a record, the order of records, or the log's number.
func (v *vandal) log() {
	r, s := v.rng, v.s
	numbers := slices.Sorted(maps.Keys(s.logs))
	n := numbers[r.IntN(len(numbers))]
	l := s.logs[n]
	switch {
	case r.IntN(8) == 0:
		to := v.number(n)
		if to > 1<<20 {
			to &= 1<<20 - 1
		}
		delete(s.logs, n)
		delete(s.files, filename.Base(filename.Log, n))
		s.logs[to] = l
		v.note("log %d becomes log %d", n, to)
	case len(l) == 0:
	case r.IntN(8) == 0:
		i, j := r.IntN(len(l)), r.IntN(len(l))
		l[i], l[j] = l[j], l[i]
		v.note("log %d: records %d and %d swapped", n, i, j)
	case r.IntN(4) == 0:
		i := r.IntN(len(l))
		l[i] = bytes.Clone(l[i])
		v.word(l[i], min(8, len(l[i])))
		v.note("log %d: sequence of record %d", n, i)
	case r.IntN(4) == 0:
		i := r.IntN(len(l))
		l[i] = bytes.Clone(l[i])
		if len(l[i]) >= 12 {
			v.word(l[i][8:], 4)
		}
		v.note("log %d: count of record %d", n, i)
	default:
		i := r.IntN(len(l))
		l[i] = v.bytes(l[i])
		v.note("log %d: bytes of record %d", n, i)
	}
}

// names changes which files exist, and which manifest is current.
func (v *vandal) names() {
	r, s := v.rng, v.s
	switch r.IntN(4) {
	case 0:
		old := s.manifest
		if s.manifest = v.number(old); s.manifest > 1<<20 {
			s.manifest &= 1<<20 - 1
		}
		delete(s.files, filename.Base(filename.Manifest, old))
		v.note("manifest %d", s.manifest)
	case 1:
		s.current = v.bytes(s.files[filename.CurrentName])
		v.note("CURRENT %q", s.current)
	case 2:
		n := uint64(r.IntN(200))
		name := filename.Base([]filename.Kind{
			filename.Table, filename.Log, filename.Manifest, filename.Temp,
		}[r.IntN(4)], n)
		if _, there := s.files[name]; !there {
			s.files[name] = []byte("a stranger")
			v.note("a file %s", name)
		}
	default:
		names := slices.Sorted(maps.Keys(s.files))
		name := names[r.IntN(len(names))]
		v.late = append(v.late, func(files map[string][]byte) { delete(files, name) })
		v.note("without %s", name)
	}
}
