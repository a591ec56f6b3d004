package manifest

import (
	"errors"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/wal"
	"github.com/bloomkv/bloomkv/vfs"
)

// traced returns the traces of a store's manifests, and the names of the files with unreadable parts.
func traced(t *testing.T, fsys vfs.FS, numbers ...uint64) (Traces, []string) {
	t.Helper()
	var lost []string
	got, err := Trace(t.Context(), fsys, dir, numbers, func(name string, _, _ int64, reason error) {
		if reason == nil {
			t.Errorf("%s: lost for no reason", name)
		}
		lost = append(lost, name)
	})
	must(t, err)
	return got, lost
}

// change rewrites a file, or removes it if how returns nil.
func change(t *testing.T, fsys vfs.FS, name string, how func(b []byte) []byte) {
	t.Helper()
	path := filepath.Join(dir, name)
	b, err := vfs.ReadFile(fsys, path, 1<<20)
	must(t, err)
	must(t, fsys.Remove(path))
	if b = how(b); b == nil {
		return
	}
	f, err := fsys.Create(path)
	if err == nil {
		_, err = f.Write(b)
	}
	must(t, err)
}

func TestATraceOfAnIntactManifestIsItsState(t *testing.T) {
	m := newFS(t)
	s, edits := history(t)
	l := create(t, m, 9, s)
	appendEdits(t, l, edits...)
	want := load(t, m)
	got, lost := traced(t, m, 9)
	if len(lost) > 0 || !got.Whole || !got.Snapshot || got.Number != 9 || got.NextFile != want.NextFile ||
		got.LastSeq != want.LastSeq || got.MinLog != want.MinLog || !reflect.DeepEqual(got.Log, want.Log) {
		t.Errorf("lost %v, %+v, want %+v", lost, got, want)
	}
	live := map[uint64]bool{}
	for level, runs := range want.Version.Levels {
		for _, r := range runs {
			for _, table := range r.Tables {
				live[table.Number] = true
				a, gone := got.Placed[table.Number], got.Gone[table.Number]
				if a.Level != level || a.Run != r.ID || !reflect.DeepEqual(a.Table, table) || gone {
					t.Errorf("table %d is placed at %+v, gone %v; want level %d, run %d",
						table.Number, a, gone, level, r.ID)
				}
			}
		}
	}
	for n := range got.Placed {
		if !live[n] && !got.Gone[n] {
			t.Errorf("table %d was deleted, but is not in Gone", n)
		}
	}
}

// TestOneDamagedByteCostsOneEdit damages each byte of a manifest of several edits.
func TestOneDamagedByteCostsOneEdit(t *testing.T) {
	s, edits := history(t)
	m := newFS(t)
	l := create(t, m, 9, s)
	ends := []int64{wal.FirstRecord, l.w.Size()}
	for _, e := range edits {
		appendEdits(t, l, e)
		ends = append(ends, l.w.Size())
	}
	name := filename.Base(filename.Manifest, 9)
	for at := range ends[len(ends)-1] {
		damaged := m.Kill()
		change(t, damaged, name, func(b []byte) []byte { b[at] ^= 4; return b })
		got, lost := traced(t, damaged, 9)
		want := Traces{Number: 9, Placed: map[uint64]Added{}, Gone: map[uint64]bool{}}
		for i, e := range append([]*Edit{s.Snapshot()}, edits...) {
			if at < ends[i] || at >= ends[i+1] {
				want.note(e)
				want.Snapshot = want.Snapshot || i == 0
			}
		}
		if !reflect.DeepEqual(got, want) || !slices.Equal(lost, []string{name}) {
			t.Fatalf("byte %d: lost %v, %+v, want %+v", at, lost, got, want)
		}
	}
}

func TestATraceFindsAManifestWithoutCURRENT(t *testing.T) {
	s, edits := history(t)
	for name, test := range map[string]struct {
		change func(t *testing.T, m *vfs.Mem)
		number uint64 // of the manifest that is used
		lost   []string
	}{
		"CURRENT is missing": {func(t *testing.T, m *vfs.Mem) {
			t.Helper()
			change(t, m, "CURRENT", func([]byte) []byte { return nil })
		}, 11, []string{"CURRENT"}},
		"CURRENT is damaged": {func(t *testing.T, m *vfs.Mem) {
			t.Helper()
			change(t, m, "CURRENT", func(b []byte) []byte { b[12]++; return b })
		}, 11, []string{"CURRENT"}},
		"CURRENT names the older one": {func(t *testing.T, m *vfs.Mem) {
			t.Helper()
			change(t, m, "CURRENT", func([]byte) []byte { return currentFor(9) })
		}, 9, nil},
		"CURRENT names what is not there": {func(t *testing.T, m *vfs.Mem) {
			t.Helper()
			change(t, m, "CURRENT", func([]byte) []byte { return currentFor(77) })
		}, 11, []string{"MANIFEST-000077"}},
		"the newest has no snapshot": {func(t *testing.T, m *vfs.Mem) {
			t.Helper()
			change(t, m, "MANIFEST-000011", func(b []byte) []byte { return b[:wal.FirstRecord+30] })
		}, 9, []string{"MANIFEST-000011"}},
		"the newest is empty": {func(t *testing.T, m *vfs.Mem) {
			t.Helper()
			change(t, m, "MANIFEST-000011", func([]byte) []byte { return []byte{} })
		}, 9, []string{"MANIFEST-000011"}},
		"no snapshot can be read": {func(t *testing.T, m *vfs.Mem) {
			t.Helper()
			for _, n := range []string{"MANIFEST-000009", "MANIFEST-000011"} {
				change(t, m, n, func(b []byte) []byte { return b[:40] })
			}
		}, 11, []string{"MANIFEST-000011", "MANIFEST-000009"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newFS(t)
			create(t, m, 9, s)
			newer := s
			newer.NextFile = 20
			appendEdits(t, create(t, m, 11, newer), edits...)
			test.change(t, m)
			got, lost := traced(t, m, 9, 11)
			if got.Number != test.number || !slices.Equal(lost, test.lost) {
				t.Errorf("manifest %d, lost %v; want %d, %v", got.Number, lost, test.number, test.lost)
			}
		})
	}
}

func TestATraceRefusesAnEditOfTheFuture(t *testing.T) {
	m := newFS(t)
	s, _ := history(t)
	l := create(t, m, 9, s)
	must(t, l.w.Append(append(make([]byte, wal.HeaderSize), editVersion+1)))
	if _, err := Trace(t.Context(), m, dir, []uint64{9}, nil); !errors.Is(err, ErrUnsupportedVersion) {
		t.Errorf("error is %v, want %v", err, ErrUnsupportedVersion)
	}
}
