package tests

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/rangedel"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/internal/wal"
	"github.com/bloomkv/bloomkv/salvage"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// A salvageStore is a small store with all features that occur in a store. The contents of each block and record are
// known.
type salvageStore struct {
	fs    *vfstest.Mem
	files []string                   // except LOCK
	sizes map[string]int             // without the zeros reserved at the end of logs
	ever  map[string]map[string]bool // all values ever written, by key
	full  map[string]string          // the contents of the store
	items []salvageItem
}

// A salvageItem is a block of a table or a record of a log. It is read or lost as a whole.
type salvageItem struct {
	file     string
	from, to int
	age      int // without a manifest, the version with the lower age counts if both have sequence number 0
	versions []salvageVersion
	dels     []rangedel.Tombstone
	ingested ikey.Seq // the sequence number of an ingested table in the manifest, or 0
}

type salvageVersion struct {
	key, value string
	trailer    ikey.Trailer
}

func salvageOptions(fsys vfs.FS) *bloomkv.Options {
	o := storetest.Tiny(fsys)
	o.BlockSize, o.FilterSeed = 512, 5
	return o
}

// newSalvageStore makes a store of about 60 KB. It is closed cleanly, or killed while it has two logs.
func newSalvageStore(t *testing.T, closed bool) *salvageStore {
	t.Helper()
	d := &salvageStore{fs: vfstest.NewMem(), sizes: map[string]int{}, ever: map[string]map[string]bool{}}
	var hold atomic.Bool
	release := make(chan struct{})
	o := salvageOptions(vfstest.NewHook(d.fs, func(op vfstest.Op) error {
		if hold.Load() && op.Kind == vfstest.OpCreate && strings.HasSuffix(op.Name, ".sst") {
			<-release
		}
		return nil
	}))
	db := storetest.Open(t, "db", o)
	do := func(err error) {
		t.Helper()
		must(t, err)
	}
	rng, n := rand.New(rand.NewPCG(7, 7)), 0
	key := func(i int) string { return fmt.Sprintf("key%04d", i) }
	value := func(i int) string { // half of it is compressible
		n++
		v := fmt.Sprintf("%s=%d;%x%s", key(i), n, rng.Uint64(), strings.Repeat("abc", i%13))
		if d.ever[key(i)] == nil {
			d.ever[key(i)] = map[string]bool{}
		}
		d.ever[key(i)][v] = true
		return v
	}
	put := func(i int) { do(db.Put([]byte(key(i)), []byte(value(i)))) }
	del := func(i int) { do(db.Delete([]byte(key(i)))) }
	delRange := func(from, to int) {
		do(db.DeleteRange(bloomkv.KeyRange{Lower: []byte(key(from)), Upper: []byte(key(to))}))
	}
	for i := range 450 {
		put(i * 7 % 450)
	}
	do(db.Compact(t.Context(), bloomkv.CompactOptions{})) // moves all keys to the last level, with sequence number 0
	snap, err := db.Snapshot()
	do(err)
	for i := range 120 {
		put(i * 3)
		if i%5 == 0 {
			del(i*3 + 1)
		}
	}
	delRange(200, 215)
	part := bloomkv.KeyRange{Lower: []byte(key(100)), Upper: []byte(key(260))}
	do(db.Compact(t.Context(), bloomkv.CompactOptions{Range: part})) // the snapshot keeps old versions
	do(db.Close())
	do(snap.Close())     // after Close: otherwise a compaction could drop them
	o.CompactionRate = 1 // so that new tables stay in their level
	db, err = bloomkv.Open("db", o)
	do(err)
	for i := range 60 {
		put(400 + i)
		del(i * 4)
	}
	delRange(60, 70)
	do(db.Flush(t.Context()))
	sorted := func(from, to, step int) func(yield func(bloomkv.KV, error) bool) {
		return func(yield func(bloomkv.KV, error) bool) {
			for i := from; i < to; i += step {
				if !yield(bloomkv.KV{Key: []byte(key(i)), Value: []byte(value(i))}, nil) {
					return
				}
			}
		}
	}
	do(db.Ingest(t.Context(), sorted(0, 500, 9), bloomkv.IngestOptions{}))
	do(db.Ingest(t.Context(), sorted(300, 330, 4), bloomkv.IngestOptions{Replace: &bloomkv.KeyRange{
		Lower: []byte(key(298)),
		Upper: []byte(key(335)),
	}}))
	for i := range 40 {
		if put(i * 9); i == 20 {
			do(db.Flush(t.Context()))
		}
	}
	delRange(120, 131)
	do(db.Flush(t.Context()))
	if closed {
		d.full, err = storetest.Contents(db)
		do(err)
		close(release)
		do(db.Close())
	} else {
		testkit.Soon(t, "files that were replaced are removed", func() bool {
			return db.Metrics().Files.Obsolete == 0 && len(logsIn(t, d.fs)) == 0
		})
		hold.Store(true)
		for i := 0; len(logsIn(t, d.fs)) < 2; i++ {
			if put(i * 5 % 460); i%10 == 3 {
				delRange(i%460, i%460+3)
			}
		}
		for i := range 30 {
			put(430 + 2*i)
			del(431 + 3*i)
		}
		d.full, err = storetest.Contents(db)
		do(err)
		killed := d.fs.Kill()
		close(release)
		do(db.Close())
		d.fs = killed
	}
	d.take(t)
	return d
}

func logsIn(t *testing.T, fsys vfs.FS) []string {
	t.Helper()
	names, err := fsys.List("db")
	must(t, err)
	return slices.DeleteFunc(names, func(n string) bool { return !strings.HasSuffix(n, ".log") })
}

// take reads the contents of each part of the store, and compares the whole with the store.
func (d *salvageStore) take(t *testing.T) {
	t.Helper()
	names, err := d.fs.List("db")
	must(t, err)
	state, err := manifest.Load(d.fs, "db")
	must(t, err)
	placed := map[uint64]*manifest.Table{}
	for _, m := range state.Version.Tables() {
		placed[m.Number] = m
	}
	for _, name := range names {
		kind, number := filename.Parse(name)
		if kind == filename.Lock {
			continue
		}
		b := d.read(t, name)
		d.files = append(d.files, name)
		d.sizes[name] = len(b)
		switch kind { //nolint:exhaustive // other files hold no versions
		case filename.Table:
			if placed[number] == nil { // left by a compaction: see TestWhatIsLeftOverDoesNotCount
				must(t, d.fs.Remove(filepath.Join("db", name)))
				d.files = d.files[:len(d.files)-1]
				continue
			}
			d.takeTable(t, name, b, placed[number])
		case filename.Log:
			d.sizes[name] = len(written(b))
			d.takeLog(t, name, number)
		}
	}
	if got := d.expect(func(*salvageItem) bool { return false }, true); storetest.Diff(got, d.full) != "" {
		t.Fatalf("the parts together differ from the store: %s", storetest.Diff(got, d.full))
	}
	has := map[string]bool{}
	for _, i := range d.items {
		has["range deletes in tables"] = has["range deletes in tables"] || len(i.dels) > 0 && len(i.versions) == 0
		has["ingested"] = has["ingested"] || i.ingested != 0
		has["range deletes in logs"] = has["range deletes in logs"] ||
			len(i.dels) > 0 && strings.HasSuffix(i.file, ".log")
		seen := map[string]bool{}
		for _, v := range i.versions {
			has["tombstones"] = has["tombstones"] || v.trailer.Kind() == ikey.Delete
			has["sequence 0"] = has["sequence 0"] || v.trailer.Seq() == 0 && i.ingested == 0
			has["old versions"] = has["old versions"] || seen[v.key]
			seen[v.key] = true
		}
	}
	levels := 0
	for _, runs := range state.Version.Levels {
		levels += min(len(runs), 1)
	}
	logs := len(logsIn(t, d.fs))
	if len(placed) < 7 || levels < 2 || len(has) < 6-min(logs, 0) || logs == 1 {
		t.Fatalf("%d tables on %d levels, %d logs, %v", len(placed), levels, logs, has)
	}
	for what, is := range has {
		if !is && !(what == "range deletes in logs" && logs == 0) {
			t.Fatalf("the store has no %s", what)
		}
	}
}

func (d *salvageStore) read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := vfs.ReadFile(d.fs, filepath.Join("db", name), 64<<20)
	must(t, err)
	return b
}

func (d *salvageStore) takeTable(t *testing.T, name string, b []byte, meta *manifest.Table) {
	t.Helper()
	r, err := sstable.Open(bytes.NewReader(b), int64(len(b)), name)
	must(t, err)
	of := salvageItem{file: name, age: -int(meta.Number)}
	if meta.Flags&manifest.SeqOverridden != 0 {
		of.ingested = meta.MaxSeq
	}
	var text bytes.Buffer
	must(t, r.Dump(&text, false))
	var blocks []salvageItem
	for line := range strings.Lines(text.String()) {
		var n, offset, size int
		switch {
		case strings.HasPrefix(line, "block "):
			if _, err := fmt.Sscanf(line, "block %d at %d: %d bytes", &n, &offset, &size); err != nil {
				t.Fatal(err)
			}
			i := of
			i.from, i.to = offset, offset+size+5
			blocks = append(blocks, i)
		case strings.HasPrefix(line, "range deletes "):
			if _, err := fmt.Sscanf(line, "range deletes %d: %d bytes", &offset, &size); err != nil {
				t.Fatal(err)
			}
			i := of
			i.from, i.to = offset, offset+size+5
			for _, f := range r.RangeDels().List() {
				for _, seq := range f.Seqs {
					i.dels = append(i.dels, rangedel.Tombstone{Start: f.Start, End: f.End, Seq: seq})
				}
			}
			d.items = append(d.items, i)
		}
	}
	text.Reset()
	must(t, r.Dump(&text, true))
	at := -1
	it := r.Iter(sstable.IterOptions{})
	ok := it.First()
	for line := range strings.Lines(text.String()) {
		switch {
		case strings.HasPrefix(line, "block "):
			at++
		case strings.HasPrefix(line, "  \""):
			if !ok {
				t.Fatalf("%s: the dump has more versions than the table", name)
			}
			k := it.Key()
			blocks[at].versions = append(blocks[at].versions,
				salvageVersion{string(k.User), string(it.Value()), k.Trailer})
			ok = it.Next()
		}
	}
	if err := it.Close(); err != nil || ok {
		t.Fatalf("%s: the dump has fewer versions than the table: %v", name, err)
	}
	d.items = append(d.items, blocks...)
}

func (d *salvageStore) takeLog(t *testing.T, name string, number uint64) {
	t.Helper()
	f, err := d.fs.Open(filepath.Join("db", name))
	must(t, err)
	defer f.Close()
	from := wal.FirstRecord
	_, err = wal.Replay(f, name, number, func(payload []byte, end int64) error {
		i := salvageItem{file: name, from: from, to: int(end), age: -1 << 30}
		_, _, err := batch.ReadRecord(payload, func(seq ikey.Seq, kind ikey.Kind, key, value []byte) {
			if kind == ikey.RangeDelete {
				i.dels = append(i.dels, rangedel.Tombstone{Start: bytes.Clone(key), End: bytes.Clone(value), Seq: seq})
				return
			}
			i.versions = append(i.versions, salvageVersion{string(key), string(value), ikey.MakeTrailer(seq, kind)})
		})
		d.items = append(d.items, i)
		from = int(end)
		return err
	})
	must(t, err)
}

// expect returns the pairs in all parts except the lost ones, with or without the sequence numbers that only the
// manifest has.
func (d *salvageStore) expect(lost func(*salvageItem) bool, withManifest bool) map[string]string {
	type newest struct {
		salvageVersion
		seq ikey.Seq
		age int
	}
	all := map[string]newest{}
	var dels []rangedel.Tombstone
	for n := range d.items {
		i := &d.items[n]
		if lost(i) {
			continue
		}
		over := func(seq ikey.Seq) ikey.Seq {
			if withManifest && i.ingested != 0 {
				return i.ingested
			}
			return seq
		}
		for _, v := range i.versions {
			this := newest{v, over(v.trailer.Seq()), i.age}
			if old, ok := all[v.key]; !ok ||
				cmp.Or(cmp.Compare(old.seq, this.seq), cmp.Compare(this.age, old.age)) < 0 {
				all[v.key] = this
			}
		}
		for _, del := range i.dels {
			del.Seq = over(del.Seq)
			dels = append(dels, del)
		}
	}
	got := map[string]string{}
	for k, v := range all {
		deleted := v.trailer.Kind() == ikey.Delete
		for _, del := range dels {
			covers := bytes.Compare(del.Start, []byte(k)) <= 0 &&
				(del.End == nil || bytes.Compare([]byte(k), del.End) < 0)
			deleted = deleted || covers && del.Seq > v.seq
		}
		if !deleted {
			got[k] = v.value
		}
	}
	return got
}

// A salvageDamage is one change to one file.
type salvageDamage struct {
	file     string
	what     string
	from, to int                   // the damaged bytes; to is past the end if the file is truncated
	change   func(b []byte) []byte // nil removes the file
}

func flipped(file string, at int, bit int) salvageDamage {
	return salvageDamage{
		file, fmt.Sprintf("bit %d of byte %d", bit, at), at, at + 1,
		func(b []byte) []byte { b[at] ^= 1 << bit; return b },
	}
}

func cutTo(file string, n int) salvageDamage {
	return salvageDamage{file, fmt.Sprintf("cut to %d bytes", n), n, 1 << 30, func(b []byte) []byte { return b[:n] }}
}

func removed(file string) salvageDamage {
	return salvageDamage{file, "removed", 0, 1 << 30, func([]byte) []byte { return nil }}
}

// filesIn returns the contents of all files of the store.
func filesIn(t *testing.T, fsys vfs.FS) map[string]string {
	t.Helper()
	names, err := fsys.List("db")
	must(t, err)
	all := map[string]string{}
	for _, name := range names {
		b, err := vfs.ReadFile(fsys, filepath.Join("db", name), 64<<20)
		must(t, err)
		all[name] = string(b)
	}
	return all
}

// try damages the store, salvages it and checks the result.
func (d *salvageStore) try(t *testing.T, damage salvageDamage) {
	t.Helper()
	fsys := d.fs.Kill()
	storetest.Rewrite(t, fsys, filepath.Join("db", damage.file), damage.change)
	before := filesIn(t, fsys)
	report, err := salvage.Run(context.Background(), "db", "new", salvage.Options{Store: salvageOptions(fsys)})
	fail := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s, %s: %s\nlost %+v", damage.file, damage.what, fmt.Sprintf(format, args...), report.Lost)
	}
	if after := filesIn(t, fsys); !maps.Equal(before, after) {
		fail("the old directory was changed: %v before, %v after", slices.Sorted(maps.Keys(before)),
			slices.Sorted(maps.Keys(after)))
	}
	if err != nil {
		fail("%v", err)
		return
	}
	lost := func(i *salvageItem) bool { return i.file == damage.file && i.from < damage.to && damage.from < i.to }
	want := d.expect(lost, true)
	if _, err := bloomkv.Check(context.Background(), "new", bloomkv.CheckOptions{FS: fsys}); err != nil {
		fail("check of the new store: %v", err)
		return
	}
	db, err := bloomkv.Open("new", &bloomkv.Options{FS: fsys, ReadOnly: true, MemoryBudget: 8 << 20})
	if err != nil {
		fail("%v", err)
		return
	}
	got, err := storetest.Contents(db)
	if err = errors.Join(err, db.Close()); err != nil {
		fail("%v", err)
		return
	}
	if report.Keys != uint64(len(got)) {
		fail("reported %d keys, the store has %d", report.Keys, len(got))
	}
	for k, v := range got {
		if !d.ever[k][v] {
			fail("%q has %q, which was never written", k, v)
		}
	}
	if strings.HasPrefix(damage.file, "MANIFEST") {
		// For each key, accept the value in the store or, for an ingested key, the value before the ingest.
		without := d.expect(lost, false)
		for _, k := range slices.Sorted(maps.Keys(d.ever)) {
			if got[k] != want[k] && got[k] != without[k] {
				fail("%q has %q, want %q or %q", k, got[k], want[k], without[k])
			}
		}
	} else if storetest.Diff(got, want) != "" {
		fail("%s", storetest.Diff(got, want))
	}
	missing, seen := false, d.leavesATrace(damage) // whether something of the store is missing
	for i := range d.items {
		missing = missing || lost(&d.items[i])
	}
	// Without the damaged manifest, it is unknown whether a file named there should exist.
	if report.Whole() == missing && seen && !strings.HasPrefix(damage.file, "MANIFEST") {
		fail("reported whole: %v, want %v", report.Whole(), !missing)
	}
	for _, l := range report.Lost {
		if l.File != damage.file && filepath.Ext(damage.file) != ".log" && !(l.File == filename.CurrentName) &&
			!strings.HasPrefix(damage.file, "MANIFEST") && !strings.HasPrefix(l.File, "MANIFEST") || l.Err == nil ||
			l.Part == "" {
			fail("%+v", l)
		}
	}
	if seen {
		d.placesAreRight(report, damage.to == 1<<30, lost, fail)
	}
}

// leavesATrace reports whether a damage can be detected: truncating the last log between records can't.
func (d *salvageStore) leavesATrace(damage salvageDamage) bool {
	logs := slices.DeleteFunc(slices.Clone(d.files), func(f string) bool { return !strings.HasSuffix(f, ".log") })
	if len(logs) == 0 || damage.file != logs[len(logs)-1] || damage.to < 1<<30 {
		return true
	}
	return damage.from != 0 && !slices.ContainsFunc(d.items, func(i salvageItem) bool {
		return i.file == damage.file && i.from == damage.from
	})
}

// placesAreRight checks that every lost key lies in the key range and the byte range of a reported loss of its file.
func (d *salvageStore) placesAreRight(report salvage.Report, cut bool, lost func(*salvageItem) bool,
	fail func(format string, args ...any),
) {
	for n := range d.items {
		i := &d.items[n]
		if !lost(i) {
			continue
		}
		for _, v := range i.versions {
			if !slices.ContainsFunc(report.Lost, func(l salvage.Loss) bool {
				// A log is missing or truncated.
				if cut && filepath.Ext(l.File) == ".log" && filepath.Ext(i.file) == ".log" {
					return true
				}
				return l.File == i.file && !l.Harmless && (l.Bytes == 0 ||
					l.Offset < int64(i.to) && int64(i.from) < l.Offset+l.Bytes) &&
					string(l.Lower) <= v.key && (l.Upper == nil || v.key <= string(l.Upper))
			}) {
				fail("%q of bytes %d to %d is lost but not reported", v.key, i.from, i.to)
			}
		}
	}
}
