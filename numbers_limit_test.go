package bloomkv_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/salvage"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// storeAt returns a store with one key, whose manifest a function then changes.
func storeAt(t *testing.T, change func(s *manifest.State)) *vfstest.Mem {
	t.Helper()
	mem := vfstest.NewMem()
	db, err := bloomkv.Open("db", storetest.Small(mem))
	must(t, err)
	must(t, errors.Join(db.Put([]byte("old"), nil), db.Close()))
	s, err := manifest.Load(mem, "db")
	must(t, err)
	number := s.NextFile - 1
	change(&s)
	m, err := manifest.Create(mem, "db", number, s)
	must(t, err)
	must(t, m.Close())
	return mem
}

// holds reports whether a store opens and has exactly the given keys.
func holds(fsys vfs.FS, dir string, keys ...string) error {
	db, err := bloomkv.Open(dir, storetest.Small(fsys))
	if err != nil {
		return err
	}
	got, err := storetest.Contents(db)
	want := map[string]string{}
	for _, k := range keys {
		want[k] = ""
	}
	if d := storetest.Diff(got, want); err == nil && d != "" {
		err = errors.New(d)
	}
	return errors.Join(err, db.Close())
}

// TestAStoreWhoseNumbersEndRefusesWritesAndOpensAgain writes with counters just below and at their largest values: what
// was acknowledged is there after the next Open, and what was not is refused with the reason.
func TestAStoreWhoseNumbersEndRefusesWritesAndOpensAgain(t *testing.T) {
	const sequences, files = "sequence numbers are exhausted", "numbers of files are exhausted"
	seq := func(seq ikey.Seq) func(*manifest.State) { return func(s *manifest.State) { s.LastSeq = seq } }
	file := func(n uint64) func(*manifest.State) { return func(s *manifest.State) { s.NextFile = n } }
	for _, tt := range []struct {
		name   string
		change func(s *manifest.State)
		fit    int // puts of one key each that are accepted
		want   string
	}{
		{"three sequence numbers left", seq(manifest.MaxWrite - 1<<24 - 3), 3, sequences},
		{"no sequence number left after those that Open skips", seq(manifest.MaxWrite - 1), 0, sequences},
		{"the last sequence of a manifest", seq(manifest.MaxSeq), 0, sequences},
		{"two numbers of files left", file(manifest.MaxFile - 1), 4, ""}, // for a manifest and a log
		{"no number of a file left", file(manifest.MaxFile + 1), 0, files},
	} {
		t.Run(tt.name, func(t *testing.T) {
			mem := storeAt(t, tt.change)
			db, err := bloomkv.Open("db", storetest.Small(mem))
			must(t, err)
			keys := []string{"old"}
			for i := range 4 {
				key := fmt.Sprint("new", i)
				err := db.Put([]byte(key), nil)
				if err == nil {
					keys = append(keys, key)
				} else if tt.want == "" || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("Put: %v, want %q", err, tt.want)
				}
			}
			if len(keys) != 1+tt.fit {
				t.Errorf("%d puts are accepted, want %d", len(keys)-1, tt.fit)
			}
			ingested := db.Ingest(t.Context(), ascending(map[string]string{"ingested": ""}), bloomkv.IngestOptions{})
			if want := cmp.Or(tt.want, files); ingested == nil || !strings.Contains(ingested.Error(), want) ||
				errors.Is(ingested, bloomkv.ErrReadOnly) {
				t.Errorf("Ingest: %v, want %q, and that nothing has failed", ingested, want)
			}
			killed := mem.Kill()
			_ = db.Close() // if the numbers of files are exhausted, it may not write a manifest
			for how, fsys := range map[string]*vfstest.Mem{"Close": mem, "the death of the process": killed} {
				for range 2 {
					if err := holds(fsys.Kill(), "db", keys...); err != nil {
						t.Errorf("after %s: %v", how, err)
					}
				}
			}
		})
	}
}

// TestAStoreThatCannotBeginAManifestIsOpenedToRead opens a store with the largest next file that a manifest may have.
// It is left as it is.
func TestAStoreThatCannotBeginAManifestIsOpenedToRead(t *testing.T) {
	mem := storeAt(t, func(s *manifest.State) { s.NextFile = 2 * manifest.MaxFile })
	if _, err := bloomkv.Open("db", storetest.Small(mem)); err == nil ||
		!strings.Contains(err.Error(), "numbers of files are exhausted") || errors.Is(err, bloomkv.ErrCorruption) {
		t.Errorf("Open: %v, want that the numbers are exhausted", err)
	}
	opts := storetest.Small(mem)
	opts.ReadOnly = true
	db, err := bloomkv.Open("db", opts)
	must(t, err)
	if ok, err := db.Has([]byte("old")); !ok || err != nil {
		t.Errorf("to read: %v, %v", ok, err)
	}
	must(t, db.Close())
	_, err = salvage.Run(t.Context(), "db", "new", salvage.Options{Store: storetest.Small(mem)})
	if err := errors.Join(err, holds(mem, "new", "old")); err != nil {
		t.Errorf("Salvage: %v", err)
	}
}

// TestWhatTheLastSequenceNumberWroteTravels exports a store whose last write has the largest sequence number, imports
// it into an open store, and exports that.
func TestWhatTheLastSequenceNumberWroteTravels(t *testing.T) {
	const exhausted = "sequence numbers are exhausted"
	mem := storeAt(t, func(s *manifest.State) { s.LastSeq = manifest.MaxWrite - 1<<24 - 1 })
	exported := func(db *bloomkv.DB) []byte {
		t.Helper()
		x, err := db.Export(t.Context(), bloomkv.ExportOptions{})
		must(t, err)
		var b bytes.Buffer
		_, err = x.WriteTo(&b)
		must(t, errors.Join(err, x.Close()))
		return b.Bytes()
	}
	refuses := func(name string, db *bloomkv.DB) {
		t.Helper()
		if err := db.Put([]byte("more"), nil); err == nil || !strings.Contains(err.Error(), exhausted) {
			t.Errorf("%s: Put: %v, want %q", name, err, exhausted)
		}
	}
	from, err := bloomkv.Open("db", storetest.Small(mem))
	must(t, err)
	must(t, from.Put([]byte("last"), nil))
	refuses("the exported store", from)
	stream := exported(from)
	must(t, from.Close())

	to, err := bloomkv.Open("to", storetest.Small(mem))
	must(t, err)
	must(t, to.Import(t.Context(), bytes.NewReader(stream), bloomkv.ImportOptions{}))
	refuses("the store with the import", to)
	again := exported(to)
	must(t, to.Close())
	for dir, b := range map[string][]byte{"one": stream, "two": again} {
		err := bloomkv.Import(t.Context(), bytes.NewReader(b), dir, bloomkv.NewStoreOptions{FS: mem})
		if err := errors.Join(err, holds(mem, dir, "old", "last")); err != nil {
			t.Errorf("%s: %v", dir, err)
		}
	}
	if err := holds(mem, "to", "old", "last"); err != nil {
		t.Errorf("the store with the import: %v", err)
	}
	_, err = salvage.Run(t.Context(), "to", "new", salvage.Options{Store: storetest.Small(mem)})
	must(t, err)
	db, err := bloomkv.Open("new", storetest.Small(mem))
	must(t, err)
	must(t, errors.Join(db.Put([]byte("more"), nil), db.Close()))
	if err := holds(mem, "new", "old", "last", "more"); err != nil {
		t.Errorf("after Salvage, which begins the numbers anew: %v", err)
	}
}
