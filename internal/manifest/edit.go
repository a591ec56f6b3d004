package manifest

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/wal"
)

// ErrUnsupportedVersion means that an edit has a version, a field or a flag which this program does not know and may
// not skip. It is not damage.
var ErrUnsupportedVersion = wal.ErrUnsupportedVersion

// An edit, the payload of one record of a manifest, all numbers little-endian:
//
//	0            1
//	+------------+-------+-------+--
//	| version u8 | field | field | …
//	+------------+-------+-------+--
//
// A field. Fields ascend by tag; those with the same tag are in the order in which they apply:
//
//	0        1            5
//	+--------+------------+------+
//	| tag u8 | length u32 | body |
//	+--------+------------+------+
//
//	tag  body
//	1    next file u64                                     absent when 0, as 2 and 3
//	2    last sequence u64
//	3    smallest log u64
//	4    log u64, its synced length u64
//	5    nothing: no log
//	6    a deleted table: level u8, number u64             any number of times
//	7    an added table: see appendTable                   any number of times
//	8    seed u64                                          absent when 0; in the first edit of a store
//	9    mark: sequence u64, 0 to 256 bytes                absent when the sequence is 0
//	128  counts of a table: see appendCounts               any number of times, their numbers ascending
//	129  options for filters: see appendFilters
//	130  number of the records of a snapshot u32, 2 or more; in the first of them, absent if it is the only one
//
// A program skips an unknown tag from 128 on, and refuses any other unknown tag (I29).
const (
	editVersion = 1

	tagNextFile = 1
	tagLastSeq  = 2
	tagMinLog   = 3
	tagLog      = 4
	tagNoLog    = 5
	tagDeleted  = 6
	tagAdded    = 7
	tagSeed     = 8
	tagMark     = 9
	ignorable   = 0x80
	tagCounts   = 0x80
	tagFilters  = 0x81
	tagRecords  = 0x82

	fieldHeader = 5
)

// FormatVersion is the version of the edits that this package writes. It reads no other.
const FormatVersion = editVersion

// variable stands for the size of a body without a fixed size.
const variable = -1

// fieldSizes are the sizes of the bodies of the tags that may not be skipped. Tag 0 is never parsed.
var fieldSizes = [...]int{
	tagNextFile: 8, tagLastSeq: 8, tagMinLog: 8, tagLog: 16, tagNoLog: 0, tagDeleted: 9, tagAdded: variable, tagSeed: 8,
	tagMark: variable,
}

// Added is a table that an edit adds to a run of a level. If the level has no such run, the run is created.
type Added struct {
	Level int // 0..NumLevels-1
	Run   uint64
	Table *Table
}

// Deleted is a table that an edit removes from a level.
type Deleted struct {
	Level  int // 0..NumLevels-1
	Number uint64
}

// A LogMark means that a log must exist, and be intact at least up to Synced, in bytes. Synced includes the first
// record, or is 0 if an earlier program named the log.
type LogMark struct {
	Number uint64
	Synced int64
}

// An Edit is one change of a store's state, atomic and durable as one record. Its numbers only raise the current ones:
// 0, or a smaller number, changes nothing, so that two goroutines that append at about the same time need not agree on
// an order.
//
// Deletions apply before additions: deleting a table and adding it at another level moves it.
type Edit struct {
	NextFile uint64   // all numbers from here on are unused
	LastSeq  ikey.Seq // sequence numbers up to here may have been used
	MinLog   uint64   // logs with a smaller number are not needed, nor is a mark of one
	Log      *LogMark // replaces the mark
	NoLog    bool     // removes the mark; not together with Log
	Deleted  []Deleted
	Added    []Added
	Seed     uint64        // of the store; an edit with another seed than the store's is refused
	Mark     batch.Mark    // replaces an older one; its sequence number is at most LastSeq, or that of the store
	Filters  *Filters      // replace the current ones
	Counts   []TableCounts // ascending by number, not 0, of tables that exist after the edit; replace the current ones
	Records  uint32        // 2 or more in the first of so many edits that are a snapshot together; else 0
}

// AppendEdit appends the bytes of e, which must be one that ParseEdit would return; Log.Append and Apply check that.
func AppendEdit(dst []byte, e *Edit) []byte {
	dst = append(dst, editVersion)
	for _, f := range []struct {
		tag   byte
		value uint64
	}{{tagNextFile, e.NextFile}, {tagLastSeq, uint64(e.LastSeq)}, {tagMinLog, e.MinLog}} {
		if f.value != 0 {
			dst = binary.LittleEndian.AppendUint64(appendField(dst, f.tag, 8), f.value)
		}
	}
	if e.Log != nil {
		dst = binary.LittleEndian.AppendUint64(appendField(dst, tagLog, 16), e.Log.Number)
		dst = binary.LittleEndian.AppendUint64(dst, uint64(e.Log.Synced)) //nolint:gosec // at least 0
	}
	if e.NoLog {
		dst = appendField(dst, tagNoLog, 0)
	}
	for _, d := range e.Deleted {
		dst = append(appendField(dst, tagDeleted, 9), byte(d.Level)) //nolint:gosec // below NumLevels
		dst = binary.LittleEndian.AppendUint64(dst, d.Number)
	}
	for _, a := range e.Added {
		dst = appendTable(appendField(dst, tagAdded, tableSize+len(a.Table.Smallest)+len(a.Table.Largest)), a)
	}
	if e.Seed != 0 {
		dst = binary.LittleEndian.AppendUint64(appendField(dst, tagSeed, 8), e.Seed)
	}
	if e.Mark.Seq != 0 {
		dst = binary.LittleEndian.AppendUint64(appendField(dst, tagMark, 8+len(e.Mark.Bytes)), uint64(e.Mark.Seq))
		dst = append(dst, e.Mark.Bytes...)
	}
	for _, c := range e.Counts {
		dst = appendCounts(appendField(dst, tagCounts, countsSize), c)
	}
	if e.Filters != nil {
		dst = appendFilters(appendField(dst, tagFilters, filtersSize+len(e.Filters.Prefix)), e.Filters)
	}
	if e.Records != 0 {
		dst = binary.LittleEndian.AppendUint32(appendField(dst, tagRecords, 4), e.Records)
	}
	return dst
}

func appendField(dst []byte, tag byte, length int) []byte {
	dst = append(dst, tag)
	return binary.LittleEndian.AppendUint32(dst, uint32(length)) //nolint:gosec // at most 2·maxBound + tableSize
}

// ParseEdit parses one edit; the result shares no bytes with b. It skips unknown fields that may be skipped. An error
// has no file or offset.
func ParseEdit(b []byte) (*Edit, error) {
	if len(b) == 0 {
		return nil, errors.New("edit: 0 bytes, want at least 1")
	}
	if b[0] != editVersion {
		return nil, fmt.Errorf("%w: edit version %d, want %d", ErrUnsupportedVersion, b[0], editVersion)
	}
	e, last := new(Edit), byte(0)
	for b = b[1:]; len(b) > 0; {
		if len(b) < fieldHeader {
			return nil, fmt.Errorf("edit: field of %d bytes, want at least %d", len(b), fieldHeader)
		}
		tag, length := b[0], binary.LittleEndian.Uint32(b[1:])
		if b = b[fieldHeader:]; uint64(length) > uint64(len(b)) {
			return nil, fmt.Errorf("edit: field %d of %d bytes, %d left", tag, length, len(b))
		}
		once := tag <= tagRecords && tag != tagDeleted && tag != tagAdded && tag != tagCounts
		if tag < last || tag == last && once {
			return nil, fmt.Errorf("edit: field %d after field %d", tag, last)
		}
		if err := e.parseField(tag, b[:length]); err != nil {
			return nil, err
		}
		b, last = b[length:], tag
	}
	if err := e.check(); err != nil {
		return nil, err
	}
	return e, nil
}

func (e *Edit) parseField(tag byte, body []byte) error {
	if int(tag) < len(fieldSizes) && fieldSizes[tag] != variable && len(body) != fieldSizes[tag] {
		return fmt.Errorf("edit: field %d of %d bytes, want %d", tag, len(body), fieldSizes[tag])
	}
	switch tag {
	case tagNextFile, tagLastSeq, tagMinLog, tagSeed:
		if binary.LittleEndian.Uint64(body) == 0 {
			return fmt.Errorf("edit: field %d is 0", tag)
		}
	}
	switch tag {
	case tagNextFile:
		e.NextFile = binary.LittleEndian.Uint64(body)
	case tagLastSeq:
		e.LastSeq = ikey.Seq(binary.LittleEndian.Uint64(body))
	case tagMinLog:
		e.MinLog = binary.LittleEndian.Uint64(body)
	case tagLog:
		synced := binary.LittleEndian.Uint64(body[8:])
		if synced > maxSize {
			return fmt.Errorf("edit: log synced up to %d, want at most %d", synced, uint64(maxSize))
		}
		e.Log = &LogMark{Number: binary.LittleEndian.Uint64(body), Synced: int64(synced)}
	case tagNoLog:
		e.NoLog = true
	case tagDeleted:
		e.Deleted = append(e.Deleted, Deleted{int(body[0]), binary.LittleEndian.Uint64(body[1:])})
	case tagAdded:
		a, err := parseTable(body)
		if err != nil {
			return err
		}
		e.Added = append(e.Added, a)
	case tagSeed:
		e.Seed = binary.LittleEndian.Uint64(body)
	case tagMark:
		if len(body) < 8 {
			return fmt.Errorf("edit: mark of %d bytes, want at least 8", len(body))
		}
		e.Mark = batch.Mark{Seq: ikey.Seq(binary.LittleEndian.Uint64(body)), Bytes: bytes.Clone(body[8:])}
		if e.Mark.Seq == 0 {
			return errors.New("edit: mark of sequence 0")
		}
	case tagCounts:
		c, err := parseCounts(body)
		if err != nil {
			return err
		}
		e.Counts = append(e.Counts, c)
	case tagFilters:
		f, err := parseFilters(body)
		if err != nil {
			return err
		}
		e.Filters = f
	case tagRecords:
		if len(body) != 4 {
			return fmt.Errorf("edit: number of records of %d bytes, want 4", len(body))
		}
		if e.Records = binary.LittleEndian.Uint32(body); e.Records == 0 {
			return errors.New("edit: a snapshot of 0 records")
		}
	default:
		if tag&ignorable == 0 {
			return fmt.Errorf("%w: edit has field %d", ErrUnsupportedVersion, tag)
		}
	}
	return nil
}

// An added table:
//
//	0          1          2        10
//	+----------+----------+--------+-----------------------------------------------------------+
//	| level u8 | flags u8 | run u64 | number, id, size, tail, filter, min sequence, max sequence, …
//	+----------+----------+--------+-----------------------------------------------------------+
//	                         90                 98                  102
//	-------------------------+------------------+-------------------+----------+---------+
//	 entries, deletes, range | filter rate      | length of         | smallest | largest |
//	 deletes: ten of u64     | float64 bits u64 | smallest u32      |          |         |
//	-------------------------+------------------+-------------------+----------+---------+
const tableSize = 102 // without the two bounds

func appendTable(dst []byte, a Added) []byte {
	t := a.Table
	dst = append(dst, byte(a.Level), byte(t.Flags)) //nolint:gosec // below NumLevels
	for _, n := range [...]uint64{
		a.Run, t.Number, t.ID, t.Size, t.TailLen, t.FilterLen, uint64(t.MinSeq), uint64(t.MaxSeq),
		t.Entries, t.Deletes, t.RangeDeletes, math.Float64bits(t.FilterRate),
	} {
		dst = binary.LittleEndian.AppendUint64(dst, n)
	}
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(t.Smallest))) //nolint:gosec // at most maxBound
	dst = append(dst, t.Smallest...)
	return append(dst, t.Largest...)
}

func parseTable(b []byte) (Added, error) {
	if len(b) < tableSize {
		return Added{}, fmt.Errorf("edit: table of %d bytes, want at least %d", len(b), tableSize)
	}
	var n [12]uint64
	for i := range n {
		n[i] = binary.LittleEndian.Uint64(b[2+8*i:])
	}
	keys, length := b[tableSize:], binary.LittleEndian.Uint32(b[tableSize-4:])
	if uint64(length) > uint64(len(keys)) {
		return Added{}, fmt.Errorf("edit: smallest key of %d bytes, %d left", length, len(keys))
	}
	return Added{int(b[0]), n[0], &Table{
		Number: n[1], ID: n[2], Size: n[3], TailLen: n[4], FilterLen: n[5],
		MinSeq: ikey.Seq(n[6]), MaxSeq: ikey.Seq(n[7]),
		Entries: n[8], Deletes: n[9], RangeDeletes: n[10], FilterRate: math.Float64frombits(n[11]),
		Flags: Flags(b[1]), Smallest: bytes.Clone(keys[:length]), Largest: bytes.Clone(keys[length:]),
	}}, nil
}

// check checks the values of e without a version.
func (e *Edit) check() error {
	switch {
	case e.NextFile > MaxNumber:
		return fmt.Errorf("edit: next file %d, want at most %d", e.NextFile, MaxNumber)
	case e.LastSeq > ikey.MaxSeq:
		return fmt.Errorf("edit: last sequence %d, want at most %d", e.LastSeq, ikey.MaxSeq)
	case e.MinLog > MaxNumber:
		return fmt.Errorf("edit: smallest log %d, want at most %d", e.MinLog, MaxNumber)
	case e.Mark.Seq > ikey.MaxSeq:
		return fmt.Errorf("edit: mark of sequence %d, want at most %d", e.Mark.Seq, ikey.MaxSeq)
	case len(e.Mark.Bytes) > batch.MaxMark:
		return fmt.Errorf("edit: mark of %d bytes, want at most %d", len(e.Mark.Bytes), batch.MaxMark)
	case e.Log != nil && e.NoLog:
		return errors.New("edit: both a log and no log")
	case e.Log != nil && (e.Log.Number == 0 || e.Log.Number >= MaxNumber):
		return fmt.Errorf("edit: log %d, want 1..%d", e.Log.Number, MaxNumber-1)
	case e.Log != nil && e.Log.Synced < 0:
		return fmt.Errorf("edit: log synced up to %d, want at least 0", e.Log.Synced)
	case e.Records == 1:
		return errors.New("edit: the number of records of a snapshot is given, and is 1")
	}
	for _, d := range e.Deleted {
		if err := checkLevel(d.Level, d.Number); err != nil {
			return fmt.Errorf("edit: deleted table: %w", err)
		}
	}
	for _, a := range e.Added {
		err := checkLevel(a.Level, a.Table.Number)
		if err == nil && a.Run >= MaxNumber {
			err = fmt.Errorf("run %d, want at most %d", a.Run, MaxNumber-1)
		}
		if err == nil {
			err = a.Table.check()
		}
		if err != nil {
			return fmt.Errorf("edit: added table: %w", err)
		}
	}
	return cmp.Or(checkCounts(e.Counts), e.Filters.check())
}
