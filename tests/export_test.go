package tests

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/sstable"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// exported returns the stream of a store, and checks its promises: Size is exact, and each WriteTo writes the same.
func exported(t *testing.T, db *bloomkv.DB, opts bloomkv.ExportOptions) []byte {
	t.Helper()
	x, err := db.Export(t.Context(), opts)
	must(t, err)
	size := x.Size()
	var first, second bytes.Buffer
	for _, b := range []*bytes.Buffer{&first, &second} {
		if n, err := x.WriteTo(b); err != nil || n != size || int64(b.Len()) != size {
			t.Fatalf("WriteTo: %d bytes counted, %d written, %v; want %d", n, b.Len(), err, size)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("a second WriteTo writes other bytes")
	}
	must(t, x.Close())
	if err := x.Close(); !errors.Is(err, bloomkv.ErrClosed) {
		t.Errorf("a second Close: %v, want ErrClosed", err)
	}
	if n, err := x.WriteTo(io.Discard); n != 0 || !errors.Is(err, bloomkv.ErrClosed) {
		t.Errorf("WriteTo after Close: %d, %v, want ErrClosed", n, err)
	}
	return first.Bytes()
}

// contains compares the contents of an open store, by a scan and by lookups.
func contains(db bloomkv.Reader, want map[string]string) error {
	got := map[string]string{}
	for kv, err := range db.Scan(bloomkv.IterOptions{}) {
		if err != nil {
			return err
		}
		got[string(kv.Key)] = string(kv.Value)
	}
	if d := storetest.Diff(got, want); d != "" {
		return errors.New(d)
	}
	keys := slices.Sorted(maps.Keys(want))
	many := make([][]byte, len(keys))
	for i, k := range keys {
		many[i] = []byte(k)
		if v, err := db.Get(many[i]); err != nil || string(v) != want[k] {
			return fmt.Errorf("%s: %.40q, %w", k, v, err)
		}
	}
	return db.GetMany(many, func(i int, v []byte, found bool) error {
		if !found || string(v) != want[keys[i]] {
			return fmt.Errorf("%s: %v, %.40q", keys[i], found, v)
		}
		return nil
	})
}

// TestAnExportCarriesTheMark has a mark in the export, and in the store that it replaces.
func TestAnExportCarriesTheMark(t *testing.T) {
	mem := vfstest.NewMem()
	db, _ := grown(t, mem)
	markless := exported(t, db, bloomkv.ExportOptions{})
	must(t, db.Apply(marked("of the export")))
	x, err := db.Export(t.Context(), bloomkv.ExportOptions{})
	must(t, err)
	if got := x.Mark(); string(got) != "of the export" {
		t.Errorf("the export has the mark %q", got)
	}
	must(t, x.Close())
	withMark := exported(t, db, bloomkv.ExportOptions{})
	must(t, bloomkv.Import(t.Context(), bytes.NewReader(withMark), "copy", bloomkv.NewStoreOptions{FS: mem}))
	must(t, db.Close())
	other := storetest.Open(t, "copy", &bloomkv.Options{FS: mem})
	has := func(want string) {
		t.Helper()
		for _, f := range []func() ([]byte, error){other.Mark, other.DurableMark} {
			if got, err := f(); err != nil || string(got) != want {
				t.Errorf("mark %q, %v, want %q", got, err, want)
			}
		}
	}
	has("of the export")
	for _, c := range []struct {
		stream []byte
		want   string
	}{{withMark, "of the export"}, {markless, ""}, {withMark, "of the export"}} {
		must(t, other.Apply(marked("its own")))
		snap, err := other.Snapshot()
		must(t, err)
		must(t, other.Import(t.Context(), bytes.NewReader(c.stream), bloomkv.ImportOptions{Replace: true}))
		has(c.want)
		if got, err := snap.Mark(); err != nil || string(got) != "its own" {
			t.Errorf("a snapshot from before has the mark %q, %v", got, err)
		}
		must(t, snap.Close())
		must(t, other.Close())
		other = storetest.Open(t, "copy", &bloomkv.Options{FS: mem})
		has(c.want)
	}
	must(t, other.Close())
	asked := storetest.Open(t, "asked", &bloomkv.Options{FS: mem})
	for i, c := range []struct {
		stream []byte
		mark   string // that the export must have
		ok     bool
	}{
		{withMark, "", false},
		{withMark, "of the exporT", false},
		{markless, "of the export", false},
		{markless, "", true},
		{withMark, "of the export", true},
	} {
		o := bloomkv.ImportOptions{Replace: true, Mark: []byte(c.mark)}
		if err := asked.Import(t.Context(), bytes.NewReader(c.stream), o); (err == nil) != c.ok {
			t.Errorf("import %d, which wants the mark %q: %v", i, c.mark, err)
		}
	}
	must(t, asked.Close())
	empty := storetest.Open(t, "a mark alone", &bloomkv.Options{FS: mem})
	must(t, empty.Apply(marked("its own")))
	err = empty.Import(t.Context(), bytes.NewReader(withMark), bloomkv.ImportOptions{})
	if got, markErr := empty.Mark(); !errors.Is(err, fs.ErrExist) || markErr != nil || string(got) != "its own" {
		t.Errorf("a store with a mark: %v, then the mark %q, %v; want fs.ErrExist", err, got, markErr)
	}
	must(t, empty.Close())
}

func TestAnExportBecomesTheSameStoreInANewDirectory(t *testing.T) {
	mem := vfstest.NewMem()
	db, want := grown(t, mem)
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	storetest.Settle(t, db)
	for i := range 2 { // runs above the last level, too few for a compaction, which the clone would begin
		k := fmt.Sprintf("k%03d", i)
		must(t, errors.Join(db.Flush(t.Context()), db.Put([]byte(k), []byte("newer"))))
		want[k] = "newer"
	}
	s := exported(t, db, bloomkv.ExportOptions{})
	if n := runsOf(db); n != 3 || !db.Metrics().Settled {
		t.Fatalf("%d runs, want 3 that need no compaction", n)
	}
	must(t, mem.Mkdir("empty"))
	for _, dir := range []string{"copy", "empty"} {
		r := io.MultiReader(bytes.NewReader(s), strings.NewReader("behind"))
		must(t, bloomkv.Import(t.Context(), r, dir, bloomkv.NewStoreOptions{FS: mem}))
		if rest, err := io.ReadAll(r); string(rest) != "behind" {
			t.Errorf("behind the stream is %q, %v, want it unread", rest, err)
		}
		if err := holds(mem.Crash(vfstest.KeepNothing), dir, want); err != nil {
			t.Errorf("%s: after a power cut: %v", dir, err)
		}
		if err := bloomkv.Import(t.Context(), bytes.NewReader(s), dir, bloomkv.NewStoreOptions{FS: mem}); !errors.Is(
			err, fs.ErrExist) {
			t.Errorf("%s, a second time: %v, want fs.ErrExist", dir, err)
		}
	}
	clone := storetest.Open(t, "copy", storetest.Tiny(mem))
	if again := exported(t, clone, bloomkv.ExportOptions{}); !bytes.Equal(again, s) {
		t.Error("the export of an import is another")
	}
	must(t, errors.Join(clone.Close(), db.Close()))
}

func TestAnExportOfNothing(t *testing.T) {
	mem := vfstest.NewMem()
	db := storetest.Open(t, "db", storetest.Tiny(mem))
	s := exported(t, db, bloomkv.ExportOptions{})
	must(t, bloomkv.Import(t.Context(), bytes.NewReader(s), "copy", bloomkv.NewStoreOptions{FS: mem}))
	must(t, holds(mem, "copy", map[string]string{}))
	must(t, db.Import(t.Context(), bytes.NewReader(s), bloomkv.ImportOptions{}))
	must(t, db.Put([]byte("k"), []byte("v")))
	if err := db.Import(t.Context(), bytes.NewReader(s), bloomkv.ImportOptions{}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("into a store with a key: %v, want fs.ErrExist", err)
	}
	must(t, db.Import(t.Context(), bytes.NewReader(s), bloomkv.ImportOptions{Replace: true}))
	must(t, contains(db, map[string]string{}))
	must(t, db.Close())
	must(t, holds(mem, "db", map[string]string{}))
}

// TestAnExportIsOfItsMomentAndEndsWithItsStore writes, compacts, and closes the store under an open export.
func TestAnExportIsOfItsMomentAndEndsWithItsStore(t *testing.T) {
	mem := vfstest.NewMem()
	db, want := grown(t, mem)
	x, err := db.Export(t.Context(), bloomkv.ExportOptions{})
	must(t, err)
	for i := range 400 {
		must(t, db.Put(fmt.Appendf(nil, "k%03d", i), []byte("later")))
	}
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	var b bytes.Buffer
	_, err = x.WriteTo(&b)
	must(t, err)
	must(t, bloomkv.Import(t.Context(), &b, "copy", bloomkv.NewStoreOptions{FS: mem}))
	must(t, holds(mem, "copy", want))

	// The store closes while a stream is written.
	written := int64(0)
	closing := writerFunc(func(p []byte) (int, error) {
		written += int64(len(p))
		if db != nil {
			must(t, db.Close())
			db = nil
		}
		return len(p), nil
	})
	if n, err := x.WriteTo(closing); !errors.Is(err, bloomkv.ErrClosed) || n != written {
		t.Errorf("under Close of the store: %d bytes of %d, %v, want ErrClosed", n, written, err)
	}
	if _, err := x.WriteTo(io.Discard); !errors.Is(err, bloomkv.ErrClosed) {
		t.Errorf("after Close of the store: %v, want ErrClosed", err)
	}
	must(t, x.Close())
	again := storetest.Open(t, "db", storetest.Tiny(mem))
	must(t, again.Close())
	if _, err := bloomkv.Check(t.Context(), "db", bloomkv.CheckOptions{FS: mem}); err != nil {
		t.Error(err)
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// TestAnImportReplacesAnOpenStoreUnderItsReaders has iterators and snapshots open.
func TestAnImportReplacesAnOpenStoreUnderItsReaders(t *testing.T) {
	mem := vfstest.NewMem()
	db, want := grown(t, mem)
	s := exported(t, db, bloomkv.ExportOptions{})
	must(t, db.Close())
	must(t, mem.Rename("db", "source"))

	other := storetest.Open(t, "db", storetest.Tiny(mem))
	old := map[string]string{}
	for i := range 900 { // other sequence numbers, in tables and in memory
		k, v := fmt.Sprintf("k%03d", i%500), fmt.Sprint("old", i)
		must(t, other.Put([]byte(k), []byte(v)))
		old[k] = v
	}
	if err := other.Import(t.Context(), bytes.NewReader(s), bloomkv.ImportOptions{}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("without Replace: %v, want fs.ErrExist", err)
	}
	snapshot, err := other.Snapshot()
	must(t, err)
	it := other.Iter(bloomkv.IterOptions{})
	if !it.First() {
		t.Fatal(it.Err())
	}
	must(t, other.Import(t.Context(), bytes.NewReader(s), bloomkv.ImportOptions{Replace: true}))
	if err := contains(other, want); err != nil {
		t.Errorf("after the import: %v", err)
	}
	now := maps.Clone(want)
	for i := range 300 { // on top, under what the snapshot sees
		k := fmt.Sprintf("k%03d", i)
		must(t, other.Put([]byte(k), []byte("new")))
		now[k] = "new"
	}
	must(t, other.Compact(t.Context(), bloomkv.CompactOptions{}))
	if err := contains(snapshot, old); err != nil {
		t.Errorf("the snapshot: %v", err)
	}
	seen := map[string]string{}
	for ok := true; ok; ok = it.Next() {
		seen[string(it.Key())] = string(it.Value())
	}
	must(t, it.Close())
	if d := storetest.Diff(seen, old); d != "" {
		t.Errorf("the iterator: %s", d)
	}
	late := snapshot.Iter(bloomkv.IterOptions{})
	must(t, snapshot.Close())
	if !late.First() || string(late.Value()) != old["k000"] {
		t.Errorf("an iterator that outlives its snapshot: %q, %v", late.Value(), late.Err())
	}
	must(t, late.Close())
	if _, err := snapshot.Get([]byte("k000")); !errors.Is(err, bloomkv.ErrClosed) {
		t.Errorf("after Close of the snapshot: %v", err)
	}
	must(t, contains(other, now))
	second, err := other.Snapshot() // of the state after
	must(t, err)
	must(t, contains(second, now))
	must(t, second.Close())
	testkit.Soon(t, "the replaced tables are removed", func() bool { return other.Metrics().Files.Obsolete == 0 })
	must(t, other.Close())
	must(t, holds(mem, "db", now))
}

// TestAnIncrementalExportHasTheNewTablesOnly imports it into an open store, and into a new directory beside a base.
func TestAnIncrementalExportHasTheNewTablesOnly(t *testing.T) {
	mem := vfstest.NewMem()
	db, want := grown(t, mem)
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{})) // so that no follower compacts
	storetest.Settle(t, db)
	whole := exported(t, db, bloomkv.ExportOptions{})
	must(t, bloomkv.Import(t.Context(), bytes.NewReader(whole), "base", bloomkv.NewStoreOptions{FS: mem}))
	follower := storetest.Open(t, "base", storetest.Tiny(mem))
	has, err := follower.Inventory(t.Context())
	must(t, err)
	encoded, err := has.MarshalBinary()
	must(t, err)
	for _, from := range [][]byte{encoded, whole} { // the list alone, or that in the export before
		has, err = bloomkv.ReadInventory(bytes.NewReader(from))
		must(t, err)
		same := exported(t, db, bloomkv.ExportOptions{Since: has})
		if len(same) > len(whole)/4 {
			t.Errorf("an export without a new table has %d bytes, the whole one %d", len(same), len(whole))
		}
		must(t, follower.Import(t.Context(), bytes.NewReader(same), bloomkv.ImportOptions{Replace: true}))
		must(t, contains(follower, want))
	}
	for i := range 100 {
		must(t, db.Put(fmt.Appendf(nil, "new%03d", i), []byte("v")))
		want[fmt.Sprintf("new%03d", i)] = "v"
	}
	more := exported(t, db, bloomkv.ExportOptions{Since: has})
	must(t, follower.Import(t.Context(), bytes.NewReader(more), bloomkv.ImportOptions{Replace: true}))
	must(t, contains(follower, want))
	must(t, follower.Close())
	must(t, holds(mem, "base", want))

	stranger := storetest.Open(t, "stranger", storetest.Tiny(mem))
	if err := stranger.Import(t.Context(), bytes.NewReader(more), bloomkv.ImportOptions{}); !errors.Is(
		err, bloomkv.ErrMissingTable) {
		t.Errorf("into a store without the tables: %v, want ErrMissingTable", err)
	}
	must(t, stranger.Close())
	must(t, bloomkv.Import(t.Context(), bytes.NewReader(whole), "second", bloomkv.NewStoreOptions{FS: mem}))
	o := bloomkv.NewStoreOptions{FS: mem}
	if err := bloomkv.Import(t.Context(), bytes.NewReader(more), "copy", o); !errors.Is(err, bloomkv.ErrMissingTable) {
		t.Errorf("without a base: %v, want ErrMissingTable", err)
	}
	o.Base = "second"
	must(t, bloomkv.Import(t.Context(), bytes.NewReader(more), "copy", o))
	must(t, holds(mem, "copy", want))
	must(t, db.Close())
}

// TestADamagedStreamIsRefusedWithItsOffset cuts a stream at each byte and flips a bit of each.
func TestADamagedStreamIsRefusedWithItsOffset(t *testing.T) {
	mem := vfstest.NewMem()
	db := storetest.Open(t, "db", storetest.Tiny(mem))
	want := map[string]string{}
	for i := range 120 {
		k := fmt.Sprintf("key%03d", i)
		must(t, db.Put([]byte(k), []byte("value")))
		want[k] = "value"
	}
	s := exported(t, db, bloomkv.ExportOptions{})
	receiver := storetest.Open(t, "receiver", storetest.Tiny(mem))
	must(t, receiver.Put([]byte("own"), []byte("v")))
	must(t, receiver.Flush(t.Context()))
	storetest.AtRest(t, receiver, mem, "receiver") // the log is removed
	names, err := mem.List("receiver")
	must(t, err)
	t.Logf("a stream of %d bytes", len(s))
	try := func(what string, b []byte) {
		t.Helper()
		into := func() error {
			return bloomkv.Import(t.Context(), bytes.NewReader(b), "copy", bloomkv.NewStoreOptions{FS: mem})
		}
		open := func() error {
			return receiver.Import(t.Context(), bytes.NewReader(b), bloomkv.ImportOptions{Replace: true})
		}
		for _, f := range []func() error{into, open} {
			err := f()
			damage, is := errors.AsType[*bloomkv.CorruptionError](err)
			if !is || damage.File != "stream" || damage.Offset > int64(len(b)) {
				t.Fatalf("%s: %v, want damage with an offset in the stream", what, err)
			}
		}
		if names, err := mem.List("copy"); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("%s: left %q, %v", what, names, err)
		}
	}
	for n := 0; n < len(s); n += min(storetest.Stride(), 9) {
		try(fmt.Sprintf("cut to %d bytes", n), s[:n])
		flipped := bytes.Clone(s)
		flipped[n] ^= 1 << (n % 8)
		try(fmt.Sprintf("bit %d of byte %d", n%8, n), flipped)
	}
	after, err := mem.List("receiver")
	if err != nil || !slices.Equal(names, after) {
		t.Errorf("the receiver's directory has %q, %v, want %q", after, err, names)
	}
	must(t, contains(receiver, map[string]string{"own": "v"}))

	newer := bytes.Clone(s)
	binary.LittleEndian.PutUint32(newer[8:], 2)
	binary.LittleEndian.PutUint32(newer[40:], crc32.Checksum(newer[:40], crc32.MakeTable(crc32.Castagnoli)))
	err = receiver.Import(t.Context(), bytes.NewReader(newer), bloomkv.ImportOptions{Replace: true})
	if !errors.Is(err, bloomkv.ErrUnsupportedVersion) || errors.Is(err, bloomkv.ErrCorruption) {
		t.Errorf("a newer version: %v, want ErrUnsupportedVersion", err)
	}
	other := bloomkv.ImportOptions{Replace: true, Mark: []byte("of another export")}
	if err := receiver.Import(t.Context(), bytes.NewReader(s), other); err == nil ||
		!strings.Contains(err.Error(), `want "of another export"`) {
		t.Errorf("an export with another mark: %v, want that mark", err)
	}
	must(t, contains(receiver, map[string]string{"own": "v"}))
	// The same store, and the same stream again.
	for range 2 {
		must(t, receiver.Import(t.Context(), bytes.NewReader(s), bloomkv.ImportOptions{Replace: true}))
		must(t, db.Import(t.Context(), bytes.NewReader(s), bloomkv.ImportOptions{Replace: true}))
		must(t, errors.Join(contains(receiver, want), contains(db, want)))
	}
	must(t, errors.Join(db.Close(), receiver.Close()))
	must(t, errors.Join(holds(mem, "db", want), holds(mem, "receiver", want)))
}

// TestATableOfAnotherStoreIsNotTakenForTheOneThatIsLeftOut forges tables with the same id and size.
func TestATableOfAnotherStoreIsNotTakenForTheOneThatIsLeftOut(t *testing.T) {
	params, err := bloomblock.ParamsFor(0.01)
	must(t, err)
	mem := vfstest.NewMem()
	store := func(name, middle string) *bloomkv.DB {
		f, err := mem.Create(name + ".sst")
		must(t, err)
		w := sstable.NewWriter(f, sstable.WriterOptions{ID: 7, Filter: params, Seed: 1})
		for _, k := range []string{"a", middle, "z"} {
			must(t, w.Add([]byte(k), []byte("value")))
		}
		must(t, errors.Join(w.Finish(), f.Close()))
		db := storetest.Open(t, name, &bloomkv.Options{FS: mem})
		must(t, db.IngestTables(t.Context(), name+".sst"))
		return db
	}
	sender, receiver, twin := store("sender", "m"), store("receiver", "n"), store("twin", "m")
	all, err := sender.Inventory(t.Context())
	must(t, err)
	s := exported(t, sender, bloomkv.ExportOptions{Since: all})
	o := bloomkv.ImportOptions{Replace: true}
	if err := receiver.Import(t.Context(), bytes.NewReader(s), o); !errors.Is(err, bloomkv.ErrMissingTable) {
		t.Errorf("into a store with a forged table: %v, want ErrMissingTable", err)
	}
	must(t, receiver.Close())
	if err := bloomkv.Import(t.Context(), bytes.NewReader(s), "copy",
		bloomkv.NewStoreOptions{FS: mem, Base: "receiver"}); !errors.Is(err, bloomkv.ErrMissingTable) {
		t.Errorf("with a base that has a forged table: %v, want ErrMissingTable", err)
	}
	other := decoded(t, s) // the same table, with another record
	other.header.Tables[0].Entries--
	err = twin.Import(t.Context(), bytes.NewReader(other.bytes(t)), o)
	if !errors.Is(err, bloomkv.ErrMissingTable) {
		t.Errorf("with another record of the table: %v, want ErrMissingTable", err)
	}
	must(t, twin.Import(t.Context(), bytes.NewReader(s), o))
	theirs, err := twin.Inventory(t.Context())
	must(t, err)
	has := storetest.Open(t, "receiver", &bloomkv.Options{FS: mem, ReadOnly: true})
	others, err := has.Inventory(t.Context())
	must(t, err)
	whole := len(exported(t, sender, bloomkv.ExportOptions{}))
	for _, c := range []struct {
		since *bloomkv.Inventory
		whole bool
	}{{theirs, false}, {others, true}} {
		if n := len(exported(t, sender, bloomkv.ExportOptions{Since: c.since})); (n == whole) != c.whole {
			t.Errorf("%d bytes of %d, want all of them: %v", n, whole, c.whole)
		}
	}
	must(t, errors.Join(sender.Close(), has.Close(), twin.Close()))
}
