package replica

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/raft"

	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// configuration returns the members of a group as raft encodes them.
func configuration(servers ...raft.Server) []byte {
	return raft.EncodeConfiguration(raft.Configuration{Servers: servers})
}

var (
	voterA = raft.Server{ID: "a", Address: "a"}
	voterX = raft.Server{ID: "x", Address: "x"}
	good   = configuration(voterA, voterX)
)

// badConfigurations are no configurations of a group.
var badConfigurations = map[string][]byte{
	"no bytes":        nil,
	"no map":          {0xc1, 0xff},
	"cut":             good[:len(good)-1],
	"nobody":          configuration(),
	"no voter":        configuration(raft.Server{Suffrage: raft.Nonvoter, ID: "a", Address: "a"}),
	"one id twice":    configuration(voterA, raft.Server{ID: "a", Address: "b"}),
	"one place twice": configuration(voterA, raft.Server{ID: "b", Address: "a"}),
	"no id":           configuration(voterA, raft.Server{Address: "b"}),
	"no address":      configuration(voterA, raft.Server{ID: "b"}),
}

func TestAConfigurationIsBelievedOnlyIfItIsOne(t *testing.T) {
	if err := checkConfiguration(good); err != nil {
		t.Errorf("a good one: %v", err)
	}
	for name, raw := range badConfigurations {
		if err := checkConfiguration(raw); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// What raft cannot read would be in the log, and end the node at each start.
func TestMessagesThatRaftCannotReadChangeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, nil)
		g.open("a", true)
		g.put("a", "k", "1")
		before := g.node("a").Status()
		_, sender := raft.NewInmemTransport("x")
		sender.Connect("a", g.members["a"].transport.InmemTransport)
		header := raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte("x"), Addr: []byte("x")}

		send := func(name string, term uint64, entries ...*raft.Log) {
			t.Helper()
			q := &raft.AppendEntriesRequest{RPCHeader: header, Term: term, Entries: entries}
			if err := sender.AppendEntries("a", "a", q, new(raft.AppendEntriesResponse)); err == nil {
				t.Errorf("entries, %s: no error", name)
			}
		}
		for name, raw := range badConfigurations {
			send(name, 1000, &raft.Log{Index: 1, Term: 1000, Type: raft.LogConfiguration, Data: raw})
		}
		send("unknown type", 1000, &raft.Log{Index: 1, Term: 1000, Type: 77})
		send("old type", 1000, &raft.Log{Index: 1, Term: 1000, Type: raft.LogAddPeerDeprecated})
		send("gap", 1000, &raft.Log{Index: 1, Term: 1}, &raft.Log{Index: 3, Term: 1000})
		send("later term", 1000, &raft.Log{Index: 1, Term: 1001})
		send("none", 1000, nil)
		send("last term", math.MaxUint64)

		install := func(name string, version raft.SnapshotVersion, members, body []byte) {
			t.Helper()
			q := &raft.InstallSnapshotRequest{
				RPCHeader: header, SnapshotVersion: version, Term: 1000, Leader: []byte("x"), LastLogIndex: 1000,
				LastLogTerm: 1000, Configuration: members, ConfigurationIndex: 1, Size: int64(len(body)),
			}
			err := sender.InstallSnapshot("a", "a", q, new(raft.InstallSnapshotResponse), bytes.NewReader(body))
			if err == nil {
				t.Errorf("snapshot, %s: no error", name)
			}
		}
		for name, raw := range badConfigurations {
			install(name, raft.SnapshotVersionMax, raw, encodeRecord(1))
		}
		install("without configurations", raft.SnapshotVersionMin, good, encodeRecord(1))
		install("longer", raft.SnapshotVersionMax, good, append(encodeRecord(1), 0))
		install("of more than raft has", raft.SnapshotVersionMax, good, encodeRecord(1001))
		install("flipped", raft.SnapshotVersionMax, good, append(encodeRecord(1)[:recordSize-1], 0))

		vote := &raft.RequestVoteRequest{RPCHeader: header, Term: math.MaxUint64}
		if err := sender.RequestVote("a", "a", vote, new(raft.RequestVoteResponse)); err == nil {
			t.Error("vote of the last term: no error")
		}
		if after := g.node("a").Status(); after.Term != before.Term || after.State != before.State {
			t.Errorf("afterwards: %+v, want the term and the role of %+v", after, before)
		}
		g.put("a", "k", "2")
		g.crash("a", vfstest.KeepNothing)
		g.open("a", false)
		g.want("a", "k", "2")
	})
}

// beating is a transport that keeps the handler of heartbeats.
type beating struct {
	raft.Transport

	handle func(raft.RPC)
}

func (b *beating) SetHeartbeatHandler(handle func(raft.RPC)) { b.handle = handle }

func TestHeartbeatsThatCanBeBelievedAreHandled(t *testing.T) {
	for term, want := range map[uint64]int{7: 1, math.MaxUint64: 0} {
		b, got := new(beating), 0
		in := &incoming{Transport: b, log: slog.New(slog.DiscardHandler)}
		in.SetHeartbeatHandler(func(raft.RPC) { got++ })
		answer := make(chan raft.RPCResponse, 1)
		b.handle(raft.RPC{Command: &raft.AppendEntriesRequest{Term: term}, RespChan: answer})
		if got != want || len(answer) != 1-want {
			t.Errorf("term %d: %d are handled and %d refused, want %d and %d", term, got, len(answer), want, 1-want)
		}
	}
}

func TestARefusedMessageIsAnsweredInItsKind(t *testing.T) {
	in := &incoming{log: slog.New(slog.DiscardHandler)}
	for _, c := range []struct{ command, want any }{
		{new(raft.AppendEntriesRequest), new(raft.AppendEntriesResponse)},
		{new(raft.InstallSnapshotRequest), new(raft.InstallSnapshotResponse)},
		{new(raft.RequestVoteRequest), new(raft.RequestVoteResponse)},
		{new(raft.RequestPreVoteRequest), new(raft.RequestPreVoteResponse)},
	} {
		answer := make(chan raft.RPCResponse, 1)
		if in.accepts(raft.RPC{Command: c.command, RespChan: answer}, io.EOF) {
			t.Errorf("%T is accepted", c.command)
		}
		if got := <-answer; fmt.Sprintf("%T", got.Response) != fmt.Sprintf("%T", c.want) || got.Error == nil {
			t.Errorf("%T is answered with %T, %v", c.command, got.Response, got.Error)
		}
	}
	for _, command := range []any{
		&raft.AppendEntriesRequest{Term: math.MaxUint64}, &raft.RequestVoteRequest{Term: math.MaxUint64},
		&raft.RequestPreVoteRequest{Term: math.MaxUint64},
	} {
		if err := checkMessage(command); err == nil {
			t.Errorf("%T of the last term: no error", command)
		}
	}
	if checkTerm(maxTerm) != nil || checkTerm(maxTerm+1) == nil {
		t.Errorf("terms up to %d are good, and no others", uint64(maxTerm))
	}
}

func TestALogThatRaftCannotReadIsAnError(t *testing.T) {
	for name, entry := range map[string]*raft.Log{
		"configuration": {Index: 1, Term: 1, Type: raft.LogConfiguration, Data: []byte{0xc1, 0xff}},
		"type":          {Index: 1, Term: 1, Type: 77},
	} {
		_, transport := raft.NewInmemTransport("a")
		o, err := (&Options{ID: "a", Address: "a", Dir: t.TempDir(), Transport: transport}).withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		l, err := openLog(t.Context(), filepath.Join(o.Dir, "log"), o.FS)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.StoreLog(entry); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if n, err := Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), "index 1") {
			t.Errorf("%s: Open: %v, %v, want an error that names the entry", name, n, err)
		}
	}
}

// fromA is the header of a message of node a.
var fromA = raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte("a"), Addr: []byte("a")}

// snapshotOf returns the message by which a leader of a later term installs a snapshot on a node.
func snapshotOf(n *Node, index, term uint64) *raft.InstallSnapshotRequest {
	return &raft.InstallSnapshotRequest{
		RPCHeader: fromA, Term: n.Status().Term + 1000, SnapshotVersion: raft.SnapshotVersionMax,
		LastLogIndex: index, LastLogTerm: term, ConfigurationIndex: 1, Size: recordSize,
		Configuration: raft.EncodeConfiguration(raft.Configuration{Servers: n.servers()}),
	}
}

// A message may arrive long after its sender has given it up, and the group may count on what the log has got since.
func TestALateSnapshotLeavesTheLogAsItIs(t *testing.T) {
	for name, c := range map[string]struct {
		other uint64 // by which the term of the snapshot's entry differs from that of the log
		kept  bool
	}{"of an entry of the log": {0, true}, "of an entry that another leader made": {1, false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGroup(t, nil)
				g.open("a", true)
				g.open("b", false)
				g.join("a", "b")
				for i := range 5 {
					g.put("a", key(i), "v")
				}
				g.want("b", key(4), "v")
				g.separate("b", true)
				b := g.node("b")
				last, err := b.log.LastIndex()
				testkit.Must(t, err)
				var entry raft.Log
				testkit.Must(t, b.log.GetLog(last-2, &entry))
				_, sender := raft.NewInmemTransport("x")
				sender.Connect("b", g.members["b"].transport.InmemTransport)
				q := snapshotOf(b, last-2, entry.Term+c.other)
				for range 2 { // its sender may repeat it
					var a raft.InstallSnapshotResponse
					err = sender.InstallSnapshot("b", "b", q, &a, bytes.NewReader(encodeRecord(last-2)))
					if err != nil || !a.Success || a.Term != q.Term {
						t.Fatalf("snapshot: %+v, %v, want success", a, err)
					}
				}
				want := last
				if !c.kept {
					want = 0
				}
				if got, err := b.log.LastIndex(); got != want || err != nil {
					t.Errorf("the log ends at %d, %v, want %d", got, err, want)
				}
			})
		})
	}
}

// cutOff returns a follower that is cut off from its leader, what sends it messages, and the last entry of its log.
func cutOff(t *testing.T) (*Node, *raft.InmemTransport, raft.Log) {
	t.Helper()
	g := newRealGroup(t, nil)
	g.open("a", true)
	g.open("b", false)
	g.join("a", "b")
	g.put("a", "k", "v")
	g.want("b", "k", "v")
	g.separate("b", true)
	b := g.node("b")
	end, err := b.log.LastIndex()
	testkit.Must(t, err)
	var last raft.Log
	testkit.Must(t, b.log.GetLog(end, &last))
	_, sender := raft.NewInmemTransport("x")
	sender.Connect("b", g.members["b"].transport.InmemTransport)
	return b, sender, last
}

// sendEntries sends no-ops of a leader of a term, which has committed entries up to an index.
func sendEntries(t *testing.T, sender *raft.InmemTransport, term, after, afterTerm, count, commit uint64) {
	t.Helper()
	m := &raft.AppendEntriesRequest{
		RPCHeader: fromA, Term: term, PrevLogEntry: after, PrevLogTerm: afterTerm, LeaderCommitIndex: commit,
	}
	for i := range count {
		m.Entries = append(m.Entries, &raft.Log{Index: after + 1 + i, Term: term, Type: raft.LogNoop})
	}
	var a raft.AppendEntriesResponse
	if err := sender.AppendEntries("b", "b", m, &a); err != nil || !a.Success {
		t.Fatalf("%d entries of term %d after %d: %+v, %v, want success", count, term, after, a, err)
	}
}

// An entry that no leader has compared may be another one on all other nodes.
func TestOnlyWhatALeaderHasComparedIsCommitted(t *testing.T) {
	b, sender, last := cutOff(t)
	term, end := b.Status().Term+1000, last.Index
	for _, c := range []struct{ term, count, commit, want uint64 }{
		{term, 3, end, end},
		{term + 1, 0, end + 2, end}, // of another leader, which does not have the three
		{term + 1, 1, end + 1, end + 1},
	} {
		sendEntries(t, sender, c.term, end, last.Term, c.count, c.commit)
		if got := b.Status().Commit; got != c.want {
			t.Errorf("%d entries of term %d after %d: committed up to %d, want %d", c.count, c.term, end, got, c.want)
		}
	}
}

// raft keeps the end of a log that it has deleted.
func TestALogBeginsAfterASnapshotThatReplacedALongerOne(t *testing.T) {
	b, sender, last := cutOff(t)
	term, end := b.Status().Term+1000, last.Index
	sendEntries(t, sender, term, end, last.Term, 9, 0) // of a leader that is deposed
	q := snapshotOf(b, end+5, term+1)
	var a raft.InstallSnapshotResponse
	err := sender.InstallSnapshot("b", "b", q, &a, bytes.NewReader(encodeRecord(0)))
	if err != nil || !a.Success {
		t.Fatalf("snapshot: %+v, %v, want success", a, err)
	}
	for _, count := range []uint64{0, 2} {
		sendEntries(t, sender, q.Term, q.LastLogIndex, q.LastLogTerm, count, end+8)
		want := q.LastLogIndex + count
		if s := b.Status(); s.Commit != want || count > 0 && s.Last != want {
			t.Errorf("%d entries after the snapshot: %d entries, %d are committed, want %d", count, s.Last, s.Commit,
				want)
		}
	}
	first, err := b.log.FirstIndex()
	testkit.Must(t, err)
	if got, err := b.log.LastIndex(); first != end+6 || got != end+7 || err != nil {
		t.Errorf("the log has %d to %d, %v, want %d to %d", first, got, err, end+6, end+7)
	}
}

// What is made up after the end of the log is for comparisons alone.
func TestAnEntryAfterTheLogIsNotTakenByOthers(t *testing.T) {
	l := filledLog(t, vfstest.NewMem(), 10, 20)
	g := guardedLog{storeLog: l, snapshots: new(snapshots)}
	var entry raft.Log
	if err := g.GetLog(21, &entry); !errors.Is(err, raft.ErrLogNotFound) {
		t.Errorf("without a snapshot: %v, want %v", err, raft.ErrLogNotFound)
	}
	g.snapshots.current = saved{Index: 15, Term: 1}
	testkit.Must(t, g.GetLog(21, &entry))
	if err := checkEntry(&entry); err == nil {
		t.Errorf("raft would apply %+v", entry)
	}
	for name, q := range map[string]*raft.AppendEntriesRequest{
		"it":                  {Term: maxTerm, PrevLogEntry: 20, PrevLogTerm: 1, Entries: []*raft.Log{&entry}},
		"what comes after it": {Term: maxTerm, PrevLogEntry: 21, PrevLogTerm: entry.Term},
	} {
		if err := checkMessage(q); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	testkit.Must(t, l.Close())
}

func TestALogThatCannotBeReadIsNotReplaced(t *testing.T) {
	l := filledLog(t, vfstest.NewMem(), 1, 5)
	testkit.Must(t, l.db.Delete(entryKey(3)))
	n := &Node{log: l, snapshots: new(snapshots)}
	for index, want := range map[uint64]string{
		2: "true <nil>", 3: "false log: index 3 is missing, want 1 to 5", 5: "false <nil>", 6: "false <nil>",
	} {
		goesOn, err := n.logGoesOn(index, 1)
		if got := fmt.Sprint(goesOn, err); !strings.HasPrefix(got, want) {
			t.Errorf("after %d: %s, want %s", index, got, want)
		}
	}
	testkit.Must(t, l.Close())
}

// A log that begins after a snapshot is cut there by another leader, and kept by a late repetition of the snapshot.
func TestALogIsComparedWithTheEndOfTheSnapshotBeforeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, nil)
		g.open("a", true)
		g.open("b", false)
		g.join("a", "b")
		g.separate("b", true)
		b := g.node("b")
		_, sender := raft.NewInmemTransport("x")
		sender.Connect("b", g.members["b"].transport.InmemTransport)
		const index = 100
		q := snapshotOf(b, index, b.Status().Term)
		q.LastLogTerm = q.Term
		install := func() {
			t.Helper()
			var a raft.InstallSnapshotResponse
			err := sender.InstallSnapshot("b", "b", q, &a, bytes.NewReader(encodeRecord(0)))
			if err != nil || !a.Success {
				t.Fatalf("snapshot: %+v, %v, want success", a, err)
			}
		}
		entries := func(term, last uint64) {
			t.Helper()
			m := &raft.AppendEntriesRequest{
				RPCHeader: fromA, Term: term, PrevLogEntry: index, PrevLogTerm: q.LastLogTerm,
			}
			for i := uint64(index + 1); i <= last; i++ {
				m.Entries = append(m.Entries, &raft.Log{Index: i, Term: term, Type: raft.LogNoop})
			}
			var a raft.AppendEntriesResponse
			if err := sender.AppendEntries("b", "b", m, &a); err != nil || !a.Success {
				t.Fatalf("entries of term %d: %+v, %v, want success", term, a, err)
			}
		}
		want := func(last uint64) {
			t.Helper()
			if got, err := b.log.LastIndex(); got != last || err != nil {
				t.Errorf("the log ends at %d, %v, want %d", got, err, last)
			}
		}
		install()
		want(0)
		entries(q.Term, index+3)
		want(index + 3)
		install()
		want(index + 3)
		entries(q.Term+1000, index+1) // of a leader that does not have the other two
		want(index + 1)
	})
}
