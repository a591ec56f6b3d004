package commit

import (
	"bytes"
	"context"
	"fmt"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/memtable"
	"github.com/bloomkv/bloomkv/internal/step"
	"github.com/bloomkv/bloomkv/internal/tree"
	"github.com/bloomkv/bloomkv/internal/wal"
)

// commitGroup commits a group in these steps, and holds mu throughout:
//
//	space    the disk has space for the group and for what must be written after it (I22); the memtable and its log
//	         have space, or are frozen and new ones begin
//	checks   of each commit: its condition and its reads, after the operations of the group before it (I37)
//	log      one record of the operations that passed: the kernel has it (I2), and it is whole or absent after a
//	         crash (I4)
//	sync     if one wants it: the log is durable, and every older one (I1, I3)
//	apply    the record is in the memtable, where no reader sees it yet
//	publish  readers see the mark of the record (I36), and then all of the record at once
//
// The writers return only after the last step, so none is acknowledged before the sync (I6).
//
// Until the record is written, an error leaves nothing behind, and the next group may commit; a check that fails for
// one commit leaves out that one alone. From there on an error makes the store read-only: the record may be in the log
// or not, its sequence numbers are not published, and nothing is acknowledged on top of it (I5).
func (w *Writer) commitGroup(group []*commit, size int, durable bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.Tree.Writable(); err != nil {
		return err
	}
	if size > 0 { // otherwise it is a barrier, which needs no space
		if err := w.fitsOnDisk(batch.RecordHeader+int64(size), group); err != nil {
			return err
		}
		if err := w.makeSpace(int64(size)); err != nil {
			return err
		}
	}
	var large *commit // alone in its group: its operations are not copied
	if size > maxGroup {
		large = group[0]
	}
	step.At("commit: check")
	count := w.checks(group, large)
	if count > 0 {
		if err := w.writeLog(count, large); err != nil {
			return err
		}
	}
	step.At("commit: logged")
	if durable {
		if err := w.syncLog(); err != nil {
			return err
		}
	}
	if count > 0 {
		var marks recordMarks
		if err := w.apply(count, large, &marks); err != nil {
			return err
		}
		step.At("commit: publish")
		w.publish(count, &marks)
		step.At("commit: published")
	}
	if durable {
		w.Tree.Synced()
	}
	return nil
}

// makeSpace returns once a group of the given number of bytes may be added to the memtable. It slows writers while
// compaction is behind, begins a new memtable if the group does not fit into it or into its log, and waits if it
// cannot begin one. The first group after Open waits as well: Close flushes whatever level 0 has, so short sessions
// alone would never wait. mu is held.
func (w *Writer) makeSpace(size int64) error {
	w.slowDown(size)
	mem := w.Tree.Load().Mem
	limit := w.MemtableSize
	used := mem.Bytes() + w.marked.Load()
	fits := (w.empty(mem) || used < limit && (size <= limit/2 || used+size <= limit)) &&
		(w.log == nil || w.log.w.HasSpace(batch.RecordHeader+size))
	if first := w.log == nil && w.pace.began.IsZero(); first || !fits {
		if err := w.waitToFreeze(context.Background()); err != nil {
			return err
		}
	}
	if !fits {
		w.rotate()
		used = 0
	}
	if used-w.grown >= limit/tree.MemtableSteps {
		w.grown = used
		w.Tree.Grow()
	}
	w.pace.bytes += size // of the memtable that the group is added to
	return nil
}

// opsAt is the offset of the operations in w.framed: before them are the headers of the frame and of the record.
const opsAt = wal.HeaderSize + batch.RecordHeader

// checks makes the record of a group in w.framed, of the commits whose conditions hold and whose reads are unchanged,
// and returns the number of their operations, which are not in w.framed if the commit is large. mu is held.
func (w *Writer) checks(group []*commit, large *commit) (count uint32) {
	framed := batch.AppendRecordHeader(wal.Begin(w.framed), w.lastSeq+1, 0)
	for _, c := range group {
		switch before := framed[opsAt:]; {
		case c.when != nil:
			c.satisfied, c.err = w.holds(c.when, before)
		case c.reads != nil:
			c.satisfied, c.err = w.unchanged(c.reads, before)
		default:
			c.satisfied = true
		}
		if !c.satisfied {
			continue
		}
		if large == nil {
			framed = append(framed, c.ops...)
		}
		count += c.count
	}
	batch.SetRecordCount(framed[wal.HeaderSize:], count)
	w.framed = framed
	return count
}

// writeLog appends the record to the log, which it begins if there is none. mu is held.
func (w *Writer) writeLog(count uint32, large *commit) error {
	if err := manifest.CheckWrite(w.lastSeq + ikey.Seq(count)); err != nil {
		return err
	}
	if err := w.ensureLog(); err != nil {
		return err
	}
	size := len(w.framed) - wal.HeaderSize
	var more [][]byte
	if large != nil {
		size += len(large.ops)
		more = [][]byte{large.ops}
	}
	if err := w.log.w.Append(w.framed, more...); err != nil {
		return w.Tree.Fail(err)
	}
	w.log.name()
	w.countsMu.Lock()
	defer w.countsMu.Unlock()
	w.counts.Groups++
	w.counts.Operations += uint64(count)
	w.counts.LogBytes += uint64(size) //nolint:gosec // a length
	return nil
}

// apply adds the record to the memtable and notes its marks. mu is held.
func (w *Writer) apply(count uint32, large *commit, marks *recordMarks) error {
	mem, ops := w.Tree.Load().Mem, w.framed[opsAt:]
	if large != nil {
		ops = large.ops
	}
	if err := w.addOps(mem, count, ops, marks); err != nil {
		return w.Tree.Fail(fmt.Errorf("bloomkv: invalid record of its own: %w", err))
	}
	return nil
}

// publish makes readers see the mark and then the operations of the record. mu is held.
func (w *Writer) publish(count uint32, marks *recordMarks) {
	w.lastSeq += ikey.Seq(count)
	if marks.bytes > 0 {
		w.mark = batch.Mark{Seq: marks.last.Seq, Bytes: bytes.Clone(marks.last.Bytes)}
		w.marked.Add(marks.bytes)
		w.Tree.SetMark(w.mark)
		step.At("commit: marked")
	}
	w.Tree.Publish(w.lastSeq)
}

// recordMarks are the marks of a record.
type recordMarks struct {
	last  batch.Mark // shares the bytes of the record
	bytes int64      // of all marks in the log, at most; 0 without a mark
}

// addOps adds the operations of a record to a memtable, a few at a time, so that their cache misses overlap. It notes
// the marks, which a memtable does not keep. mu is held.
func (w *Writer) addOps(mem *memtable.Table, count uint32, ops []byte, marks *recordMarks) error {
	var few [16]memtable.Op
	n, seed := 0, w.Seed
	err := batch.ReadOps(w.lastSeq+1, count, ops, func(seq ikey.Seq, kind ikey.Kind, key, value []byte) {
		if kind == ikey.Mark {
			marks.last = batch.Mark{Seq: seq, Bytes: value}
			marks.bytes += opsAt + batch.MaxOpHeader + int64(len(value))
			return
		}
		if n == len(few) {
			w.addFew(mem, w.lastSeq+1, few[:])
			n = 0
		}
		few[n] = memtable.Op{Seq: seq, Kind: kind, Key: key, Value: value, Hash: seed.Mix(bloomblock.HashKey(key))}
		n++
	})
	w.addFew(mem, w.lastSeq+1, few[:n])
	return err
}

// addFew adds operations of the record that begins at first to a memtable, and then cuts the ranges of dead keys that
// they put keys into. mu is held.
func (w *Writer) addFew(mem *memtable.Table, first ikey.Seq, few []memtable.Op) {
	mem.AddOps(first, few)
	for i := range few {
		if few[i].Kind == ikey.Set {
			w.DeadKeys.Put(few[i].Key)
		}
	}
}
