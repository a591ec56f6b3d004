package inspect

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/sstable"
)

// A Verify is what comes of building a table's filter again from its keys.
type Verify struct {
	OK       bool   `json:"ok"`            // every bit is as it was built, and no key denied
	Recorded uint64 `json:"keys_recorded"` // in the filter's header
	Denied   uint64 `json:"keys_denied"`   // versions in the table whose keys the filter denies: lookups miss them
	bloomblock.Difference

	err error // unless OK, with its address
}

// verifyFilter builds the filter of a table again, from its keys, and compares. Nil is no filter that could be read. An error
// is one of reading the table.
func verifyFilter(ctx context.Context, name string) (v *Verify, err error) {
	return v, withTable(name, func(t *openTable) error {
		filter, err := bloomblock.Parse(t.block)
		if err != nil {
			return nil //nolint:nilerr // damage, which is told with the table
		}
		rebuild, err := bloomblock.NewRebuild(t.block)
		if err != nil {
			return fmt.Errorf("%s: offset %d: %w", filepath.Base(name), t.offset, err)
		}
		v = &Verify{Recorded: filter.Keys()}
		it := t.reader.Iter(sstable.IterOptions{Bypass: true})
		for ok := it.First(); ok && ctx.Err() == nil; ok = it.Next() {
			h := bloomblock.HashKey(it.Key().User)
			if !filter.MayContain(h) {
				v.Denied++
			}
			rebuild.Add(h)
		}
		if err := errors.Join(it.Close(), ctx.Err()); err != nil {
			v = nil
			return err
		}
		v.Difference = rebuild.Finish()
		if v.OK = v.Denied+v.Missing+v.Extra == 0 && v.Keys == v.Recorded; v.OK {
			return nil
		}
		at := t.offset
		if v.First != nil {
			at += *v.First
		}
		v.err = corrupt.Newf(name, int64(at), "the filter is not that of the table's keys: %s", v) //nolint:gosec // an offset in a file
		return nil
	})
}

// String is what was found, in words.
func (v *Verify) String() string {
	return fmt.Sprintf("built again from %s, the header says %d; %s missing, %s too many, %s denied",
		words.Plural(v.Keys, "key"), v.Recorded, words.Plural(v.Missing, "bit"), words.Plural(v.Extra, "bit"), words.Plural(v.Denied, "version"))
}

// damage is why a filter is not that of its table's keys, or nil.
func (v *Verify) damage() error {
	if v == nil {
		return nil
	}
	return v.err
}

// verdict is a line about a filter.
func (v *Verify) verdict() string {
	switch {
	case v == nil:
		return "verify: there is no filter to verify"
	case v.OK:
		return fmt.Sprintf("verify: ok, bit for bit: %s", v)
	default:
		return fmt.Sprintf("verify: NOT the filter of the table's keys: %s", v)
	}
}
