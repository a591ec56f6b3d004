package salvage

import (
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/wal"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

const dir = "db"

func must(tb testing.TB, err error) { //nolint:thelper // Helper takes longer than most calls
	if err != nil {
		tb.Helper()
		tb.Fatal(err)
	}
}

// added returns a table with keys from a to z, as an edit adds it.
func added(level int, run, number uint64, smallest, largest string) manifest.Added {
	return manifest.Added{Level: level, Run: run, Table: &manifest.Table{
		Number: number, ID: number, Size: 1000 + number, TailLen: 300, Entries: 10, MinSeq: ikey.Seq(number),
		MaxSeq: ikey.Seq(number), Smallest: []byte(smallest), Largest: []byte(largest),
	}}
}

// history returns the state of a snapshot, and edits that follow it.
func history(tb testing.TB) (manifest.State, []*manifest.Edit) {
	tb.Helper()
	v, err := new(manifest.Version).Apply(&manifest.Edit{Added: []manifest.Added{
		added(0, 3, 3, "a", "m"), added(0, 4, 4, "c", "q"), added(1, 1, 5, "d", "f"), added(6, 0, 1, "a", "c"),
		added(6, 0, 2, "e", "k"),
	}})
	must(tb, err)
	log := func(number uint64) *manifest.LogMark { return &manifest.LogMark{Number: number, Synced: 32} }
	return manifest.State{Version: v, NextFile: 10, LastSeq: 50, MinLog: 8, Log: log(8)}, []*manifest.Edit{
		{NextFile: 12, Added: []manifest.Added{added(0, 10, 10, "a", "z")}, MinLog: 9},
		{NextFile: 12, LastSeq: 100, Log: log(11), Mark: batch.Mark{Seq: 60, Bytes: []byte("mark")}},
		{
			NextFile: 20, Deleted: []manifest.Deleted{{Number: 10}, {Number: 4}, {Level: 6, Number: 2}},
			Added: []manifest.Added{added(6, 0, 12, "e", "j"), added(2, 10, 10, "a", "z")},
		},
	}
}

// create writes a manifest and returns where each edit ends.
func create(tb testing.TB, fsys vfs.FS, number uint64, s manifest.State, edits ...*manifest.Edit) (ends []int64) {
	tb.Helper()
	l, err := manifest.Create(fsys, dir, number, s)
	must(tb, err)
	ends = []int64{wal.FirstRecord, l.Size()}
	for _, e := range edits {
		must(tb, l.Append(e))
		ends = append(ends, l.Size())
	}
	must(tb, l.Close())
	return ends
}

func newFS(tb testing.TB) *vfstest.Mem {
	tb.Helper()
	m := vfstest.NewMem()
	must(tb, m.Mkdir(dir))
	return m
}

// traced returns the traces of a store's manifests, and the names of the files with unreadable parts.
func traced(t *testing.T, fsys vfs.FS, numbers ...uint64) (traces, []string) {
	t.Helper()
	var lost []string
	got, err := trace(t.Context(), fsys, dir, numbers, func(name string, _, _ int64, reason error) {
		if reason == nil {
			t.Errorf("%s: lost for no reason", name)
		}
		lost = append(lost, name)
	})
	must(t, err)
	return got, lost
}

// TestATraceOfAnIntactManifestIsItsState compares the states after each edit.
func TestATraceOfAnIntactManifestIsItsState(t *testing.T) {
	s, edits := history(t)
	for n := range len(edits) + 1 {
		m := newFS(t)
		create(t, m, 9, s, edits[:n]...)
		want, err := manifest.Load(m, dir)
		must(t, err)
		got, lost := traced(t, m, 9)
		if len(lost) > 0 || !got.whole || !got.snapshot || got.number != 9 ||
			got.numbers.LastSeq != want.LastSeq || got.numbers.MinLog != want.MinLog ||
			!reflect.DeepEqual(got.numbers.Log, want.Log) || !reflect.DeepEqual(got.numbers.Mark, want.Mark) {
			t.Errorf("lost %v, %+v, want %+v", lost, got, want)
		}
		live := map[uint64]bool{}
		for level, runs := range want.Version.Levels {
			for _, r := range runs {
				for _, table := range r.Tables {
					live[table.Number] = true
					a, gone := got.placed[table.Number], got.gone[table.Number]
					if a.Level != level || a.Run != r.ID || !reflect.DeepEqual(a.Table, table) || gone {
						t.Errorf("table %d is placed at %+v, gone %v; want level %d, run %d",
							table.Number, a, gone, level, r.ID)
					}
				}
			}
		}
		for n := range got.placed {
			if !live[n] && !got.gone[n] {
				t.Errorf("table %d was deleted, but is not gone", n)
			}
		}
	}
}

// TestOneDamagedByteCostsOneEdit damages each byte of a manifest of several edits.
func TestOneDamagedByteCostsOneEdit(t *testing.T) {
	s, edits := history(t)
	m := newFS(t)
	ends := create(t, m, 9, s, edits...)
	name := filename.Base(filename.Manifest, 9)
	for at := range ends[len(ends)-1] {
		damaged := m.Kill()
		storetest.Rewrite(t, damaged, filepath.Join(dir, name), func(b []byte) []byte { b[at] ^= 4; return b })
		got, lost := traced(t, damaged, 9)
		want := traces{number: 9, placed: map[uint64]manifest.Added{}, gone: map[uint64]bool{}}
		for i, e := range append([]*manifest.Edit{s.Snapshot()}, edits...) {
			if at < ends[i] || at >= ends[i+1] {
				want.note(e)
				want.snapshot = want.snapshot || i == 0
			}
		}
		if !reflect.DeepEqual(got, want) || !slices.Equal(lost, []string{name}) {
			t.Fatalf("byte %d: lost %v, %+v, want %+v", at, lost, got, want)
		}
	}
}

// TestASnapshotOfSeveralRecordsIsWholeWithAll leaves out the last ones.
func TestASnapshotOfSeveralRecordsIsWholeWithAll(t *testing.T) {
	for n := 1; n <= 4; n++ {
		m := newFS(t)
		f, err := m.Create(filename.Make(dir, filename.Manifest, 9))
		must(t, err)
		w, err := wal.NewWriter(f, 9, 1)
		must(t, err)
		for i := range uint64(n) {
			e := &manifest.Edit{Added: []manifest.Added{added(int(i), i, i+1, "a", "z")}}
			if i == 0 {
				e.NextFile, e.Records = 10, 3
			}
			must(t, w.Append(manifest.AppendEdit(wal.Begin(nil), e)))
		}
		must(t, w.Close())
		got, lost := traced(t, m, 9)
		want := []string{filename.CurrentName} // which is not there
		if n < 3 {
			want = append(want, filename.Base(filename.Manifest, 9))
		}
		if got.whole != (n >= 3) || !got.snapshot || len(got.placed) != n || !slices.Equal(lost, want) {
			t.Errorf("%d of 3 records: lost %v, want %v, %+v", n, lost, want, got)
		}
	}
}

func TestATraceFindsAManifestWithoutCURRENT(t *testing.T) {
	s, edits := history(t)
	const older, newest = "MANIFEST-000009", "MANIFEST-000011"
	cut := func(n int) func([]byte) []byte { return func(b []byte) []byte { return b[:n] } }
	current := func(name string) func([]byte) []byte {
		return func([]byte) []byte {
			return fmt.Appendf(nil, "%s %08x\n", name, crc32.Checksum([]byte(name), castagnoli))
		}
	}
	for _, test := range []struct {
		name   string
		files  []string
		change func(b []byte) []byte
		number uint64   // of the manifest that is used
		lost   []string // files
	}{
		{"CURRENT is missing", []string{"CURRENT"}, func([]byte) []byte { return nil }, 11, []string{"CURRENT"}},
		{
			"CURRENT is damaged",
			[]string{"CURRENT"},
			func(b []byte) []byte { b[12]++; return b }, 11,
			[]string{"CURRENT"},
		},
		{"CURRENT names the older one", []string{"CURRENT"}, current(older), 9, nil},
		{
			"CURRENT names what is not there",
			[]string{"CURRENT"},
			current("MANIFEST-000077"), 11,
			[]string{"MANIFEST-000077"},
		},
		{"the newest has no snapshot", []string{newest}, cut(wal.FirstRecord + 30), 9, []string{newest}},
		{"the newest is empty", []string{newest}, cut(0), 9, []string{newest}},
		{"no snapshot can be read", []string{older, newest}, cut(40), 11, []string{newest, older}},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := newFS(t)
			create(t, m, 9, s)
			newer := s
			newer.NextFile = 20
			create(t, m, 11, newer, edits...)
			for _, name := range test.files {
				storetest.Rewrite(t, m, filepath.Join(dir, name), test.change)
			}
			got, lost := traced(t, m, 9, 11)
			if got.number != test.number || !slices.Equal(lost, test.lost) {
				t.Errorf("manifest %d, lost %v; want %d, %v", got.number, lost, test.number, test.lost)
			}
		})
	}
}

func TestATraceOfAManifestThatCannotBeOpenedIsOfAnother(t *testing.T) {
	m := newFS(t)
	s, _ := history(t)
	create(t, m, 9, s)
	newer := s
	newer.NextFile = 20
	create(t, m, 11, newer)
	got, lost := traced(t, vfstest.NewHook(m, func(op vfstest.Op) error {
		if op.Kind == vfstest.OpOpen && op.Name == filename.Make(dir, filename.Manifest, 11) {
			return errDisk
		}
		return nil
	}), 9, 11)
	if got.number != 9 || !got.whole || !slices.Equal(lost, []string{"MANIFEST-000011"}) {
		t.Errorf("manifest %d, whole %v, lost %v; want 9, and that 11 is lost", got.number, got.whole, lost)
	}
}

func TestATraceRefusesAnEditOfTheFuture(t *testing.T) {
	m := newFS(t)
	f, err := m.Create(filename.Make(dir, filename.Manifest, 9))
	must(t, err)
	w, err := wal.NewWriter(f, 9, 1)
	must(t, err)
	must(t, w.Append(append(make([]byte, wal.HeaderSize), manifest.FormatVersion+1)))
	must(t, w.Close())
	lost := func(string, int64, int64, error) {}
	if _, err := trace(t.Context(), m, dir, []uint64{9}, lost); !errors.Is(err, manifest.ErrUnsupportedVersion) {
		t.Errorf("error is %v, want %v", err, manifest.ErrUnsupportedVersion)
	}
	opts := Options{Store: &bloomkv.Options{FS: m}}
	if _, err := Run(t.Context(), dir, "new", opts); !errors.Is(err, manifest.ErrUnsupportedVersion) {
		t.Errorf("the error of Run is %v, want %v", err, manifest.ErrUnsupportedVersion)
	}
}
