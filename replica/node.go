// Package replica keeps a bloomkv store on several machines with Raft: every node has all data, a write is acknowledged
// once a majority of the nodes has it on stable storage, and any minority may stop without a loss.
//
// It is a reference to start from: small, complete, and tested under kills, power cuts and partitions. There is one
// group of nodes, without sharding, and every node has a whole copy. The log and the elections are those of
// github.com/hashicorp/raft. The parts:
//
//   - A command is a [bloomkv.Batch] in bytes; the leader joins the batches of concurrent callers into one.
//   - The data is a store whose writes are not synced. Its mark is the index of the last command that it has, and is
//     recovered with the data, so a node knows after any crash which commands are missing.
//   - A snapshot copies nothing: it syncs the store and records its index. A follower that needs commands which the
//     leader's log no longer has gets the tables that it lacks, by [bloomkv.DB.Export] and [bloomkv.DB.Import].
//   - Nodes talk over one port, HTTP, also for Raft, so TLS and a token protect all of it.
package replica

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/vfs"
)

var (
	// ErrClosed means that the node is closed, has left the group, or has failed.
	ErrClosed = errors.New("node is closed")
	// ErrNoLeader means that no leader took the call before its context ended. A write was not applied.
	ErrNoLeader = errors.New("no leader")
	// ErrUnknown means that a write may or may not be applied, now or later: the leader changed, the connection to it
	// broke, or the context ended while the write was under way.
	ErrUnknown = errors.New("outcome unknown")
	// ErrOldStore means that the files in the directory of a node do not belong together: see [Open].
	ErrOldStore = errors.New("store and log do not belong together")
	// ErrBatch means that a batch cannot be replicated: it sets a mark, or is larger than MaxBatchSize.
	ErrBatch = errors.New("batch cannot be replicated")
	// ErrJoin means that a node cannot be added to the group: its name or address is wrong, or it is of another group.
	ErrJoin = errors.New("node cannot join")
	// ErrUnreached means that a node that was to be added does not answer. The votes of the group are the same as
	// before.
	ErrUnreached = errors.New("node does not answer")

	errRemoved   = errors.New("it was removed from the group")
	errNotLeader = errors.New("not the leader") // nothing was done: the caller tries elsewhere
)

// MaxBatchSize is the largest size of a batch that is replicated, in bytes as of [bloomkv.Batch.Size].
const MaxBatchSize = 8 << 20

// closeTimeout bounds how long Close waits for the goroutines of raft.
const closeTimeout = 10 * time.Second

// Node is one member of a group. All methods are safe for concurrent use.
type Node struct {
	// constant after Open
	opts      Options
	db        *bloomkv.DB
	log       *storeLog
	snapshots *snapshots
	fsm       *fsm
	raft      *raft.Raft // its own goroutines must wait for started
	transport raft.Transport
	stream    *streamLayer // nil with Options.Transport
	client    *client
	started   chan struct{} // closed when raft is set
	ended     chan struct{} // closed by end

	proposals chan proposal    // from callers to propose
	underway  chan command     // from propose to complete
	reads     chan readRequest // from callers to confirm
	whole     chan struct{}    // has a value while a request reads the whole store
	moves     moves            // see Join
	running   sync.WaitGroup   // propose, confirm, and the goroutine that stops a failed node

	ending  sync.Once
	failure error // of the store or the log, nil after Close alone; constant once ended is closed
	closing sync.Once
	closed  error
}

// Open starts the node of a directory. A new node with Options.Bootstrap begins a group; one without waits until
// another node adds it (see [Node.Join]).
//
// Open refuses, with an error matching ErrOldStore, a directory whose parts do not belong together: a store with data
// but no log, or one that was not written by this package, and a log that begins after what the store has. If the store
// is older than the log's snapshot, as after a restore of the store's files alone, Open gets the tables from the other
// nodes, and tries until ctx ends. It does not notice if store and log are both old: a node whose whole disk was set
// back has forgotten votes and entries that others count on, and must be removed and join with an empty directory.
func Open(ctx context.Context, options Options) (node *Node, err error) {
	opts, err := options.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("replica: %w", err)
	}
	n := &Node{
		opts: opts, started: make(chan struct{}), ended: make(chan struct{}),
		client:    newClient(&opts),
		proposals: make(chan proposal), underway: make(chan command, 64), reads: make(chan readRequest),
		whole: make(chan struct{}, 1),
	}
	defer func() {
		if err != nil {
			n.end(nil)
			n.client.close()
			if c, ok := n.transport.(raft.WithClose); ok && n.stream != nil { // another one is the caller's
				_ = c.Close() // it returns no error
			}
			err = errors.Join(fmt.Errorf("replica: %s: %w", opts.Dir, err), n.closeStores())
		}
	}()
	if err := n.openStores(ctx); err != nil {
		return nil, err
	}
	if err := n.reconcile(ctx); err != nil {
		return nil, err
	}
	if n.transport = opts.Transport; n.transport == nil {
		n.stream = newStreamLayer(&opts)
		// One message at a time to each follower, no pipeline: when a pipeline's reader ends, after an error or at
		// shutdown, its writer can wait for ever, and with it Shutdown. A message has up to 64 commands of many
		// batches.
		n.transport = raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			Stream: n.stream, MaxPool: 3, MaxRPCsInFlight: 1, Timeout: 10 * opts.Election,
			Logger: raftLogger(opts.Logger), ServerAddressProvider: addresses{n},
		})
	}
	config := opts.raftConfig()
	if opts.Bootstrap {
		servers := []raft.Server{{ID: config.LocalID, Address: raft.ServerAddress(opts.Address)}}
		alone := raft.Configuration{Servers: servers}
		err := raft.BootstrapCluster(config, n.log, n.log, n.snapshots, n.transport, alone)
		if err != nil && !errors.Is(err, raft.ErrCantBootstrap) { // the latter: it has a log
			return nil, err
		}
	}
	if err := n.startRaft(config); err != nil {
		return nil, err
	}
	n.running.Go(n.propose)
	n.running.Go(n.confirm)
	n.running.Go(n.watch)
	go n.complete() // may wait for raft for ever: see there
	return n, nil
}

func (n *Node) openStores(ctx context.Context) error {
	fsys, dir := n.opts.FS, n.opts.Dir
	if err := vfs.MkdirAll(fsys, dir); err != nil {
		return err
	}
	var err error
	if n.log, err = openLog(ctx, filepath.Join(dir, "log"), fsys); err != nil {
		return err
	}
	store := *n.opts.Store
	store.FS, store.Durability = fsys, bloomkv.DurabilityNoSync
	if n.db, err = bloomkv.OpenContext(ctx, filepath.Join(dir, "data"), &store); err != nil {
		return err
	}
	if n.snapshots, err = openSnapshots(&n.opts); err != nil {
		return err
	}
	n.fsm, err = newFSM(n)
	return err
}

// reconcile makes sure that store, log and snapshot belong together: see Open.
func (n *Node) reconcile(ctx context.Context) error {
	known, err := raft.HasExistingState(n.log, n.log, n.snapshots)
	if err != nil {
		return err
	}
	applied := n.fsm.applied.load()
	if applied > 0 && !known {
		return fmt.Errorf("%w: the store has index %d and the log is empty", ErrOldStore, applied)
	}
	first, err := n.log.FirstIndex()
	if err != nil {
		return err
	}
	want := n.snapshots.latest()
	if first > want.Index+1 {
		return fmt.Errorf("%w: the log begins at %d and the snapshot ends at %d", ErrOldStore, first, want.Index)
	}
	// raft deletes a log that a snapshot from the leader has replaced, and a crash may come before that. Entries after
	// the snapshot would then leave a gap, or follow others than those that it stands for.
	last, err := n.log.LastIndex()
	replaced := last > 0 && last < want.Index
	if err == nil && first > 0 && first <= want.Index && !replaced {
		var entry raft.Log
		err = n.log.GetLog(want.Index, &entry)
		replaced = entry.Term != want.Term
	}
	if err == nil && replaced {
		err = n.log.DeleteRange(first, last)
	}
	if err != nil {
		return err
	}
	for applied < want.Applied {
		err := n.fetch(ctx, want.Applied, want.addresses(n.opts.Address))
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: the store has index %d, want %d, and no node has it: %w",
				ErrOldStore, applied, want.Applied, err)
		case <-time.After(n.opts.Election):
		}
	}
	return nil
}

// watch stops raft when the store or the log has failed, so that others can lead. It fails the node when raft has
// stopped, as a leader that was removed does: raft answers nobody then.
func (n *Node) watch() {
	check := time.NewTicker(n.opts.Election)
	defer check.Stop()
	for {
		select {
		case <-n.ended:
			if n.failure != nil { // else Close does it, and waits
				n.raft.Shutdown()
			}
			return
		case <-check.C:
			if n.raft.State() == raft.Shutdown {
				n.end(errRemoved)
			}
		}
	}
}

// Close stops the node. It always returns: calls that wait get ErrClosed, or ErrUnknown for a write that is under way,
// and goroutines of raft that do not end within ten seconds are left behind and reported. It does not remove the node
// from its group; the others elect a new leader if this node was it, and [Node.Transfer] before Close makes that
// faster. A second Close returns what the first did.
func (n *Node) Close() error {
	n.closing.Do(func() {
		n.end(nil)
		// raft would close its transport only after its goroutines have ended, and some of these wait for the
		// transport.
		stopped := n.raft.Shutdown()
		var errs []error
		if c, ok := n.transport.(raft.WithClose); ok {
			errs = append(errs, c.Close())
		}
		ended := make(chan error, 1)
		go func() { ended <- stopped.Error() }()
		select {
		case err := <-ended:
			errs = append(errs, err)
		case <-time.After(closeTimeout):
			errs = append(errs, fmt.Errorf("goroutines of raft still run after %v", closeTimeout))
		}
		n.running.Wait()
		n.client.close()
		if err := errors.Join(append(errs, n.closeStores())...); err != nil {
			n.closed = fmt.Errorf("replica: %s: %w", n.opts.Dir, err)
		}
	})
	return n.closed
}

func (n *Node) closeStores() error {
	var errs []error
	if n.db != nil {
		errs = append(errs, n.db.Close())
	}
	if n.log != nil {
		errs = append(errs, n.log.Close())
	}
	return errors.Join(errs...)
}

// end ends all calls of the node. With an error of the store or the log it fails: it must not go on with a command
// missing. Only the first call counts.
func (n *Node) end(failure error) {
	n.ending.Do(func() {
		n.failure = failure
		close(n.ended)
	})
}

// over returns an error if the node is closed or has failed.
func (n *Node) over() error {
	select {
	case <-n.ended:
		if n.failure != nil {
			return fmt.Errorf("%w: %w", ErrClosed, n.failure)
		}
		return ErrClosed
	default:
		return nil
	}
}

// done is over, and returns an error for a node that was removed, too.
func (n *Node) done() error {
	if err := n.over(); err != nil {
		return err
	}
	if n.raft.State() == raft.Shutdown {
		return fmt.Errorf("%w: %w", ErrClosed, errRemoved)
	}
	return nil
}

// untilEnd returns a context that ends with the node.
func (n *Node) untilEnd() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		select {
		case <-n.ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// mark returns an index as a mark of the store.
func mark(index uint64) []byte { return binary.LittleEndian.AppendUint64(nil, index) }

// indexOf returns the index that mark has made a mark of, and 0 for every other one.
func indexOf(mark []byte) uint64 {
	if len(mark) != 8 {
		return 0
	}
	return binary.LittleEndian.Uint64(mark)
}
