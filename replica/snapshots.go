package replica

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/vfs"
)

// saved is the newest snapshot: what raft must know of it, and the index that the store has.
type saved struct {
	Index, Term        uint64
	Configuration      raft.Configuration
	ConfigurationIndex uint64
	Applied            uint64 // of the last command; above Index if the store had later ones from another node
}

// addresses returns where the other nodes of the snapshot's configuration are.
func (s *saved) addresses(own string) (others []string) {
	for _, server := range s.Configuration.Servers {
		if string(server.Address) != own {
			others = append(others, string(server.Address))
		}
	}
	return others
}

// snapshots keeps the newest snapshot as a file of some hundred bytes. Its content for raft is a record of the index
// that the store has.
//
// A snapshot that comes from a leader replaces the present one only after the store has its data (commit): a crash in
// between leaves the old snapshot with the old log, which fit any store that has more. So the store on stable storage
// always has at least what the snapshot stands for.
type snapshots struct {
	fsys vfs.FS
	dir  string

	mu       sync.Mutex
	current  saved // its index is 0 without a snapshot
	received saved // from a leader, not yet restored
}

const (
	snapshotFile = "SNAPSHOT" // CRC-32C of the rest as u32, then the snapshot as JSON
	maxSnapshot  = 1 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func openSnapshots(o *Options) (*snapshots, error) {
	s := &snapshots{fsys: o.FS, dir: o.Dir}
	raw, err := vfs.ReadFile(o.FS, filepath.Join(o.Dir, snapshotFile), maxSnapshot)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	if len(raw) < 4 || crc32.Checksum(raw[4:], castagnoli) != binary.LittleEndian.Uint32(raw) {
		return nil, fmt.Errorf("%s: %d bytes with a wrong checksum", snapshotFile, len(raw))
	}
	if err := json.Unmarshal(raw[4:], &s.current); err != nil {
		return nil, fmt.Errorf("%s: %w", snapshotFile, err)
	}
	return s, nil
}

// latest returns the newest snapshot, or the zero value.
func (s *snapshots) latest() saved {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// save makes a snapshot the newest. The caller holds mu.
func (s *snapshots) save(next saved) error {
	if next.Index < s.current.Index {
		return fmt.Errorf("snapshot of index %d after one of index %d", next.Index, s.current.Index)
	}
	body, err := json.Marshal(next)
	if err != nil {
		return err
	}
	raw := append(binary.LittleEndian.AppendUint32(nil, crc32.Checksum(body, castagnoli)), body...)
	if err := vfs.WriteFileAtomic(s.fsys, s.dir, snapshotFile+".tmp", snapshotFile, raw); err != nil {
		return err
	}
	s.current = next
	return nil
}

// commit makes the snapshot that was received the newest.
func (s *snapshots) commit() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.received.Index == 0 {
		return errors.New("no snapshot was received")
	}
	err := s.save(s.received)
	s.received = saved{}
	return err
}

// offered returns the snapshot that was received and is to be restored, or the zero value.
func (s *snapshots) offered() saved {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.received
}

// Create begins a snapshot.
func (s *snapshots) Create(
	_ raft.SnapshotVersion, index, term uint64, c raft.Configuration, at uint64, _ raft.Transport,
) (raft.SnapshotSink, error) {
	return &sinkOf{of: s, next: saved{Index: index, Term: term, Configuration: c, ConfigurationIndex: at}}, nil
}

func id(s *saved) string {
	return strconv.FormatUint(s.Term, 10) + "-" + strconv.FormatUint(s.Index, 10)
}

func (s *saved) meta() *raft.SnapshotMeta {
	return &raft.SnapshotMeta{
		Version: raft.SnapshotVersionMax, ID: id(s), Index: s.Index, Term: s.Term,
		Configuration: s.Configuration, ConfigurationIndex: s.ConfigurationIndex, Size: recordSize,
	}
}

// List returns the newest snapshot, if there is one.
func (s *snapshots) List() ([]*raft.SnapshotMeta, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current.Index == 0 {
		return nil, nil
	}
	return []*raft.SnapshotMeta{s.current.meta()}, nil
}

// Open returns a snapshot: the newest, or the one that was received and is to be restored. It stands for no command
// after its index: nodes refuse one that does.
func (s *snapshots) Open(name string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, have := range []*saved{&s.received, &s.current} {
		if have.Index > 0 && id(have) == name {
			applied := min(have.Applied, have.Index)
			return have.meta(), io.NopCloser(bytes.NewReader(encodeRecord(applied))), nil
		}
	}
	return nil, nil, fmt.Errorf("snapshot %s: %w", name, fs.ErrNotExist)
}

// sinkOf receives a snapshot: its own node's (durable is set by Persist), or one of a leader.
type sinkOf struct {
	of      *snapshots
	next    saved
	durable bool // the store has what the snapshot stands for
	raw     []byte
	closed  bool
}

func (k *sinkOf) ID() string { return id(&k.next) }

func (k *sinkOf) Write(b []byte) (int, error) {
	if len(k.raw)+len(b) > recordSize {
		return 0, fmt.Errorf("snapshot of more than %d bytes", recordSize)
	}
	k.raw = append(k.raw, b...)
	return len(b), nil
}

// Close ends the snapshot. raft closes the sink again after Persist has closed it.
func (k *sinkOf) Close() error {
	if k.closed {
		return nil
	}
	k.closed = true
	r, err := readRecord(bytes.NewReader(k.raw))
	if err != nil {
		return err
	}
	k.next.Applied = r.applied
	k.of.mu.Lock()
	defer k.of.mu.Unlock()
	if k.durable {
		return k.of.save(k.next)
	}
	k.of.received = k.next
	return nil
}

// Cancel forgets the snapshot.
func (k *sinkOf) Cancel() error {
	k.closed = true
	return nil
}

// A record is what a snapshot consists of for raft, and what a leader sends to a follower:
//
//	0        4               12            16
//	+--------+---------------+-------------+
//	| "bkr1" | applied u64   | CRC-32C u32 |     little-endian; the checksum covers all bytes before it
//	+--------+---------------+-------------+
type record struct{ applied uint64 }

const (
	recordMagic = "bkr1"
	recordSize  = 16
)

func encodeRecord(applied uint64) []byte {
	b := binary.LittleEndian.AppendUint64([]byte(recordMagic), applied)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func readRecord(r io.Reader) (record, error) {
	b, err := io.ReadAll(io.LimitReader(r, recordSize+1))
	switch {
	case err != nil:
		return record{}, err
	case len(b) != recordSize || string(b[:4]) != recordMagic:
		return record{}, fmt.Errorf("snapshot of %d bytes that begins with %s, want %d and %s",
			len(b), words.Quoted(b[:min(4, len(b))]), recordSize, words.Quoted(recordMagic))
	case crc32.Checksum(b[:12], castagnoli) != binary.LittleEndian.Uint32(b[12:]):
		return record{}, errors.New("snapshot with a wrong checksum")
	}
	return record{binary.LittleEndian.Uint64(b[4:])}, nil
}
