package replica

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// election is short, since the nodes of a test share a process.
const election = 150 * time.Millisecond

// group is some nodes in one process, on file systems in memory, with a network that can be cut.
type group struct {
	t   *testing.T
	set func(*Options) // changes options

	mu      sync.Mutex
	members map[string]*member
	cut     map[[2]string]bool
	held    map[string]chan struct{} // entries of the log to this node wait until the channel is closed
}

// member is one node of a group, over its restarts.
type member struct {
	id        string
	fs        *vfstest.Mem
	node      *Node // nil while it is down
	transport *link
}

// link is a node's transport for one life of the node. An answer that arrives after either side has crashed, or was cut
// off, is dropped, since a node does nothing after its crash. Pipelines are off: their answers cannot be dropped.
type link struct {
	*raft.InmemTransport
	g    *group
	from string
}

func (l *link) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return nil, raft.ErrPipelineReplicationNotSupported
}

// send makes a call and drops its answer if the connection is not what it was before.
func (l *link) send(to raft.ServerAddress, call func() error) error {
	before := l.other(to)
	err := call()
	if err == nil && (before == nil || l.other(to) != before) {
		err = errors.New("the connection broke")
	}
	return err
}

// other returns the link of another node, nil if it cannot be reached.
func (l *link) other(to raft.ServerAddress) *link {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	from, other := l.g.members[l.from], l.g.members[string(to)]
	cut := l.g.cut[[2]string{l.from, string(to)}] || l.g.cut[[2]string{string(to), l.from}]
	if other == nil || from.transport != l || cut {
		return nil
	}
	return other.transport
}

func (l *link) AppendEntries(
	id raft.ServerID, to raft.ServerAddress, q *raft.AppendEntriesRequest, a *raft.AppendEntriesResponse,
) error {
	if len(q.Entries) > 0 {
		l.g.mu.Lock()
		held := l.g.held[string(to)]
		l.g.mu.Unlock()
		if held != nil {
			<-held
		}
	}
	return l.send(to, func() error { return l.InmemTransport.AppendEntries(id, to, q, a) })
}

func (l *link) RequestVote(
	id raft.ServerID, to raft.ServerAddress, q *raft.RequestVoteRequest, a *raft.RequestVoteResponse,
) error {
	return l.send(to, func() error { return l.InmemTransport.RequestVote(id, to, q, a) })
}

func (l *link) RequestPreVote(
	id raft.ServerID, to raft.ServerAddress, q *raft.RequestPreVoteRequest, a *raft.RequestPreVoteResponse,
) error {
	return l.send(to, func() error { return l.InmemTransport.RequestPreVote(id, to, q, a) })
}

func (l *link) InstallSnapshot(
	id raft.ServerID, to raft.ServerAddress, q *raft.InstallSnapshotRequest, a *raft.InstallSnapshotResponse,
	r io.Reader,
) error {
	return l.send(to, func() error { return l.InmemTransport.InstallSnapshot(id, to, q, a, r) })
}

func (l *link) TimeoutNow(
	id raft.ServerID, to raft.ServerAddress, q *raft.TimeoutNowRequest, a *raft.TimeoutNowResponse,
) error {
	return l.send(to, func() error { return l.InmemTransport.TimeoutNow(id, to, q, a) })
}

// newGroup returns a group in a bubble of synctest: its clock stands still while anything runs, so that no election is
// lost to a busy machine, and nobody waits for one. What waits for a lock must not wait for one that sleeps.
func newGroup(t *testing.T, set func(*Options)) *group {
	t.Helper()
	t.Cleanup(func() { time.Sleep(time.Hour) }) // after all other cleanups: goroutines of raft end
	return newRealGroup(t, set)
}

// newRealGroup returns a group on the clock of its test. Outside of a bubble that is the real one, for a test in which
// something runs all the time.
func newRealGroup(t *testing.T, set func(*Options)) *group {
	t.Helper()
	g := &group{
		t: t, set: set, members: map[string]*member{}, cut: map[[2]string]bool{}, held: map[string]chan struct{}{},
	}
	t.Cleanup(func() {
		for _, id := range g.ids() {
			if g.node(id) != nil {
				g.closeNode(id)
			}
		}
	})
	return g
}

func (g *group) ids() (ids []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.members {
		ids = append(ids, i)
	}
	return ids
}

// node returns a node, nil if it is down.
func (g *group) node(id string) *Node {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.members[id].node
}

// round sends a request from one node to another.
type round struct {
	g    *group
	from string
}

func (r round) RoundTrip(request *http.Request) (*http.Response, error) {
	to := request.URL.Host
	refused := &net.OpError{Op: "dial", Net: "memory", Err: errors.New("cut")}
	n := r.g.reach(r.from, to)
	if n == nil {
		return nil, refused
	}
	recorder := httptest.NewRecorder()
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.Handler().ServeHTTP(recorder, request)
	}()
	select {
	case <-done:
	case <-request.Context().Done():
		return nil, request.Context().Err()
	}
	if r.g.reach(r.from, to) != n {
		return nil, errors.New("the connection broke")
	}
	return recorder.Result(), nil
}

// reach returns the node if it can be reached from another one.
func (g *group) reach(from, to string) *Node {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m := g.members[to]; m != nil && !g.cut[[2]string{from, to}] && !g.cut[[2]string{to, from}] {
		return m.node
	}
	return nil
}

// open starts a node on its file system.
func (g *group) open(id string, bootstrap bool) {
	g.t.Helper()
	g.mu.Lock()
	m := g.members[id]
	if m == nil {
		m = &member{id: id, fs: vfstest.NewMem()}
		g.members[id] = m
		if err := m.fs.Mkdir("/node"); err != nil {
			g.t.Fatal(err)
		}
		if err := m.fs.SyncDir("/"); err != nil {
			g.t.Fatal(err)
		}
	}
	_, transport := raft.NewInmemTransportWithTimeout(raft.ServerAddress(id), election)
	m.transport = &link{transport, g, id}
	g.connect()
	g.mu.Unlock()
	o := Options{
		ID: id, Address: id, Dir: "/node", FS: m.fs, Bootstrap: bootstrap, Transport: m.transport,
		Client: &http.Client{Transport: round{g, id}}, Election: election, Check: 20 * time.Millisecond,
		Store: &bloomkv.Options{MemoryBudget: 8 << 20},
	}
	if os.Getenv("REPLICA_LOG") != "" {
		o.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil)).With(slog.String("node", id))
	}
	if g.set != nil {
		g.set(&o)
	}
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	n, err := Open(ctx, o)
	if err != nil {
		g.t.Fatalf("open %s: %v", id, err)
	}
	g.mu.Lock()
	m.node = n
	g.mu.Unlock()
}

// connect makes the connections of raft those that are not cut. The caller holds mu.
func (g *group) connect() {
	for a, m := range g.members {
		for b, other := range g.members {
			switch {
			case a == b || m.transport == nil || other.transport == nil:
			case g.cut[[2]string{a, b}] || g.cut[[2]string{b, a}]:
				m.transport.Disconnect(raft.ServerAddress(b))
			default:
				m.transport.Connect(raft.ServerAddress(b), other.transport.InmemTransport)
			}
		}
	}
}

// separate cuts a node off from all others, or ends that.
func (g *group) separate(id string, off bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for other := range g.members {
		if other != id {
			g.cut[[2]string{id, other}] = off
		}
	}
	g.connect()
}

// hold keeps entries of the log from a node until release is called. Heartbeats arrive.
func (g *group) hold(id string) (release func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	held := make(chan struct{})
	g.held[id] = held
	return sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.held, id)
		close(held)
	})
}

func (g *group) closeNode(id string) {
	g.t.Helper()
	if err := g.stop(id).Close(); err != nil {
		g.t.Errorf("close %s: %v", id, err)
	}
}

// stop takes a node off the network.
func (g *group) stop(id string) *Node {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[id]
	n := m.node
	m.node = nil
	for other, o := range g.members {
		if other != id && o.transport != nil {
			o.transport.Disconnect(raft.ServerAddress(id))
		}
	}
	m.transport.DisconnectAll()
	m.transport = nil
	return n
}

// crash ends a node without Close. keep says which part of what was not synced survives; nil keeps all, as a killed
// process does.
func (g *group) crash(id string, keep vfstest.Keep) {
	n := g.stop(id) // nobody hears of what it does from here on
	m := g.members[id]
	if keep == nil {
		m.fs = m.fs.Kill()
	} else {
		m.fs = m.fs.Crash(keep)
	}
	_ = n.Close() // of what is no longer the node's
}

// three starts three nodes that form a group.
func (g *group) three() []string {
	g.t.Helper()
	ids := []string{"a", "b", "c"}
	for i, id := range ids {
		g.open(id, i == 0)
		if i > 0 {
			g.join("a", id)
		}
	}
	return ids
}

// soon returns a context that ends late enough for every election.
func (g *group) soon() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	g.t.Cleanup(cancel)
	return ctx
}

// leader waits for a leader and returns its name.
func (g *group) leader() string {
	g.t.Helper()
	for end := time.Now().Add(testkit.Patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		for _, id := range g.ids() {
			if n := g.node(id); n != nil && n.raft.State() == raft.Leader && n.Fresh(g.soon(), Linearizable) == nil &&
				n.raft.State() == raft.Leader {
				return id
			}
		}
	}
	g.t.Fatal("no leader after 20 s")
	return ""
}

// repeat makes a call until its outcome is known: a new leader is elected where a machine is busy. To make the call
// twice must do no more than to make it once.
func (g *group) repeat(call func(ctx context.Context) error) error {
	ctx := g.soon()
	for {
		err := call(ctx)
		if !errors.Is(err, ErrUnknown) && !errors.Is(err, ErrUnreached) || ctx.Err() != nil {
			return err
		}
	}
}

func (g *group) put(id, key, value string) {
	g.t.Helper()
	n := g.node(id)
	err := g.repeat(func(ctx context.Context) error { return n.Put(ctx, []byte(key), []byte(value)) })
	if err != nil {
		g.t.Fatalf("%s: put %s: %v", id, key, err)
	}
}

// join asks a node of the group to add another one.
func (g *group) join(at, id string) {
	g.t.Helper()
	n := g.node(at)
	if err := g.repeat(func(ctx context.Context) error { return n.Join(ctx, id, id) }); err != nil {
		g.t.Fatalf("join %s: %v", id, err)
	}
}

func (g *group) want(id, key, value string) {
	g.t.Helper()
	got, err := g.node(id).Get(g.soon(), []byte(key), Linearizable)
	if err != nil || string(got) != value {
		g.t.Fatalf("%s: get %s: %q, %v, want %q", id, key, got, err, value)
	}
}

// equal waits until all nodes have one index, and compares their stores: all pairs, and the digests, which must admit
// every key.
func (g *group) equal(ids ...string) Checksum {
	g.t.Helper()
	var err error
	for end := time.Now().Add(testkit.Patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		var sum Checksum
		if sum, err = g.compare(ids); err == nil {
			return sum
		}
	}
	g.t.Fatal(err)
	return Checksum{}
}

// compare returns an error if nodes have different indexes: then some are not there yet.
func (g *group) compare(ids []string) (first Checksum, err error) {
	g.t.Helper()
	for i, id := range ids {
		if err := g.node(id).Fresh(g.soon(), Linearizable); err != nil {
			return first, fmt.Errorf("%s: %w", id, err)
		}
		sum, err := g.node(id).Checksum(g.soon())
		if err != nil {
			return first, fmt.Errorf("%s: %w", id, err)
		}
		if i == 0 {
			first = sum
		}
		if sum.Index != first.Index {
			return first, fmt.Errorf("%s has index %d, %s has %d", id, sum.Index, ids[0], first.Index)
		}
		if sum != first {
			g.t.Fatalf("%s has %+v, %s has %+v", id, sum, ids[0], first)
		}
		d, err := g.node(id).Digest(g.soon(), bloomkv.DigestOptions{})
		if err != nil {
			return first, fmt.Errorf("%s: digest: %w", id, err)
		}
		if indexOf(d.Mark()) != first.Index {
			return first, fmt.Errorf("%s: digest of index %d, want %d", id, indexOf(d.Mark()), first.Index)
		}
		for kv, err := range g.node(ids[0]).Scan(g.soon(), bloomkv.IterOptions{KeysOnly: true}, Stale) {
			if err != nil {
				return first, err
			}
			if !d.MayContain(kv.Key) {
				g.t.Fatalf("%s: the digest denies %q", id, kv.Key)
			}
		}
	}
	return first, nil
}

func key(i int) string { return fmt.Sprintf("key%06d", i) }
