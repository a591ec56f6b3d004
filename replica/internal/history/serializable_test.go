package history

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

const accountKeys = 5

// A transaction is what one call has read and written, by number of key. The empty value means that the key is absent.
type transaction struct{ reads, writes map[int]string }

// wholeStore is the store as the checker sees it: all keys together, since a transaction is one step on several.
var wholeStore = porcupine.Model{
	Init: func() any { return [accountKeys]string{} },
	Step: func(state, input, _ any) (bool, any) {
		now := state.([accountKeys]string) //nolint:errcheck // the states are arrays
		tx := input.(transaction)          //nolint:errcheck // the history holds only transactions
		for k, v := range tx.reads {
			if now[k] != v {
				return false, now
			}
		}
		for k, v := range tx.writes {
			now[k] = v
		}
		return true, now
	},
	DescribeOperation: func(input, _ any) string { return fmt.Sprintf("%+v", input) },
}

// TestTransactionsAreSerializable mixes transactions, lookups and writes on a few keys while the store flushes,
// compacts and ingests, and has a checker look for an order of all of them that explains what each has read, and in
// which none comes before another that had returned when it was called.
func TestTransactionsAreSerializable(t *testing.T) {
	for round := range storetest.AtStride(40) {
		o := storetest.Tiny(vfstest.NewMem())
		o.Durability = bloomkv.DurabilityNoSync
		db, err := bloomkv.Open("db", o)
		must(t, err)
		stop := storetest.Churn(t, db)
		const workers, operations = 5, 50
		histories := make([][]porcupine.Operation, workers)
		began := time.Now()
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(round), uint64(w)))
				for i := range operations {
					var done transaction
					call := time.Since(began)
					err := randomCall(t, db, rng, fmt.Sprintf("%d/%d", w, i), &done)
					if errors.Is(err, bloomkv.ErrConflict) {
						continue // it wrote nothing
					}
					if err != nil {
						t.Error(err)
						return
					}
					histories[w] = append(histories[w], porcupine.Operation{
						ClientId: w, Input: done, Call: int64(call), Return: int64(time.Since(began)),
					})
				}
			})
		}
		wg.Wait()
		stop()
		conflicts := db.Metrics().Writes.Conflicts
		must(t, db.Close())
		var history []porcupine.Operation
		for _, h := range histories {
			history = append(history, h...)
		}
		if result := porcupine.CheckOperationsTimeout(wholeStore, history, time.Minute); result != porcupine.Ok {
			t.Fatalf("round %d: the history of %d calls, with %d conflicts, is %v",
				round, len(history), conflicts, result)
		}
	}
}

// randomCall makes one call and records what it has read and written.
func randomCall(t *testing.T, db *bloomkv.DB, rng *rand.Rand, fresh string, done *transaction) error {
	t.Helper()
	key := func(k int) []byte { return fmt.Appendf(nil, "key%d", k) }
	*done = transaction{map[int]string{}, map[int]string{}}
	first, second := rng.IntN(accountKeys), rng.IntN(accountKeys)
	kind, scans, deletes := rng.IntN(10), rng.IntN(3) == 0, rng.IntN(5)
	switch kind {
	case 0:
		v, err := db.Get(key(first))
		if errors.Is(err, bloomkv.ErrNotFound) {
			err = nil
		}
		done.reads[first] = string(v)
		return err
	case 1:
		done.writes[first] = fresh
		return db.Put(key(first), []byte(fresh))
	case 2:
		for k := first; k < accountKeys; k++ {
			done.writes[k] = ""
		}
		return db.DeleteRange(bloomkv.KeyRange{Lower: key(first)})
	case 3:
		done.writes[first] = fresh
		return db.Ingest(t.Context(), storetest.PairsOf(map[string]string{string(key(first)): fresh}),
			bloomkv.IngestOptions{})
	}
	return db.Update(t.Context(), func(tx *bloomkv.Tx) error {
		*done = transaction{map[int]string{}, map[int]string{}}
		if scans {
			for k := first; k < accountKeys; k++ {
				done.reads[k] = ""
			}
			for kv, err := range tx.Scan(bloomkv.IterOptions{Lower: key(first), Upper: []byte("key~")}) {
				if err != nil {
					return err
				}
				done.reads[int(kv.Key[3]-'0')] = string(kv.Value)
			}
		} else {
			v, err := tx.Get(key(first))
			if err != nil && !errors.Is(err, bloomkv.ErrNotFound) {
				return err
			}
			done.reads[first] = string(v)
		}
		if kind == 4 {
			return nil
		}
		if deletes == 0 {
			done.writes[second] = ""
			return tx.Delete(key(second))
		}
		done.writes[second] = fresh
		return tx.Put(key(second), []byte(fresh))
	})
}
