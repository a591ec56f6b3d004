package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/wal"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/vfs"
)

// A RecordLog contains a log with its records, with their names in JSON.
type RecordLog struct {
	Log

	List    []Record `json:"record_list"`
	LeftOut int      `json:"records_left_out,omitempty"` // records after the first 65,536 records or operations
}

// A Record is one complete record of a log: a batch, or several that were written together.
type Record struct {
	Offset     int64    `json:"offset"` // of the header
	End        int64    `json:"end"`
	Bytes      int      `json:"bytes"` // of the payload
	FirstSeq   ikey.Seq `json:"first_seq,omitempty"`
	Operations uint32   `json:"operations"`
	Puts       int      `json:"puts"`
	Deletes    int      `json:"deletes"`
	Ranges     int      `json:"range_deletes"`
	Marks      int      `json:"marks,omitempty"`
	Error      string   `json:"error,omitempty"` // set if the complete record is not a batch
	Ops        []Op     `json:"ops,omitempty"`   // with --entries
}

// An Op is one operation of a record.
type Op struct {
	Seq   ikey.Seq `json:"seq"`
	Kind  string   `json:"kind"`             // "put", "delete", "range delete" or "mark"
	Key   string   `json:"key"`              // escaped; the first key of a range delete; a mark
	Value int      `json:"value_bytes"`      // length of the value
	To    string   `json:"to,omitempty"`     // end of a range delete, exclusive, escaped
	NoEnd bool     `json:"no_end,omitempty"` // a range delete without an end
}

// maxListed is the maximum number of records, and of operations, that are listed of a log.
const maxListed = 1 << 16

// ReadLog reads a log. If it is damaged, the error is the damage and the records are those before it. After any other
// error the file was not read.
func ReadLog(ctx context.Context, name string, number uint64, o Options) (RecordLog, error) {
	return readLog(ctx, name, number, o, maxListed)
}

// readLog is like ReadLog, with a limit of records and operations. Unlike opening, it continues after complete records
// that are not batches, to show what is lost.
func readLog(ctx context.Context, name string, number uint64, o Options, limit int) (RecordLog, error) {
	var r recordReader
	facts, err := replayLog(ctx, name, func(f vfs.File) (wal.Result, error) {
		r = recordReader{name: name, limit: limit, entries: o.Entries, log: RecordLog{List: []Record{}}}
		return wal.Replay(f, filepath.Base(name), number, r.add)
	})
	l := r.log
	facts.Operations, facts.FirstSeq, facts.LastSeq = l.Operations, l.FirstSeq, l.LastSeq
	l.Log = facts
	if r.unfit == nil || err != nil && !errors.Is(err, corrupt.Err) {
		return l, err
	}
	r.unfit.Unread = l.Bytes - r.unfit.Offset
	if l.Break != nil {
		r.unfit.Behind += l.Break.Behind
		r.unfit.Next = cmp.Or(r.unfit.Next, l.Break.Next)
	}
	l.Break, l.Error = r.unfit, r.damage.Error()
	return l, errors.Join(r.damage, err)
}

// A recordReader reads the records of a log one after the other.
type recordReader struct {
	name    string
	limit   int // of records, and of operations
	entries bool
	log     RecordLog
	ops     int // listed so far

	unfit  *Break // at the first complete record that does not fit
	damage error  // there
}

func (r *recordReader) add(payload []byte, end int64) error {
	rec := Record{Offset: end - int64(len(payload)) - wal.HeaderSize, End: end, Bytes: len(payload)}
	if b := r.unfit; b != nil {
		b.Behind++
		b.Next = cmp.Or(b.Next, rec.Offset)
	}
	list := len(r.log.List) < r.limit && r.ops < r.limit
	first, count, err := batch.ReadRecord(payload, func(seq ikey.Seq, kind ikey.Kind, key, value []byte) {
		op := Op{Seq: seq, Kind: "put"}
		switch kind {
		case ikey.Delete:
			op.Kind = "delete"
			rec.Deletes++
		case ikey.RangeDelete:
			op.Kind = "range delete"
			rec.Ranges++
		case ikey.Mark:
			op.Kind = "mark"
			rec.Marks++
		default:
			rec.Puts++
		}
		if !list || !r.entries || r.ops == r.limit {
			return
		}
		r.ops++
		op.Key = words.Escaped(key, words.KeyLimit)
		switch kind {
		case ikey.RangeDelete:
			op.NoEnd, op.To = value == nil, words.Escaped(value, words.KeyLimit)
		case ikey.Mark:
			op.Key = words.Escaped(value, words.KeyLimit)
		default:
			op.Value = len(value)
		}
		rec.Ops = append(rec.Ops, op)
	})
	if err == nil && r.log.LastSeq != 0 && first != r.log.LastSeq+1 {
		err = fmt.Errorf("sequence %d, want %d: sequence numbers are not continuous", first, r.log.LastSeq+1)
	}
	if err == nil {
		if r.log.FirstSeq == 0 {
			r.log.FirstSeq = first
		}
		rec.FirstSeq, rec.Operations = first, count
		r.log.LastSeq = first + ikey.Seq(count) - 1
		r.log.Operations += uint64(count)
	} else {
		rec.Error = err.Error()
		if r.unfit == nil {
			r.unfit = &Break{Offset: rec.Offset + wal.HeaderSize, Reason: err.Error(), Opening: openingRefused}
			r.damage = &corrupt.Error{File: filepath.Base(r.name), Offset: r.unfit.Offset, Err: err}
		}
	}
	if list {
		r.log.List = append(r.log.List, rec)
	} else {
		r.log.LeftOut++
	}
	return nil
}

// WriteText writes a line for the log and for each record, and with Options.Entries for each operation.
func (l *RecordLog) WriteText(w io.Writer, _ Style) {
	words.Wrapped(w, fmt.Sprintf("log %s", &l.Log))
	l.writeBreak(w)
	for i := range l.List {
		r := &l.List[i]
		fmt.Fprintf(w, "  record %d: %s at %d, %s\n", i+1, words.Plural(r.Bytes, "byte"), r.Offset, r.holds())
		for _, o := range r.Ops {
			fmt.Fprintf(w, "    %d %s\n", o.Seq, o.String())
		}
		if n := int(r.Operations) - len(r.Ops); n > 0 && len(r.Ops) > 0 {
			fmt.Fprintf(w, "    and %s\n", words.Plural(n, "operation"))
		}
	}
	if l.LeftOut > 0 {
		fmt.Fprintf(w, "  and %s\n", words.Plural(l.LeftOut, "record"))
	}
}

// holds describes the contents of a record.
func (r *Record) holds() string {
	if r.Error != "" {
		return "not a batch: " + string(words.AppendPrintable(nil, []byte(r.Error)))
	}
	var parts []string
	for _, p := range []struct {
		n    int
		noun string
	}{{r.Puts, "put"}, {r.Deletes, "delete"}, {r.Ranges, "range delete"}, {r.Marks, "mark"}} {
		if p.n > 0 {
			parts = append(parts, words.Plural(p.n, p.noun))
		}
	}
	return fmt.Sprintf("from sequence %d: %s", r.FirstSeq, strings.Join(parts, ", "))
}

// String describes the operation in a line.
func (o *Op) String() string {
	switch o.Kind {
	case "put":
		return fmt.Sprintf("put %s, %s", o.Key, words.Plural(o.Value, "byte"))
	case "delete", "mark":
		return o.Kind + " " + o.Key
	default:
		to := "before " + o.To
		if o.NoEnd {
			to = "the end"
		}
		return fmt.Sprintf("range delete %s … %s", cmp.Or(o.Key, "the first key"), to)
	}
}
