package replica

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/raft"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// A snapshot of a leader stands for data. The node has it on stable storage before the snapshot is the node's own.
func TestASnapshotOfALeaderBecomesOwnOnceItsDataIsDurable(t *testing.T) {
	for name, c := range map[string]struct {
		beyond uint64 // by which the snapshot's index exceeds what the store has
		fails  bool   // the syncs of the store do
		want   string // in the error; empty for none
	}{
		"of what the store has":          {0, false, ""},
		"of what the store has not":      {1, false, "no node has index"},
		"of what the disk does not sync": {0, true, syscall.EIO.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var fails atomic.Bool
				g := newGroup(t, func(o *Options) {
					o.FS = vfstest.NewHook(o.FS, func(op vfstest.Op) error {
						if fails.Load() && op.Kind == vfstest.OpSync && strings.HasPrefix(op.Name, "/node/data") {
							return syscall.EIO
						}
						return nil
					})
				})
				g.open("a", true)
				g.put("a", "k", "v")
				n := g.node("a")
				have := n.fsm.applied.load()
				if d := n.Status().Durable; d >= have {
					t.Fatalf("index %d is durable, want less than %d: the writes of the store are not synced", d, have)
				}
				const index = 1000
				sink, err := n.snapshots.Create(raft.SnapshotVersionMax, index, 1, raft.Configuration{}, 1, nil)
				testkit.Must(t, err)
				record := encodeRecord(have + c.beyond)
				_, err = sink.Write(record)
				testkit.Must(t, err)
				testkit.Must(t, sink.Close())
				fails.Store(c.fails)
				err = n.fsm.Restore(io.NopCloser(bytes.NewReader(record)))
				fails.Store(false)
				if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
					t.Errorf("Restore: %v, want %q", err, c.want)
				}
				if failed := n.Status().Error != ""; failed != c.fails {
					t.Errorf("the node has failed: %v, want %v", failed, c.fails)
				}
				cut := g.members["a"].fs.Crash(vfstest.KeepNothing)
				kept, err := openSnapshots(&Options{FS: cut, Dir: "/node"})
				if err != nil || (kept.latest().Index == index) != (c.want == "") {
					t.Errorf("after a power cut: snapshot %+v, %v; Restore: %q", kept.latest(), err, c.want)
				}
				db, err := bloomkv.Open("/node/data", &bloomkv.Options{FS: cut})
				testkit.Must(t, err)
				defer db.Close()
				if got, err := storeIndex(db); err != nil || got < kept.latest().Applied {
					t.Errorf("after a power cut: the store has index %d, %v, want %d at least", got, err,
						kept.latest().Applied)
				}
				if c.fails {
					_ = g.stop("a").Close() // it has failed
				}
			})
		})
	}
}

// setBack makes the files of a node whose store has index 5, and whose snapshot stands for 20.
func setBack(t *testing.T, o *Options) {
	t.Helper()
	l, err := openLog(t.Context(), filepath.Join(o.Dir, "log"), o.FS)
	testkit.Must(t, err)
	s, err := openSnapshots(o)
	testkit.Must(t, err)
	servers := []raft.Server{{ID: "a", Address: "a"}, {ID: "b", Address: "b"}, {ID: "c", Address: "c"}}
	c := raft.Configuration{Servers: servers}
	err = s.save(saved{Index: 20, Term: 1, Configuration: c, ConfigurationIndex: 1, Applied: 20})
	testkit.Must(t, errors.Join(err, l.SetUint64([]byte("CurrentTerm"), 1), l.Close()))
	db, err := bloomkv.Open(filepath.Join(o.Dir, "data"), &bloomkv.Options{FS: o.FS})
	testkit.Must(t, err)
	var b bloomkv.Batch
	b.Put([]byte("own"), []byte("old"))
	b.SetMark(mark(5))
	testkit.Must(t, errors.Join(db.Apply(&b), db.Close()))
}

func TestANodeWhoseStoreIsBehindItsSnapshotFetchesFirst(t *testing.T) {
	stream := export(t, source(t, 10, 20), nil)
	for name, c := range map[string]struct {
		refused int // the first requests for a store
		left    bool
	}{
		"at once": {0, false}, "of the second node": {1, false}, "after a while": {5, false}, "never": {5, true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			requests := 0
			answers := sender(func(*http.Request) (io.ReadCloser, uint64) {
				requests++
				switch {
				case requests > c.refused:
					return io.NopCloser(bytes.NewReader(stream)), 20
				case requests == c.refused && c.left:
					cancel()
				}
				return http.NoBody, 19
			})
			_, transport := raft.NewInmemTransport("a")
			o, err := (&Options{
				ID: "a", Address: "a", Dir: t.TempDir(), Transport: transport, Election: election / 10,
				Client: &http.Client{Transport: answers},
			}).withDefaults()
			testkit.Must(t, err)
			setBack(t, &o)
			n, err := Open(ctx, o)
			if c.left {
				if !errors.Is(err, ErrOldStore) || !strings.Contains(err.Error(), "index 5, want 20") {
					t.Errorf("Open: %v, want ErrOldStore and both indexes", err)
				}
				return
			}
			testkit.Must(t, err)
			sum, err := n.Checksum(t.Context())
			if err != nil || sum.Index != 20 || sum.Keys != 10 || requests != c.refused+1 {
				t.Errorf("after %d requests: %+v, %v, want index 20 and 10 keys", requests, sum, err)
			}
			if err := n.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// The tables that a node gets may have commands that its log has not yet, and it may make a snapshot before that.
func TestASnapshotOfAStoreThatIsAheadOfTheLogIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, func(o *Options) { o.Trailing, o.Snapshot = 1, 1<<40 })
		g.open("a", true)
		for i := range 3 {
			g.put("a", key(i), "v")
		}
		n := g.node("a")
		ahead := n.fsm.applied.load() + 5
		var b bloomkv.Batch
		b.SetMark(mark(ahead))
		testkit.Must(t, n.db.Apply(&b))
		n.fsm.applied.raise(ahead)
		testkit.Must(t, n.raft.Snapshot().Error())
		if s := n.snapshots.latest(); s.Index >= ahead {
			t.Fatalf("a snapshot of index %d, want less than %d", s.Index, ahead)
		}
		for i := range 10 {
			g.put("a", key(i), "w")
		}
		g.open("b", false)
		g.join("a", "b")
		g.equal("a", "b")
	})
}
