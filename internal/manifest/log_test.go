package manifest

import (
	"bytes"
	"errors"
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
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

const dir = "db"

var errDisk = errors.New("disk on fire")

func newFS(tb testing.TB) *vfstest.Mem {
	tb.Helper()
	m := vfstest.NewMem()
	must(tb, vfs.MkdirAll(m, dir))
	return m
}

func create(tb testing.TB, fsys vfs.FS, number uint64, s State) *Log {
	tb.Helper()
	l, err := Create(fsys, dir, number, s)
	must(tb, err)
	return l
}

func load(tb testing.TB, fsys vfs.FS) State {
	tb.Helper()
	s, err := Load(fsys, dir)
	must(tb, err)
	must(tb, s.Version.Check())
	return s
}

func appendEdits(tb testing.TB, l *Log, edits ...*Edit) {
	tb.Helper()
	for _, e := range edits {
		must(tb, l.Append(e))
	}
}

// history returns the state of a snapshot, and edits that follow it.
func history(tb testing.TB) (State, []*Edit) {
	tb.Helper()
	return State{Version: sample(tb), NextFile: 10, LastSeq: 50, MinLog: 8, Log: &LogMark{8, 32}}, []*Edit{
		{NextFile: 12, Added: []Added{add(0, 10, table(10, "a", "z"))}, MinLog: 9},
		{NextFile: 12, LastSeq: 100, Log: &LogMark{11, 32}},
		{
			NextFile: 20, Deleted: []Deleted{{0, 10}, {0, 4}, {6, 2}},
			Added: []Added{add(6, 0, table(12, "e", "j")), add(2, 10, table(10, "a", "z"))},
		},
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
		size := l.w.Size()
		appendEdits(t, l, e)
		must(t, want.Note(e))
		want.Version = mustApply(t, want.Version, e)
		for _, d := range e.Deleted {
			want.Replaced = append(want.Replaced, d.Number)
		}
		if got := load(t, m); !reflect.DeepEqual(got, want) {
			t.Errorf("after edit %d the state is %+v\n%s, want %+v\n%s", i, got, got.Version, want, want.Version)
		}
		info, err := m.Stat(filename.Make(dir, filename.Manifest, 9))
		if err != nil || l.w.Size() <= size || l.w.Size() != info.Size() {
			t.Errorf("size is %d, file %v, %v", l.w.Size(), info, err)
		}
	}
	if l.Number() != 9 {
		t.Errorf("number is %d, want 9", l.Number())
	}
	must(t, l.Close())
	if err := l.Append(&Edit{}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Append after Close returns %v", err)
	}
	// The result as the snapshot of a second manifest.
	s = load(t, m)
	create(t, m, 13, s)
	s.ManifestNumber, s.Replaced = 13, nil
	if got := load(t, m); !reflect.DeepEqual(got, s) {
		t.Errorf("the snapshot of the sum is %+v, want %+v", got, s)
	}
}

func TestNumbersAreOnlyRaised(t *testing.T) {
	s := State{NextFile: 20, LastSeq: 30, MinLog: 10, Log: &LogMark{12, 5}, Seed: 7}
	for _, test := range []struct {
		name string
		edit Edit
		want State
		ok   bool
	}{
		{"nothing", Edit{}, s, true},
		{"less", Edit{NextFile: 1, LastSeq: 1, MinLog: 1}, s, true},
		{
			"more",
			Edit{NextFile: 21, LastSeq: 31, MinLog: 11},
			State{NextFile: 21, LastSeq: 31, MinLog: 11, Log: &LogMark{12, 5}, Seed: 7},
			true,
		},
		{
			"another log",
			Edit{Log: &LogMark{13, 1}},
			State{NextFile: 20, LastSeq: 30, MinLog: 10, Log: &LogMark{13, 1}, Seed: 7},
			true,
		},
		{"no log", Edit{NoLog: true}, State{NextFile: 20, LastSeq: 30, MinLog: 10, Seed: 7}, true},
		{"the log is no longer needed", Edit{MinLog: 13}, State{NextFile: 20, LastSeq: 30, MinLog: 13, Seed: 7}, true},
		{"no log at all is needed", Edit{MinLog: 20}, State{NextFile: 20, LastSeq: 30, MinLog: 20, Seed: 7}, true},
		{"a table's sequences count", Edit{Added: []Added{add(0, 1, table(19, "a", "b"))}}, s, true},
		{
			"a table's larger sequences count",
			Edit{NextFile: 36, Added: []Added{add(0, 1, table(35, "a", "b"))}},
			State{NextFile: 36, LastSeq: 35, MinLog: 10, Log: &LogMark{12, 5}, Seed: 7},
			true,
		},
		{"the seed", Edit{Seed: 7}, s, true},
		{"another seed", Edit{Seed: 8}, State{}, false},
		{"a table of the next number", Edit{Added: []Added{add(0, 1, table(20, "a", "b"))}}, State{}, false},
		{"a run of the next number", Edit{Added: []Added{add(0, 20, table(19, "a", "b"))}}, State{}, false},
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
			// What Load would refuse is not written, and the log stays usable.
			m := newFS(t)
			l := create(t, m, 5, s)
			if test.edit.Added != nil {
				return
			}
			size := l.w.Size()
			if err := l.Append(&test.edit); (err == nil) != test.ok || !test.ok && l.w.Size() != size {
				t.Errorf("Append returns %v, size %d after %d", err, l.w.Size(), size)
			}
			appendEdits(t, l, &Edit{LastSeq: 99})
			got = load(t, m)
			if got.LastSeq != 99 ||
				test.ok && (got.MinLog != test.want.MinLog || !reflect.DeepEqual(got.Log, test.want.Log)) {
				t.Errorf("loaded %+v", got)
			}
		})
	}
}

func TestIllegalEditsAreNotWritten(t *testing.T) {
	m := newFS(t)
	l := create(t, m, 1, State{NextFile: 5})
	size := l.w.Size()
	for _, e := range []*Edit{
		{NextFile: MaxNumber + 1},
		{LastSeq: ikey.MaxSeq + 1},
		{Deleted: []Deleted{{9, 1}}},
		{Added: []Added{add(-1, 1, table(1, "a", "b"))}},
		{Added: []Added{add(1, 1, table(3, "b", "a"))}},
	} {
		if err := l.Append(e); err == nil || l.w.Size() != size {
			t.Errorf("Append(%+v) returns %v, size %d after %d", e, err, l.w.Size(), size)
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

// recorder returns fsys, and a list of the operations on it that change something.
func recorder(fsys vfs.FS) (vfs.FS, *[]string) {
	ops := new([]string)
	return vfstest.NewHook(fsys, func(op vfstest.Op) error {
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

// TestOrderOfInstalling checks I14 for a manifest, and I13 for an edit.
func TestOrderOfInstalling(t *testing.T) {
	fsys, ops := recorder(newFS(t))
	l := create(t, fsys, 3, State{NextFile: 5})
	want := []string{
		"create MANIFEST-000003", "write MANIFEST-000003", "write MANIFEST-000003", "sync MANIFEST-000003",
		"syncdir db",
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

// TestAManifestStaysIfCurrentMayNameIt fails after CURRENT was renamed, and has CURRENT not be read either.
func TestAManifestStaysIfCurrentMayNameIt(t *testing.T) {
	m := newFS(t)
	create(t, m, 1, State{NextFile: 5})
	cause, renamed := errors.New("cause"), false
	fsys := vfstest.NewHook(m, func(op vfstest.Op) error {
		if renamed && op.Kind != vfstest.OpRemove {
			return cause
		}
		renamed = renamed || op.Kind == vfstest.OpRename
		return nil
	})
	if _, err := Create(fsys, dir, 3, State{NextFile: 5}); !errors.Is(err, cause) {
		t.Errorf("%v, want %v", err, cause)
	}
	if got := load(t, m); got.ManifestNumber != 3 {
		t.Errorf("manifest %d, want 3", got.ManifestNumber)
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

// put replaces the content of a file of the store.
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
	must(tb, errors.Join(err, f.Close()))
}

func contentOf(tb testing.TB, fsys vfs.FS, name string) string {
	tb.Helper()
	b, err := vfs.ReadFile(fsys, filepath.Join(dir, name), 1<<20)
	must(tb, err)
	return string(b)
}

func TestLoadingManyEditsIsLinear(t *testing.T) {
	const n = 20000
	m := newFS(t)
	payloads := [][]byte{AppendEdit(nil, &Edit{NextFile: maxGiven})}
	for i, a := range many(n) {
		e := &Edit{Added: []Added{a}}
		if i%2 == 1 {
			e.Deleted = []Deleted{{6, uint64(i)}}
		}
		payloads = append(payloads, AppendEdit(nil, e))
	}
	putManifest(t, m, payloads...)
	s := load(t, m) // applying each edit to a version of thousands of tables would take minutes under the race detector
	if got := len(s.Version.Levels[6][0].Tables); got != n/2 {
		t.Errorf("%d tables, want %d", got, n/2)
	}
}

func TestAManifestIsFullWhenItsEditsTakeWhatItsSnapshotDoes(t *testing.T) {
	s := State{Version: mustApply(t, &Version{}, &Edit{Added: many(6000)}), NextFile: 10_000}
	l := create(t, newFS(t), 9000, s)
	if size := l.Size(); size < minFull || l.full != 2*size {
		t.Errorf("a snapshot of %d bytes: full at %d, want twice as many, and more than %d", size, l.full, minFull)
	}
	small := create(t, newFS(t), 2, State{NextFile: 3})
	if small.full != minFull {
		t.Errorf("a small snapshot: full at %d, want %d", small.full, minFull)
	}
	for _, l := range []*Log{l, small} {
		must(t, l.Close())
	}
}

func TestAnEditThatNoStoreBeginsWithIsAnError(t *testing.T) {
	twice := []Added{add(0, 9, table(4, "a", "c")), add(0, 8, table(4, "a", "c"))}
	for name, e := range map[string]*Edit{
		"a deletion of nothing": {NextFile: 20, Deleted: []Deleted{{0, 4}}},
		"a table twice":         {NextFile: 20, Added: twice},
	} {
		if s, err := e.State(); err == nil {
			t.Errorf("%s: %+v, want an error", name, s)
		}
	}
}

// TestALongSnapshotHasSeveralRecords has a hundred tables. A snapshot that lost records is damaged, even at the end of
// one, where a log would not look torn.
func TestALongSnapshotHasSeveralRecords(t *testing.T) {
	defer func(n int) { snapshotPart = n }(snapshotPart)
	m := newFS(t)
	s := State{
		Version: mustApply(t, &Version{}, &Edit{Added: many(100)}), NextFile: 2000, LastSeq: 500, Seed: 7,
		MinLog: 8, Log: &LogMark{8, 32}, Counts: map[uint64]Counts{},
	}
	for i := range uint64(60) {
		s.Counts[i+1] = Counts{Negatives: i + 1}
	}
	for part, want := range map[int]int{snapshotPart: 1, 4 << 10: 4, 1: 161} {
		snapshotPart = part
		number := uint64(900 + want)
		s.ManifestNumber = number
		l := create(t, m, number, s)
		if got := load(t, m); !reflect.DeepEqual(got, s) {
			t.Errorf("parts of %d bytes: loaded %+v, want %+v", part, got, s)
		}
		appendEdits(t, l, &Edit{LastSeq: 600})
		if got := load(t, m); got.LastSeq != 600 {
			t.Errorf("parts of %d bytes: with an edit, loaded %+v", part, got)
		}
		name := filename.Base(filename.Manifest, number)
		whole, ends := contentOf(t, m, name), []int64(nil)
		f, err := m.Open(filepath.Join(dir, name))
		must(t, err)
		_, err = wal.Replay(f, name, number, func(payload []byte, end int64) error {
			ends = append(ends, end)
			if one := AppendEdit(nil, s.Snapshot()); want == 1 && len(ends) == 1 && !bytes.Equal(payload, one) {
				t.Error("a short snapshot is not one edit")
			}
			return nil
		})
		must(t, errors.Join(err, f.Close()))
		if len(ends) != want+1 {
			t.Errorf("parts of %d bytes: %d records, want %d and an edit", part, len(ends), want)
			continue
		}
		for i, end := range ends[:want] {
			for _, more := range []int64{0, 5} { // bytes of the next record
				put(t, m, name, whole[:end+more])
				if _, err := Load(m, dir); errors.Is(err, corrupt.Err) != (i+1 < want) {
					t.Errorf("parts of %d bytes: %d bytes behind record %d of %d: %v", part, more, i+1, want, err)
				}
			}
		}
	}
}
