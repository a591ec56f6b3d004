package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/filterplan"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/wal"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/vfs"
)

// A Manifest contains a manifest with its edits and their result, with their names in JSON. If the manifest is
// damaged, both are those before the damage. Tables is absent if an edit does not fit those before it.
type Manifest struct {
	Log

	Edits   []string `json:"edits"`
	Offsets []int64  `json:"edit_offsets"`             // offsets of the records of the edits
	LeftOut int      `json:"edits_left_out,omitempty"` // edits that both lists omit after the first 65,536

	NextFile uint64          `json:"next_file"`
	LastUsed ikey.Seq        `json:"last_used_seq"` // all sequence numbers up to this one may have been used
	MinLog   uint64          `json:"min_log"`
	Mark     string          `json:"mark,omitempty"` // escaped; see bloomkv.DB.Mark
	LogMark  *LogMark        `json:"log,omitempty"`  // a log that must exist
	Tables   []ManifestTable `json:"tables"`         // newest data first, ascending in each run

	name string
	film film
}

// A LogMark is a log that must exist, and its minimum size.
type LogMark struct {
	File   string `json:"file"`
	Synced int64  `json:"bytes"`
}

// A ManifestTable is a table as described by a manifest.
type ManifestTable struct {
	Level       int      `json:"level"`
	Run         uint64   `json:"run"`
	File        string   `json:"file"`
	Bytes       uint64   `json:"bytes"`
	Entries     uint64   `json:"entries"`
	Deletes     uint64   `json:"deletes"`
	RangeDels   uint64   `json:"range_deletes"`
	FilterBytes uint64   `json:"filter_bytes"` // of both filters
	FPRPromised float64  `json:"fpr_promised"`
	MinSeq      ikey.Seq `json:"min_seq"`
	MaxSeq      ikey.Seq `json:"max_seq"`
	Smallest    string   `json:"smallest"` // escaped
	Largest     string   `json:"largest"`
	Exclusive   bool     `json:"largest_exclusive"`
	NoEnd       bool     `json:"no_end"` // there is no largest key

	bounds string
}

// ReadManifest reads a manifest. If it is damaged, the error is the damage. After any other error the file was not
// read.
func ReadManifest(ctx context.Context, name string, number uint64) (m Manifest, err error) {
	var s manifest.State
	facts, err := replayLog(ctx, name, func(f vfs.File) (r wal.Result, err error) {
		m = Manifest{Edits: []string{}, Offsets: []int64{}, Tables: []ManifestTable{}, name: name}
		begin := int64(-1) // of the next record, except the first
		base := filepath.Base(name)
		s, r, err = manifest.Read(f, base, number, func(e *manifest.Edit, end int64) {
			at := max(begin, wal.FirstRecord)
			begin = end
			m.film.add(e, at)
			if len(m.Edits) == maxListed {
				m.LeftOut++
				return
			}
			m.Edits = append(m.Edits, editText(e))
			m.Offsets = append(m.Offsets, at)
		})
		if errors.Is(err, corrupt.Err) && r.Behind == 0 && !r.Torn { // an edit ended the replay
			if all, _ := wal.Replay(f, base, number, nil); all.Records > r.Records {
				r.Behind, r.NextAt = all.Records-r.Records+all.Behind, r.End
			}
		}
		return r, err
	})
	m.Log = facts
	m.NextFile, m.LastUsed, m.MinLog = s.NextFile, s.LastSeq, s.MinLog
	m.Mark = words.Escaped(s.Mark.Bytes, len(s.Mark.Bytes))
	if s.Log != nil {
		m.LogMark = &LogMark{filename.Base(filename.Log, s.Log.Number), s.Log.Synced}
	}
	m.addTables(s.Version)
	return m, err
}

// ReadCurrent reads the manifest that a store uses.
func ReadCurrent(ctx context.Context, dir string) (Manifest, error) {
	number, err := manifest.ReadCurrent(vfs.OS, dir)
	if err != nil {
		return Manifest{}, err
	}
	return ReadManifest(ctx, filepath.Join(dir, filename.Base(filename.Manifest, number)), number)
}

func (m *Manifest) addTables(v *manifest.Version) {
	if v == nil {
		return
	}
	for level, runs := range v.Levels {
		for _, run := range runs {
			for _, t := range run.Tables {
				m.Tables = append(m.Tables, ManifestTable{
					Level: level, Run: run.ID, File: filename.Base(filename.Table, t.Number),
					Bytes: t.Size, Entries: t.Entries, Deletes: t.Deletes, RangeDels: t.RangeDeletes,
					FilterBytes: t.FilterLen,
					FPRPromised: t.FilterRate, MinSeq: t.MinSeq, MaxSeq: t.MaxSeq,
					Smallest:  words.Escaped(t.Smallest, words.KeyLimit),
					Largest:   words.Escaped(t.Largest, words.KeyLimit),
					Exclusive: t.Flags&manifest.LargestExclusive != 0, NoEnd: t.Flags&manifest.LargestInfinite != 0,
					bounds: tableText(t),
				})
			}
		}
	}
}

// WriteText writes a line for the manifest and for each edit, and their result.
func (m *Manifest) WriteText(w io.Writer, _ Style) {
	words.Wrapped(w, fmt.Sprintf("manifest %s", &m.Log))
	m.writeBreak(w)
	for i, e := range m.Edits {
		fmt.Fprintf(w, "  at %d, edit %d: %s\n", m.Offsets[i], i+1, e)
	}
	if m.LeftOut > 0 {
		fmt.Fprintf(w, "  and %s\n", words.Plural(m.LeftOut, "edit"))
	}
	words.Wrapped(w, fmt.Sprintf("result: %s, next file %d, sequences up to %d, logs from %d%s",
		words.Plural(len(m.Tables), "table"), m.NextFile, m.LastUsed, m.MinLog, m.LogMark))
	if m.Mark != "" {
		words.Wrapped(w, "mark: "+m.Mark)
	}
	for i := range m.Tables {
		t := &m.Tables[i]
		fmt.Fprintf(w, "  level %d, run %d: %s, %s, %s\n", t.Level, t.Run, t.File, words.Plural(t.Bytes, "byte"),
			t.bounds)
	}
}

// String describes the log, if there is one.
func (l *LogMark) String() string {
	if l == nil {
		return ""
	}
	return fmt.Sprintf(", %s with at least %s", l.File, words.Plural(l.Synced, "byte"))
}

// editText describes an edit.
func editText(e *manifest.Edit) string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if e.NextFile != 0 {
		add("next file %d", e.NextFile)
	}
	if e.LastSeq != 0 {
		add("sequences up to %d", e.LastSeq)
	}
	if e.MinLog != 0 {
		add("logs from %d", e.MinLog)
	}
	if e.Log != nil {
		add("log %d durable up to %d", e.Log.Number, e.Log.Synced)
	}
	if e.NoLog {
		add("no log")
	}
	if e.Seed != 0 {
		add("seed %016x", e.Seed)
	}
	if m := e.Mark; m.Seq != 0 {
		add("mark %s at sequence %d", words.Escaped(m.Bytes, words.KeyLimit), m.Seq)
	}
	for _, d := range e.Deleted {
		add("- table %d from level %d", d.Number, d.Level)
	}
	for _, t := range e.Added {
		add("+ table %d to level %d run %d (%s)", t.Table.Number, t.Level, t.Run, tableText(t.Table))
	}
	for _, c := range e.Counts {
		add("filter of table %d: about %d negative, %d true positive, %d false positive, %d not asked",
			c.Number, c.Negatives, c.TruePositives, c.FalsePositives, c.Unfiltered)
	}
	if f := e.Filters; f != nil {
		promise := fmt.Sprintf("of %g wasted reads", f.FPR)
		if f.Memory > 0 {
			promise = "in " + words.Plural(f.Memory, "byte")
		}
		add("filters %s, %s, level ratio %d", promise, filterplan.Kind(f.Kind), f.Ratio)
		if f.Prefix != "" {
			add("prefix filters by %s", words.Escaped([]byte(f.Prefix), words.KeyLimit))
		}
	}
	return strings.Join(parts, ", ")
}

// tableText describes a table of a manifest.
func tableText(t *manifest.Table) string {
	s := words.Plural(t.Entries, "entry") + ", "
	if t.RangeDeletes > 0 {
		s += words.Plural(t.RangeDeletes, "range delete") + ", "
	}
	s += words.Escaped(t.Smallest, words.KeyLimit) + " … "
	switch {
	case t.Flags&manifest.LargestInfinite != 0:
		s += "the end"
	case t.Flags&manifest.LargestExclusive != 0:
		s += "before " + words.Escaped(t.Largest, words.KeyLimit)
	default:
		s += words.Escaped(t.Largest, words.KeyLimit)
	}
	if t.Flags&manifest.SeqOverridden != 0 {
		s += fmt.Sprintf(", ingested at sequence %d", t.MaxSeq)
	}
	return s
}
