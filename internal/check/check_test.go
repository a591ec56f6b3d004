package check

import (
	"bytes"
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
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/tablefile"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

var must = testkit.Must

// addTable adds a run with one table to a level. It has the given number of keys, each at the sequence number that seq
// returns for its index.
func addTable(t *testing.T, fsys vfs.FS, v *manifest.Version, level, keys int, seq func(i int) ikey.Seq) {
	t.Helper()
	var b bytes.Buffer
	params, err := bloomblock.ParamsFor(0.01)
	must(t, err)
	number := uint64(v.NumTables() + 1)
	w := sstable.NewWriter(&b, sstable.WriterOptions{ID: number, Filter: params})
	for i := range keys {
		must(t, w.Add(ikey.Key{User: fmt.Appendf(nil, "key%06d", i), Trailer: ikey.MakeTrailer(seq(i), ikey.Set)}, nil))
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
	d := new(epoch.Domain)
	files := tablefile.NewPool(openFiles).NewDir(fsys, "db", d)
	defer func() { must(t, files.Close()) }()
	return Tables(t.Context(), v, files, d, progress)
}

func sequence(n ikey.Seq) func(int) ikey.Seq { return func(int) ikey.Seq { return n } }

// TestTablesCountsWhatItReads has a table of two and a half steps of progress, and two that are smaller.
func TestTablesCountsWhatItReads(t *testing.T) {
	fsys, v := vfstest.NewMem(), &manifest.Version{}
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
		fmt.Sprint(report) != fmt.Sprint(want) || !slices.Equal(got, progress) {
		t.Errorf("%+v, progress %d, %v; want %+v, %d", report, got, err, want, progress)
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

// TestAFailureToReadIsReturnedAlone fails each read of a check that finds damage.
func TestAFailureToReadIsReturnedAlone(t *testing.T) {
	failed := errors.New("no read")
	reads, fail := 0, 0 // the number of the read that fails
	fsys := vfstest.NewHook(vfstest.NewMem(), func(op vfstest.Op) error {
		if op.Kind == vfstest.OpReadAt {
			if reads++; reads == fail {
				return failed
			}
		}
		return nil
	})
	must(t, fsys.Mkdir("db"))
	v := &manifest.Version{}
	for i := range 4 {
		addTable(t, fsys, v, 0, 10, sequence(ikey.Seq(9-i)))
	}
	v.Levels[0][0].Tables[0].Entries++ // damage of its own, and it is not compared with the others
	_, err := tablesOf(t, fsys, v, nil)
	if got := fmt.Sprint(err); !strings.Contains(got, "000004.sst") || !strings.Contains(got, "older run") {
		t.Fatalf("%v, want damage of a table and of the order", err)
	}
	for all := reads; fail < all; {
		reads = 0
		fail++
		if _, err := tablesOf(t, fsys, v, nil); !errors.Is(err, failed) || errors.Is(err, corrupt.Err) {
			t.Errorf("read %d of %d fails: %v", fail, all, err)
		}
	}
}
