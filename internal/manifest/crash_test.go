package manifest

import (
	"errors"
	"io/fs"
	"reflect"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// TestCrashAtEveryOperation crashes before each operation of writing two manifests with edits. Load finds everything
// acknowledged, with or without the one change under way.
func TestCrashAtEveryOperation(t *testing.T) {
	s, edits := history(t)
	for _, keep := range []struct {
		name string
		make func(seed uint64) vfstest.Keep
		n    uint64
	}{
		{"nothing unsynced is kept", func(uint64) vfstest.Keep { return vfstest.KeepNothing }, 1},
		{"everything is kept", func(uint64) vfstest.Keep { return vfstest.KeepAll }, 1},
		{"half is kept", func(seed uint64) vfstest.Keep { return vfstest.KeepSome(seed, 50) }, 30},
	} {
		t.Run(keep.name, func(t *testing.T) {
			acked, trying, crashes := State{}, State{}, 0
			m := newFS(t)
			check := func(op vfstest.Op) {
				for seed := range keep.n {
					crashes++
					got, err := Load(m.Crash(keep.make(seed)), dir)
					if errors.Is(err, fs.ErrNotExist) && acked.Version == nil {
						continue
					}
					if err != nil {
						t.Fatalf("before %v: %v", op, err)
					}
					if !same(got, acked) && !same(got, trying) {
						t.Fatalf("before %v: loaded %+v\n%s, want %+v\n%s, or %+v\n%s",
							op, got, got.Version, acked, acked.Version, trying, trying.Version)
					}
				}
			}
			fsys := vfstest.NewHook(m, func(op vfstest.Op) error { check(op); return nil })
			trying = s
			for number := uint64(8); number < 10; number++ {
				l := create(t, fsys, number, trying)
				acked = trying
				for i, e := range edits {
					if number == 9 {
						e = &Edit{LastSeq: ikey.Seq(1000 + i)}
					}
					trying = acked
					must(t, trying.Note(e))
					trying.Version = mustApply(t, acked.Version, e)
					appendEdits(t, l, e)
					acked = trying
				}
				check(vfstest.Op{})
				must(t, l.Close())
			}
			if crashes < 40 {
				t.Errorf("only %d crashes", crashes)
			}
		})
	}
}

// A process dies before each operation. The next one loads, writes a manifest anew and deletes the older ones, and then
// the power fails. What was loaded stays.
func TestWhatWasLoadedStaysOnceWrittenAnew(t *testing.T) {
	m := newFS(t)
	s, edits := history(t)
	create(t, m, 7, s)
	deaths := 0
	fsys := vfstest.NewHook(m, func(op vfstest.Op) error {
		next := m.Kill()
		found := load(t, next)
		number := found.NextFile
		found.NextFile++
		create(t, next, number, found)
		must(t, next.Remove(filename.Make(dir, filename.Manifest, found.ManifestNumber)))
		for seed := range uint64(10) {
			if got := load(t, next.Crash(vfstest.KeepSome(seed, int(10*seed)))); !same(got, found) {
				t.Fatalf("before %v: loaded %+v, want %+v", op, got, found)
			}
		}
		deaths++
		return nil
	})
	appendEdits(t, create(t, fsys, 8, s), edits...)
	if deaths < 15 {
		t.Errorf("only %d deaths", deaths)
	}
}

// same compares what two states record about the store.
func same(a, b State) bool {
	a.ManifestNumber, a.Torn, a.Replaced = 0, false, nil
	b.ManifestNumber, b.Torn, b.Replaced = 0, false, nil
	return reflect.DeepEqual(a, b)
}

// Every operation fails in turn, once or from then on. The error is returned, and what was acknowledged stays.
func TestErrorAtEveryOperation(t *testing.T) {
	s, edits := history(t)
	for _, failure := range []error{errDisk, vfstest.ErrShortWrite} {
		for _, once := range []bool{true, false} {
			for at := 0; ; at++ {
				n, failed, open := 0, false, 0
				m := newFS(t)
				create(t, m, 7, s)
				fsys := vfstest.NewHook(m, func(op vfstest.Op) error {
					if op.Kind == vfstest.OpClose && strings.Contains(op.Name, "MANIFEST-") {
						open--
					}
					if n++; n == at+1 || n > at && !once {
						failed = true
						return failure
					}
					if op.Kind == vfstest.OpCreate && strings.Contains(op.Name, "MANIFEST-") {
						open++
					}
					return nil
				})
				acked, trying := s, s
				err := func() error {
					l, err := Create(fsys, dir, 8, s)
					if err != nil {
						return err
					}
					for _, e := range edits {
						must(t, trying.Note(e))
						trying.Version = mustApply(t, acked.Version, e)
						if err := l.Append(e); err != nil {
							size := l.w.Size()
							if err := l.Append(e); !errors.Is(err, failure) || l.w.Size() != size {
								t.Fatalf("operation %d: the error does not stay: %v", at, err)
							}
							return errors.Join(err, l.Close())
						}
						acked = trying
					}
					return l.Close()
				}()
				if failed != errors.Is(err, failure) || open != 0 {
					t.Fatalf("operation %d: failed %v, error is %v, %d manifests are open", at, failed, err, open)
				}
				got, err := Load(m, dir)
				if err != nil {
					t.Fatalf("operation %d: %v", at, err)
				}
				_, err = m.Stat(filename.Make(dir, filename.Manifest, 8))
				if got.ManifestNumber == 7 && once && !errors.Is(err, fs.ErrNotExist) {
					t.Fatalf("operation %d: a manifest that CURRENT does not name is left: %v", at, err)
				}
				if !same(got, acked) && !same(got, trying) {
					t.Fatalf("operation %d: loaded %+v, want %+v or %+v", at, got, acked, trying)
				}
				if !failed {
					if at < 15 {
						t.Errorf("only %d operations", at)
					}
					break
				}
			}
		}
	}
}

func TestLoadReportsErrorsOfReadingAsTheyAre(t *testing.T) {
	m := newFS(t)
	s, _ := history(t)
	create(t, m, 8, s)
	for at := 0; ; at++ {
		n := 0
		opened, closed := 0, 0
		_, err := Load(vfstest.NewHook(m, func(op vfstest.Op) error {
			if op.Kind == vfstest.OpClose {
				closed++
			}
			if n++; n == at+1 {
				return errDisk
			}
			if op.Kind == vfstest.OpOpen {
				opened++
			}
			return nil
		}), dir)
		if opened != closed {
			t.Errorf("operation %d: %d files opened, %d closed", at, opened, closed)
		}
		if n <= at {
			if err != nil || at < 6 {
				t.Errorf("after %d operations: %v", at, err)
			}
			return
		}
		if !errors.Is(err, errDisk) || errors.Is(err, corrupt.Err) || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("operation %d: error is %v, want %v", at, err, errDisk)
		}
	}
}
