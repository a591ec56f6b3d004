package check

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/epoch"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/rangedel"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/tablefile"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

var must = testkit.Must

// addTable adds a run with one table to a level. It has the given number of keys, each at the sequence number that seq
// returns for its index, and range tombstones.
func addTable(
	t *testing.T, fsys vfs.FS, v *manifest.Version, level, keys int, seq func(i int) ikey.Seq,
	dels ...rangedel.Fragment,
) {
	t.Helper()
	var b bytes.Buffer
	params, err := bloomblock.ParamsFor(0.01)
	must(t, err)
	number := uint64(v.NumTables() + 1)
	w := sstable.NewWriter(&b, sstable.WriterOptions{ID: number, Filter: params})
	for i := range keys {
		k := ikey.Key{User: fmt.Appendf(nil, "key%06d", i), Trailer: ikey.MakeTrailer(seq(i), ikey.Set)}
		must(t, w.Add(k, make([]byte, 100)))
	}
	for _, d := range dels {
		must(t, w.AddRangeDel(d))
	}
	info, err := w.Finish()
	must(t, err)
	f, err := fsys.Create(filename.Make("db", filename.Table, number))
	must(t, err)
	_, err = f.Write(b.Bytes())
	must(t, errors.Join(err, f.Close()))
	run := manifest.Run{ID: number, Tables: []*manifest.Table{compaction.Table(number, info)}}
	v.Levels[level] = slices.Insert(v.Levels[level], 0, run) // the newest first
}

// tablesOf calls Tables.
func tablesOf(t *testing.T, fsys vfs.FS, v *manifest.Version, progress func(done, total uint64)) (Report, error) {
	t.Helper()
	return tablesUntil(t.Context(), t, fsys, v, progress)
}

// tablesUntil calls Tables with a context.
func tablesUntil(
	ctx context.Context, t *testing.T, fsys vfs.FS, v *manifest.Version, progress func(done, total uint64),
) (Report, error) {
	t.Helper()
	d := new(epoch.Domain)
	files := tablefile.NewPool(openFiles).NewDir(fsys, "db", d)
	defer func() { must(t, files.Close()) }()
	return Tables(ctx, v, files, d, progress)
}

func sequence(n ikey.Seq) func(int) ikey.Seq { return func(int) ikey.Seq { return n } }

// TestTablesCountsWhatItReads has a table of two and a half steps of progress, and two that are smaller. All are in
// order, so they are opened once.
func TestTablesCountsWhatItReads(t *testing.T) {
	opens, v := 0, &manifest.Version{}
	fsys := vfstest.NewHook(vfstest.NewMem(), func(op vfstest.Op) error {
		if op.Kind == vfstest.OpOpen {
			opens++
		}
		return nil
	})
	must(t, fsys.Mkdir("db"))
	addTable(t, fsys, v, manifest.NumLevels-1, 10_000, sequence(1))
	addTable(t, fsys, v, 0, 5, sequence(2))
	addTable(t, fsys, v, 0, 7, sequence(3))
	var tables []*manifest.Table
	for _, level := range []int{0, manifest.NumLevels - 1} {
		for _, r := range v.Levels[level] {
			tables = append(tables, r.Tables...)
		}
	}
	newest, small, large := tables[0].Size, tables[1].Size, tables[2].Size
	all := newest + small + large
	var got []uint64
	report, err := tablesOf(t, fsys, v, func(done, total uint64) {
		if got = append(got, done); total != all {
			t.Errorf("progress: %d of %d, want %d", done, total, all)
		}
	})
	before := newest + small
	progress := []uint64{newest, before, before + large*4096/10_000, before + large*8192/10_000, all}
	if want := (Report{Levels: 2, Runs: 3, Tables: 3, Entries: 10_012, Bytes: all}); err != nil ||
		fmt.Sprint(report) != fmt.Sprint(want) || !slices.Equal(got, progress) || opens != 3 {
		t.Errorf("%+v, progress %d, %d opens, %v; want %+v, %d, 3", report, got, opens, err, want, progress)
	}
}

// TestDamageOfATableIsReportedOnce compares two runs of which the newer has two keys that are too old.
func TestDamageOfATableIsReportedOnce(t *testing.T) {
	fsys, v := vfstest.NewMem(), &manifest.Version{}
	must(t, fsys.Mkdir("db"))
	addTable(t, fsys, v, 1, 10, sequence(9))
	addTable(t, fsys, v, 0, 10, func(i int) ikey.Seq { return ikey.Seq(8 + i%5) })
	_, err := tablesOf(t, fsys, v, nil)
	if got := fmt.Sprint(err); !errors.Is(err, corrupt.Err) || strings.Count(got, "000002.sst") != 1 ||
		!strings.Contains(got, "key000000") {
		t.Errorf("%v, want one error, with the first key", err)
	}
}

// TestARangeDeleteOfATableIsCompared has a newer run whose range tombstone is older than the keys under it.
func TestARangeDeleteOfATableIsCompared(t *testing.T) {
	fsys, v := vfstest.NewMem(), &manifest.Version{}
	must(t, fsys.Mkdir("db"))
	addTable(t, fsys, v, 1, 10, sequence(9))
	addTable(t, fsys, v, 0, 1, sequence(12), rangedel.Fragment{Start: []byte("key"), Seqs: []ikey.Seq{5}})
	want := "run 2 of level 0 has a range delete at sequence 5"
	if _, err := tablesOf(t, fsys, v, nil); !errors.Is(err, corrupt.Err) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want that %s", err, want)
	}
}

func TestTablesThatShareOneNumberAreCompared(t *testing.T) {
	fsys, v := vfstest.NewMem(), &manifest.Version{}
	must(t, fsys.Mkdir("db"))
	addTable(t, fsys, v, 1, 10, sequence(9))
	addTable(t, fsys, v, 0, 1, sequence(9))
	want := "run 2 of level 0 has the key at sequence 9, the older run 1 of level 1 (000001.sst) goes up to 9"
	if _, err := tablesOf(t, fsys, v, nil); !errors.Is(err, corrupt.Err) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want that %s", err, want)
	}
}

// A countdown is a context that ends at the last of n calls of Err.
type countdown struct {
	context.Context
	n int
}

func (c *countdown) Err() error {
	if c.n--; c.n <= 0 {
		return context.Canceled
	}
	return nil
}

// TestACheckEndsWithItsContext ends the context at each look at it, of checks of no tables and of damage.
func TestACheckEndsWithItsContext(t *testing.T) {
	for _, keys := range []int{0, 10, 100} {
		fsys, v := vfstest.NewMem(), &manifest.Version{}
		must(t, fsys.Mkdir("db"))
		for range min(keys, 2) {
			addTable(t, fsys, v, 0, keys, sequence(9))
		}
		looks := 0
		for ended := true; ended; {
			looks++
			c := &countdown{t.Context(), looks}
			_, err := tablesUntil(c, t, fsys, v, nil)
			ended = c.n <= 0
			if errors.Is(err, context.Canceled) != ended || errors.Is(err, corrupt.Err) != (!ended && keys > 0) {
				t.Errorf("%d keys, ended at look %d: %v", keys, looks, err)
			}
		}
		if looks < keys/10 {
			t.Errorf("%d keys: %d looks are too few", keys, looks)
		}
	}
}

// TestAFailureToReadIsReturnedAlone fails each read of a check that finds damage, and each closing of a file, which is
// returned with the damage.
func TestAFailureToReadIsReturnedAlone(t *testing.T) {
	failed := errors.New("it fails")
	ops, fail := 0, 0 // the number of the operation that fails
	kind := vfstest.OpReadAt
	fsys := vfstest.NewHook(vfstest.NewMem(), func(op vfstest.Op) error {
		if op.Kind == kind {
			if ops++; ops == fail {
				return failed
			}
		}
		return nil
	})
	must(t, fsys.Mkdir("db"))
	v := &manifest.Version{}
	for i := range 4 { // of several blocks, so that damage of the order is found between two reads
		addTable(t, fsys, v, 0, 3000, sequence(ikey.Seq(9-i)))
	}
	v.Levels[0][0].Tables[0].Entries++ // damage of its own, and it is not compared with the others
	_, err := tablesOf(t, fsys, v, nil)
	if got := fmt.Sprint(err); !strings.Contains(got, "000004.sst") || !strings.Contains(got, "older run") {
		t.Fatalf("%v, want damage of a table and of the order", err)
	}
	for all := ops; fail < all; {
		ops = 0
		fail++
		if _, err := tablesOf(t, fsys, v, nil); !errors.Is(err, failed) || errors.Is(err, corrupt.Err) {
			t.Errorf("read %d of %d fails: %v", fail, all, err)
		}
	}
	kind = vfstest.OpClose
	fail = 0
	for struck := true; struck; {
		ops = 0
		fail++
		_, err := tablesOf(t, fsys, v, nil)
		if struck = ops >= fail; struck && !errors.Is(err, failed) {
			t.Errorf("close %d fails: %v", fail, err)
		}
	}
	if fail < 8 {
		t.Errorf("%d files are closed, want four, and three that are compared", fail-1)
	}
}
