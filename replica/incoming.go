package replica

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/hashicorp/raft"

	"github.com/bloomkv/bloomkv/internal/words"
)

// maxTerm bounds the terms of messages: a term can be raised, and never be lowered.
const maxTerm = 1 << 62

// incoming is a transport whose messages are checked before raft sees them. raft stores an entry before it reads it,
// and panics if it cannot: the node would end at each start. A message that is refused changes nothing.
type incoming struct {
	raft.Transport

	log    *slog.Logger
	goesOn func(index, term uint64) (bool, error) // see Node.logGoesOn
	passed chan raft.RPC
}

// incomingPreVote is incoming over a transport with an optional message.
type incomingPreVote struct {
	*incoming

	of raft.WithPreVote
}

// newIncoming returns a node's transport with a check of what arrives. It passes messages on until the node ends.
func newIncoming(n *Node) raft.Transport {
	t := n.transport
	in := &incoming{t, n.opts.Logger, n.logGoesOn, make(chan raft.RPC)}
	go in.pass(n.ended)
	if of, ok := t.(raft.WithPreVote); ok {
		return incomingPreVote{in, of}
	}
	return in
}

func (in *incoming) Consumer() <-chan raft.RPC { return in.passed }

// SetHeartbeatHandler makes heartbeats, which do not wait behind other messages, go to the handler.
func (in *incoming) SetHeartbeatHandler(handle func(raft.RPC)) {
	in.Transport.SetHeartbeatHandler(func(m raft.RPC) {
		if in.accepts(m, checkMessage(m.Command)) {
			handle(m)
		}
	})
}

// RequestVote returns an error for an answer that cannot be believed.
func (in *incoming) RequestVote(
	id raft.ServerID, to raft.ServerAddress, q *raft.RequestVoteRequest, a *raft.RequestVoteResponse,
) error {
	err := in.Transport.RequestVote(id, to, q, a)
	return errors.Join(err, checkTerm(a.Term))
}

// RequestPreVote returns an error for an answer that cannot be believed.
func (in incomingPreVote) RequestPreVote(
	id raft.ServerID, to raft.ServerAddress, q *raft.RequestPreVoteRequest, a *raft.RequestPreVoteResponse,
) error {
	err := in.of.RequestPreVote(id, to, q, a)
	return errors.Join(err, checkTerm(a.Term))
}

func (in *incoming) pass(ended <-chan struct{}) {
	for {
		select {
		case m := <-in.Transport.Consumer():
			if !in.accepts(m, checkMessage(m.Command)) {
				continue
			}
			if q, ok := m.Command.(*raft.InstallSnapshotRequest); ok {
				go in.passSnapshot(m, q, ended)
			} else {
				in.send(compared(m), ended)
			}
		case <-ended:
			return
		}
	}
}

// compared returns a message of entries by which raft commits no entry after them. raft would commit up to the end of
// its log, which may go on with entries of a leader that was deposed, and that the sender has not compared yet.
func compared(m raft.RPC) raft.RPC {
	if q, ok := m.Command.(*raft.AppendEntriesRequest); ok {
		c := *q // its sender may be in the same process
		c.LeaderCommitIndex = min(q.LeaderCommitIndex, q.PrevLogEntry+uint64(len(q.Entries)))
		m.Command = &c
	}
	return m
}

// passSnapshot passes a snapshot on once all of it is here, so that raft never waits for its sender. The sender of one
// that Restore has refused, since the log goes on after it, learns that the node has it.
func (in *incoming) passSnapshot(m raft.RPC, q *raft.InstallSnapshotRequest, ended <-chan struct{}) {
	raw := make([]byte, recordSize)
	_, err := io.ReadFull(m.Reader, raw)
	if err == nil {
		var r record
		if r, err = readRecord(bytes.NewReader(raw)); err == nil && r.applied > q.LastLogIndex {
			err = fmt.Errorf("snapshot of a store with index %d, want at most %d", r.applied, q.LastLogIndex)
		}
	}
	if !in.accepts(m, err) {
		return
	}
	answers := make(chan raft.RPCResponse, 1)
	in.send(raft.RPC{Command: q, Reader: bytes.NewReader(raw), RespChan: answers}, ended)
	select {
	case a := <-answers:
		if response, ok := a.Response.(*raft.InstallSnapshotResponse); ok && a.Error != nil {
			if goesOn, err := in.goesOn(q.LastLogIndex, q.LastLogTerm); goesOn && err == nil {
				response.Success, a.Error = true, nil
			}
		}
		m.RespChan <- a
	case <-ended:
	}
}

func (in *incoming) send(m raft.RPC, ended <-chan struct{}) {
	select {
	case in.passed <- m:
	case <-ended:
	}
}

// accepts reports whether a message has no error. Otherwise its sender gets the error.
func (in *incoming) accepts(m raft.RPC, err error) bool {
	if err == nil {
		return true
	}
	in.log.Warn("message of another node refused", slog.Any("error", err))
	var answer any
	switch m.Command.(type) {
	case *raft.AppendEntriesRequest:
		answer = &raft.AppendEntriesResponse{}
	case *raft.InstallSnapshotRequest:
		answer = &raft.InstallSnapshotResponse{}
	case *raft.RequestVoteRequest:
		answer = &raft.RequestVoteResponse{}
	case *raft.RequestPreVoteRequest:
		answer = &raft.RequestPreVoteResponse{}
	}
	m.Respond(answer, err)
	return false
}

func checkMessage(command any) error {
	switch q := command.(type) {
	case *raft.AppendEntriesRequest:
		next := q.PrevLogEntry
		if q.PrevLogTerm > q.Term {
			return fmt.Errorf("entry of index %d, term %d, want at most %d", next, q.PrevLogTerm, q.Term)
		}
		for _, e := range q.Entries {
			next++
			switch {
			case e == nil:
				return fmt.Errorf("no entry of index %d", next)
			case e.Index != next || e.Term > q.Term:
				return fmt.Errorf("entry of index %d, term %d, want %d and at most %d", e.Index, e.Term, next, q.Term)
			}
			if err := checkEntry(e); err != nil {
				return fmt.Errorf("entry of index %d: %w", e.Index, err)
			}
		}
		return checkTerm(q.Term)
	case *raft.InstallSnapshotRequest:
		if q.SnapshotVersion != raft.SnapshotVersionMax || q.Size != recordSize {
			return fmt.Errorf("snapshot of version %d and %d bytes, want %d and %d",
				q.SnapshotVersion, q.Size, raft.SnapshotVersionMax, recordSize)
		}
		return errors.Join(checkConfiguration(q.Configuration), checkTerm(q.Term))
	case *raft.RequestVoteRequest:
		return checkTerm(q.Term)
	case *raft.RequestPreVoteRequest:
		return checkTerm(q.Term)
	}
	return nil
}

func checkTerm(term uint64) error {
	if term > maxTerm {
		return fmt.Errorf("term %d, want at most %d", term, uint64(maxTerm))
	}
	return nil
}

// checkEntry returns an error for an entry that raft cannot read.
func checkEntry(l *raft.Log) error {
	switch l.Type {
	case raft.LogCommand, raft.LogNoop, raft.LogBarrier:
		return nil
	case raft.LogConfiguration:
		return checkConfiguration(l.Data)
	default:
		return fmt.Errorf("type %d, want a command, a no-op, a barrier or a configuration", l.Type)
	}
}

// checkConfiguration returns an error for what raft does not take as the configuration of a group.
func checkConfiguration(raw []byte) (err error) {
	defer func() {
		if p := recover(); p != nil { // of DecodeConfiguration, which returns no error
			err = fmt.Errorf("configuration of %d bytes: %v", len(raw), p)
		}
	}()
	voters := 0
	ids, addresses := map[raft.ServerID]bool{}, map[raft.ServerAddress]bool{}
	for _, s := range raft.DecodeConfiguration(raw).Servers {
		if s.ID == "" || s.Address == "" || ids[s.ID] || addresses[s.Address] {
			return fmt.Errorf("configuration with id %s at %s, want both, and each once",
				words.Quoted(s.ID), words.Quoted(s.Address))
		}
		ids[s.ID], addresses[s.Address] = true, true
		if s.Suffrage == raft.Voter {
			voters++
		}
	}
	if voters == 0 {
		return fmt.Errorf("configuration of %d bytes with %d members and no voter, want one", len(raw), len(ids))
	}
	return nil
}
