package bloomkv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/intake"
	"github.com/bloomkv/bloomkv/internal/stream"
	"github.com/bloomkv/bloomkv/internal/tree"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/vfs"
)

var errNotEmpty = fmt.Errorf("the store is not empty, and ImportOptions.Replace is not set: %w", fs.ErrExist)

// NewStoreOptions are options of [Import]. The zero value is right for the export of a whole store.
type NewStoreOptions struct {
	// FS is the file system. nil means the operating system's.
	FS vfs.FS
	// Base is the directory of a store that has the tables that the export leaves out: see ExportOptions.Since. They
	// are linked, or copied where links are not possible. No DB may have the store open for writing.
	Base string
}

// Import makes a store in dir of an [Export] that r yields. It reads the stream to its end and no byte behind it. When
// Import returns nil, the store is durable, and has what the exported one had.
//
// dir must not exist or must be an empty directory, otherwise the error matches fs.ErrExist; its parent must exist. The
// store appears in one step: after an error Import removes what it made, and a crash leaves no store in dir.
//
// Import verifies that each byte of the stream is the one that was sent, in its place, and that each table fits the
// description in the header. It does not read the keys; [Check] does: a stream from elsewhere may have tables that were
// damaged before. Damage, also a stream that ends early, is an error matching ErrCorruption with the offset in the
// stream (errors.As finds the *[CorruptionError]). The error for a later version of the format matches
// ErrUnsupportedVersion, and that for an export without tables that Base lacks ErrMissingTable. Errors of r are
// wrapped.
//
// Memory is bounded by the description of the tables, some hundred bytes each, and a few frames of 256 KiB, whatever
// the stream says. When ctx ends, Import returns even if r blocks; then a goroutine waits for the end of that one call
// of r.Read.
func Import(ctx context.Context, r io.Reader, dir string, opts NewStoreOptions) error {
	if opts.FS == nil {
		opts.FS = vfs.OS
	}
	from, stop := stream.Interruptible(ctx, r)
	defer stop()
	in, err := stream.NewReader(from)
	if err == nil {
		err = intake.NewStore(ctx, in, opts.FS, dir, opts.Base)
	}
	if err != nil {
		err = fmt.Errorf("bloomkv: import %s: %w", dir, err)
	}
	return err
}

// ImportOptions are options of [DB.Import].
type ImportOptions struct {
	// Replace replaces everything that the store contains. Without it the store must be empty and without a mark,
	// otherwise the error matches fs.ErrExist.
	Replace bool
	// Mark, if not nil, is the mark that the export must have. Otherwise it is refused before anything is replaced.
	Mark []byte
}

// Import makes the store what an exported one was, from an [Export] that r yields, in one step: readers see all of it
// or none, even after a crash. When Import returns nil, it is durable. Tables that the export leaves out must be in
// this store: see ExportOptions.Since.
//
// Reads and writes go on while the stream is read. Other writers wait only for the last step, which is short but
// includes a flush; writes that returned before it are replaced, later ones are on top of what was imported. Iterators
// and snapshots that are open, and an Export, show the store as before until they are closed. Running compactions are
// cancelled. The store keeps its options, and gets the mark of the export; the number of its newest write grows to
// that of the export, if that is larger.
//
// Import verifies what the package-level [Import] verifies, and returns the same errors. After an error, or if ctx
// ends before the last step, the store is as before and no file is left. The exception is a last step that fails and
// makes the store read-only: its files are then left for the next Open, which finds the store as before or as
// imported. Of two concurrent calls, one comes after the other. Other errors are ErrReadOnly and ErrClosed. Close does
// not wait for r.
func (db *DB) Import(ctx context.Context, r io.Reader, opts ImportOptions) error {
	if err := db.tree.Writable(); err != nil {
		return err
	}
	return named(db.tree.Call(ctx, func(ctx context.Context) error { return db.importFrom(ctx, r, opts) }), "import")
}

func (db *DB) importFrom(ctx context.Context, r io.Reader, opts ImportOptions) error {
	began := time.Now()
	from, stop := stream.Interruptible(ctx, r)
	defer stop()
	in, err := stream.NewReader(from)
	if err != nil {
		return err
	}
	if got := in.Header.State.Mark.Bytes; opts.Mark != nil && !bytes.Equal(got, opts.Mark) {
		return fmt.Errorf("the export has the mark %s, want %s", words.Quoted(got), words.Quoted(opts.Mark))
	}
	s := db.tree.Hold()      // not nil, since Close waits
	defer db.tree.Release(s) // keeps the tables that the stream leaves out
	if !opts.Replace && !db.empty(s) {
		return errNotEmpty
	}
	t := &intake.Target{FS: db.work.Sparing(), Dir: db.dir, Numbers: db.tree}
	added, err := t.Runs(ctx, in, intake.Of(s))
	begun := false
	if err == nil {
		err = db.writer.Alone(ctx, in.Header.State.LastSeq, func(seq ikey.Seq) error {
			if !opts.Replace && !db.empty(db.tree.Load()) {
				return errNotEmpty
			}
			begun = true
			return db.work.Replace(added, seq, in.Header.State.Mark.Bytes)
		})
	}
	if err == nil {
		_ = db.work.WaitForFilters(ctx) // the tables are in the store even if ctx ends
		db.report.imported(added, in.Size(), time.Since(began))
	} else if !begun {
		err = errors.Join(err, t.Abandon())
	}
	return err
}

// empty reports whether the store has nothing in state s, and no mark.
func (db *DB) empty(s *tree.State) bool {
	return len(s.Runs) == 0 && s.Mem.Len() == 0 && len(s.Frozen) == 0 && len(db.tree.Mark().Bytes) == 0
}
