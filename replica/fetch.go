package replica

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/bloomkv/bloomkv"
)

// sources returns the addresses of the nodes that may have tables for this one, the leader first.
func (n *Node) sources() []string {
	<-n.started // a leader may send its snapshot before that
	var all []string
	leader, _ := n.raft.LeaderWithID()
	if leader != "" && string(leader) != n.opts.Address {
		all = append(all, string(leader))
	}
	for _, s := range n.servers() {
		if s.Address != leader && string(s.Address) != n.opts.Address {
			all = append(all, string(s.Address))
		}
	}
	return all
}

// fetch replaces the store by that of another node, which must have at least an index. Tables that this store has,
// which are those of an earlier fetch, do not travel. The error is that of all nodes that were asked.
func (n *Node) fetch(ctx context.Context, atLeast uint64, from []string) error {
	errs := []error{fmt.Errorf("no node has index %d", atLeast)}
	for _, address := range from {
		err := n.fetchFrom(ctx, atLeast, address, from, true)
		if errors.Is(err, bloomkv.ErrMissingTable) { // compaction removed one since the inventory was made
			err = n.fetchFrom(ctx, atLeast, address, from, false)
		}
		if err == nil {
			return nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", address, err))
	}
	return errors.Join(errs...)
}

func (n *Node) fetchFrom(ctx context.Context, atLeast uint64, address string, all []string, onlyNew bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watchdog := time.AfterFunc(n.stallTimeout(), cancel) // the sender may be stopped, and its connection not
	defer watchdog.Stop()
	var have *bloomkv.Inventory
	if onlyNew {
		var err error
		if have, err = n.db.Inventory(ctx); err != nil {
			return err
		}
	}
	stream, index, err := n.client.export(ctx, address, have)
	if err != nil {
		return err
	}
	defer stream.Close() //nolint:errcheck // it was read
	if index < atLeast {
		return fmt.Errorf("its store has index %d, want %d", index, atLeast)
	}
	if err := n.believe(ctx, index, atLeast, address, all); err != nil {
		return err
	}
	from := stalling{stream, watchdog, n.stallTimeout()}
	if err := n.db.Import(ctx, from, bloomkv.ImportOptions{Replace: true, Mark: mark(index)}); err != nil {
		return err
	}
	n.fsm.applied.raise(index)
	return nil
}

// believe returns an error if the store of a node has an index that no other node knows to be committed: this node
// would skip all commands up to there. Only nodes that have committed at least what was asked for can judge: if two
// nodes that both need a store judged each other's, neither would ever get one. Without such a node, the sender's own
// commit index must be as large as that of its store.
func (n *Node) believe(ctx context.Context, index, atLeast uint64, of string, all []string) error {
	committed, answered := uint64(0), false
	for _, address := range append(slices.DeleteFunc(slices.Clone(all), func(a string) bool { return a == of }), of) {
		if address == of && answered {
			break
		}
		if s, err := n.client.status(ctx, address); err == nil && (s.Commit >= atLeast || address == of) {
			committed, answered = max(committed, s.Commit), true
		}
	}
	if index > committed {
		return fmt.Errorf("its store has index %d, of which other nodes know %d to be committed", index, committed)
	}
	return nil
}

// export returns this node's store as a stream, without tables of have, with its index.
func (n *Node) export(ctx context.Context, have *bloomkv.Inventory) (*bloomkv.Export, uint64, error) {
	if err := n.done(); err != nil {
		return nil, 0, err
	}
	x, err := n.db.Export(ctx, bloomkv.ExportOptions{Since: have})
	if err != nil {
		return nil, 0, closedAs(err)
	}
	return x, indexOf(x.Mark()), nil
}

// stallTimeout is the longest time without a byte of a store that travels, 30 seconds by default.
func (n *Node) stallTimeout() time.Duration { return 30 * n.opts.Election }

// stalling lets a timer run while a read waits for the sender, and not while this node uses what it has read.
type stalling struct {
	io.Reader
	watchdog *time.Timer
	timeout  time.Duration
}

func (s stalling) Read(b []byte) (int, error) {
	s.watchdog.Reset(s.timeout)
	defer s.watchdog.Stop()
	return s.Reader.Read(b)
}
