package history

import (
	"bytes"
	"context"
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

// A register is one key of the store, as the checker sees it: its state is a value, or nil.
type registerOp struct {
	kind     int // 0 get, 1 put, 2 delete, 3 put if absent, 4 compare and swap, 5 delete of a range, 6 ingest
	key      int
	old, new []byte
}

type registerResult struct {
	value []byte
	done  bool
}

var registers = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[int][]porcupine.Operation{}
		for _, op := range history {
			k := op.Input.(registerOp).key //nolint:errcheck // the history holds only registerOps
			byKey[k] = append(byKey[k], op)
		}
		var parts [][]porcupine.Operation
		for _, p := range byKey {
			parts = append(parts, p)
		}
		return parts
	},
	Init: func() any { return []byte(nil) },
	Step: func(state, input, output any) (bool, any) {
		is := state.([]byte)              //nolint:errcheck // the states are slices
		op := input.(registerOp)          //nolint:errcheck // the history holds only registerOps
		result := output.(registerResult) //nolint:errcheck // and registerResults
		same := (is == nil) == (op.old == nil) && bytes.Equal(is, op.old)
		switch op.kind {
		case 0:
			return (is == nil) == (result.value == nil) && bytes.Equal(is, result.value), is
		case 1, 2, 5, 6:
			return true, op.new
		default:
			if result.done != same {
				return false, is
			}
			if same {
				return true, op.new
			}
			return true, is
		}
	},
	Equal: func(a, b any) bool {
		x, y := a.([]byte), b.([]byte) //nolint:errcheck // the states are slices
		return (x == nil) == (y == nil) && bytes.Equal(x, y)
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v → %+v", input, output) },
}

// TestConditionalWritesAreLinearizable has eight goroutines use a small number of keys in every way while the store
// flushes and compacts, and passes the history to a checker.
func TestConditionalWritesAreLinearizable(t *testing.T) {
	for round := range storetest.AtStride(60) {
		o := storetest.Tiny(vfstest.NewMem())
		o.Durability = bloomkv.Durability(round % 2)
		db, err := bloomkv.Open("db", o)
		must(t, err)
		const workers = 8
		keys := 12 - round%3*4
		operations := 300
		began := time.Now()
		histories := make([][]porcupine.Operation, workers)
		ctx, stop := context.WithCancel(t.Context())
		var background, wg sync.WaitGroup
		background.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				var err error
				switch i % 3 {
				case 0, 1:
					err = db.Flush(ctx)
				default:
					err = db.Compact(ctx, bloomkv.CompactOptions{})
				}
				if err != nil && ctx.Err() == nil {
					t.Errorf("background: %v", err)
				}
			}
		})
		for w := range workers {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(round), uint64(w)))
				last := map[int][]byte{}
				for i := range operations {
					op := registerOp{kind: rng.IntN(6), key: rng.IntN(keys)}
					if rng.IntN(50) == 0 {
						op.kind = 6
					}
					key, others := fmt.Appendf(nil, "key%02d", op.key), 0
					fresh := fmt.Appendf(nil, "%d/%d", w, i)
					if i%10 == 0 {
						fresh = append(fresh, make([]byte, 500)...)
					}
					var result registerResult
					var err error
					call := time.Since(began)
					switch op.kind {
					case 0:
						result.value, err = db.Get(key)
						if err == bloomkv.ErrNotFound { //nolint:errorlint // returned bare
							err = nil
						}
						last[op.key] = result.value
					case 1:
						op.new = fresh
						err = db.Put(key, fresh)
					case 2:
						err = db.Delete(key)
					case 3:
						op.new = fresh
						result.done, err = db.PutIfAbsent(key, fresh)
					case 5:
						others = min(rng.IntN(4), keys-1-op.key)
						end := fmt.Appendf(nil, "key%02d\x00", op.key+others)
						err = db.DeleteRange(bloomkv.KeyRange{Lower: key, Upper: end})
					case 6:
						op.new = fresh
						err = db.Ingest(t.Context(), storetest.PairsOf(map[string]string{string(key): string(fresh)}),
							bloomkv.IngestOptions{})
					default:
						op.old, op.new = last[op.key], fresh
						switch {
						case op.old == nil:
							result.done, err = db.PutIfAbsent(key, op.new)
						case rng.IntN(3) == 0:
							op.new = nil
							result.done, err = db.CompareAndDelete(key, op.old)
						default:
							result.done, err = db.CompareAndSwap(key, op.old, op.new)
						}
					}
					if err != nil {
						t.Errorf("%+v: %v", op, err)
						return
					}
					returned := time.Since(began)
					for i := range 1 + others { // a range is a separate call for each key
						op := op
						op.key += i
						histories[w] = append(histories[w], porcupine.Operation{
							ClientId: w, Input: op, Output: result, Call: int64(call), Return: int64(returned),
						})
					}
				}
			})
		}
		wg.Wait()
		stop()
		background.Wait()
		must(t, db.Close())
		var history []porcupine.Operation
		swaps := 0
		for _, h := range histories {
			history = append(history, h...)
			for _, op := range h {
				if k := op.Input.(registerOp).kind; (k == 3 || k == 4) && //nolint:errcheck // all are registerOps
					op.Output.(registerResult).done { //nolint:errcheck // and registerResults
					swaps++
				}
			}
		}
		if swaps < operations/10 {
			t.Errorf("only %d conditional writes were done: the test tests little", swaps)
		}
		if result := porcupine.CheckOperationsTimeout(registers, history, time.Minute); result != porcupine.Ok {
			t.Fatalf("round %d: the history of %d operations is %v", round, len(history), result)
		}
	}
}
