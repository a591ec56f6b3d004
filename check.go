package bloomkv

import (
	"context"

	"github.com/bloomkv/bloomkv/internal/check"
	"github.com/bloomkv/bloomkv/vfs"
)

// CheckOptions are options of [Check] and [DB.Check]. The zero value is right for most stores.
type CheckOptions struct {
	// Progress, if not nil, is called now and then, on the goroutine that called Check, with the bytes of tables read
	// so far and in total. It must not close the DB whose Check it is, since Close waits for Check.
	Progress func(done, total uint64)

	// FS and StrictWAL are as in Options. They are for a store in a directory; DB.Check has them from its DB.
	FS        vfs.FS
	StrictWAL bool
}

// A CheckReport counts what Check has read. If there is damage, it counts what the manifest names, whether or not that
// was readable.
type CheckReport struct {
	Levels  int    // levels with tables
	Runs    int    // of all levels
	Tables  int    // in all runs
	Entries uint64 // versions in the tables, tombstones included
	Bytes   uint64 // of the tables' files
	Logs    int    // logs that Open would replay
	Records int    // complete records in these logs
	Mark    []byte // of the store as it would be opened, nil without one: see DB.Mark
}

// Check verifies a whole store that no DB has open for writing, and changes nothing. It verifies the manifest against
// the directory; the runs against each other (no key has an older version in a newer run); in each table all
// checksums, the order of keys, the index, the counts, and that the filter answers "maybe" for each key; and each
// record of the logs.
//
// The error joins all damage found, each with file and offset (errors.As finds the first *[CorruptionError]). If a DB
// has the store open for writing, the error matches ErrLocked; if dir holds no store, it matches fs.ErrNotExist. When
// ctx ends, Check stops soon and returns an error matching that of ctx. That error, and that of a file that cannot be
// read, are returned alone. While Check runs, the store can only be opened with Options.ReadOnly.
func Check(ctx context.Context, dir string, opts CheckOptions) (CheckReport, error) {
	if opts.FS == nil {
		opts.FS = vfs.OS
	}
	report, err := check.Store(ctx, opts.FS, dir, opts.StrictWAL, opts.Progress)
	return CheckReport(report), named(err, "check "+dir)
}

// Check reads all tables of the store as it is now, and verifies them as the package-level Check does. It does not
// verify logs or what is in memory. It may run concurrently with all other calls, and reads blocks without filling
// the cache. The error joins all damage found. When ctx ends, Check stops soon and returns the error of ctx.
func (db *DB) Check(ctx context.Context, opts CheckOptions) (report CheckReport, err error) {
	err = db.tree.Call(ctx, func(ctx context.Context) error {
		s := db.tree.Hold() // not nil: Close waits
		defer db.tree.Release(s)
		read, err := check.Tables(ctx, s.Version, db.tree.Files, db.tree.Domain, opts.Progress)
		report = CheckReport(read)
		report.Mark = copyOf(db.tree.Mark())
		return err
	})
	return report, err
}
