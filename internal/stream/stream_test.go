package stream

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

var must = testkit.Must

// table returns a table with the given bounds.
func table(id uint64, lo, hi string, size uint64) *manifest.Table {
	return &manifest.Table{
		Number: id, ID: id * 7, Size: size, TailLen: min(size, 10), Smallest: []byte(lo), Largest: []byte(hi),
		MinSeq: ikey.Seq(100 - 10*(id/4)), MaxSeq: ikey.Seq(101 - 10*(id/4)), Entries: 1, FilterRate: 1,
	}
}

// example returns a header of four tables, of which the second does not travel, and their contents.
func example() (*Header, [][]byte) {
	v := &manifest.Version{}
	v.Levels[0] = []manifest.Run{
		{ID: 900, Tables: []*manifest.Table{table(4, "a", "b", 3), table(5, "c", "d", frameSize)}},
		{ID: 800, Tables: []*manifest.Table{table(8, "a", "z", 2*frameSize+1)}},
	}
	v.Levels[6] = []manifest.Run{{ID: 850, Tables: []*manifest.Table{table(12, "k", "l", 0)}}}
	s := manifest.State{Version: v, LastSeq: 2000, Seed: 5, MinLog: 3, NextFile: 2000}
	ids := []ID{{Sum: 1}, {Sum: 2}, {Sum: 3}, {Sum: 4}}
	h := NewHeader(s, ids, ids[1:2])
	h.State.LastSeq = 1000 // readers take more than the tables have
	var files [][]byte
	for i, t := range h.Tables {
		files = append(files, bytes.Repeat([]byte{byte(i + 1)}, int(t.Size)))
	}
	return h, files
}

func TestTheSequenceOfAHeaderIsOfItsTablesOrItsMark(t *testing.T) {
	h, _ := example()
	for mark, want := range map[ikey.Seq]ikey.Seq{0: 91, 500: 500} {
		s := manifest.State{Version: h.State.Version, LastSeq: 2000, Mark: batch.Mark{Seq: mark}}
		if got := NewHeader(s, make([]ID, 4), make([]ID, 1)).State.LastSeq; got != want {
			t.Errorf("with a mark of sequence %d: %d, want %d", mark, got, want)
		}
	}
}

// encode returns the stream of a header and files.
func encode(tb testing.TB, h *Header, files [][]byte) []byte {
	tb.Helper()
	w, err := NewWriter(h)
	must(tb, err)
	var b bytes.Buffer
	n, err := w.Write(&b, func(i int) (io.ReaderAt, string, error) { return bytes.NewReader(files[i]), "table", nil })
	if err != nil || n != w.Size() || n != int64(b.Len()) {
		tb.Fatalf("%d bytes, %v, want %d", n, err, w.Size())
	}
	return b.Bytes()
}

// read reads a whole stream.
func read(r io.Reader) (*Header, [][]byte, error) {
	in, err := NewReader(r)
	if err != nil {
		return nil, nil, err
	}
	files := make([][]byte, len(in.Header.Tables))
	for i, t := range in.Header.Tables {
		if !t.Travels {
			continue
		}
		if err := in.Table(t.Size, func(p []byte) error { files[i] = append(files[i], p...); return nil }); err != nil {
			return nil, nil, err
		}
	}
	return in.Header, files, in.End()
}

func TestAStreamHasTheTreeAndTheTablesThatTravel(t *testing.T) {
	h, files := example()
	b := encode(t, h, files)
	got, read, err := read(bytes.NewReader(b))
	must(t, err)
	if want := h.State.Version.String(); got.State.Version.String() != want || got.State.LastSeq != 1000 ||
		got.State.Seed != 5 || got.State.MinLog != 0 {
		t.Errorf("got %+v\n%s\nwant\n%s", got.State, got.State.Version, want)
	}
	for i := range files {
		want := files[i]
		if i == 1 {
			want = nil
		}
		if !bytes.Equal(read[i], want) || got.Tables[i].Sum != uint64(i+1) || got.Tables[i].Travels != (i != 1) {
			t.Errorf("table %d: %d bytes, %+v, want %d", i, len(read[i]), got.Tables[i], len(want))
		}
	}
	ids, err := ReadInventory(bytes.NewReader(b))
	if err != nil || len(ids) != 4 || ids[1] != h.Tables[1].Identity() {
		t.Errorf("inventory of the stream: %v, %v", ids, err)
	}
	again, err := ReadInventory(bytes.NewReader(AppendInventory(nil, append(ids, ids[0]))))
	if err != nil || len(again) != 4 {
		t.Errorf("inventory alone: %v, %v", again, err)
	}
}

// TestTheFormatOfAStreamStays compares the bytes of version 1.
func TestTheFormatOfAStreamStays(t *testing.T) {
	h, files := example()
	inventory := AppendInventory(nil, []ID{{1, 2, 3}, {2, 3, 4}})
	for want, b := range map[string][]byte{
		"524884 bytes, SHA-256 d7b5ba237674db23": encode(t, h, files), "68 bytes, SHA-256 b12d691e61db8de0": inventory,
	} {
		if got := fmt.Sprintf("%d bytes, SHA-256 %.8x", len(b), sha256.Sum256(b)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestTheFingerprintOfALongTailStays has tails of no byte, of whole links, and of two links and a half, and changes a
// byte of each link. Stores and backups keep fingerprints: they are those of version 1.
func TestTheFingerprintOfALongTailStays(t *testing.T) {
	file := make([]byte, 200<<10)
	for i := range file {
		file[i] = byte(i * i >> 8)
	}
	at := func(tail uint64) uint64 {
		sum, err := Fingerprint(bytes.NewReader(file), "table", &manifest.Table{Size: uint64(len(file)), TailLen: tail})
		must(t, err)
		return sum
	}
	for tail, want := range map[uint64]uint64{
		0: 0, 1: 0xa19c0101e1da006f, 64 << 10: 0x1067232aafb385a5, 128 << 10: 0xf809d8aa887ca22d,
		150 << 10: 0x2f5e55d874afc025,
	} {
		if got := at(tail); got != want {
			t.Errorf("the last %d bytes: fingerprint %016x, want %016x", tail, got, want)
		}
	}
	whole := at(150 << 10)
	for i := 50 << 10; i < len(file); i += 66 << 10 {
		file[i]++
		if at(150<<10) == whole {
			t.Errorf("the fingerprint does not depend on byte %d", i)
		}
		file[i]--
	}
	short := bytes.NewReader(file[1:])
	_, err := Fingerprint(short, "table", &manifest.Table{Size: 200 << 10, TailLen: 9})
	if e, ok := errors.AsType[*corrupt.Error](err); !ok || e.Offset != 200<<10-1 {
		t.Errorf("a file that ends early: %v, want damage where it ends", err)
	}
}

// TestFramesOfAnotherStreamOrPlaceAreDamage swaps frames of equal length.
func TestFramesOfAnotherStreamOrPlaceAreDamage(t *testing.T) {
	h, files := example()
	one := encode(t, h, files)
	h.State.LastSeq++
	two := encode(t, h, files)
	at := len(one) - int(framed(uint64(len(end)))) - int(framed(2*frameSize+1))
	foreign := bytes.Clone(one)
	copy(foreign[at:], two[at:at+frameSize+sumSize])
	swapped := bytes.Clone(one)
	copy(swapped[at:], one[at+frameSize+sumSize:][:frameSize+sumSize])
	for name, b := range map[string][]byte{"another stream": foreign, "another place": swapped} {
		_, _, err := read(bytes.NewReader(b))
		e, ok := errors.AsType[*corrupt.Error](err)
		if !ok || e.Offset != int64(at) {
			t.Errorf("a frame of %s: %v, want damage at %d", name, err, at)
		}
	}
}

// TestAWrongEndIsDamageAtItsOffset has the right checksum.
func TestAWrongEndIsDamageAtItsOffset(t *testing.T) {
	b := encode(t, new(Header), nil)
	at := len(b) - len(end) - sumSize
	copy(b[at:], "bloomenD")
	id := binary.LittleEndian.Uint64(b[16:])
	binary.LittleEndian.PutUint32(b[at+len(end):], sum(id, int64(at), b[at:][:len(end)]))
	in := &Reader{r: bytes.NewReader(b[at:]), off: int64(at), prelude: prelude{id: id}}
	if e, ok := errors.AsType[*corrupt.Error](in.End()); !ok || e.Offset != int64(at) {
		t.Errorf("%v, want damage at %d", e, at)
	}
}

func TestAStreamThatEndsEarlyIsDamageThere(t *testing.T) {
	h, files := example()
	b := encode(t, h, files)
	for _, n := range []int{0, 1, preludeSize - 1, preludeSize, preludeSize + 1, len(b) - 1} {
		_, _, err := read(bytes.NewReader(b[:n]))
		e, ok := errors.AsType[*corrupt.Error](err)
		if !ok || e.Offset != int64(n) || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%v, want that it ends at %d", err, n)
		}
	}
}

func TestAStreamOfNoTables(t *testing.T) {
	h := NewHeader(manifest.State{Version: new(manifest.Version), Seed: 5}, nil, nil)
	got, _, err := read(bytes.NewReader(encode(t, h, nil)))
	must(t, err)
	if len(got.Tables) != 0 || got.State.Seed != 5 {
		t.Errorf("got %+v", got.State)
	}
}

// A stopping writer takes a number of bytes, and then returns err.
type stopping struct {
	left int
	err  error
}

func (w *stopping) Write(p []byte) (int, error) {
	n := min(len(p), w.left)
	w.left -= n
	if n < len(p) {
		w.left = math.MaxInt // what comes after that is counted
		return n, w.err
	}
	return n, nil
}

func TestAWriteThatStopsIsCounted(t *testing.T) {
	h, files := example()
	w, err := NewWriter(h)
	must(t, err)
	full := errors.New("full")
	for _, n := range []int{0, 1, preludeSize, preludeSize + 1, int(w.Size()) - 1} {
		for _, c := range []struct{ err, want error }{{nil, io.ErrShortWrite}, {full, full}} {
			got, err := w.Write(&stopping{n, c.err}, func(i int) (io.ReaderAt, string, error) {
				return bytes.NewReader(files[i]), "table", nil
			})
			if got != int64(n) || !errors.Is(err, c.want) {
				t.Errorf("a writer of %d bytes: %d, %v, want %v", n, got, err, c.want)
			}
		}
	}
}

// TestWhatAHeaderClaimsIsNotAllocated claims large headers, tables and inventories that do not come.
func TestWhatAHeaderClaimsIsNotAllocated(t *testing.T) {
	seal := func(b []byte) []byte {
		binary.LittleEndian.PutUint32(b[preludeSize-sumSize:], crc32.Checksum(b[:preludeSize-sumSize], castagnoli))
		return b
	}
	h, files := example()
	h.Tables[2].Size = 1 << 50
	var tables bytes.Buffer
	w, err := NewWriter(h)
	must(t, err)
	_, err = w.Write(&tables, func(i int) (io.ReaderAt, string, error) { return bytes.NewReader(files[i]), "f", nil })
	if e, ok := errors.AsType[*corrupt.Error](err); !ok || e.Offset != int64(len(files[2])) ||
		!strings.Contains(err.Error(), "want 1125899906842624 bytes") {
		t.Errorf("a file that is too short: %v", err)
	}
	inventory := AppendInventory(nil, nil)
	binary.LittleEndian.PutUint32(inventory[12:], math.MaxUint32)
	for name, b := range map[string][]byte{
		"header": seal(prelude{1, maxHeader, 1 << 40}.encoded()), "tables": tables.Bytes(), "inventory": inventory,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, err := read(bytes.NewReader(b))
		_, _ = ReadInventory(bytes.NewReader(b))
		runtime.ReadMemStats(&after)
		if !errors.Is(err, corrupt.Err) {
			t.Errorf("%s: %v, want damage", name, err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 4<<20 {
			t.Errorf("%s: %d bytes allocated", name, n)
		}
	}
}

// TestAHeaderThatIsNoStoreIsRefused changes what an honest writer would not write.
func TestAHeaderThatIsNoStoreIsRefused(t *testing.T) {
	for name, change := range map[string]func(h *Header){
		"no seed":                  func(h *Header) { h.State.Seed = 0 },
		"a smallest log":           func(h *Header) { h.State.MinLog = 2 },
		"a log":                    func(h *Header) { h.State.Log = &manifest.LogMark{Number: 2} },
		"numbers that do not fit":  func(h *Header) { h.Tables[0].Number, h.Tables[1].Number = 2, 1 },
		"two tables of one id":     func(h *Header) { h.Tables[0].ID = h.Tables[1].ID },
		"overlapping tables":       func(h *Header) { h.Tables[0].Largest = []byte("cc") },
		"a table of no entries":    func(h *Header) { h.Tables[0].Entries = 0 },
		"runs out of order":        func(h *Header) { h.Tables[2].MaxSeq, h.Tables[2].MinSeq = 200, 200 },
		"exhausted sequences":      func(h *Header) { h.State.LastSeq = 1 << 55 * 2 },
		"sequences for few writes": func(h *Header) { h.State.LastSeq = 1<<55 - 1 },
		"numbers for few files":    func(h *Header) { h.State.NextFile = 4 + 3 + 2 }, // tables, runs, one is too many
		"a tail beyond the table":  func(h *Header) { h.Tables[0].TailLen = h.Tables[0].Size + 1 },
		"a missing list of tables": func(h *Header) { h.Tables = h.Tables[:3] },
	} {
		h, files := example()
		change(h)
		w, err := NewWriter(h)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var b bytes.Buffer
		_, _ = w.Write(&b, func(i int) (io.ReaderAt, string, error) { return bytes.NewReader(files[i]), "f", nil })
		if _, _, err := read(&b); !errors.Is(err, corrupt.Err) {
			t.Errorf("%s: %v, want damage", name, err)
		}
	}
}

func TestTheLargestNumbersOfAHeader(t *testing.T) {
	h, _ := example()
	h.State.NextFile = 4 + 3 + 1
	b := h.encoded()
	_, err := parseHeader(b)
	must(t, err)
	for deleted := range 2 {
		e := h.State.Snapshot()
		e.Deleted = make([]manifest.Deleted, deleted)
		edit := manifest.AppendEdit(make([]byte, 4), e)
		binary.LittleEndian.PutUint32(edit, uint32(len(edit)-4))
		_, err := parseHeader(append(edit, b[4+binary.LittleEndian.Uint32(b):]...))
		if (err == nil) != (deleted == 0) {
			t.Errorf("%d deleted tables: %v", deleted, err)
		}
	}
	b[4+binary.LittleEndian.Uint32(b)] |= 2
	if _, err := parseHeader(b); !errors.Is(err, corrupt.ErrUnsupportedVersion) {
		t.Errorf("a table with other flags: %v, want %v", err, corrupt.ErrUnsupportedVersion)
	}
	for _, over := range []int64{0, 1} {
		_, err := parsePrelude(prelude{1, maxHeader + over, math.MaxInt64}.encoded())
		if (err == nil) != (over == 0) {
			t.Errorf("a header of %d bytes: %v", maxHeader+over, err)
		}
	}
}

// FuzzStream reads changed streams: a header that is accepted is written as it was read.
func FuzzStream(f *testing.F) {
	h, files := example()
	f.Add(encode(f, h, files))
	h.Tables[2].Travels = false
	short := encode(f, h, files)
	f.Add(short)
	f.Add(h.encoded())
	f.Add(AppendInventory(nil, []ID{{1, 2, 3}, {2, 3, 4}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		fine := func(err error) {
			if err != nil && !errors.Is(err, corrupt.Err) && !errors.Is(err, corrupt.ErrUnsupportedVersion) {
				t.Errorf("%v, want damage or another version", err)
			}
		}
		got, _, err := read(bytes.NewReader(b))
		fine(err)
		if err == nil && !bytes.HasPrefix(b, prelude{}.encoded()[:8]) {
			t.Errorf("a stream of %q", got.State.Version)
		}
		ids, err := ReadInventory(bytes.NewReader(b))
		fine(err)
		if err == nil && bytes.HasPrefix(b, []byte(inventoryMagic)) && !bytes.HasPrefix(b, AppendInventory(nil, ids)) {
			t.Error("an inventory is written as other bytes")
		}
		if h, err := parseHeader(b); err == nil { // its checksums would hide it from the fuzzer
			if again, err := parseHeader(h.encoded()); err != nil ||
				again.State.Version.String() != h.State.Version.String() {
				t.Errorf("written again: %v", err)
			}
		}
	})
}

func TestTheSizeOfAStreamHasBounds(t *testing.T) {
	const most = math.MaxInt64 / 2
	size := func(header int, tables ...uint64) error {
		h := &Header{Tables: []Table{{Table: &manifest.Table{Size: math.MaxUint64}}}} // does not travel
		for _, n := range tables {
			h.Tables = append(h.Tables, Table{Table: &manifest.Table{Size: n}, Travels: true})
		}
		n, err := h.size(header)
		if want := int64(preludeSize + framed(uint64(header)) + framed(uint64(len(end)))); err == nil && n < want {
			t.Errorf("a stream of tables %d has %d bytes, want at least %d", tables, n, want)
		}
		return err
	}
	for name, c := range map[string]struct {
		err error
		ok  bool
	}{
		"nothing":                  {size(0), true},
		"the largest header":       {size(maxHeader), true},
		"a larger header":          {size(maxHeader + 1), false},
		"the largest table":        {size(0, most), true},
		"a larger table":           {size(0, most+1), false},
		"a table behind a large":   {size(0, most/2, 1), true},
		"a table behind too large": {size(0, most, 1), false},
	} {
		if (c.err == nil) != c.ok {
			t.Errorf("%s: %v, want that it can be: %v", name, c.err, c.ok)
		}
	}
}

// TestEachFieldOfAPreludeIsChecked changes it and corrects the checksums of what it says.
func TestEachFieldOfAPreludeIsChecked(t *testing.T) {
	h, files := example()
	whole := encode(t, h, files)
	for name, c := range map[string]struct {
		change func(b []byte)
		at     int64
	}{
		"magic":         {func(b []byte) { b[0] ^= 1 }, 0},
		"reserved":      {func(b []byte) { b[15] = 1 }, 0},
		"id":            {func(b []byte) { b[16] ^= 1 }, 16},
		"no header":     {func(b []byte) { clear(b[24:32]) }, 0},
		"negative size": {func(b []byte) { b[39] = 0x80 }, 0},
		"size":          {func(b []byte) { b[32]++ }, 32},
		"checksum":      {nil, 0},
	} {
		b := bytes.Clone(whole)
		if c.change != nil {
			c.change(b)
			binary.LittleEndian.PutUint32(b[preludeSize-sumSize:], crc32.Checksum(b[:preludeSize-sumSize], castagnoli))
			n := int(binary.LittleEndian.Uint64(b[24:]))
			id := binary.LittleEndian.Uint64(b[16:])
			binary.LittleEndian.PutUint32(b[preludeSize+n:], sum(id, preludeSize, b[preludeSize:][:n]))
		} else {
			b[16] ^= 1
		}
		_, err := NewReader(bytes.NewReader(b))
		if e, ok := errors.AsType[*corrupt.Error](err); !ok || e.Offset != c.at {
			t.Errorf("%s: %v, want damage at %d", name, err, c.at)
		}
	}
}

func TestAnErrorOfTheSourceIsNotDamage(t *testing.T) {
	h, files := example()
	for name, b := range map[string][]byte{
		"stream":    encode(t, h, files)[:preludeSize+100],
		"inventory": AppendInventory(nil, []ID{{1, 2, 3}, {2, 3, 4}}),
	} {
		for n := range b {
			source := io.MultiReader(bytes.NewReader(b[:n]), iotest.ErrReader(syscall.EIO))
			if _, err := ReadInventory(source); !errors.Is(err, syscall.EIO) || errors.Is(err, corrupt.Err) {
				t.Errorf("%s, after %d bytes: %v, want %v", name, n, err, syscall.EIO)
			}
		}
	}
}

// A failing file can't be read.
type failing struct{}

func (failing) ReadAt([]byte, int64) (int, error) { return 0, syscall.EIO }

func TestAnErrorOfAFileIsNotDamage(t *testing.T) {
	h, _ := example()
	w, err := NewWriter(h)
	must(t, err)
	_, opening := w.Write(io.Discard, func(int) (io.ReaderAt, string, error) { return nil, "", syscall.EIO })
	_, reading := w.Write(io.Discard, func(int) (io.ReaderAt, string, error) { return failing{}, "table", nil })
	_, hashing := Fingerprint(failing{}, "table", h.Tables[0].Table)
	for _, err := range []error{opening, reading, hashing} {
		if !errors.Is(err, syscall.EIO) || errors.Is(err, corrupt.Err) {
			t.Errorf("%v, want %v", err, syscall.EIO)
		}
	}
}

func TestAnInventoryIsChecked(t *testing.T) {
	ids := []ID{{2, 3, 4}, {1, 3, 4}}
	whole := AppendInventory(nil, ids)
	if ids[0].ID != 2 {
		t.Error("the caller's list is sorted")
	}
	for name, c := range map[string]struct {
		at     int
		add    byte
		offset int
		want   error
	}{
		"magic":                  {0, 9, 0, corrupt.Err},
		"version":                {8, 9, 8, corrupt.ErrUnsupportedVersion},
		"after":                  {inventoryHead, 9, inventoryHead + idSize, corrupt.Err},
		"after 0000000000000002": {inventoryHead, 1, inventoryHead + idSize, corrupt.Err}, // the same one
		"checksum":               {len(whole) - 1, 9, 0, corrupt.Err},
	} {
		b := bytes.Clone(whole)
		b[c.at] += c.add
		_, err := ReadInventory(bytes.NewReader(b))
		e, ok := errors.AsType[*corrupt.Error](err)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), name) || ok && e.Offset != int64(c.offset) {
			t.Errorf("%s: %v, want %v at %d", name, err, c.want, c.offset)
		}
	}
}

// TestAReadEndsWithItsContext cancels the context before a read, and while the source blocks.
func TestAReadEndsWithItsContext(t *testing.T) {
	for _, blocks := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			from, to := io.Pipe()
			ctx, cancel := context.WithCancel(t.Context())
			r, stop := Interruptible(ctx, from)
			if blocks {
				time.AfterFunc(time.Second, cancel)
			} else {
				cancel()
			}
			if n, err := r.Read(make([]byte, 10)); n != 0 || !errors.Is(err, context.Canceled) {
				t.Errorf("blocks: %v: %d bytes, %v, want that it was canceled", blocks, n, err)
			}
			stop()
			must(t, to.Close())
		})
	}
}

// TestAReadIsThatOfItsSource has a source that ends with an error, and a context that has ended before each read of it.
func TestAReadIsThatOfItsSource(t *testing.T) {
	content := strings.Repeat("content ", frameSize)
	r, stop := Interruptible(t.Context(), io.MultiReader(strings.NewReader(content), iotest.ErrReader(syscall.EIO)))
	got, err := io.ReadAll(r)
	if string(got) != content || !errors.Is(err, syscall.EIO) {
		t.Errorf("%d bytes, %v, want %d and %v", len(got), err, len(content), syscall.EIO)
	}
	stop()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	source := strings.NewReader(content)
	for range 64 { // a select takes any of two that are ready
		i := &interruptible{ctx: ended, want: make(chan int, 1), got: make(chan result, 1)}
		i.want <- 1
		i.serve(source)
	}
	if source.Len() != len(content) {
		t.Error("the source is read after the end of the context")
	}
}

func TestALaterVersionOfAStreamIsNotDamage(t *testing.T) {
	b := encode(t, new(Header), nil)
	b[8]++
	binary.LittleEndian.PutUint32(b[preludeSize-sumSize:], crc32.Checksum(b[:preludeSize-sumSize], castagnoli))
	_, err := NewReader(bytes.NewReader(b))
	if !errors.Is(err, corrupt.ErrUnsupportedVersion) || errors.Is(err, corrupt.Err) {
		t.Errorf("%v, want %v", err, corrupt.ErrUnsupportedVersion)
	}
	for n := range 4 {
		if _, err := parseHeader(make([]byte, n)); err == nil {
			t.Errorf("a header of %d bytes: no error", n)
		}
	}
}
