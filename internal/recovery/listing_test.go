package recovery

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

func put(t *testing.T, fsys vfs.FS, name, content string) {
	t.Helper()
	f, err := fsys.Create(name)
	must(t, err)
	_, err = f.Write([]byte(content))
	must(t, errors.Join(err, f.Close()))
}

// storeOf returns a directory db with empty files of those names.
func storeOf(t *testing.T, names ...string) *vfstest.Mem {
	t.Helper()
	mem := vfstest.NewMem()
	must(t, mem.Mkdir("db"))
	for _, name := range names {
		put(t, mem, "db/"+name, "")
	}
	return mem
}

func table(number, size uint64) *manifest.Table {
	key := fmt.Appendf(nil, "%06d", number)
	return &manifest.Table{Number: number, Size: size, Smallest: key, Largest: key, Entries: 1}
}

// stateOf returns a manifest's state with those tables.
func stateOf(tables ...*manifest.Table) *manifest.State {
	s := &manifest.State{Version: &manifest.Version{}, NextFile: 20, MinLog: 5, ManifestNumber: 3}
	for _, t := range tables {
		s.Version.Levels[0] = append(s.Version.Levels[0], manifest.Run{ID: t.Number, Tables: []*manifest.Table{t}})
	}
	return s
}

func TestAListingHasFilesByKindAndOrder(t *testing.T) {
	mem := storeOf(t, "000010.log", "000009.log", "000002.sst", "1000000.sst", "999999.sst", "CURRENT", "LOCK",
		"MANIFEST-000003", "000004.tmp", "notes.txt", "x.sst")
	got, err := Survey(mem, "db")
	must(t, err)
	for kind, want := range map[filename.Kind][]uint64{
		filename.Log: {9, 10}, filename.Table: {2, 999999, 1000000}, filename.Manifest: {3}, filename.Temp: {4},
		filename.Unknown: nil,
	} {
		if !slices.Equal(got[kind], want) {
			t.Errorf("files of kind %v: %v, want %v", kind, got[kind], want)
		}
	}
	for first, want := range map[uint64][]uint64{0: {9, 10}, 9: {9, 10}, 10: {10}, 11: nil} {
		if logs := got.LogsFrom(first); !slices.Equal(logs, want) {
			t.Errorf("logs from %d on: %v, want %v", first, logs, want)
		}
	}
	if _, err := Survey(mem, "none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory that is not there: %v", err)
	}
}

// isDamage reports whether an error is damage, and its text begins with the given one.
func isDamage(err error, text string) bool {
	return errors.Is(err, corrupt.Err) && strings.HasPrefix(err.Error(), text)
}

func TestDataWithoutCurrentIsLost(t *testing.T) {
	for _, tt := range []struct {
		names []string
		want  string
	}{
		{nil, ""},
		{[]string{"LOCK", "MANIFEST-000001", "000001.tmp", "x"}, ""},
		{[]string{"000004.sst", "000007.sst"}, "CURRENT: offset 0: missing, but there is data (000004.sst)"},
		{[]string{"000004.log"}, "CURRENT: offset 0: missing, but there is data (000004.log)"},
	} {
		err := List(tt.names).Lost()
		if tt.want == "" && err != nil || tt.want != "" && !isDamage(err, tt.want) {
			t.Errorf("%q: %v, want damage: %s", tt.names, err, tt.want)
		}
	}
}

// TestTheManifestIsComparedWithTheDirectory tests each boundary of the numbers: NextFile is the first that no file may
// have.
func TestTheManifestIsComparedWithTheDirectory(t *testing.T) {
	missing := func(s *manifest.State) { *s = *stateOf(table(7, 4), table(13, 0)) }
	size := func(n uint64) func(*manifest.State) {
		return func(s *manifest.State) { s.Version.Levels[0][0].Tables[0].Size = n }
	}
	mark := func(s *manifest.State) { s.Log = &manifest.LogMark{Number: 9} }
	const older = "MANIFEST-000003: offset 0: knows no file from number 20 on, but there is "
	for _, tt := range []struct {
		name   string
		files  []string // besides 000007.sst, of four bytes, and 000008.sst, which is empty
		change func(*manifest.State)
		want   string // what the error begins with; "" for none
	}{
		{"all files are there", nil, nil, ""},
		{"a table is missing", nil, missing, "000013.sst: offset 0: missing"},
		{"the last numbers that were given out", []string{"000019.sst", "000019.log"}, nil, ""},
		{"a table with the next number", []string{"000020.sst"}, nil, older + "000020.sst"},
		{"a log with the next number", []string{"000020.log"}, nil, older + "000020.log"},
		{"tables far beyond", []string{"000021.sst", "000099.sst"}, nil, older + "000099.sst"},
		{"other files with the next number", []string{"000020.tmp", "MANIFEST-000020"}, nil, ""},
		{"the log that the manifest names", []string{"000009.log"}, mark, ""},
		{"that log is missing", []string{"000010.log"}, mark, "000009.log: offset 0: missing"},
		{"a table is shorter", nil, size(9), "000007.sst: offset 4: 4 bytes, the manifest wants 9"},
		{"a table is longer", nil, size(3), "000007.sst: offset 4: 4 bytes, the manifest wants 3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			mem := storeOf(t, append(tt.files, "000008.sst")...)
			put(t, mem, "db/000007.sst", "four")
			s := stateOf(table(7, 4), table(8, 0))
			if tt.change != nil {
				tt.change(s)
			}
			err := surveyed(t, mem).Check(mem, "db", s)
			if tt.want == "" && err != nil || tt.want != "" && !isDamage(err, tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

func surveyed(t *testing.T, fsys vfs.FS) Listing {
	t.Helper()
	found, err := Survey(fsys, "db")
	must(t, err)
	return found
}

func TestATableMustBeAFileThatCanBeRead(t *testing.T) {
	mem := storeOf(t)
	must(t, mem.Mkdir("db/000007.sst"))
	found := surveyed(t, mem)
	want := "000007.sst: offset 0: not a regular file but of mode d"
	if err := found.Check(mem, "db", stateOf(table(7, 0))); !isDamage(err, want) {
		t.Errorf("a directory in place of a table: %v, want damage: %s", err, want)
	}
	broken := vfstest.NewHook(mem, func(op vfstest.Op) error {
		if op.Kind == vfstest.OpStat {
			return os.ErrPermission
		}
		return nil
	})
	err := found.Check(broken, "db", stateOf(table(7, 0)))
	if !errors.Is(err, os.ErrPermission) || errors.Is(err, corrupt.Err) {
		t.Errorf("a table without permission: %v, want %v", err, os.ErrPermission)
	}
}

func TestOrphansAreFilesWhoseNumbersAreOutOfUse(t *testing.T) {
	found := List([]string{
		"000007.sst", "000008.sst", "000009.sst", "000004.log", "000005.log", "000006.log", "000012.tmp",
		"MANIFEST-000002", "MANIFEST-000003", "MANIFEST-000004", "CURRENT", "LOCK", "notes.txt", "00007.sst",
	})
	got := found.Orphans(stateOf(table(7, 0), table(9, 0)))
	slices.Sort(got)
	want := []string{"000004.log", "000008.sst", "000012.tmp", "MANIFEST-000002", "MANIFEST-000004"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestTablesThatALostEditNeedsStay has replaced tables in no order. The others that no edit names go.
func TestTablesThatALostEditNeedsStay(t *testing.T) {
	mem := storeOf(t, "000003.sst", "000007.sst", "000008.sst", "000009.sst")
	s := stateOf(table(7, 0))
	s.Replaced = []uint64{9, 3}
	names, err := mem.List("db")
	must(t, err)
	List(names).RemoveUnfinished(mem, "db", s, new(stays))
	names, err = mem.List("db")
	must(t, err)
	slices.Sort(names)
	if want := []string{"000003.sst", "000007.sst", "000009.sst"}; !slices.Equal(names, want) {
		t.Errorf("left %q, want %q", names, want)
	}
}

// TestManyTablesAreLookedAtAhead checks directories with more tables than Check looks at itself.
func TestManyTablesAreLookedAtAhead(t *testing.T) {
	const last = 10 + fewTables
	var names []string
	var tables []*manifest.Table
	for n := uint64(10); n <= last; n++ {
		names = append(names, filename.Base(filename.Table, n))
		tables = append(tables, table(n, 0))
	}
	s := stateOf(tables...)
	s.NextFile = last + 1
	mem := storeOf(t, names...)
	must(t, surveyed(t, mem).Check(mem, "db", s))
	tables[0].Size = 1
	want := "000010.sst: offset 0: 0 bytes, the manifest wants 1"
	if err := surveyed(t, mem).Check(mem, "db", s); !isDamage(err, want) {
		t.Errorf("a table of another size: %v, want %s", err, want)
	}
	tables[0].Size = 0
	asked := atomic.Int32{}
	broken := vfstest.NewHook(mem, func(op vfstest.Op) error {
		if op.Kind == vfstest.OpStat && asked.Add(1) > fewTables {
			return os.ErrPermission
		}
		return nil
	})
	found := surveyed(t, mem).found(broken, "db")
	for range 2 {
		if err := found.Check(s); !errors.Is(err, os.ErrPermission) {
			t.Errorf("a table without permission: %v, want %v", err, os.ErrPermission)
		}
	}
	if n := asked.Load(); n != fewTables+1 {
		t.Errorf("%d looks at files, want each once: %d", n, fewTables+1)
	}
}

// TestAManifestOfANumberOutOfRangeIsNotCountedOnFrom begins a store beside files with the names of manifests.
func TestAManifestOfANumberOutOfRangeIsNotCountedOnFrom(t *testing.T) {
	for _, tt := range []struct {
		names []string
		want  uint64
	}{
		{nil, 1},
		{[]string{"MANIFEST-000001", "MANIFEST-000004"}, 5},
		{[]string{"MANIFEST-000004", "MANIFEST-18446744073709551615"}, 5},
		{[]string{"MANIFEST-2305843009213693952"}, 1},
	} {
		if got := List(tt.names).NextManifest(); got != tt.want {
			t.Errorf("beside %v: the first manifest is %d, want %d", tt.names, got, tt.want)
		}
	}
}
