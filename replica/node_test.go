package replica

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

func TestOneNodeKeepsItsWritesOverKillsAndPowerCuts(t *testing.T) {
	for name, keep := range map[string]vfstest.Keep{
		"kill": nil, "power cut": vfstest.KeepNothing, "part": vfstest.KeepSome(1, 50),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGroup(t, nil)
				g.open("a", true)
				for i := range 30 {
					g.put("a", key(i), "first")
					if i%10 == 9 {
						before := g.node("a").fsm.applied.load()
						g.crash("a", keep)
						g.open("a", true)
						g.want("a", key(i), "first")
						if after := g.node("a").fsm.applied.load(); after < before {
							t.Fatalf("index %d after the crash, %d before", after, before)
						}
					}
				}
				if sum := g.equal("a"); sum.Keys != 30 {
					t.Fatalf("%d keys, want 30", sum.Keys)
				}
			})
		})
	}
}

func TestANodeOnTheFileSystemOfTheSystem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		g := newGroup(t, func(o *Options) { o.FS, o.Dir, o.Snapshot, o.Trailing = vfs.OS, dir, 16, 4 })
		for i := range 3 {
			g.open("a", true)
			for j := range 40 {
				g.put("a", key(j), strconv.Itoa(i))
			}
			g.want("a", key(39), strconv.Itoa(i))
			g.closeNode("a")
		}
	})
}

func TestAStoreThatDoesNotBelongToTheLogIsRefused(t *testing.T) {
	for name, mark := range map[string][]byte{
		"without a mark": nil, "of another group": mark(7), "foreign mark": []byte("x"),
	} {
		t.Run(name, func(t *testing.T) {
			fsys := vfstest.NewMem()
			if err := vfs.MkdirAll(fsys, "/node/data"); err != nil {
				t.Fatal(err)
			}
			db, err := bloomkv.Open("/node/data", &bloomkv.Options{FS: fsys})
			if err != nil {
				t.Fatal(err)
			}
			var b bloomkv.Batch
			b.Put([]byte("k"), []byte("v"))
			if mark != nil {
				b.SetMark(mark)
			}
			if err := errors.Join(db.Apply(&b), db.Close()); err != nil {
				t.Fatal(err)
			}
			_, transport := raft.NewInmemTransport("a")
			_, err = Open(t.Context(), Options{
				ID: "a", Address: "a", Dir: "/node", FS: fsys, Bootstrap: true, Transport: transport,
			})
			if !errors.Is(err, ErrOldStore) {
				t.Fatalf("Open: %v, want ErrOldStore", err)
			}
		})
	}
}

func TestThreeNodesTakeWritesAndReadsAnywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, nil)
		ids := g.three()
		for i := range 60 {
			g.put(ids[i%3], key(i), "v")
			g.want(ids[(i+1)%3], key(i), "v")
		}
		if sum := g.equal(ids...); sum.Keys != 60 {
			t.Fatalf("%d keys, want 60", sum.Keys)
		}
	})
}

func TestBatchesOfManyCallersAreJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, nil)
		ids := g.three()
		leader := g.leader()
		before := g.node(leader).raft.LastIndex()
		var callers sync.WaitGroup
		for i := range 64 {
			n := g.node(ids[i%3])
			callers.Go(func() {
				for j := range 10 {
					err := g.repeat(func(ctx context.Context) error { return n.Put(ctx, []byte(key(i*10+j)), nil) })
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		callers.Wait()
		if sum := g.equal(ids...); sum.Keys != 640 {
			t.Fatalf("%d keys, want 640", sum.Keys)
		}
		if entries := g.node(leader).raft.LastIndex() - before; entries > 600 {
			t.Errorf("640 batches became %d entries", entries)
		}
	})
}

func TestTheDeathOfALeaderLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, nil)
		ids := g.three()
		for round := range 3 {
			leader := g.leader()
			g.put(leader, key(round), "v")
			g.crash(leader, vfstest.KeepNothing)
			next := g.leader()
			g.want(next, key(round), "v")
			g.put(next, key(100+round), "w")
			g.open(leader, false)
			g.want(leader, key(100+round), "w")
		}
		g.equal(ids...)
	})
}

// Voters refuse a candidate that they do not know. A change of the group that only the leader and the new node have
// would leave no node to elect when the leader dies.
func TestJoinWaitsUntilTheOthersKnow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, nil)
		g.open("a", true)
		g.open("b", false)
		g.join("a", "b")
		g.open("c", false)
		a := g.node("a")
		if err := a.raft.AddNonvoter("c", "c", 0, 0).Error(); err != nil {
			t.Fatal(err)
		}
		for !hasMember(g.node("b").members(), "c") {
			time.Sleep(time.Millisecond)
		}
		release := g.hold("b") // a and c are a majority of the voters
		defer release()
		joined := make(chan error, 1)
		go func() {
			joined <- g.repeat(func(ctx context.Context) error { return g.node("a").Join(ctx, "c", "c") })
		}()
		for !slices.Contains(a.members(), Member{"c", "c", true}) || a.raft.CommitIndex() < a.raft.LastIndex() {
			time.Sleep(time.Millisecond)
		}
		select {
		case err := <-joined:
			t.Fatalf("Join returned %v while a voter does not know of the new node", err)
		case <-time.After(2 * election):
		}
		ctx, cancel := context.WithTimeout(t.Context(), election)
		defer cancel()
		if err := g.node("a").Join(ctx, "c", "c"); !errors.Is(err, ErrUnknown) {
			t.Errorf("Join whose context ends: %v, want ErrUnknown", err)
		}
		release()
		if err := <-joined; err != nil {
			t.Fatal(err)
		}
		g.crash("a", vfstest.KeepNothing)
		g.put(g.leader(), "k", "v")
		g.open("a", false)
		g.equal("a", "b", "c")
	})
}

// A vote that nobody casts would leave a group of one without a majority, for ever.
func TestANodeThatIsNotReachedIsNotAdded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, nil)
		g.open("a", true)
		g.put("a", "k", "1")
		g.open("other", true)
		g.open("b", false)
		for _, c := range []struct {
			id, address string
			want        error
		}{
			{"c", "c", ErrUnreached},
			{"c", "b", ErrJoin}, // it is another node
			{"other", "other", ErrJoin},
			{"", "b", ErrJoin},
			{"b", "", ErrJoin},
		} {
			if err := g.node("a").Join(g.soon(), c.id, c.address); !errors.Is(err, c.want) {
				t.Errorf("Join of %q at %q: %v, want %v", c.id, c.address, err, c.want)
			}
			if got := g.node("a").Status().Members; len(got) != 1 {
				t.Errorf("after Join of %q at %q: members %v, want one", c.id, c.address, got)
			}
		}
		g.put("a", "k", "2")
		g.crash("a", vfstest.KeepNothing)
		g.open("a", false)
		g.put("a", "k", "3")
		g.join("a", "b")
		g.equal("a", "b")
	})
}

func TestANodeThatLagsHasNoVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, nil)
		g.open("a", true)
		g.put("a", "k", "1")
		g.open("b", false)
		release := g.hold("b")
		defer release()
		ctx, cancel := context.WithTimeout(t.Context(), 3*election)
		defer cancel()
		if err := g.node("a").Join(ctx, "b", "b"); !errors.Is(err, ErrUnknown) {
			t.Errorf("Join of a node that gets no log: %v, want ErrUnknown", err)
		}
		if got := g.node("a").members(); !slices.Contains(got, Member{"b", "b", false}) {
			t.Errorf("members %v, want b without a vote", got)
		}
		g.put("a", "k", "2") // b is not needed
		release()
		g.join("a", "b")
		if got := g.node("a").members(); !slices.Contains(got, Member{"b", "b", true}) {
			t.Errorf("members %v, want b with a vote", got)
		}
		g.equal("a", "b")
	})
}

func TestOnlyAHostAndAPortAreAnAddress(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:8081": true, "[::1]:8081": true, "node.example:8081": true,
		"": false, "node": false, "node:": false, ":8081": false, "node:http": false, "node:65536": false,
		"no address": false, "no address:1": false, "node:1/path": false, "user@node:1": false, "http://node:1": false,
	} {
		if err := (&Options{}).checkAddress(address); (err == nil) != want {
			t.Errorf("%q: %v, want an address: %v", address, err, want)
		}
	}
}

func TestLeaveWaitsUntilTheChangeIsCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, nil)
		g.three()
		leader := g.leader()
		g.equal("a", "b", "c")
		var releases []func()
		gone := ""
		for _, id := range g.ids() {
			if id != leader {
				releases = append(releases, g.hold(id))
				gone = id
			}
		}
		left := make(chan error, 1)
		go func() {
			left <- g.repeat(func(ctx context.Context) error { return g.node(leader).Leave(ctx, gone) })
		}()
		for hasMember(g.node(leader).members(), gone) {
			time.Sleep(time.Millisecond)
		}
		ctx, cancel := context.WithTimeout(t.Context(), election)
		defer cancel()
		if err := g.node(leader).Leave(ctx, gone); !errors.Is(err, ErrUnknown) {
			t.Errorf("Leave before the change is committed: %v, want ErrUnknown", err)
		}
		for _, release := range releases {
			release()
		}
		if err := <-left; err != nil || hasMember(g.node(leader).members(), gone) {
			t.Errorf("Leave: %v; %s in %v", err, gone, g.node(leader).members())
		}
	})
}

func TestANodeJoinsWhileAnotherIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, nil)
		g.three()
		g.crash("c", vfstest.KeepNothing)
		g.open("d", false)
		g.join(g.leader(), "d")
		g.put("d", "k", "v")
		g.open("c", false)
		g.equal("a", "b", "c", "d")
	})
}

func TestALeaderThatIsCutOffNeitherWritesNorReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, nil)
		ids := g.three()
		leader := g.leader()
		g.put(leader, "k", "old")
		g.equal(ids...) // it has the pair even if it is no leader any more
		g.separate(leader, true)
		ctx, cancel := context.WithTimeout(t.Context(), 3*election)
		defer cancel()
		if v, err := g.node(leader).Get(ctx, []byte("k"), Linearizable); !errors.Is(err, ErrNoLeader) {
			t.Errorf("linearizable read of a node that is alone: %q, %v, want ErrNoLeader", v, err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), 3*election) // the read may have used all of the time
		defer cancel()
		err := g.node(leader).Put(ctx, []byte("k"), []byte("lost"))
		if !errors.Is(err, ErrNoLeader) && !errors.Is(err, ErrUnknown) {
			t.Errorf("write to a node that is alone: %v, want ErrNoLeader or ErrUnknown", err)
		}
		if v, err := g.node(leader).Get(t.Context(), []byte("k"), Stale); err != nil || string(v) != "old" {
			t.Errorf("stale read: %q, %v, want old", v, err)
		}
		next := ""
		for next == "" {
			for _, id := range ids {
				if id != leader && g.node(id).raft.State() == raft.Leader {
					next = id
				}
			}
			time.Sleep(time.Millisecond)
		}
		g.put(next, "k", "new")
		g.separate(leader, false)
		g.want(leader, "k", "new")
		g.equal(ids...)
	})
}

func TestAFollowerFarBehindGetsTheTables(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, func(o *Options) { o.Snapshot, o.Trailing = 32, 8 })
		ids := g.three()
		var large bloomkv.Batch
		for i := range 5000 {
			large.Put([]byte(key(i)), []byte("a value of some length, so that tables have a size"))
		}
		if err := g.repeat(func(ctx context.Context) error { return g.node("a").Apply(ctx, &large) }); err != nil {
			t.Fatal(err)
		}
		leader := g.leader()
		behind := ids[0]
		if behind == leader {
			behind = ids[1]
		}
		g.equal(ids...)
		g.closeNode(behind)
		for i := range 200 {
			g.put(leader, key(10_000+i), "later")
		}
		for g.node(leader).snapshots.latest().Index < 100 {
			time.Sleep(5 * time.Millisecond)
		}
		g.open(behind, false)
		g.want(behind, key(10_199), "later")
		// The snapshot is the follower's only after its tables are.
		n := g.node(behind)
		for end := time.Now().Add(testkit.Patience); n.snapshots.latest().Index < 100; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("the follower has the snapshot of index %d, want the leader's", n.snapshots.latest().Index)
			}
		}
		g.equal(ids...)
		// What it got is its own: it survives a power cut, and the log continues.
		g.crash(behind, vfstest.KeepNothing)
		g.put(g.leader(), "after", "v")
		g.open(behind, false)
		g.want(behind, "after", "v")
		g.equal(ids...)
	})
}

func TestAnEmptyNodeJoinsAGroupWithoutALog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, func(o *Options) { o.Snapshot, o.Trailing = 16, 1 })
		g.open("a", true)
		for i := range 100 {
			g.put("a", key(i), "v")
		}
		for g.node("a").snapshots.latest().Index < 50 {
			time.Sleep(5 * time.Millisecond)
		}
		g.open("b", false)
		g.join("a", "b")
		g.want("b", key(99), "v")
		g.equal("a", "b")
	})
}

// Each of the two is in the group that the other one asks.
func TestTwoNodesFarBehindGetTheTables(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, func(o *Options) { o.Snapshot, o.Trailing = 16, 1 })
		g.open("a", true)
		g.put("a", "k", "v") // a leads
		for _, id := range []string{"b", "c"} {
			g.open(id, false)
			err := g.node("a").raft.AddNonvoter(raft.ServerID(id), raft.ServerAddress(id), 0, 0).Error()
			if err != nil {
				t.Fatal(err)
			}
		}
		g.equal("a", "b", "c")
		g.closeNode("b")
		g.closeNode("c")
		for i := range 100 {
			g.put("a", key(i), "v")
		}
		for g.node("a").snapshots.latest().Index < 50 {
			time.Sleep(5 * time.Millisecond)
		}
		g.separate("a", true) // until both are there
		g.open("b", false)
		g.open("c", false)
		g.separate("a", false)
		g.equal("a", "b", "c")
	})
}

// The store of a node is set back, and its log is not.
func TestANodeWithAnOldStoreGetsTheTables(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, func(o *Options) { o.Snapshot, o.Trailing = 16, 1 })
		ids := g.three()
		for i := range 100 {
			g.put("a", key(i), "v")
		}
		follower := ids[1]
		if g.leader() == follower {
			follower = ids[2]
		}
		for g.node(follower).snapshots.latest().Index < 50 {
			g.put("a", key(0), "v")
			time.Sleep(time.Millisecond)
		}
		g.closeNode(follower)
		fsys := g.members[follower].fs
		names, err := fsys.List("/node/data")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if err := fsys.Remove("/node/data/" + name); err != nil {
				t.Fatal(err)
			}
		}
		g.open(follower, false)
		g.want(follower, key(99), "v")
		g.equal(ids...)
	})
}

func TestCloseReturnsWhateverWaits(t *testing.T) {
	g := newRealGroup(t, nil)
	ids := g.three()
	leader := g.leader()
	var callers sync.WaitGroup
	for i := range 32 {
		n := g.node(ids[i%3])
		callers.Go(func() {
			for {
				_, err := n.Get(t.Context(), []byte("k"), Linearizable)
				if err == nil || errors.Is(err, bloomkv.ErrNotFound) {
					err = n.Put(t.Context(), []byte("k"), []byte("v"))
				}
				if errors.Is(err, ErrClosed) {
					return
				}
				if err != nil && !errors.Is(err, ErrUnknown) {
					t.Error(err)
				}
			}
		})
	}
	time.Sleep(election)
	for _, id := range ids { // the majority first, so that the leader's queues are full when it closes
		if id != leader {
			g.closeNode(id)
		}
	}
	g.closeNode(leader)
	callers.Wait()
}

func TestMembersLeaveAndHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, nil)
		ids := g.three()
		var leader, next string
		err := g.repeat(func(ctx context.Context) error {
			leader = g.leader()
			if err := g.node(leader).Transfer(ctx); err != nil {
				return err
			}
			if next = g.leader(); next == leader { // it was the leader no more, and is it again
				return fmt.Errorf("%w: %s is still the leader", ErrUnknown, leader)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		err = g.node(leader).Leave(g.soon(), leader)
		if errors.Is(err, ErrUnknown) { // it may have left, and hears of no leader then
			err = g.repeat(func(ctx context.Context) error { return g.node(next).Leave(ctx, leader) })
		}
		if err != nil {
			t.Fatal(err)
		}
		g.put(next, "k", "v")
		var rest []string
		for _, id := range ids {
			if id != leader {
				rest = append(rest, id)
			}
		}
		g.equal(rest...)
		if got := len(g.node(next).Status().Members); got != 2 {
			t.Fatalf("%d members, want 2", got)
		}
	})
}

func TestBatchesThatCannotBeReplicated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, nil)
		g.open("a", true)
		for name, fill := range map[string]func(b *bloomkv.Batch){
			"with a mark":        func(b *bloomkv.Batch) { b.SetMark([]byte("m")) },
			"too large":          func(b *bloomkv.Batch) { b.Put([]byte("k"), make([]byte, MaxBatchSize)) },
			"with too long keys": func(b *bloomkv.Batch) { b.Put(make([]byte, bloomkv.MaxKeySize+1), nil) },
		} {
			var b bloomkv.Batch
			fill(&b)
			if err := g.node("a").Apply(g.soon(), &b); !errors.Is(err, ErrBatch) {
				t.Errorf("a batch %s: %v, want ErrBatch", name, err)
			}
		}
	})
}

// A crash may come after a snapshot of the leader is on the disk and before the log that it replaces is deleted.
func TestALogThatASnapshotHasReplacedIsDeleted(t *testing.T) {
	_, transport := raft.NewInmemTransport("a")
	o, err := (&Options{
		ID: "a", Address: "a", Dir: t.TempDir(), Transport: transport, Election: election,
	}).withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	l, err := openLog(t.Context(), filepath.Join(o.Dir, "log"), o.FS)
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(10) {
		if err := l.StoreLog(&raft.Log{Index: i + 1, Term: 1, Type: raft.LogNoop}); err != nil {
			t.Fatal(err)
		}
	}
	s, err := openSnapshots(&o)
	if err != nil {
		t.Fatal(err)
	}
	servers := []raft.Server{{ID: "a", Address: "a"}}
	c := raft.Configuration{Servers: servers}
	err = s.save(saved{Index: 20, Term: 1, Configuration: c, ConfigurationIndex: 1})
	if err := errors.Join(err, l.SetUint64([]byte("CurrentTerm"), 1), l.Close()); err != nil {
		t.Fatal(err)
	}
	n, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	if err := n.Put(ctx, []byte("k"), []byte("v")); err != nil {
		t.Error(err)
	}
	if first, err := n.log.FirstIndex(); first != 21 || err != nil {
		t.Errorf("the log begins at %d, %v, want 21", first, err)
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
}

// What was cut or changed on the way from a leader is refused.
func TestADamagedSnapshotIsRefused(t *testing.T) {
	whole := encodeRecord(7)
	if r, err := readRecord(bytes.NewReader(whole)); err != nil || r.applied != 7 {
		t.Fatalf("a whole record: %+v, %v", r, err)
	}
	for i := range whole {
		changed := bytes.Clone(whole)
		changed[i] ^= 1
		for name, raw := range map[string][]byte{"cut": whole[:i], "changed": changed, "longer": append(changed, 0)} {
			if r, err := readRecord(bytes.NewReader(raw)); err == nil {
				t.Errorf("a record %s at byte %d: %+v, want an error", name, i, r)
			}
		}
	}
}

// A node whose disk is full stops, and says so. The others go on, and it goes on when there is space again.
func TestANodeWithAFullDiskStopsAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var full atomic.Value // string: the name of the node
		full.Store("")
		g := newGroup(t, func(o *Options) {
			id := o.ID
			o.FS = vfstest.NewHook(o.FS, func(op vfstest.Op) error {
				if full.Load() == id &&
					(op.Kind == vfstest.OpCreate || op.Kind == vfstest.OpWrite || op.Kind == vfstest.OpReserve) {
					return syscall.ENOSPC
				}
				return nil
			})
		})
		ids := g.three()
		for round := range 2 {
			hurt := g.leader()
			if round == 1 {
				hurt = ids[(slices.Index(ids, hurt)+1)%len(ids)]
			}
			full.Store(hurt)
			last := ""
			for i := range 20 {
				if id := ids[i%3]; id != hurt {
					last = key(round*100 + i)
					g.put(id, last, "v")
				}
			}
			full.Store("")
			g.crash(hurt, vfstest.KeepNothing)
			g.open(hurt, false)
			g.want(hurt, last, "v")
			g.equal(ids...)
		}
	})
}

// A node that cannot read its log stops instead of taking the process with it: when it is opened, or later.
func TestANodeWithAnUnreadableLogStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		g := newGroup(t, func(o *Options) {
			if o.ID != "a" {
				return
			}
			o.FS = vfstest.NewHook(o.FS, func(op vfstest.Op) error {
				table := strings.HasPrefix(op.Name, "/node/log/") && strings.HasSuffix(op.Name, ".sst")
				if table && op.Kind == vfstest.OpReadAt && broken.Load() {
					return syscall.EIO
				}
				return nil
			})
		})
		g.open("a", true)
		value := make([]byte, MaxBatchSize/2)
		for i := range 8 { // more than a memtable of the log
			if err := g.node("a").Put(g.soon(), []byte(key(i)), value); err != nil {
				t.Fatal(err)
			}
		}
		for i := range newestEntries { // what is read from the log below is not in memory
			g.put("a", "k", strconv.Itoa(i))
		}
		broken.Store(true)
		g.open("b", false)
		ctx, cancel := context.WithTimeout(t.Context(), 5*election)
		defer cancel()
		_ = g.node("a").Join(ctx, "b", "b") // it fails, or there is no leader any more
		for end := time.Now().Add(testkit.Patience); g.node("a").Status().Error == ""; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("the node does not notice that it cannot read its log")
			}
		}
		err := g.node("a").Put(t.Context(), []byte("k"), nil)
		if !errors.Is(err, ErrClosed) || !errors.Is(err, syscall.EIO) {
			t.Errorf("put: %v, want ErrClosed and the reason", err)
		}
		m := g.members["a"]
		_ = g.stop("a").Close() // its log has failed
		_, transport := raft.NewInmemTransport("a")
		o := Options{
			ID: "a", Address: "a", Dir: "/node", Transport: transport, Election: election,
			FS: vfstest.NewHook(m.fs, func(op vfstest.Op) error {
				if op.Kind == vfstest.OpReadAt && strings.HasSuffix(op.Name, ".sst") {
					return syscall.EIO
				}
				return nil
			}),
		}
		if n, err := Open(t.Context(), o); !errors.Is(err, syscall.EIO) {
			t.Errorf("Open: %v, %v, want EIO", n, err)
		}
		broken.Store(false)
		g.open("a", false)
		g.want("a", "k", strconv.Itoa(newestEntries-1))
	})
}

// A follower may have a command before the leader's store has it. Who has read it there reads it everywhere.
func TestWhatAFollowerHasReadIsReadEverywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slow sync.Map // names of nodes whose stores wait
		goOn := make(chan struct{})
		var once sync.Once
		release := func() { once.Do(func() { close(goOn) }) }
		g := newGroup(t, func(o *Options) {
			id := o.ID
			o.FS = vfstest.NewHook(o.FS, func(op vfstest.Op) error {
				if _, wait := slow.Load(id); wait && op.Kind == vfstest.OpWrite &&
					strings.HasPrefix(op.Name, "/node/data/") {
					<-goOn
				}
				return nil
			})
		})
		ids := g.three()
		leader := g.leader()
		g.put(leader, "k", "old")
		g.equal(ids...)
		at := slices.Index(ids, leader)
		fast, third := ids[(at+1)%3], ids[(at+2)%3]
		slow.Store(leader, true)
		slow.Store(third, true)
		t.Cleanup(release) // before the nodes are closed
		put := make(chan error, 1)
		begin := func() { put <- g.node(leader).Put(g.soon(), []byte("k"), []byte("new")) }
		go begin()
		for end := time.Now().Add(testkit.Patience); ; time.Sleep(time.Millisecond) {
			v, err := g.node(fast).Get(t.Context(), []byte("k"), Stale)
			if err != nil || time.Now().After(end) {
				t.Fatalf("%s has %q, %v, want what was written", fast, v, err)
			}
			if string(v) == "new" {
				break
			}
			select {
			case err := <-put: // another leader was elected meanwhile
				if err != nil {
					go begin()
				} else {
					put <- nil
				}
			default:
			}
		}
		read := func(id string) string {
			ctx, cancel := context.WithTimeout(t.Context(), 2*election)
			defer cancel()
			v, err := g.node(id).Get(ctx, []byte("k"), Linearizable)
			if err != nil {
				return err.Error()
			}
			return string(v)
		}
		first := read(fast)
		for _, id := range []string{third, leader} {
			if then := read(id); first == "new" && then == "old" {
				t.Errorf("%s read %q, and then %s read %q", fast, first, id, then)
			}
		}
		release()
		if err := <-put; err != nil && !errors.Is(err, ErrUnknown) {
			t.Error(err)
		}
		for _, id := range ids {
			g.want(id, "k", "new")
		}
		g.equal(ids...)
	})
}

func TestAMemberThatMovedIsAskedThereUntilTheGroupKnows(t *testing.T) {
	var m moves
	m.Store(raft.ServerID("b"), move{"old", "new"})
	for _, c := range []struct {
		id          raft.ServerID
		group, want raft.ServerAddress
	}{
		{"b", "old", "new"}, {"b", "new", "new"}, {"b", "newer", "newer"}, {"a", "there", "there"}, {"a", "old", "old"},
	} {
		if got := m.of(raft.Server{ID: c.id, Address: c.group}); got != c.want {
			t.Errorf("%s, which the group has at %s, is asked at %s, want %s", c.id, c.group, got, c.want)
		}
	}
	m.Store(raft.ServerID("b"), move{"old", "newer"})
	if got := m.of(raft.Server{ID: "b", Address: "old"}); got != "newer" {
		t.Errorf("after another move b is asked at %s", got)
	}
}
