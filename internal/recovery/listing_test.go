package recovery

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/vfs"
)

func put(t *testing.T, fsys vfs.FS, name, content string) {
	t.Helper()
	f, err := fsys.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write([]byte(content))
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// storeOf is a directory with empty files of those names.
func storeOf(t *testing.T, names ...string) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	if err := mem.Mkdir("db"); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		put(t, mem, "db/"+name, "")
	}
	return mem
}

func table(number, size uint64) *manifest.Table {
	key := fmt.Appendf(nil, "%06d", number)
	return &manifest.Table{Number: number, Size: size, Smallest: key, Largest: key, Entries: 1}
}

// stateOf is a manifest's state with those tables.
func stateOf(tables ...*manifest.Table) *manifest.State {
	s := &manifest.State{Version: &manifest.Version{}, NextFile: 20, MinLog: 5, ManifestNumber: 3}
	for _, t := range tables {
		s.Version.Levels[0] = append(s.Version.Levels[0], manifest.Run{ID: t.Number, Tables: []*manifest.Table{t}})
	}
	return s
}

func TestAListingHasFilesByKindAndOrder(t *testing.T) {
	mem := storeOf(t, "000010.log", "000009.log", "000002.sst", "000011.sst", "CURRENT", "LOCK", "MANIFEST-000003",
		"000004.tmp", "notes.txt", "x.sst")
	got, err := Survey(mem, "db")
	if err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[filename.Kind][]uint64{
		filename.Log: {9, 10}, filename.Table: {2, 11}, filename.Manifest: {3}, filename.Temp: {4}, filename.Unknown: nil,
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

// isDamage reports whether an error is damage that says so.
func isDamage(err error, says string) bool {
	return errors.Is(err, corrupt.Err) && strings.Contains(err.Error(), says)
}

func TestDataWithoutCurrentIsLost(t *testing.T) {
	for _, tt := range []struct {
		names []string
		want  string
	}{
		{nil, ""},
		{[]string{"LOCK", "MANIFEST-000001", "000001.tmp", "x"}, ""},
		{[]string{"000004.sst", "000007.sst"}, "000004.sst"},
		{[]string{"000004.log"}, "000004.log"},
	} {
		err := List(tt.names).Lost()
		if tt.want == "" && err != nil || tt.want != "" && !isDamage(err, tt.want) {
			t.Errorf("%q: %v, want damage that names %q", tt.names, err, tt.want)
		}
	}
}

// TestTheManifestIsHeldAgainstTheDirectory goes to each boundary of the numbers: NextFile is the first that no file may
// have.
func TestTheManifestIsHeldAgainstTheDirectory(t *testing.T) {
	missing := func(s *manifest.State) { *s = *stateOf(table(7, 0), table(13, 0)) }
	larger := func(s *manifest.State) { s.Version.Levels[0][0].Tables[0].Size = 9 }
	mark := func(s *manifest.State) { s.Log = &manifest.LogMark{Number: 9} }
	for _, tt := range []struct {
		name   string
		files  []string // beside two tables
		change func(*manifest.State)
		want   string // in the error; "" for none
	}{
		{"all is there", nil, nil, ""},
		{"a table is missing", nil, missing, "000013.sst: offset 0: missing"},
		{"the last numbers that were given out", []string{"000019.sst", "000019.log"}, nil, ""},
		{"a table with the next number", []string{"000020.sst"}, nil, "from number 20 on, but there is 000020.sst"},
		{"a log with the next number", []string{"000020.log"}, nil, "from number 20 on, but there is 000020.log"},
		{"a table far beyond", []string{"000099.sst"}, nil, "there is 000099.sst"},
		{"the log that the manifest names", []string{"000009.log"}, mark, ""},
		{"without it", []string{"000010.log"}, mark, "000009.log: offset 0: missing"},
		{"a table of another size", nil, larger, "offset 0: 0 bytes, the manifest wants 9"},
	} {
		mem := storeOf(t, append(tt.files, "000007.sst", "000008.sst")...)
		s := stateOf(table(7, 0), table(8, 0))
		if tt.change != nil {
			tt.change(s)
		}
		found, err := Survey(mem, "db")
		if err != nil {
			t.Fatal(err)
		}
		err = found.Check(mem, "db", s)
		if tt.want == "" && err != nil || tt.want != "" && !isDamage(err, tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
	mem := storeOf(t)
	if err := mem.Mkdir("db/000007.sst"); err != nil {
		t.Fatal(err)
	}
	found, err := Survey(mem, "db")
	if err != nil {
		t.Fatal(err)
	}
	if err := found.Check(mem, "db", stateOf(table(7, 0))); !isDamage(err, "no regular file") {
		t.Errorf("a directory in place of a table: %v", err)
	}
	mem = storeOf(t)
	put(t, mem, "db/000007.sst", "more")
	if err := found.Check(mem, "db", stateOf(table(7, 3))); !isDamage(err, "offset 4: 4 bytes, the manifest wants 3") {
		t.Errorf("a table that is longer than the manifest says: %v", err)
	}
	broken := vfs.NewHook(mem, func(op vfs.Op) error {
		if op.Kind == vfs.OpStat {
			return os.ErrPermission
		}
		return nil
	})
	err = found.Check(broken, "db", stateOf(table(7, 0)))
	if !errors.Is(err, os.ErrPermission) || errors.Is(err, corrupt.Err) {
		t.Errorf("a table that cannot be looked at: %v", err)
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
