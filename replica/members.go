package replica

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/bloomkv/bloomkv/internal/words"
)

// A Member is a node of the group.
type Member struct {
	ID      string `json:"id"`
	Address string `json:"address"`
	Voter   bool   `json:"voter"`
}

// Status describes a node and its group, as the node sees them. Indexes are those of the Raft log.
type Status struct {
	ID      string   `json:"id"`
	Address string   `json:"address"`
	State   string   `json:"state"` // "Leader", "Follower", "Candidate" or "Shutdown"
	Term    uint64   `json:"term"`
	Leader  string   `json:"leader"` // the leader's address, empty if unknown
	Members []Member `json:"members"`

	Last     uint64 `json:"last"`     // last entry of the log
	Commit   uint64 `json:"commit"`   // last entry that is known to be on a majority
	Applied  uint64 `json:"applied"`  // last command that the store has; no-ops never get there
	Durable  uint64 `json:"durable"`  // last command that the store has on stable storage
	Snapshot uint64 `json:"snapshot"` // the log before this may be truncated
	Error    string `json:"error,omitempty"`
}

// Status returns the state of the node. It takes no other node, and works on one that has failed.
func (n *Node) Status() Status {
	leader, _ := n.raft.LeaderWithID()
	s := Status{
		ID: n.opts.ID, Address: n.opts.Address, State: n.raft.State().String(), Term: n.raft.CurrentTerm(),
		Leader: string(leader), Last: n.raft.LastIndex(), Commit: n.raft.CommitIndex(),
		Applied: n.fsm.applied.load(), Snapshot: n.snapshots.latest().Index, Members: n.members(),
	}
	if m, err := n.db.DurableMark(); err == nil {
		s.Durable = indexOf(m)
	}
	if err := n.done(); err != nil {
		s.Error = err.Error()
	}
	return s
}

func (n *Node) members() []Member {
	var all []Member
	for _, s := range n.servers() {
		all = append(all, memberOf(s))
	}
	return all
}

func memberOf(s raft.Server) Member {
	return Member{string(s.ID), string(s.Address), s.Suffrage == raft.Voter}
}

func hasMember(all []Member, id string) bool {
	return slices.ContainsFunc(all, func(m Member) bool { return m.ID == id })
}

// servers returns the newest configuration of the group, committed or not, nil if it is unknown.
func (n *Node) servers() []raft.Server {
	f := n.raft.GetConfiguration()
	if f.Error() != nil {
		return nil
	}
	return f.Configuration().Servers
}

// Join adds a node to the group as a voter, or changes its address. Any node of the group takes the call. The new node
// must run, with an empty directory. To join what is in the group already changes nothing.
//
// The group is changed only once it can go on with the change. The node is asked for its status first: the error
// matches ErrUnreached if it does not answer, and ErrJoin if the address is that of another node, or of another group.
// Then it gets the log without a vote, and it votes once it has what the leader had. Join returns once every voter that
// answers knows of that: see spread. If ctx ends before, as it may while much data travels, the error matches
// ErrUnknown, and the call may be made again. Until then the node is a member without a vote: it delays nothing, and
// Leave removes it.
//
// A member that has moved may be needed to elect the leader that could change its address: of two nodes, say. So every
// node that takes the call asks the member at its new address, until the group has that.
func (n *Node) Join(ctx context.Context, id, address string) error {
	err := n.opts.checkAddress(address)
	if id == "" {
		err = errors.New("no id")
	}
	if err != nil {
		return fmt.Errorf("%w: id %s: %w", ErrJoin, words.Quoted(id), err)
	}
	want := Member{id, address, true}
	members := n.members()
	i := slices.IndexFunc(members, func(m Member) bool { return m.ID == id && m.Address != address })
	if i >= 0 && n.probe(ctx, members, want) == nil {
		n.moves.Store(raft.ServerID(id), move{raft.ServerAddress(members[i].Address), raft.ServerAddress(address)})
	}
	return n.onLeader(ctx,
		func() error { return n.joinHere(ctx, want) },
		func(leader string) error { return n.client.join(ctx, leader, id, address) })
}

// moves are the members that have said that they are at another address than the group has them: a move by each id.
type moves struct{ sync.Map }

type move struct{ from, to raft.ServerAddress }

// of returns where a member of the group is.
func (m *moves) of(s raft.Server) raft.ServerAddress {
	v, _ := m.Load(s.ID)
	if moved, ok := v.(move); ok && moved.from == s.Address {
		return moved.to
	}
	return s.Address
}

// addresses tells raft where members are.
type addresses struct{ of *Node }

// ServerAddr implements [raft.ServerAddressProvider]. After an error raft takes the address that it knows.
func (a addresses) ServerAddr(id raft.ServerID) (raft.ServerAddress, error) {
	select {
	case <-a.of.started:
		for _, s := range a.of.servers() {
			if s.ID == id {
				return a.of.moves.of(s), nil
			}
		}
	default: // raft is not set yet
	}
	return "", errors.New("unknown member")
}

// joinHere makes a node a voter, as the leader.
func (n *Node) joinHere(ctx context.Context, want Member) error {
	term, members := n.raft.CurrentTerm(), n.members()
	if slices.Contains(members, want) {
		if err := n.settle(ctx, term); err != nil {
			return err
		}
		return n.spread(ctx, want)
	}
	if err := n.probe(ctx, members, want); err != nil {
		return err
	}
	id, address, wait := raft.ServerID(want.ID), raft.ServerAddress(want.Address), n.opts.Election
	without := Member{want.ID, want.Address, false}
	if !slices.Contains(members, without) { // a voter keeps its vote at its new address
		if err := n.change(ctx, n.raft.AddNonvoter(id, address, 0, wait)); err != nil {
			return err
		}
	}
	if err := n.catchUp(ctx, term, without); err != nil {
		return err
	}
	if !slices.Contains(n.members(), want) {
		if err := n.change(ctx, n.raft.AddVoter(id, address, 0, wait)); err != nil {
			return err
		}
	}
	return n.spread(ctx, want)
}

// probe asks the node at the address of a new member who it is. members are those of the group.
func (n *Node) probe(ctx context.Context, members []Member, want Member) error {
	s, err := n.client.status(ctx, want.Address)
	if network, ok := errors.AsType[*net.OpError](err); ok {
		err = network // without errNotLeader, which is not about that node
	}
	switch {
	case err != nil:
		return fmt.Errorf("%w: %s: %v", ErrUnreached, want.Address, err) //nolint:errorlint // may match errNotLeader
	case s.ID != want.ID:
		return fmt.Errorf("%w: at %s is node %s, want %s",
			ErrJoin, want.Address, words.Quoted(s.ID), words.Quoted(want.ID))
	case len(s.Members) > 0 && !hasMember(s.Members, n.opts.ID) && !hasMember(members, want.ID):
		return fmt.Errorf("%w: %s at %s has a group without %s, want an empty directory",
			ErrJoin, want.ID, want.Address, n.opts.ID)
	}
	return nil
}

// catchUp waits until a member has what the leader of a term has now: then raft reaches it, and it can vote.
func (n *Node) catchUp(ctx context.Context, term uint64, m Member) error {
	for applied := n.fsm.applied.load(); ; {
		if n.raft.State() != raft.Leader || n.raft.CurrentTerm() != term {
			return errNotLeader // what was done so far is done again, and changes nothing then
		}
		if !hasMember(n.members(), m.ID) {
			return fmt.Errorf("%w: %s has left the group meanwhile", ErrJoin, m.ID)
		}
		s, err := n.client.status(ctx, m.Address)
		if err == nil && s.Term == term && s.Applied >= applied && hasMember(s.Members, m.ID) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %s has index %d of %d: %w", ErrUnknown, m.ID, s.Applied, applied, ctx.Err())
		case <-n.ended:
			return n.over()
		case <-time.After(retryPause):
		}
	}
}

// settle waits until all that the log of the leader of a term has now is committed, as its newest configuration is
// then: raft does not say by itself whether that is. The error matches errNotLeader if this node does not lead the term
// any more, whose configuration may be gone then.
func (n *Node) settle(ctx context.Context, term uint64) error {
	for last := n.raft.LastIndex(); ; {
		if n.raft.State() != raft.Leader || n.raft.CurrentTerm() != term {
			return errNotLeader
		}
		if n.raft.CommitIndex() >= last {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: the change is not committed yet: %w", ErrUnknown, ctx.Err())
		case <-n.ended:
			return n.over()
		case <-time.After(retryPause):
		}
	}
}

// spread waits until every voter that answers has a new voter in its configuration. raft refuses its vote to a node
// that is no voter there. So if a change of the group were on the leader and the new node alone when the leader
// dies, no node could be elected: the new node would be refused, and the others are behind it.
//
// A voter that does not answer for as long as an election takes is not waited for. The group has no leader if that
// voter returns, the leader dies before it has told the voter of the new node, and the votes of the others are too few.
func (n *Node) spread(ctx context.Context, m Member) error {
	for _, s := range n.servers() {
		own := s.ID == raft.ServerID(n.opts.ID)
		if own || s.ID == raft.ServerID(m.ID) || s.Suffrage != raft.Voter {
			continue
		}
		if err := n.awaitMember(ctx, memberOf(s), m); err != nil {
			return fmt.Errorf("%w: %s is not known at %s yet: %w", ErrUnknown, m.ID, s.Address, err)
		}
	}
	return nil
}

// awaitMember waits until a voter has a member, or does not answer, or is no longer what it was in the group.
func (n *Node) awaitMember(ctx context.Context, voter, m Member) error {
	for start := time.Now(); ; {
		s, err := n.client.status(ctx, voter.Address)
		members := n.members()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case slices.Contains(s.Members, m):
			return nil
		case err != nil && time.Since(start) > n.opts.Election:
			return nil
		case !slices.Contains(members, m):
			return fmt.Errorf("%w: %s has left the group meanwhile", ErrJoin, m.ID)
		case !slices.Contains(members, voter):
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-n.ended:
			return n.over()
		case <-time.After(retryPause):
		}
	}
}

// Leave removes a node from the group. Any node takes the call. The node that was removed should be closed: its calls
// return ErrClosed if it was the leader, and find no leader otherwise.
func (n *Node) Leave(ctx context.Context, id string) error {
	return n.onLeader(ctx,
		func() error {
			term := n.raft.CurrentTerm()
			if !hasMember(n.members(), id) {
				return n.settle(ctx, term)
			}
			return n.change(ctx, n.raft.RemoveServer(raft.ServerID(id), 0, n.opts.Election))
		},
		func(leader string) error { return n.client.leave(ctx, leader, id) })
}

// Transfer makes another node the leader, if this one is.
func (n *Node) Transfer(ctx context.Context) error {
	if err := n.done(); err != nil {
		return err
	}
	if n.raft.State() != raft.Leader {
		return nil
	}
	if err := n.change(ctx, n.raft.LeadershipTransfer()); !errors.Is(err, errNotLeader) {
		return err
	}
	return nil
}

// change waits for a change of the group.
func (n *Node) change(ctx context.Context, f raft.Future) error { return ofEntry(n.await(ctx, f)) }

// misdirected reports whether another node passed a request on to this one, which is not the leader. It is not passed
// on again: the sender looks for the leader anew.
func (n *Node) misdirected(r *http.Request) bool {
	return r.Header.Get(forwarded) != "" && n.raft.State() != raft.Leader
}
