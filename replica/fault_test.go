package replica

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/replica/internal/history"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

var (
	faultTime  = flag.Duration("faults", 6*time.Second, "how long the nodes of each seed are hurt")
	faultSeeds = flag.Int("seeds", 1, "how many seeds")
	firstSeed  = flag.Uint64("seed", 1, "the first seed")
)

// Clients write and read at all nodes while nodes are killed, lose power (one to all three), are cut off, and hand
// over. What the clients saw is linearizable, and in the end the stores are equal.
func TestHistoriesUnderFaultsAreLinearizable(t *testing.T) {
	for seed := *firstSeed; seed < *firstSeed+uint64(*faultSeeds); seed++ {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			g := newRealGroup(t, func(o *Options) { o.Snapshot, o.Trailing = 64, 16 })
			ids := g.three()
			h := history.New()
			stop := make(chan struct{})
			var clients sync.WaitGroup
			for c := range 8 {
				own := rand.New(rand.NewPCG(seed, uint64(c)+1))
				clients.Go(func() { g.client(h, own, c, ids, stop) })
			}
			faults := map[string]int{}
			for end := time.Now().Add(*faultTime); time.Now().Before(end); {
				time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
				faults[g.hurt(random, ids)]++
			}
			for _, id := range ids {
				g.separate(id, false)
				if g.node(id) == nil {
					g.open(id, false)
				}
			}
			time.Sleep(2 * election)
			close(stop)
			clients.Wait()
			sum := g.equal(ids...)
			t.Logf("%s; faults %v; %+v", h, faults, sum)
			if h.Done() < 100 {
				t.Errorf("%s: too few to show anything", h)
			}
			if err := h.Check(time.Minute); err != nil {
				t.Error(err)
			}
		})
	}
}

// hurt does one thing to the group and returns its name.
func (g *group) hurt(random *rand.Rand, ids []string) string {
	id := ids[random.IntN(len(ids))]
	switch n := g.node(id); random.IntN(7) {
	case 0:
		g.crash(id, nil)
		g.open(id, false)
		return "kill"
	case 1: // long enough for others to truncate their logs
		g.crash(id, vfstest.KeepSome(random.Uint64(), 50))
		time.Sleep(time.Duration(random.IntN(1000)) * time.Millisecond)
		g.open(id, false)
		return "power cut of one"
	case 2:
		other := ids[random.IntN(len(ids))]
		g.crash(id, vfstest.KeepNothing)
		if other != id {
			g.crash(other, vfstest.KeepSome(random.Uint64(), 50))
			g.open(other, false)
		}
		g.open(id, false)
		return "power cut of two"
	case 3:
		for _, each := range ids {
			g.crash(each, vfstest.KeepSome(random.Uint64(), 30))
		}
		for _, each := range ids {
			g.open(each, false)
		}
		return "power cut of three"
	case 4, 5:
		g.separate(id, true)
		time.Sleep(time.Duration(random.IntN(6)) * election)
		g.separate(id, false)
		return "partition"
	default:
		ctx, cancel := context.WithTimeout(context.Background(), 10*election)
		defer cancel()
		_ = n.Transfer(ctx) // it may be no leader, or alone
		return "hand-over"
	}
}

// client writes and reads until stop. Keys change with time, so that each has few writes of unknown outcome.
func (g *group) client(h *history.History, random *rand.Rand, name int, ids []string, stop chan struct{}) {
	begin := time.Now()
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(random.IntN(10)) * time.Millisecond):
		}
		id := ids[random.IntN(len(ids))]
		n := g.node(id)
		if n == nil {
			continue
		}
		key := fmt.Sprintf("%d-%d", int(time.Since(begin)/(500*time.Millisecond)), random.IntN(3))
		ctx, cancel := context.WithTimeout(context.Background(), 6*election)
		switch random.IntN(5) {
		case 0, 1:
			value := fmt.Sprintf("%d-%d", name, i)
			h.Write(key, value, func() history.Outcome {
				return g.outcome(id, n, n.Put(ctx, []byte(key), []byte(value)))
			})
		case 2:
			h.Write(key, "", func() history.Outcome { return g.outcome(id, n, n.Delete(ctx, []byte(key))) })
		default:
			h.Read(key, func() (string, history.Outcome) {
				value, err := n.Get(ctx, []byte(key), Linearizable)
				if errors.Is(err, bloomkv.ErrNotFound) {
					err = nil
				}
				return string(value), g.outcome(id, n, err)
			})
		}
		cancel()
	}
}

// outcome says what a client knows. One that asks a node that has crashed meanwhile got no answer.
func (g *group) outcome(id string, asked *Node, err error) history.Outcome {
	switch {
	case g.node(id) != asked || errors.Is(err, ErrUnknown):
		return history.Unknown
	case err != nil:
		return history.Failed
	default:
		return history.Done
	}
}
