package digest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

// An entry is one of a directory as its fields, so that a test can change them one by one, lengths too.
type entry struct {
	fields [][]byte
	units  []byte
}

const (
	flagsField, loField, hiField, filterField, rangesField = 0, 4, 6, 7, 8 // of a part
	fromField, partsField, unitsField                      = 1, 2, 3       // of parts that stay
)

func u32(n uint32) []byte { return binary.LittleEndian.AppendUint32(nil, n) }

func u64(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }

// entryOf returns the entry of a part.
func entryOf(p *Part, first bool) entry {
	whole := appendPart(nil, first, p)
	e := entry{units: slices.Concat(p.Units...)}
	take := func(n int) []byte {
		e.fields, whole = append(e.fields, bytes.Clone(whole[:n])), whole[n:]
		return e.fields[len(e.fields)-1]
	}
	key := func() {
		if n := binary.LittleEndian.Uint32(take(4)); n != infinite {
			take(int(n))
		} else {
			take(0)
		}
	}
	take(1)
	take(8)
	take(8)
	key()
	key()
	take(bloomblock.HeaderSize)
	for range binary.LittleEndian.Uint32(take(4)) {
		key()
		key()
	}
	return e
}

func entriesOf(d *Digest) (all []entry) {
	for _, run := range d.runs {
		for i, p := range run {
			all = append(all, entryOf(p, i == 0))
		}
	}
	return all
}

func patchEntries(p *Patch) (all []entry) {
	for _, s := range p.steps {
		if s.part != nil {
			all = append(all, entryOf(s.part, s.first))
			continue
		}
		flags := byte(stays)
		if s.first {
			flags |= beginsRun
		}
		all = append(all, entry{fields: [][]byte{{flags}, u32(s.from), u32(s.parts), {s.units}}})
	}
	return all
}

// isPart reports whether e has the fields of a part.
func (e *entry) isPart() bool { return len(e.fields) > rangesField }

// sealFilter makes the checksum of the filter's header right.
func (e *entry) sealFilter() {
	if e.isPart() && len(e.fields[filterField]) == bloomblock.HeaderSize {
		b := e.fields[filterField]
		binary.LittleEndian.PutUint32(b[len(b)-4:], checksum(b[:len(b)-4]))
	}
}

// sealUnits makes the checksums of the units right.
func (e *entry) sealUnits() {
	h, err := bloomblock.ParseHeader(e.fields[filterField])
	if err != nil {
		return
	}
	units := e.units
	for i, u := range h.Units {
		if u.Bytes() > uint64(len(units)) {
			break
		}
		binary.LittleEndian.PutUint32(e.fields[filterField][32+24*i+16:], checksum(units[:u.Bytes()]))
		units = units[u.Bytes():]
	}
	e.sealFilter()
}

// encoded returns a digest or patch with these entries and right checksums.
func encoded(h header, entries []entry) []byte {
	var directory, units []byte
	for _, e := range entries {
		directory = append(directory, slices.Concat(e.fields...)...)
		units = append(units, e.units...)
	}
	h.directory, h.checksum = uint64(len(directory)), checksum(directory)
	if h.magic == magicDigest {
		h.id = identity(h.seed, directory)
	}
	return slices.Concat(h.append(nil), directory, units)
}

// TestEachCheckOfADigestIsNeeded changes one thing in a digest whose checksums are right otherwise.
func TestEachCheckOfADigestIsNeeded(t *testing.T) {
	inHeader := func(at int, value ...byte) func([]byte) {
		return func(b []byte) {
			copy(b[at:], value)
			binary.LittleEndian.PutUint32(b[52:], checksum(b[:52]))
		}
	}
	for _, test := range []struct {
		want   string
		header func(b []byte)
		change func(e []entry) []entry
	}{
		{want: `offset 0: magic "bloompch", want "bloomdig"`, header: inHeader(0, []byte(magicPatch)...)},
		{want: "offset 0: header checksum", header: func(b []byte) { b[53]++ }},
		{want: "offset 0: unsupported format version: version 2, want 1", header: inHeader(8, 2)},
		{want: "offset 0: reserved bytes", header: inHeader(9, 1)},
		{want: "offset 0: reserved bytes", header: inHeader(15, 1)},
		{want: "offset 0: base 0000000000000100 in a digest, want 0", header: inHeader(33, 1)},
		{want: "bytes do not fit in memory", header: inHeader(47, 0x80)},
		{want: "offset 56: ends after", header: inHeader(43, 1)},
		{want: "offset 56: directory checksum", header: inHeader(48, 1, 2, 3, 4)},
		{want: "offset 56: id 0000000000000001, want ", header: inHeader(24, u64(1)...)},
		{want: "flags 0x7", change: func(e []entry) []entry {
			e[0].fields[flagsField][0] |= 4
			return e
		}},
		{want: "flags 0x83", change: func(e []entry) []entry {
			e[0].fields[flagsField][0] |= stays
			return e
		}},
		{want: "the first part begins no run", change: func(e []entry) []entry {
			e[0].fields[flagsField][0] = 0
			return e
		}},
		{want: "the directory ends within an entry", change: func(e []entry) []entry {
			e[4].fields[loField-1] = u32(math.MaxUint32 - 1)
			return e
		}},
		{want: "the directory ends within an entry", change: func(e []entry) []entry {
			last := &e[len(e)-1]
			last.fields = last.fields[:filterField]
			return e
		}},
		{want: "the directory ends within an entry", change: func(e []entry) []entry {
			last := &e[len(e)-1]
			last.fields[rangesField] = u32(math.MaxUint32)
			return e
		}},
		{want: "header checksum", change: func(e []entry) []entry {
			e[1].fields[filterField][20]++
			return e
		}},
		{want: "unsupported format version: filter block of unknown kind", change: func(e []entry) []entry {
			e[1].fields[filterField][9] = 77
			e[1].sealFilter()
			return e
		}},
		{want: "unit 0: checksum", change: func(e []entry) []entry {
			e[1].units[0]++
			return e
		}},
		{want: "ends after", change: func(e []entry) []entry {
			last := &e[len(e)-1]
			last.units = last.units[:len(last.units)-1]
			return e
		}},
		{want: `bounds from "k000001" to ""`, change: func(e []entry) []entry {
			e[0].fields[loField], e[0].fields[hiField-1], e[0].fields[hiField] = []byte("k000001"), u32(0), nil
			return e
		}},
		{want: `bounds from "k000040" to "k000040"`, change: func(e []entry) []entry {
			e[0].fields[loField] = e[0].fields[hiField]
			return e
		}},
		{want: `range from "k000020" to "k000010"`, change: func(e []entry) []entry {
			r := e[3].fields[rangesField+1:]
			r[1], r[3] = r[3], r[1]
			return e
		}},
		{want: `range from "k000010" to "k000020"`, change: func(e []entry) []entry {
			f := e[3].fields
			e[3].fields[rangesField] = u32(3)
			e[3].fields = slices.Concat(f, f[rangesField+1:][:4])
			return e
		}},
		{want: `range from "k000015" to "k000030"`, change: func(e []entry) []entry {
			f := e[3].fields[rangesField+5:]
			f[1], f[2], f[3] = []byte("k000015"), u32(7), []byte("k000030")
			return e
		}},
		{want: "overlaps the one before", change: func(e []entry) []entry {
			e[1], e[2] = e[2], e[1]
			e[1].fields[flagsField][0], e[2].fields[flagsField][0] = exclusive|beginsRun, exclusive
			return e
		}},
		{want: "overlaps the one before", change: func(e []entry) []entry {
			e[1].fields[hiField-1], e[1].fields[hiField] = u32(infinite), nil
			return e
		}},
		{want: "overlaps the one before", change: func(e []entry) []entry {
			e[1].fields[hiField] = []byte("k000200") // where the next one begins
			e[1].fields[flagsField][0] = beginsRun   // inclusive
			return e
		}},
	} {
		entries := entriesOf(sample(t))
		if test.change != nil {
			entries = test.change(entries)
		}
		b := encoded(header{magic: magicDigest, seed: seed}, entries)
		if test.header != nil {
			test.header(b)
		}
		_, err := Read(bytes.NewReader(b))
		if err == nil || !strings.Contains(err.Error(), test.want) || !hostile(err) {
			t.Errorf("error %v, want %q", err, test.want)
		}
	}
}

// TestAPartOutsideOfARunIsFoundBeforeUnitsAreRead has the first part behind a mark, and no units.
func TestAPartOutsideOfARunIsFoundBeforeUnitsAreRead(t *testing.T) {
	d, err := sample(t).Marked([]byte("mark"))
	if err != nil {
		t.Fatal(err)
	}
	b := written(t, d)
	b[headerSize+3+4] &^= beginsRun
	reseal(b)
	b = b[:headerSize+binary.LittleEndian.Uint64(b[40:])]
	want := "digest: offset 63: the first part begins no run"
	if _, err := Read(bytes.NewReader(b)); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestWhatIsClaimedIsNotAllocated claims a directory, and a unit, of bytes that never arrive.
func TestWhatIsClaimedIsNotAllocated(t *testing.T) {
	entries := entriesOf(sample(t))
	directory := encoded(header{magic: magicDigest, seed: seed}, entries)
	directory[45] = 1 // 2⁴⁰ bytes more
	reseal(directory)
	entries[1].fields[filterField][32+4] = 1 // 2³² blocks more
	entries[1].sealFilter()
	unit := encoded(header{magic: magicDigest, seed: seed}, entries)
	some := make([]byte, 2*readChunk)
	for _, b := range [][]byte{directory, unit, append(directory, some...), append(unit, some...)} {
		before := allocated()
		_, err := Read(bytes.NewReader(b))
		checkMemory(t, before, len(b))
		if err == nil || !hostile(err) {
			t.Error(err)
		}
	}
}

// hostile reports whether err is one that Read and Apply return for bytes that are invalid.
func hostile(err error) bool {
	return errors.Is(err, ErrCorruption) != errors.Is(err, ErrUnsupportedVersion)
}

// TestEachCheckOfAPatchIsNeeded changes one thing in a patch whose checksums are right.
func TestEachCheckOfAPatchIsNeeded(t *testing.T) {
	older, newer := patchSample(t)
	for _, test := range []struct {
		want   string
		change func(h *header, e []entry) []entry
	}{
		{`magic "bloomdig", want "bloompch"`, func(h *header, e []entry) []entry {
			h.magic = magicDigest
			return e
		}},
		{"digests do not match: the patch is of another store", func(h *header, e []entry) []entry {
			h.seed++
			return e
		}},
		{"digests do not match: the patch is for digest 0000000000000001", func(h *header, e []entry) []entry {
			h.base = 1
			return e
		}},
		{"the patch leads to digest", func(h *header, e []entry) []entry {
			h.id++
			return e
		}},
		{"the patch leads to digest", func(_ *header, e []entry) []entry { return e[:1] }},
		{"flags 0x85", func(_ *header, e []entry) []entry {
			e[1].fields[flagsField] = []byte{stays | beginsRun | 4}
			return e
		}},
		{"flags 0x5", func(_ *header, e []entry) []entry {
			e[0].fields[flagsField] = []byte{beginsRun | 4}
			return e
		}},
		{"the directory ends within an entry", func(_ *header, e []entry) []entry {
			last := &e[len(e)-1]
			last.fields = last.fields[:partsField]
			return e
		}},
		{"the first part begins no run", func(_ *header, e []entry) []entry {
			e[0].fields[flagsField] = []byte{exclusive}
			return e
		}},
		{"the first part begins no run", func(_ *header, e []entry) []entry {
			e[1].fields[flagsField] = []byte{stays}
			return e[1:]
		}},
		{"3 units of part 4,", func(_ *header, e []entry) []entry {
			e[1].fields[unitsField] = []byte{3}
			return e
		}},
		{"2 units of part 1,", func(_ *header, e []entry) []entry {
			e[2].fields[fromField], e[2].fields[unitsField] = u32(1), []byte{2}
			return append(e[:3], entry{fields: e[2].fields})
		}},
		{"0 units of part 6,", func(_ *header, e []entry) []entry {
			e[1].fields = staying(6, 1)
			return e
		}},
		{"0 units of part 6,", func(_ *header, e []entry) []entry {
			e[1].fields = staying(0, 7)
			return e
		}},
		{"0 units of part 4294967295,", func(_ *header, e []entry) []entry {
			e[1].fields = staying(math.MaxUint32, 7)
			return e
		}},
		{"unit 0: checksum", func(_ *header, e []entry) []entry {
			e[0].units[0]++
			return e
		}},
		{`bounds from "k000020" to "k000020"`, func(_ *header, e []entry) []entry {
			e[0].fields[loField] = e[0].fields[hiField]
			return e
		}},
		{"overlaps the one before", func(_ *header, e []entry) []entry {
			e[1].fields[flagsField] = []byte{stays}
			return e
		}},
	} {
		patch, err := newer.Since(older)
		if err != nil {
			t.Fatal(err)
		}
		h := header{magic: magicPatch, seed: patch.seed, id: patch.id, base: patch.base}
		entries := test.change(&h, patchEntries(patch))
		patch, err = ReadPatch(bytes.NewReader(encoded(h, entries)))
		if err == nil {
			_, err = older.Apply(patch)
		} else if patch != nil {
			t.Errorf("with the error %v there is a patch of %d steps", err, len(patch.steps))
		}
		if err == nil || !strings.Contains(err.Error(), test.want) || !hostile(err) && !errors.Is(err, ErrMismatch) {
			t.Errorf("error %v, want %q", err, test.want)
		}
	}
}

// staying returns the fields of an entry for parts that stay, without units, and begin a run.
func staying(from, parts uint32) [][]byte {
	return [][]byte{{stays | beginsRun}, u32(from), u32(parts), {0}}
}

// patchSample returns two digests. The patch between them has a new part, parts that stay with fewer units, and a run
// that stays.
func patchSample(tb testing.TB) (older, newer *Digest) {
	tb.Helper()
	older = digestOf(tb, slices.Concat(sample(tb).runs)...)
	runs := older.runs
	newer = digestOf(tb,
		[]*Part{part(tb, 9, 0, 20, 0.1, 0.01)},
		[]*Part{runs[3][0].cut(1), runs[3][1]},
		[]*Part{runs[1][0].cut(2)},
		[]*Part{runs[1][1]},
	)
	return older, newer
}

// A mutator changes entries by the bytes of a program. Every program is valid.
type mutator struct{ program []byte }

func (m *mutator) more() bool { return len(m.program) > 0 }

// next returns a number below n.
func (m *mutator) next(n int) int {
	if n <= 0 || !m.more() {
		return 0
	}
	b := int(m.program[0])
	m.program = m.program[1:]
	if n > 256 && m.more() {
		b, m.program = b<<8|int(m.program[0]), m.program[1:]
	}
	return b % n
}

// number returns a number that is likely to be special.
func (m *mutator) number() uint64 {
	special := []uint64{0, 1, 2, 3, 7, 8, 64, 1 << 20, 1<<31 - 1, 1 << 31, infinite - 1, infinite, 1 << 62, 1<<64 - 1}
	return special[m.next(len(special))] + uint64(m.next(3)) - 1
}

// change makes one change.
func (m *mutator) change(entries []entry) []entry {
	if len(entries) == 0 {
		m.program = nil
		return nil
	}
	i, j := m.next(len(entries)), m.next(len(entries))
	e, other := &entries[i], &entries[j]
	k := m.next(len(e.fields))
	f := &e.fields[k]
	switch m.next(11) {
	case 0: // a field of that size
		n := u64(m.number())
		*f = append(bytes.Clone(n[:min(8, len(*f))]), (*f)[min(8, len(*f)):]...)
	case 1: // a bit
		if len(*f) > 0 {
			*f = bytes.Clone(*f)
			(*f)[m.next(len(*f))] ^= 1 << m.next(8)
		}
	case 2:
		entries = slices.Delete(entries, i, i+1)
	case 3:
		entries = slices.Insert(entries, j, entry{slices.Clone(e.fields), bytes.Clone(e.units)})
	case 4:
		*e, *other = *other, *e
	case 5: // a shorter field
		*f = bytes.Clone((*f)[:m.next(len(*f)+1)])
	case 6: // a longer field
		*f = append(bytes.Clone(*f), make([]byte, m.next(300))...)
	case 7: // the field of another entry
		if k < len(other.fields) {
			*f = bytes.Clone(other.fields[k])
		}
	case 8: // a number in the filter's header
		if e.isPart() && len(e.fields[filterField]) == bloomblock.HeaderSize {
			b := bytes.Clone(e.fields[filterField])
			at := 8 + m.next(bloomblock.HeaderSize-4-8)
			copy(b[at:bloomblock.HeaderSize-4], u64(m.number())[:1+m.next(8)])
			e.fields[filterField] = b
			e.sealFilter()
		}
	case 9: // other bits in the units
		if e.isPart() && len(e.units) > 0 {
			e.units = bytes.Clone(e.units)
			e.units[m.next(len(e.units))] ^= byte(1 + m.next(255))
			e.fields[filterField] = bytes.Clone(e.fields[filterField])
			e.sealUnits()
		}
	case 10: // the length in front of a key of another length
		if k > 0 && k != filterField {
			e.fields[k-1] = u32(uint32(len(*f)))
		}
	}
	return entries
}

func (m *mutator) header(h *header) {
	switch m.next(6) {
	case 1:
		h.seed = bloomblock.Seed(m.number())
	case 2:
		h.base = m.number()
	case 3:
		h.id = m.number()
	}
}

// askAll compares the answers of a digest with those of its parts, asked one by one. No untouched part may deny one of
// its keys.
func askAll(t *testing.T, d *Digest, untouched map[string][]int) {
	t.Helper()
	if !(d.Rate() >= 0 && d.Rate() <= 1) {
		t.Fatalf("rate %v", d.Rate())
	}
	want := func(k []byte) bool {
		for _, run := range d.runs {
			deleted := false
			for _, p := range run {
				if bytes.Compare(k, p.Lo) < 0 || p.Hi != nil && bytes.Compare(k, p.Hi) > 0 ||
					p.Exclusive && p.Hi != nil && bytes.Equal(k, p.Hi) {
					continue
				}
				if p.Keys > 0 && p.filter.MayContain(bloomblock.HashKey(k)) {
					return true
				}
				for _, r := range p.Deleted {
					deleted = deleted || bytes.Compare(r.Start, k) <= 0 && (r.End == nil || bytes.Compare(k, r.End) < 0)
				}
			}
			if deleted {
				return false
			}
		}
		return false
	}
	ask := func(k []byte) {
		if got := d.MayContain(k); got != want(k) {
			t.Fatalf("key %q: may contain %v, its parts say %v", k, got, !got)
		}
	}
	for i := 0; i < 1000; i += 37 {
		ask(key(i))
	}
	for _, p := range d.parts {
		ask(p.Lo)
		ask(p.Hi)
		for _, i := range untouched[string(appendPart(nil, false, p))] {
			if !p.filter.MayContain(bloomblock.HashKey(key(i))) {
				t.Fatalf("key %d is denied by an untouched part", i)
			}
			ask(key(i))
		}
	}
}

// keysOf returns the keys of each part, by its entry.
func keysOf(digests ...*Digest) map[string][]int {
	keys := make(map[string][]int)
	for _, d := range digests {
		for _, p := range d.parts {
			var from, to int
			if _, err := fmt.Sscanf(string(p.Lo)+" "+string(p.Hi), "k%d k%d", &from, &to); err != nil {
				continue // range tombstones alone
			}
			for i := from; i < to; i += 2 {
				at := string(appendPart(nil, false, p))
				keys[at] = append(keys[at], i)
			}
		}
	}
	return keys
}

// allocated returns the bytes that the process has allocated.
func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// checkMemory fails the test if the memory allocated since before is out of proportion to size.
func checkMemory(t *testing.T, before uint64, size int) {
	t.Helper()
	if n := allocated() - before; n > uint64(64*size)+4<<20 {
		t.Fatalf("%d bytes allocated for %d", n, size)
	}
}

// changedDigest reads a digest changed by a program. It reports whether that is accepted.
func changedDigest(t *testing.T, d *Digest, untouched map[string][]int, program []byte) bool {
	t.Helper()
	m, h, entries := mutator{program}, header{magic: magicDigest, seed: seed}, entriesOf(d)
	m.header(&h)
	for m.more() {
		entries = m.change(entries)
	}
	b := encoded(h, entries)
	before := allocated()
	got, err := Read(bytes.NewReader(b))
	checkMemory(t, before, len(b))
	if err != nil {
		if !hostile(err) {
			t.Fatal(err)
		}
		return false
	}
	if again := written(t, got); !bytes.HasPrefix(b, again) {
		t.Fatal("the digest is written differently")
	}
	askAll(t, got, untouched)
	return true
}

// changedPatch reads a patch changed by a program, and applies it. It reports whether that is accepted.
func changedPatch(t *testing.T, older, newer *Digest, untouched map[string][]int, program []byte) bool {
	t.Helper()
	patch, err := newer.Since(older)
	if err != nil {
		t.Fatal(err)
	}
	m, h := mutator{program}, header{magic: magicPatch, seed: seed, id: patch.id, base: patch.base}
	m.header(&h)
	entries := patchEntries(patch)
	for m.more() {
		entries = m.change(entries)
	}
	b := encoded(h, entries)
	before := allocated()
	defer func() { checkMemory(t, before, len(b)+int(older.Size())) }()
	if patch, err = ReadPatch(bytes.NewReader(b)); err != nil {
		if !hostile(err) {
			t.Fatal(err)
		}
		return false
	}
	var again bytes.Buffer
	if n, err := patch.WriteTo(&again); err != nil || n != patch.Size() || !bytes.HasPrefix(b, again.Bytes()) {
		t.Fatalf("the patch is written differently: %v", err)
	}
	got, err := older.Apply(patch)
	if err != nil { // the id that the result has, to get past that check
		if at := strings.Index(err.Error(), "leads to digest "); at >= 0 {
			if _, err := fmt.Sscanf(err.Error()[at:], "leads to digest %x,", &patch.id); err != nil {
				t.Fatal(err)
			}
			got, err = older.Apply(patch)
		}
	}
	if err != nil {
		if !hostile(err) && !errors.Is(err, ErrMismatch) {
			t.Fatal(err)
		}
		return false
	}
	askAll(t, got, untouched)
	return true
}

// TestChangedFieldsDenyNoKeyOfOtherParts runs random programs of a few changes.
func TestChangedFieldsDenyNoKeyOfOtherParts(t *testing.T) {
	testkit.LongUnderRace(t)
	d := sample(t)
	older, newer := patchSample(t)
	untouched := keysOf(d, older, newer)
	r := rand.New(rand.NewPCG(1, 2))
	digests, patches := 0, 0
	const programs = 5000
	for range programs {
		program := make([]byte, r.IntN(40))
		for i := range program {
			program[i] = byte(r.Uint32())
		}
		if changedDigest(t, d, untouched, program) {
			digests++
		}
		if changedPatch(t, older, newer, untouched, program) {
			patches++
		}
	}
	t.Logf("%d digests and %d patches of %d are accepted", digests, patches, programs)
	if min(digests, patches) < programs/20 || max(digests, patches) > programs*19/20 {
		t.Errorf("%d digests and %d patches of %d are accepted", digests, patches, programs)
	}
}

// FuzzDigestFields searches for a program that TestChangedFieldsDenyNoKeyOfOtherParts would fail for.
func FuzzDigestFields(f *testing.F) {
	d := sample(f)
	untouched := keysOf(d)
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8})
	f.Fuzz(func(t *testing.T, program []byte) { changedDigest(t, d, untouched, program) })
}

// FuzzPatchFields does the same for patches.
func FuzzPatchFields(f *testing.F) {
	older, newer := patchSample(f)
	untouched := keysOf(older, newer)
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8})
	f.Fuzz(func(t *testing.T, program []byte) { changedPatch(t, older, newer, untouched, program) })
}
