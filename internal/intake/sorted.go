package intake

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/rangedel"
	"github.com/bloomkv/bloomkv/internal/words"
)

// ErrOrder means that keys are not in strictly ascending order.
var ErrOrder = errors.New("keys are not in strictly ascending order")

// A Range is the range of keys [Lower, Upper); a nil Upper means no end.
type Range struct{ Lower, Upper []byte }

// Sorted writes keys and values, which it copies, into tables, under a sequence number that is to be replaced. If
// replace is not nil, the tables have a range tombstone below the keys. It returns an error of the sequence as it is.
// After an error no file is left.
func Sorted[KV ~struct{ Key, Value []byte }](
	ctx context.Context, env compaction.Env, sorted iter.Seq2[KV, error], replace *Range,
) ([]*manifest.Table, error) {
	seq := ikey.Seq(0) // of every version; 0 takes no bytes
	var dels rangedel.List
	if r := replace; r != nil {
		lo, hi := bytes.Clone(batch.CutBound(r.Lower)), bytes.Clone(batch.CutBound(r.Upper))
		seq = 1 // a tombstone does not delete keys with its own sequence number
		// An empty range gives none.
		dels = rangedel.Fragmented([]rangedel.Tombstone{{Start: lo, End: hi, Seq: seq}})
	}
	load := compaction.NewLoader(env, dels)
	finished := false
	defer func() {
		if !finished { // even if the sequence panics
			load.Abandon()
		}
	}()
	var last []byte
	n := 0
	for each, err := range sorted {
		if err != nil {
			return nil, err
		}
		kv := struct{ Key, Value []byte }(each)
		if err = batch.Check("key", kv.Key, batch.MaxKey); err == nil {
			err = batch.Check("value", kv.Value, batch.MaxNewValue)
		}
		if err == nil && n > 0 && bytes.Compare(last, kv.Key) >= 0 {
			err = fmt.Errorf("key %d, %s, after %s: %w", n+1, words.Quoted(kv.Key), words.Quoted(last), ErrOrder)
		}
		if err != nil {
			return nil, fmt.Errorf("bloomkv: ingest: %w", err)
		}
		if err := ctx.Err(); err != nil { // checked at each key: the sequence may be slow
			return nil, err
		}
		if err := load.Add(ikey.Key{User: kv.Key, Trailer: ikey.MakeTrailer(seq, ikey.Set)}, kv.Value); err != nil {
			return nil, err
		}
		last = append(last[:0], kv.Key...)
		n++
	}
	if err := ctx.Err(); err != nil { // perhaps there was no key
		return nil, err
	}
	finished = true
	return load.Finish(ctx)
}
