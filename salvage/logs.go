package salvage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/rangedel"
	"github.com/bloomkv/bloomkv/internal/wal"
)

// readLogs reads the logs with the given numbers, which must ascend.
func (s *salvage) readLogs(ctx context.Context, logs []uint64, to *spills) error {
	r := logReader{s: s, ctx: ctx, to: to, gap: -1}
	s.behindMark = len(s.report.Lost) // logs are newer than the mark of the manifest
	defer func() { s.behindLogs = len(s.report.Lost) }()
	if s.traces.whole {
		r.next = s.last + 1
	}
	if m := s.traces.numbers.Log; m != nil && !slices.Contains(logs, m.Number) {
		s.lose(Loss{File: filename.Base(filename.Log, m.Number), Part: "log", Err: s.missing()})
	}
	for _, n := range logs {
		if err := r.read(n); err != nil {
			return err
		}
	}
	return nil
}

// A logReader reads logs one after the other.
type logReader struct {
	s    *salvage
	ctx  context.Context //nolint:containedctx // of one call of readLogs
	to   *spills
	next ikey.Seq // sequence number expected next; 0 if not known
	gap  int      // index of the loss since the last record that was read, or -1
}

// read reads one log.
func (r *logReader) read(number uint64) error {
	s, name := r.s, filename.Base(filename.Log, number)
	lose := func(from, to int64, reason error) {
		l := Loss{File: name, Offset: from, Bytes: to - from, Part: "log record", Err: reason}
		if from == 0 {
			l.Part, l.Harmless = "header of the log", to == wal.FirstRecord
		} else {
			r.gap = len(s.report.Lost)
		}
		s.lose(l)
	}
	f, err := s.fs.Open(filename.Make(s.dir, filename.Log, number))
	if err != nil {
		s.lose(Loss{File: name, Part: "log", Err: err})
		return nil //nolint:nilerr // reported as a loss
	}
	read, told := uint64(0), int64(0) // bytes before told are records or reported as lost
	err = readRecords(r.ctx, f, name, number, func(payload []byte, at int64) error {
		if n := uint64(at) + uint64(len(payload)); n > read { //nolint:gosec // not negative
			s.progress.advance(n - read)
			read = n
		}
		told = at + int64(len(payload))
		return r.record(payload, at, lose)
	}, func(from, to int64, reason error) {
		told = to
		lose(from, to, reason)
	})
	if size, e := f.Size(); e != nil {
		err = errors.Join(err, e)
	} else {
		s.progress.advance(uint64(size) - min(read, uint64(size))) //nolint:gosec // not negative
		if m := s.traces.numbers.Log; m != nil && m.Number == number && told < m.Synced {
			lose(told, m.Synced, fmt.Errorf("the log ends here, by the manifest it has at least %d bytes", m.Synced))
		}
	}
	return errors.Join(err, f.Close())
}

// record adds the operations of one record, if all of it is right.
func (r *logReader) record(payload []byte, at int64, lose func(from, to int64, reason error)) error {
	first, count, err := batch.ReadRecord(payload, func(ikey.Seq, ikey.Kind, []byte, []byte) {})
	if err != nil {
		lose(at, at+int64(len(payload)), err)
		return nil
	}
	s := r.s
	missing := r.next != 0 && first > r.next
	if missing && r.gap < 0 { // and no damage was seen
		lose(at, at, errors.New("records before this one are missing, as if a log were missing or truncated"))
	}
	if r.gap >= 0 {
		s.behindGap = true
		if l := &s.report.Lost[r.gap]; missing {
			l.Err = fmt.Errorf("%w: operations %d to %d are lost", l.Err, r.next, first-1)
		}
		r.gap = -1
	}
	r.next = max(r.next, first+ikey.Seq(count))
	s.last = max(s.last, r.next-1)
	s.report.Records++
	var failed error
	_, _, err = batch.ReadRecord(payload, func(seq ikey.Seq, kind ikey.Kind, key, value []byte) {
		switch {
		case failed != nil:
		case kind != ikey.Mark && kind != ikey.RangeDelete:
			failed = r.to.add(ikey.Key{User: key, Trailer: ikey.MakeTrailer(seq, kind)}, value)
		case kind == ikey.RangeDelete:
			d := rangedel.Tombstone{Start: append([]byte{}, key...), Seq: seq}
			if value != nil {
				d.End = append([]byte{}, value...)
			}
			s.dels = append(s.dels, d)
		case seq > s.mark.Seq:
			s.mark, s.behindMark = batch.Mark{Seq: seq, Bytes: bytes.Clone(value)}, len(s.report.Lost)
		}
	})
	return errors.Join(err, failed)
}
