package recovery

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// failing returns fsys, which fails with err all operations of a kind on files whose names end in name.
func failing(fsys vfs.FS, kind vfstest.OpKind, name string, err error) vfs.FS {
	return vfstest.NewHook(fsys, func(op vfstest.Op) error {
		if op.Kind == kind && strings.HasSuffix(op.Name, name) {
			return err
		}
		return nil
	})
}

// TestADirectoryWithoutAStoreIsRefused enters and loads directories without CURRENT. Load comes after Enter, when
// CURRENT may have gone.
func TestADirectoryWithoutAStoreIsRefused(t *testing.T) {
	failed := errors.New("no operation")
	empty, data := storeOf(t), storeOf(t, "000007.sst")
	for _, c := range []struct {
		name        string
		fsys        vfs.FS
		mode        Mode
		enter, load error // nil if it returns none
	}{
		{"nothing, to be read", empty, Mode{ReadOnly: true}, ErrMissing, ErrMissing},
		{"nothing, to be written", empty, Mode{}, nil, nil},
		{"nothing, to be written if it exists", empty, Mode{ErrorIfMissing: true}, ErrMissing, ErrMissing},
		{"a table, to be read", data, Mode{ReadOnly: true}, corrupt.Err, corrupt.Err},
		{"a table, to be written", data, Mode{}, nil, corrupt.Err},
		{"no directory, to be read", vfstest.NewMem(), Mode{ReadOnly: true}, ErrMissing, fs.ErrNotExist},
		{"CURRENT fails", failing(empty, vfstest.OpStat, filename.CurrentName, failed), Mode{}, failed, nil},
		{"a list fails", failing(empty, vfstest.OpList, "db", failed), Mode{ReadOnly: true}, failed, failed},
	} {
		home, err := Enter(c.fsys, "db", c.mode)
		if !errors.Is(err, c.enter) {
			t.Errorf("%s: Enter returns %v, want %v", c.name, err, c.enter)
		}
		if err == nil {
			must(t, home.Close())
		}
		if _, s, err := Load(c.fsys, "db", c.mode); !errors.Is(err, c.load) || s != nil {
			t.Errorf("%s: Load returns %v, %v, want %v", c.name, s, err, c.load)
		}
	}
}

// TestNumbersAreSkippedWhereTheStoreMayBeChanged loads a store whose last log may have been lost in a power cut.
func TestNumbersAreSkippedWhereTheStoreMayBeChanged(t *testing.T) {
	for _, c := range []struct {
		readOnly bool
		log      string
		want     ikey.Seq
	}{{false, "", skip(lastSeq)}, {true, "", lastSeq}, {false, "000009.log", lastSeq}} {
		mem := storeOf(t)
		l, err := manifest.Create(mem, "db", 3, manifest.State{NextFile: 20, LastSeq: lastSeq})
		must(t, err)
		must(t, l.Close())
		if c.log != "" {
			put(t, mem, "db/"+c.log, "")
		}
		_, s, err := Load(mem, "db", Mode{ReadOnly: c.readOnly})
		must(t, err)
		if s.LastSeq != c.want {
			t.Errorf("read-only %v, with log %q: %d, want %d", c.readOnly, c.log, s.LastSeq, c.want)
		}
	}
}

// stays records the files that could not be removed.
type stays []string

func (*stays) Replayed(uint64, int, bool)         {}
func (*stays) Recovered([]*manifest.Table)        {}
func (s *stays) OrphanStays(name string, _ error) { *s = append(*s, name) }

// TestOnlyOrphansThatCannotBeRemovedAreReported removes a table and a log that no manifest names.
func TestOnlyOrphansThatCannotBeRemovedAreReported(t *testing.T) {
	for _, c := range []struct {
		err  error
		want []string
	}{{nil, nil}, {fs.ErrNotExist, nil}, {errors.New("no removal"), []string{"000008.sst"}}} {
		for name, remove := range map[string]func(vfs.FS, Found, *manifest.State, Observer) error{
			"orphans": func(fsys vfs.FS, f Found, s *manifest.State, o Observer) error {
				own := func() (uint64, error) { return s.ManifestNumber, nil }
				return f.RemoveOrphans(fsys, "db", s, own, o)
			},
			"unfinished": func(fsys vfs.FS, f Found, s *manifest.State, o Observer) error {
				f.RemoveUnfinished(fsys, "db", s, o)
				return nil
			},
		} {
			mem := storeOf(t, "000007.sst", "000008.sst", "000009.log")
			fsys := failing(mem, vfstest.OpRemove, "000008.sst", c.err)
			listed, err := Survey(fsys, "db")
			must(t, err)
			var got stays
			must(t, remove(fsys, listed.found(fsys, "db"), stateOf(table(7, 0)), &got))
			names, err := mem.List("db")
			must(t, err)
			if !slices.Equal(got, c.want) || slices.Contains(names, "000008.sst") != (c.err != nil) ||
				!slices.Contains(names, "000007.sst") {
				t.Errorf("%s, removal returns %v: %v stay, want %v; there are %v", name, c.err, got, c.want, names)
			}
		}
	}
}

// TestADirectoryThatIsLeftIsNeitherLockedNorHeld enters a store, and fails the end of its lock.
func TestADirectoryThatIsLeftIsNeitherLockedNorHeld(t *testing.T) {
	failed := errors.New("no end")
	for _, readOnly := range []bool{false, true} {
		mem := storeOf(t, filename.CurrentName, filename.LockName)
		mode := Mode{ReadOnly: readOnly}
		home, err := Enter(failing(mem, vfstest.OpClose, filename.LockName, failed), "db", mode)
		must(t, err)
		if _, err := Enter(mem, "db", Mode{}); err == nil {
			t.Errorf("read-only %v: the store is entered twice", readOnly)
		}
		if err := home.Close(); !errors.Is(err, failed) {
			t.Errorf("read-only %v: Close returns %v, want %v", readOnly, err, failed)
		}
		again, err := Enter(mem, "db", Mode{})
		must(t, err)
		must(t, again.Close())
	}
}

// TestATableThatAnotherManifestMayNameIsKept has a second manifest, which may be that of a change under way.
func TestATableThatAnotherManifestMayNameIsKept(t *testing.T) {
	mem := storeOf(t, "000008.sst", "MANIFEST-000003", "MANIFEST-000004")
	listed, err := Survey(mem, "db")
	must(t, err)
	listed.found(mem, "db").RemoveUnfinished(mem, "db", stateOf(), new(stays))
	names, err := mem.List("db")
	must(t, err)
	if !slices.Contains(names, "000008.sst") {
		t.Errorf("there are %v, want the table too", names)
	}
}
