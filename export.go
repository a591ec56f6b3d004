package bloomkv

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/intake"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/step"
	"github.com/bloomkv/bloomkv/internal/stream"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// ExportOptions are options of Export. The zero value exports the whole store.
type ExportOptions struct {
	// Since lists tables that the receiver has: see [DB.Inventory] and [ReadInventory]. The export leaves them out, and
	// only a receiver that has them can import it. nil leaves out nothing.
	Since *Inventory
}

// An Export is a store as of one moment, as a stream of bytes of known size that [Import] and [DB.Import] read. It
// keeps the tables of that moment on the disk until Close. It is safe for concurrent use.
type Export struct {
	db   *DB
	size int64 // of the stream, in bytes
	mark batch.Mark

	mu   step.Mutex
	open *openExport // nil after Close
}

// An openExport is what only WriteTo needs.
type openExport struct {
	writer *stream.Writer
	state  *tree.State   // with a reference
	tables []*tree.Table // of state, in the order of the stream
}

var _ io.WriterTo = (*Export)(nil)

// Export returns the store as of now, with every write that returned before the call; of the writes that run
// concurrently it has a prefix, possibly empty. It first writes out what is in memory, as [DB.Flush] does. The stream
// consists of the tables as they are: no key is decoded and no filter is built. All their checksums are compared before
// they are sent, so that damage does not travel.
//
// The caller must close the Export. Until then it keeps its tables on the disk, even those that compactions replace,
// and the memory of a memtable; writes, reads and compactions go on. With Options.ReadOnly, Export returns
// ErrReadOnly.
func (db *DB) Export(ctx context.Context, opts ExportOptions) (*Export, error) {
	if err := db.Flush(ctx); err != nil {
		return nil, err
	}
	began := time.Now()
	var x *Export
	err := db.tree.Call(ctx, func(ctx context.Context) (err error) {
		recorded, s := db.tree.Recorded() // not nil, since Close waits
		step.At("export: state")
		if x, err = db.export(ctx, recorded, s, opts.Since); err != nil {
			db.tree.Release(s)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	db.report.exported(len(x.open.tables), x.Size(), time.Since(began))
	return x, nil
}

// export makes the export of a state.
func (db *DB) export(ctx context.Context, r manifest.State, s *tree.State, since *Inventory) (*Export, error) {
	ids, err := intake.Inventory(ctx, s)
	if err != nil {
		return nil, err
	}
	if since == nil {
		since = new(Inventory)
	}
	open := &openExport{state: s}
	s.EachTable(func(_ int, t *tree.Table) { open.tables = append(open.tables, t) })
	header := stream.NewHeader(r, ids, since.ids)
	if open.writer, err = stream.NewWriter(header); err != nil {
		return nil, named(err, "export")
	}
	return &Export{db: db, size: open.writer.Size(), mark: r.Mark, open: open}, nil
}

// Size returns the exact length of the stream in bytes.
func (x *Export) Size() int64 { return x.size }

// Mark returns a copy of the mark of the exported store: see [DB.Mark].
func (x *Export) Mark() []byte { return copyOf(x.mark) }

// WriteTo writes the stream to w and returns the number of bytes written. It may be called any number of times, and
// writes the same bytes each time. The error is that of w, or of reading a table: for a damaged one it matches
// ErrCorruption, and nothing of that table was written; after Close of the Export or of its store it is ErrClosed.
// Close of the store does not wait for WriteTo, whose next read of a table then fails, but Close of the Export lets a
// WriteTo end that has begun.
func (x *Export) WriteTo(w io.Writer) (int64, error) {
	x.mu.Lock()
	open := x.open
	if open != nil {
		open.state.Hold()
	}
	x.mu.Unlock()
	if open == nil {
		return 0, ErrClosed
	}
	defer x.db.tree.Release(open.state)
	n, err := open.writer.Write(w, func(i int) (io.ReaderAt, string, error) {
		if x.db.tree.Load() == nil {
			return nil, "", ErrClosed
		}
		t := open.tables[i]
		return t.File, t.File.Name, t.Reader.VerifySums(context.Background())
	})
	if err != nil && x.db.tree.Load() == nil {
		return n, ErrClosed
	}
	if err != nil {
		err = fmt.Errorf("bloomkv: export: %w", err)
	}
	return n, err
}

// Close lets the store remove the tables that only the Export keeps. A second Close returns ErrClosed and does nothing;
// the first returns nil, also after that of the store.
func (x *Export) Close() error {
	x.mu.Lock()
	open := x.open
	x.open = nil
	x.mu.Unlock()
	if open == nil {
		return ErrClosed
	}
	x.db.tree.Release(open.state)
	return nil
}

// An Inventory lists the tables of a store, in 24 bytes each, so that an export can leave out what its receiver has:
// see [ExportOptions]. It travels as bytes. It is immutable.
//
// A table is listed with its random id, its size, and a fingerprint of its index and of the checksums of its filter,
// which depend on every key. Tables of two stores are therefore not taken for each other's, unless someone builds two
// tables that agree in all of these on purpose, with different values of the same lengths.
type Inventory struct{ ids []stream.ID }

// Inventory returns the list of the store's tables as it is now. It does not include what is only in memory and in
// logs. A compaction may replace a listed table at any time.
func (db *DB) Inventory(ctx context.Context) (*Inventory, error) {
	var ids []stream.ID
	err := db.tree.Call(ctx, func(ctx context.Context) (err error) {
		s := db.tree.Hold() // not nil: Close waits
		defer db.tree.Release(s)
		ids, err = intake.Inventory(ctx, s)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &Inventory{ids}, nil
}

// ReadInventory reads an inventory, as written by MarshalBinary, and nothing behind it. From an export it reads the
// inventory of the exported store, which is in its first bytes. Damage is an error matching ErrCorruption, with the
// offset; the error for a later version matches ErrUnsupportedVersion.
func ReadInventory(r io.Reader) (*Inventory, error) {
	ids, err := stream.ReadInventory(r)
	if err != nil {
		return nil, fmt.Errorf("bloomkv: inventory: %w", err)
	}
	return &Inventory{ids}, nil
}

// Tables returns the number of tables in the list.
func (i *Inventory) Tables() int { return len(i.ids) }

// MarshalBinary returns the inventory as bytes. The error is nil.
func (i *Inventory) MarshalBinary() ([]byte, error) { return stream.AppendInventory(nil, i.ids), nil }

// UnmarshalBinary sets i to the inventory in b, which it does not keep. The errors are those of [ReadInventory].
func (i *Inventory) UnmarshalBinary(b []byte) error {
	ids, err := stream.ParseInventory(b)
	if err != nil {
		return fmt.Errorf("bloomkv: inventory: %w", err)
	}
	i.ids = ids
	return nil
}
