package bloomkv

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/bloomkv/bloomkv/internal/intake"
	"github.com/bloomkv/bloomkv/internal/stream"
)

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
	ctx, end, err := db.tree.BeginCall(ctx)
	if err != nil {
		return nil, err
	}
	s, _ := db.tree.Hold() // not nil: Close waits for end
	ids, err := intake.Inventory(ctx, s)
	db.tree.Release(s)
	if err = end(err); err != nil {
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
	r := bytes.NewReader(b)
	read, err := ReadInventory(r)
	if err == nil && r.Len() > 0 {
		err = fmt.Errorf("bloomkv: inventory: %w: %d bytes behind its end", ErrCorruption, r.Len())
	}
	if err == nil {
		i.ids = read.ids
	}
	return err
}
