package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/wal"
	"github.com/bloomkv/bloomkv/vfs"
)

const dir = "db"

var errDisk = errors.New("disk on fire")

func newFS(tb testing.TB) *vfs.Mem {
	tb.Helper()
	m := vfs.NewMem()
	if err := vfs.MkdirAll(m, dir); err != nil {
		tb.Fatal(err)
	}
	return m
}

func create(tb testing.TB, fsys vfs.FS, number uint64, s State) *Log {
	tb.Helper()
	l, err := Create(fsys, dir, number, s)
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

func load(tb testing.TB, fsys vfs.FS) State {
	tb.Helper()
	s, err := Load(fsys, dir)
	if err != nil {
		tb.Fatal(err)
	}
	if err := s.Version.Check(); err != nil {
		tb.Fatal(err)
	}
	return s
}

func appendEdits(tb testing.TB, l *Log, edits ...*Edit) {
	tb.Helper()
	for _, e := range edits {
		if err := l.Append(e); err != nil {
			tb.Fatal(err)
		}
	}
}

// history is a snapshot's state and edits upon it.
func history(tb testing.TB) (State, []*Edit) {
	tb.Helper()
	return State{Version: sample(tb), NextFile: 10, LastSeq: 50, MinLog: 8, Log: &LogMark{8, 32}}, []*Edit{
		{NextFile: 12, Added: []Added{add(0, 10, table(10, "a", "z"))}, MinLog: 9},
		{NextFile: 12, LastSeq: 100, Log: &LogMark{11, 32}},
		{NextFile: 20, Deleted: []Deleted{{0, 10}, {0, 4}, {6, 2}}, Added: []Added{add(6, 0, table(12, "e", "j")), add(2, 10, table(10, "a", "z"))}},
	}
}

func TestLoadAddsUpTheEdits(t *testing.T) {
	m := newFS(t)
	s, edits := history(t)
	l := create(t, m, 9, s)
	got := load(t, m)
	want := s
	want.ManifestNumber = 9
	if !reflect.DeepEqual(got, want) {
		t.Errorf("after Create the state is %+v, want %+v", got, want)
	}
	for i, e := range edits {
		size := l.Size()
		appendEdits(t, l, e)
		if err := want.Note(e); err != nil {
			t.Fatal(err)
		}
		want.Version = mustApply(t, want.Version, e)
		if got := load(t, m); !reflect.DeepEqual(got, want) {
			t.Errorf("after edit %d the state is %+v\n%s, want %+v\n%s", i, got, got.Version, want, want.Version)
		}
		if info, err := m.Stat(filename.Make(dir, filename.Manifest, 9)); err != nil || l.Size() <= size || l.Size() != info.Size() {
			t.Errorf("size is %d, file %v, %v", l.Size(), info, err)
		}
	}
	if l.Number() != 9 {
		t.Errorf("number is %d, want 9", l.Number())
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := l.Append(&Edit{}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Append after Close returns %v", err)
	}
	// The sum as a snapshot of a second manifest.
	s = load(t, m)
	create(t, m, 13, s)
	s.ManifestNumber = 13
	if got := load(t, m); !reflect.DeepEqual(got, s) {
		t.Errorf("the snapshot of the sum is %+v, want %+v", got, s)
	}
}

func TestNumbersAreOnlyRaised(t *testing.T) {
	s := State{NextFile: 20, LastSeq: 30, MinLog: 10, Log: &LogMark{12, 5}}
	for _, test := range []struct {
		name string
		edit Edit
		want State
		ok   bool
	}{
		{"nothing", Edit{}, State{NextFile: 20, LastSeq: 30, MinLog: 10, Log: &LogMark{12, 5}}, true},
		{"less", Edit{NextFile: 1, LastSeq: 1, MinLog: 1}, State{NextFile: 20, LastSeq: 30, MinLog: 10, Log: &LogMark{12, 5}}, true},
		{"more", Edit{NextFile: 21, LastSeq: 31, MinLog: 11}, State{NextFile: 21, LastSeq: 31, MinLog: 11, Log: &LogMark{12, 5}}, true},
		{"another log", Edit{Log: &LogMark{13, 1}}, State{NextFile: 20, LastSeq: 30, MinLog: 10, Log: &LogMark{13, 1}}, true},
		{"no log", Edit{NoLog: true}, State{NextFile: 20, LastSeq: 30, MinLog: 10}, true},
		{"the log is no longer needed", Edit{MinLog: 13}, State{NextFile: 20, LastSeq: 30, MinLog: 13}, true},
		{"no log at all is needed", Edit{MinLog: 20}, State{NextFile: 20, LastSeq: 30, MinLog: 20}, true},
		{"a table's sequences count", Edit{Added: []Added{add(0, 1, table(19, "a", "b"))}}, State{NextFile: 20, LastSeq: 30, MinLog: 10, Log: &LogMark{12, 5}}, true},
		{"a table's larger sequences count", Edit{NextFile: 26, Added: []Added{add(0, 1, table(25, "a", "b"))}}, State{NextFile: 26, LastSeq: 34, MinLog: 10, Log: &LogMark{12, 5}}, true},
		{"a table of the next number", Edit{Added: []Added{add(0, 1, table(20, "a", "b"))}}, State{}, false},
		{"a log of the next number", Edit{Log: &LogMark{20, 1}}, State{}, false},
		{"the smallest log behind the next number", Edit{MinLog: 21}, State{}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := s
			if err := got.Note(&test.edit); (err == nil) != test.ok || test.ok && !reflect.DeepEqual(got, test.want) {
				t.Errorf("state is %+v, %v; want %+v", got, err, test.want)
			}
			if s.Log.Number != 12 || s.Log.Synced != 5 {
				t.Errorf("the state before became %+v", s)
			}
			// What Load would refuse is not written, and the log goes on.
			m := newFS(t)
			l := create(t, m, 5, s)
			if test.edit.Added != nil {
				return
			}
			size := l.Size()
			if err := l.Append(&test.edit); (err == nil) != test.ok || !test.ok && l.Size() != size {
				t.Errorf("Append returns %v, size %d after %d", err, l.Size(), size)
			}
			appendEdits(t, l, &Edit{LastSeq: 99})
			if got := load(t, m); got.LastSeq != 99 || test.ok && (got.MinLog != test.want.MinLog || !reflect.DeepEqual(got.Log, test.want.Log)) {
				t.Errorf("loaded %+v", got)
			}
		})
	}
}

func TestIllegalEditsAreNotWritten(t *testing.T) {
	m := newFS(t)
	l := create(t, m, 1, State{NextFile: 5})
	size := l.Size()
	for _, e := range []*Edit{
		{NextFile: MaxNumber + 1},
		{LastSeq: ikey.MaxSeq + 1},
		{Deleted: []Deleted{{9, 1}}},
		{Added: []Added{add(-1, 1, table(1, "a", "b"))}},
		{Added: []Added{add(1, 1, table(3, "b", "a"))}},
	} {
		if err := l.Append(e); err == nil || l.Size() != size {
			t.Errorf("Append(%+v) returns %v, size %d after %d", e, err, l.Size(), size)
		}
	}
	for _, number := range []uint64{0, 5, math.MaxUint64} {
		if _, err := Create(m, dir, number, State{NextFile: 5}); err == nil {
			t.Errorf("manifest %d was made with next file 5", number)
		}
	}
	if _, err := Create(m, dir, 1, State{NextFile: MaxNumber + 1}); err == nil {
		t.Error("a manifest was made of an illegal snapshot")
	}
	if names, err := m.List(dir); err != nil || !slices.Equal(names, []string{"CURRENT", "MANIFEST-000001"}) {
		t.Errorf("files are %q, %v", names, err)
	}
	if got := load(t, m); got.NextFile != 5 {
		t.Errorf("loaded %+v", got)
	}
}

// recorder is fsys, and the operations on it that change something.
func recorder(fsys vfs.FS) (vfs.FS, *[]string) {
	ops := new([]string)
	return vfs.NewHook(fsys, func(op vfs.Op) error {
		if op.Kind.Changes() {
			words := []string{op.Kind.String(), filepath.Base(op.Name)}
			if op.To != "" {
				words = append(words, filepath.Base(op.To))
			}
			*ops = append(*ops, strings.Join(words, " "))
		}
		return nil
	}), ops
}

// TestOrderOfInstalling is I14 for a manifest and I13's part for an edit.
func TestOrderOfInstalling(t *testing.T) {
	fsys, ops := recorder(newFS(t))
	l := create(t, fsys, 3, State{NextFile: 5})
	want := []string{
		"create MANIFEST-000003", "write MANIFEST-000003", "write MANIFEST-000003", "sync MANIFEST-000003", "syncdir db",
		"create 000003.tmp", "write 000003.tmp", "sync 000003.tmp", "rename 000003.tmp CURRENT", "syncdir db",
	}
	if !slices.Equal(*ops, want) {
		t.Errorf("Create does\n%q, want\n%q", *ops, want)
	}
	*ops = nil
	appendEdits(t, l, &Edit{LastSeq: 1})
	if want := []string{"write MANIFEST-000003", "sync MANIFEST-000003"}; !slices.Equal(*ops, want) {
		t.Errorf("Append does %q, want %q", *ops, want)
	}
	*ops = nil
	load(t, fsys)
	if err := l.Close(); err != nil || len(*ops) != 0 {
		t.Errorf("Load and Close do %q, %v; want nothing", *ops, err)
	}
}

// A run of two manifests with edits is crashed before each operation. What Load finds is what was acknowledged, or that and
// the one change under way.
func TestCrashAtEveryOperation(t *testing.T) {
	s, edits := history(t)
	for _, keep := range []struct {
		name string
		make func(seed uint64) vfs.Keep
		n    uint64
	}{
		{"nothing unsynced is kept", func(uint64) vfs.Keep { return vfs.KeepNothing }, 1},
		{"everything is kept", func(uint64) vfs.Keep { return vfs.KeepAll }, 1},
		{"half is kept", func(seed uint64) vfs.Keep { return vfs.KeepSome(seed, 50) }, 30},
	} {
		t.Run(keep.name, func(t *testing.T) {
			acked, trying, crashes := State{}, State{}, 0
			m := newFS(t)
			check := func(op vfs.Op) {
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
						t.Fatalf("before %v: loaded %+v\n%s, want %+v\n%s, or %+v\n%s", op, got, got.Version, acked, acked.Version, trying, trying.Version)
					}
				}
			}
			fsys := vfs.NewHook(m, func(op vfs.Op) error { check(op); return nil })
			trying = s
			for number := uint64(8); number < 10; number++ {
				l := create(t, fsys, number, trying)
				acked = trying
				for i, e := range edits {
					if number == 9 {
						e = &Edit{LastSeq: ikey.Seq(1000 + i)}
					}
					trying = acked
					if err := trying.Note(e); err != nil {
						t.Fatal(err)
					}
					trying.Version = mustApply(t, acked.Version, e)
					appendEdits(t, l, e)
					acked = trying
				}
				check(vfs.Op{})
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if crashes < 40 {
				t.Errorf("only %d crashes", crashes)
			}
		})
	}
}

// A process dies before each operation; the next one loads, writes a manifest anew and deletes the older ones, and then
// the power goes. What was loaded stays.
func TestWhatWasLoadedStaysOnceWrittenAnew(t *testing.T) {
	m := newFS(t)
	s, edits := history(t)
	create(t, m, 7, s)
	deaths := 0
	fsys := vfs.NewHook(m, func(op vfs.Op) error {
		next := m.Kill()
		found := load(t, next)
		number := found.NextFile
		found.NextFile++
		create(t, next, number, found)
		if err := next.Remove(filename.Make(dir, filename.Manifest, found.ManifestNumber)); err != nil {
			t.Fatal(err)
		}
		for seed := range uint64(10) {
			if got := load(t, next.Crash(vfs.KeepSome(seed, int(10*seed)))); !same(got, found) {
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

// same compares what two states say of the store.
func same(a, b State) bool {
	a.ManifestNumber, a.Torn, b.ManifestNumber, b.Torn = 0, false, 0, false
	return reflect.DeepEqual(a, b)
}

// Every operation fails in turn, for once and from then on. The error is told, and what was acknowledged stays.
func TestErrorAtEveryOperation(t *testing.T) {
	s, edits := history(t)
	for _, failure := range []error{errDisk, vfs.ErrShortWrite} {
		for _, once := range []bool{true, false} {
			for at := 0; ; at++ {
				n, failed := 0, false
				m := newFS(t)
				create(t, m, 7, s)
				fsys := vfs.NewHook(m, func(vfs.Op) error {
					if n++; n == at+1 || n > at && !once {
						failed = true
						return failure
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
						if err := trying.Note(e); err != nil {
							t.Fatal(err)
						}
						trying.Version = mustApply(t, acked.Version, e)
						if err := l.Append(e); err != nil {
							size := l.Size()
							if err := l.Append(e); !errors.Is(err, failure) || l.Size() != size {
								t.Fatalf("operation %d: the error does not stay: %v", at, err)
							}
							return errors.Join(err, l.Close())
						}
						acked = trying
					}
					return l.Close()
				}()
				if failed != errors.Is(err, failure) {
					t.Fatalf("operation %d: failed %v, error is %v", at, failed, err)
				}
				got, err := Load(m, dir)
				if err != nil {
					t.Fatalf("operation %d: %v", at, err)
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
		_, err := Load(vfs.NewHook(m, func(vfs.Op) error {
			if n++; n == at+1 {
				return errDisk
			}
			return nil
		}), dir)
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

func TestALeftManifestIsReplacedUnlessItIsCurrent(t *testing.T) {
	m := newFS(t)
	put(t, m, "MANIFEST-000002", "left by a crash")
	put(t, m, "000002.tmp", "left too")
	create(t, m, 2, State{NextFile: 3})
	if got := load(t, m); got.NextFile != 3 || got.ManifestNumber != 2 {
		t.Errorf("loaded %+v", got)
	}
	if _, err := Create(m, dir, 2, State{NextFile: 4}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("replacing the current manifest returns %v, want %v", err, fs.ErrExist)
	}
	if got := load(t, m); got.NextFile != 3 {
		t.Errorf("loaded %+v", got)
	}
	put(t, m, "CURRENT", "rubbish")
	if _, err := Create(m, dir, 2, State{NextFile: 4}); !errors.Is(err, fs.ErrExist) || !errors.Is(err, corrupt.Err) {
		t.Errorf("replacing what may be the current manifest returns %v", err)
	}
}

// put gives a file of the store that content, removing what was there.
func put(tb testing.TB, fsys vfs.FS, name, content string) {
	tb.Helper()
	name = filepath.Join(dir, name)
	if err := fsys.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		tb.Fatal(err)
	}
	f, err := fsys.Create(name)
	if err == nil {
		_, err = f.Write([]byte(content))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		tb.Fatal(err)
	}
}

func contentOf(tb testing.TB, fsys vfs.FS, name string) string {
	tb.Helper()
	b, err := vfs.ReadFile(fsys, filepath.Join(dir, name), 1<<20)
	if err != nil {
		tb.Fatal(err)
	}
	return string(b)
}

func TestCurrentHasOneForm(t *testing.T) {
	m := newFS(t)
	if _, err := Load(m, dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without CURRENT: error is %v, want %v", err, fs.ErrNotExist)
	}
	create(t, m, 2, State{NextFile: 3})
	whole := contentOf(t, m, "CURRENT")
	if want := "MANIFEST-000002 6d83da7e\n"; whole != want {
		t.Errorf("CURRENT is %q, want %q", whole, want)
	}
	sum := func(name string) string { // a content whose checksum fits
		return fmt.Sprintf("%s %08x\n", name, crc32.Checksum([]byte(name), crc32.MakeTable(crc32.Castagnoli)))
	}
	contents := map[string]string{
		"is empty":                       "",
		"is zeros":                       strings.Repeat("\x00", 16),
		"has no newline":                 whole[:len(whole)-1],
		"has two newlines":               whole + "\n",
		"begins with a space":            " " + whole,
		"ends in CR LF":                  whole[:len(whole)-1] + "\r\n",
		"has no checksum":                "MANIFEST-000002\n",
		"has a checksum in upper case":   strings.ToUpper(whole),
		"has a wrong checksum":           "MANIFEST-000002 6d83da70\n",
		"is very long":                   strings.Repeat("x", 5000),
		"names a path":                   sum("../MANIFEST-000002"),
		"names an absolute path":         sum("/etc/MANIFEST-000002"),
		"names a path below":             sum("MANIFEST-000002/../MANIFEST-000002"),
		"names a table":                  sum("000002.sst"),
		"names a number with a sign":     sum("MANIFEST-+00002"),
		"names a number without padding": sum("MANIFEST-2"),
		"names a number of 21 digits":    sum("MANIFEST-000000000000000000002"),
		"names a number over 2^64":       sum("MANIFEST-18446744073709551616"),
		"names what is not there":        sum("MANIFEST-000004"),
		"names itself":                   sum("CURRENT"),
	}
	for i := range whole {
		contents[fmt.Sprint("has a flipped bit in byte ", i)] = whole[:i] + string(whole[i]^1) + whole[i+1:]
	}
	for name, content := range contents {
		put(t, m, "CURRENT", content)
		s, err := Load(m, dir)
		var at *corrupt.Error
		if !errors.As(err, &at) || at.File != "CURRENT" || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("CURRENT %s: %+v, %v; want corruption of CURRENT", name, s, err)
		}
	}
}

func TestEveryFlippedBitOfAManifestIsNoticed(t *testing.T) {
	m := newFS(t)
	s, edits := history(t)
	l := create(t, m, 9, s)
	appendEdits(t, l, edits[0])
	before, last := load(t, m), l.Size()
	appendEdits(t, l, edits[1])
	whole := contentOf(t, m, "MANIFEST-000009")
	before.Torn = true
	for i := range whole {
		b := []byte(whole)
		b[i] ^= 1 << (i % 8)
		put(t, m, "MANIFEST-000009", string(b))
		got, err := Load(m, dir)
		if int64(i) < last {
			if !errors.Is(err, corrupt.Err) || errors.Is(err, ErrUnsupportedVersion) {
				t.Errorf("byte %d: %+v, %v; want corruption", i, got, err)
			}
		} else if err != nil || !reflect.DeepEqual(got, before) {
			t.Errorf("byte %d: %+v, %v; want %+v", i, got, err, before)
		}
	}
}

func TestATornLastEditIsNotThere(t *testing.T) {
	m := newFS(t)
	s, edits := history(t)
	l := create(t, m, 9, s)
	states, ends := []State{load(t, m)}, []int64{l.Size()}
	for _, e := range edits {
		appendEdits(t, l, e)
		states, ends = append(states, load(t, m)), append(ends, l.Size())
	}
	whole := contentOf(t, m, "MANIFEST-000009")
	for n := range whole {
		for _, tail := range []int{0, 600} { // zeros behind
			put(t, m, "MANIFEST-000009", whole[:n]+strings.Repeat("\x00", tail))
			got, err := Load(m, dir)
			i := len(ends) - 1
			for i >= 0 && ends[i] > int64(n) {
				i--
			}
			if i < 0 { // the snapshot was durable before CURRENT named the manifest
				if !errors.Is(err, corrupt.Err) {
					t.Errorf("%d bytes: %+v, %v; want corruption", n, got, err)
				}
				continue
			}
			// A record whose last bytes are zeros is whole again with zeros behind it.
			if tail > 0 && i+1 < len(ends) && strings.Trim(whole[n:ends[i+1]], "\x00") == "" {
				i++
			}
			want := states[i]
			want.Torn = tail > 0 || int64(n) != ends[i]
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%d bytes, %d zeros: %+v, %v; want %+v", n, tail, got, err, want)
			}
		}
	}
}

// Records whose checksums fit and whose content does not.
func TestHostileManifests(t *testing.T) {
	t1 := table(1, "a", "c")
	first := &Edit{NextFile: 9, Added: []Added{add(6, 0, t1)}}
	for name, test := range map[string]struct {
		edits       []*Edit
		raw         []byte
		unsupported bool
		text        string
	}{
		"no snapshot":                  {nil, nil, false, "want a snapshot"},
		"no next file":                 {[]*Edit{{LastSeq: 1}}, nil, false, "manifest 3, but next file 0"},
		"a manifest not yet counted":   {[]*Edit{{NextFile: 3}}, nil, false, "manifest 3, but next file 3"},
		"a delete before anything":     {[]*Edit{{NextFile: 9, Deleted: []Deleted{{0, 1}}}}, nil, false, "where it is not"},
		"a delete from another level":  {[]*Edit{first, {Deleted: []Deleted{{0, 1}}}}, nil, false, "where it is not"},
		"a delete twice":               {[]*Edit{first, {Deleted: []Deleted{{6, 1}}}, {Deleted: []Deleted{{6, 1}}}}, nil, false, "where it is not"},
		"an add twice":                 {[]*Edit{first, {Added: []Added{add(2, 1, t1)}}}, nil, false, "already at level 6"},
		"an add twice in one edit":     {[]*Edit{{NextFile: 9, Added: []Added{add(2, 1, t1), add(3, 1, t1)}}}, nil, false, "already at level 2"},
		"a move within a level":        {[]*Edit{first, {Deleted: []Deleted{{6, 1}}, Added: []Added{add(6, 1, t1)}}}, nil, false, "both deleted"},
		"tables of a run that overlap": {[]*Edit{first, {Added: []Added{add(6, 0, table(2, "b", "d"))}}}, nil, false, "overlap"},
		"a table not yet counted":      {[]*Edit{first, {Added: []Added{add(5, 0, table(9, "b", "d"))}}}, nil, false, "next file 9"},
		"a log not yet counted":        {[]*Edit{first, {Log: &LogMark{9, 0}}}, nil, false, "next file 9"},
		"next file 2^64-1":             {[]*Edit{{NextFile: math.MaxUint64}}, nil, false, "next file"},
		"last sequence 2^56":           {[]*Edit{{NextFile: 9, LastSeq: ikey.MaxSeq + 1}}, nil, false, "last sequence"},
		"level 255":                    {[]*Edit{first, {Added: []Added{add(255, 0, table(2, "b", "d"))}}}, nil, false, "level 255"},
		"an empty edit":                {[]*Edit{first}, []byte{}, false, "0 bytes"},
		"a newer edit":                 {[]*Edit{first}, []byte{2}, true, "version 2"},
		"an unknown field":             {[]*Edit{first}, []byte{1, 9, 0, 0, 0, 0}, true, "field 9"},
	} {
		t.Run(name, func(t *testing.T) {
			var payloads [][]byte
			for _, e := range test.edits {
				payloads = append(payloads, AppendEdit(nil, e))
			}
			if test.raw != nil {
				payloads = append(payloads, test.raw)
			}
			m := newFS(t)
			putManifest(t, m, payloads...)
			s, err := Load(m, dir)
			if err == nil || errors.Is(err, corrupt.Err) == test.unsupported || errors.Is(err, ErrUnsupportedVersion) != test.unsupported {
				t.Fatalf("loaded %+v, %v", s, err)
			}
			if !strings.Contains(err.Error(), test.text) || !strings.Contains(err.Error(), "MANIFEST-000003") {
				t.Errorf("error is %v, want one with MANIFEST-000003 and %q", err, test.text)
			}
		})
	}
}

// putManifest makes a current manifest 3 of those records.
func putManifest(tb testing.TB, fsys vfs.FS, payloads ...[]byte) {
	tb.Helper()
	f, err := fsys.Create(filename.Make(dir, filename.Manifest, 3))
	if err != nil {
		tb.Fatal(err)
	}
	w, err := wal.NewWriter(f, 3, 4)
	if err == nil {
		err = w.Append(payloads...)
	}
	if err != nil {
		tb.Fatal(err)
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	put(tb, fsys, "CURRENT", string(currentFor(3)))
}

func TestLoadingManyEditsIsLinear(t *testing.T) {
	const n = 20000
	m := newFS(t)
	payloads := [][]byte{AppendEdit(nil, &Edit{NextFile: MaxNumber})}
	for i, a := range many(n) {
		e := &Edit{Added: []Added{a}}
		if i%2 == 1 {
			e.Deleted = []Deleted{{6, uint64(i)}}
		}
		payloads = append(payloads, AppendEdit(nil, e))
	}
	putManifest(t, m, payloads...)
	s := load(t, m) // each edit applied to a version of thousands of tables would take minutes under the race detector
	if got := len(s.Version.Levels[6][0].Tables); got != n/2 {
		t.Errorf("%d tables, want %d", got, n/2)
	}
}

// FuzzLoad reads edits in records whose checksums fit. What loads is sound, and a snapshot of it loads the same.
func FuzzLoad(f *testing.F) {
	s, edits := history(f)
	var whole []byte
	for _, e := range append([]*Edit{s.snapshot()}, edits...) {
		b := AppendEdit(nil, e)
		whole = append(append(whole, byte(len(b)), byte(len(b)>>8)), b...)
	}
	f.Add(whole)
	f.Add([]byte{})
	for i := 0; i < len(whole); i += 11 {
		damaged := bytes.Clone(whole)
		damaged[i] ^= 0x41
		f.Add(damaged)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var payloads [][]byte
		for len(data) >= 2 {
			n := min(int(data[0])|int(data[1])<<8, len(data)-2)
			payloads = append(payloads, data[2:2+n])
			data = data[2+n:]
		}
		m := newFS(t)
		putManifest(t, m, payloads...)
		s, err := Load(m, dir)
		if err != nil {
			if !errors.Is(err, corrupt.Err) && !errors.Is(err, ErrUnsupportedVersion) {
				t.Fatalf("error is %v", err)
			}
			return
		}
		if err := s.Version.Check(); err != nil {
			t.Fatal(err)
		}
		if s.NextFile <= 4 {
			return
		}
		create(t, m, 4, s)
		s.ManifestNumber = 4
		if again := load(t, m); !reflect.DeepEqual(again, s) {
			t.Fatalf("loaded %+v, and from its snapshot %+v", s, again)
		}
	})
}

// FuzzCurrent reads any content of CURRENT: one that is taken is what is written for that number.
func FuzzCurrent(f *testing.F) {
	f.Add("MANIFEST-000003 ffffffff\n")
	f.Add(string(currentFor(3)))
	f.Add(string(currentFor(math.MaxUint64)))
	f.Add("../MANIFEST-000003\n")
	f.Fuzz(func(t *testing.T, content string) {
		m := newFS(t)
		put(t, m, "CURRENT", content)
		n, err := readCurrent(m, dir)
		if err != nil && !errors.Is(err, corrupt.Err) || err == nil && string(currentFor(n)) != content {
			t.Fatalf("%q is %d, %v", content, n, err)
		}
	})
}
