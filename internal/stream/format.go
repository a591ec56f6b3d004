// Package stream turns a store into a sequence of bytes and back: its tables as they are, after a header that describes
// the tree. It decodes no key and opens no store.
package stream

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/wal"
)

// A stream, all numbers little-endian:
//
//	0              44
//	+--------------+--------+---------+---------+---+------------+
//	| prelude      | header | table 1 | table 2 | … | "bloomend" |
//	+--------------+--------+---------+---------+---+------------+
//
// The prelude:
//
//	 0  magic     8 bytes  "bloomexp"
//	 8  version   u32      1
//	12  reserved  u32      0
//	16  id        u64      XXH64 of the header
//	24  header    u64      its length in bytes
//	32  size      u64      of the whole stream, in bytes
//	40  checksum  u32      CRC-32C of bytes 0…39
//
// Magic, version and checksum keep their positions in every later version, so that a newer stream is distinguished from
// a damaged one.
//
// The parts behind the prelude, the last one too, consist of frames. Each frame but the last of a part has a payload of
// 256 KiB. The lengths of the parts follow from the prelude and the header, so a frame needs none:
//
//	0         n
//	+---------+---------+
//	| payload | crc u32 |    n ≤ 256 KiB
//	+---------+---------+
//
// crc is the CRC-32C of: id u64, offset of the frame in the stream u64, payload. So a frame of another stream, or from
// another position, is detected as damage (I42).
//
// The header:
//
//	0            4          4+length
//	+------------+----------+-------------------------------------------+
//	| length u32 | edit     | for each table: flags u8, fingerprint u64 |
//	+------------+----------+-------------------------------------------+
//
// The edit is that of a manifest (package manifest) which leads from nothing to the tree, without logs. What a
// manifest records about a store, apart from its logs, is therefore in a stream too. Tables have the numbers 1, 2, …
// in the order of manifest.Version.Tables, and runs 1, 2, … from the oldest. Flag 1: the bytes of the table are in the
// stream. The fingerprint is described at [Fingerprint].
const (
	magic       = "bloomexp"
	version     = 1
	preludeSize = 44
	frameSize   = 256 << 10 // of a payload, in bytes
	sumSize     = 4
	end         = "bloomend"

	tableSize = 9 // of a table in the header, without its record
	travels   = 1

	maxHeader = wal.MaxPayload + wal.MaxPayload/4 // the receiver's manifest must have space for the edit

	// name is the file in errors.
	name = "stream"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A Header describes a store and its tables.
type Header struct {
	State  manifest.State // its tables have the numbers 1, 2, …
	Tables []Table        // in the order of State.Version.Tables
}

// A Table is one table of a Header.
type Table struct {
	*manifest.Table

	Sum     uint64 // fingerprint
	Travels bool   // its bytes are in the stream
}

// An ID tells a table from all others, of any store.
type ID struct {
	ID   uint64 // random: see manifest.Table
	Size uint64 // of the file, in bytes
	Sum  uint64 // fingerprint
}

// Identity returns the identity of a table.
func (t *Table) Identity() ID { return ID{t.ID, t.Size, t.Sum} }

// NewHeader returns the header for a store whose tables are own, in the order of s.Version.Tables. The tables of since
// are not in the stream. The last sequence number is that of the mark and the tables, so that a store has the same
// header after an Open.
func NewHeader(s manifest.State, own, since []ID) *Header {
	known := map[ID]bool{}
	for _, id := range since {
		known[id] = true
	}
	v, run := &manifest.Version{}, uint64(s.Version.Runs()) //nolint:gosec // a number of runs
	h := &Header{State: manifest.State{LastSeq: s.Mark.Seq, Seed: s.Seed, Mark: s.Mark, Filters: s.Filters, Version: v}}
	next := max(run, uint64(len(own))) + 1
	for level, runs := range s.Version.Levels {
		for _, r := range runs {
			copied := manifest.Run{ID: run}
			run--
			for _, t := range r.Tables {
				numbered := *t
				numbered.Number = uint64(len(h.Tables)) + 1
				h.State.LastSeq = max(h.State.LastSeq, t.MaxSeq)
				copied.Tables = append(copied.Tables, &numbered)
				id := own[len(h.Tables)]
				h.Tables = append(h.Tables, Table{Table: &numbered, Sum: id.Sum, Travels: !known[id]})
			}
			v.Levels[level] = append(v.Levels[level], copied)
		}
	}
	h.State.NextFile = next
	return h
}

// encoded returns the bytes of the header.
func (h *Header) encoded() []byte {
	b := manifest.AppendEdit(make([]byte, 4), h.State.Snapshot())
	binary.LittleEndian.PutUint32(b, uint32(len(b)-4)) //nolint:gosec // below maxHeader: see Size
	for _, t := range h.Tables {
		flags := byte(0)
		if t.Travels {
			flags = travels
		}
		b = binary.LittleEndian.AppendUint64(append(b, flags), t.Sum)
	}
	return b
}

// parseHeader parses a whole header. An error has no offset.
func parseHeader(b []byte) (*Header, error) {
	if len(b) < 4 {
		return nil, fmt.Errorf("header of %d bytes, want at least 4", len(b))
	}
	length := binary.LittleEndian.Uint32(b)
	if b = b[4:]; uint64(length) > uint64(len(b)) {
		return nil, fmt.Errorf("header: edit of %d bytes, %d left", length, len(b))
	}
	e, err := manifest.ParseEdit(b[:length])
	if err != nil {
		return nil, err
	}
	if len(e.Deleted) > 0 || e.Log != nil || e.NoLog || e.MinLog != 0 || e.Seed == 0 {
		return nil, errors.New("header: an edit with deleted tables, with logs or without a seed, want a snapshot")
	}
	h := new(Header)
	if h.State, err = e.State(); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	// A store that begins with these must be able to go on.
	most := uint64(len(e.Added) + h.State.Version.Runs() + 1) //nolint:gosec // a sum of numbers of tables and runs
	if h.State.NextFile > most {
		return nil, fmt.Errorf("header: next file %d, want at most %d", h.State.NextFile, most)
	}
	if err := manifest.CheckWrite(h.State.LastSeq); err != nil { // a store writes no larger one: see NewHeader
		return nil, fmt.Errorf("header: last %w", err)
	}
	b = b[length:]
	if len(b) != tableSize*len(e.Added) {
		return nil, fmt.Errorf("header: %d bytes about %d tables, want %d each", len(b), len(e.Added), tableSize)
	}
	for _, t := range h.State.Version.Tables() {
		if t.Number != uint64(len(h.Tables))+1 {
			return nil, fmt.Errorf("header: table %d has the number %d", len(h.Tables)+1, t.Number)
		}
		if b[0]&^travels != 0 {
			return nil, fmt.Errorf("%w: table %d has flags %#x", corrupt.ErrUnsupportedVersion, t.Number, b[0])
		}
		h.Tables = append(h.Tables, Table{t, binary.LittleEndian.Uint64(b[1:]), b[0]&travels != 0})
		b = b[tableSize:]
	}
	return h, nil
}

// framed returns the length of a part of n bytes with the checksums of its frames.
func framed(n uint64) uint64 { return n + (n+frameSize-1)/frameSize*sumSize }

// size returns the length of a stream whose header has the given length. The error means that there can be no such
// stream.
func (h *Header) size(header int) (int64, error) {
	sum := preludeSize + framed(uint64(header)) + framed(uint64(len(end))) //nolint:gosec // a length
	if header > maxHeader {
		return 0, fmt.Errorf("header of %d bytes, want at most %d", header, maxHeader)
	}
	for _, t := range h.Tables {
		if !t.Travels {
			continue
		}
		if t.Size > math.MaxInt64/2 || sum > math.MaxInt64/2 {
			return 0, fmt.Errorf("table %d of %d bytes after %d, want at most %d bytes", t.Number, t.Size, sum,
				int64(math.MaxInt64/2))
		}
		sum += framed(t.Size)
	}
	return int64(sum), nil //nolint:gosec // at most MaxInt64/2 and a header
}

// A prelude begins a stream.
type prelude struct {
	id           uint64
	header, size int64
}

func (p prelude) encoded() []byte {
	b := binary.LittleEndian.AppendUint32([]byte(magic), version)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint64(b, p.id)
	b = binary.LittleEndian.AppendUint64(b, uint64(p.header)) //nolint:gosec // at least 0, as the next
	b = binary.LittleEndian.AppendUint64(b, uint64(p.size))   //nolint:gosec // see above
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func parsePrelude(b []byte) (p prelude, err error) {
	if got := string(b[:8]); got != magic {
		return p, fmt.Errorf("magic %q, want %q", got, magic)
	}
	const at = preludeSize - sumSize
	if got, want := crc32.Checksum(b[:at], castagnoli), binary.LittleEndian.Uint32(b[at:]); got != want {
		return p, fmt.Errorf("checksum %08x, want %08x", got, want)
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != version {
		return p, fmt.Errorf("%w %d, want %d", corrupt.ErrUnsupportedVersion, v, version)
	}
	header, size := binary.LittleEndian.Uint64(b[24:]), binary.LittleEndian.Uint64(b[32:])
	switch {
	case binary.LittleEndian.Uint32(b[12:]) != 0:
		return p, errors.New("reserved bytes are not zero")
	case header == 0 || header > maxHeader:
		return p, fmt.Errorf("header of %d bytes, want 1…%d", header, maxHeader)
	case size > math.MaxInt64:
		return p, fmt.Errorf("size of %d bytes, want at most %d", size, int64(math.MaxInt64))
	}
	return prelude{binary.LittleEndian.Uint64(b[16:]), int64(header), int64(size)}, nil
}

// sum returns the checksum of a frame.
func sum(id uint64, offset int64, payload []byte) uint32 {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], id)
	binary.LittleEndian.PutUint64(b[8:], uint64(offset)) //nolint:gosec // not negative
	return crc32.Update(crc32.Checksum(b[:], castagnoli), castagnoli, payload)
}

// idOf returns the id of a stream with the given header.
func idOf(header []byte) uint64 { return uint64(bloomblock.HashKey(header)) }
