package main

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/wal"
	"github.com/bloomkv/bloomkv/vfs"
)

// logFacts is one log, as JSON has it.
type logFacts struct {
	File         string `json:"file"`
	Bytes        int64  `json:"bytes"`
	Records      int    `json:"records"`
	End          int64  `json:"end"`                // of the last whole record
	Reserved     int64  `json:"reserved,omitempty"` // bytes of zeros behind it
	Torn         string `json:"torn,omitempty"`
	Promise      int64  `json:"durable_to"` // as far as the log itself says
	OlderDurable bool   `json:"older_logs_durable"`
}

// replayLog reads a log or a manifest. What is torn is a fact, what is damaged an error.
func replayLog(name string, number uint64, each func(payload []byte, end int64) error) (facts logFacts, err error) {
	f, err := vfs.OS.Open(name)
	if err != nil {
		return facts, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	r, err := wal.Replay(f, name, number, each)
	facts = logFacts{File: filepath.Base(name), Bytes: r.Size, Records: r.Records, End: r.End, Reserved: r.Reserved, Promise: r.Promise, OlderDurable: r.OlderDurable}
	if r.Torn {
		facts.Torn = cmp.Or(r.Reason, errors.New("incomplete")).Error()
	}
	return facts, err
}

func (f *logFacts) String() string {
	s := fmt.Sprintf("%s: %s, %s up to %d, says it is durable up to %d", f.File, plural(f.Bytes, "byte"), plural(f.Records, "record"), f.End, f.Promise)
	if f.OlderDurable {
		s += ", and all older logs"
	}
	if f.Reserved > 0 {
		s += fmt.Sprintf("; %s of zeros behind, reserved", plural(f.Reserved, "byte"))
	}
	if f.Torn != "" {
		s += "; torn there: " + f.Torn
	}
	return s
}

func (i inspector) log(name string, number uint64) error {
	type record struct {
		End   int64 `json:"end"`
		Bytes int   `json:"bytes"`
	}
	records, lines := []record{}, []string(nil)
	facts, err := replayLog(name, number, func(payload []byte, end int64) error {
		records = append(records, record{end, len(payload)})
		lines = append(lines, fmt.Sprintf("record %d: %s at %d", len(records), plural(len(payload), "byte"), end-int64(len(payload))))
		return nil
	})
	return i.showLog("log", &facts, lines, struct {
		logFacts
		List []record `json:"record_list"`
	}{facts, records}, err)
}

func (i inspector) manifest(name string, number uint64) error {
	edits, lines := []string{}, []string(nil)
	facts, err := replayLog(name, number, func(payload []byte, end int64) error {
		e, err := manifest.ParseEdit(payload)
		if err != nil {
			return fmt.Errorf("%s: record that ends at %d: %w", filepath.Base(name), end, err)
		}
		edits = append(edits, editText(e))
		lines = append(lines, fmt.Sprintf("edit %d: %s", len(edits), edits[len(edits)-1]))
		return nil
	})
	return i.showLog("manifest", &facts, lines, struct {
		logFacts
		Edits []string `json:"edits"`
	}{facts, edits}, err)
}

// showLog prints what was read of a log or a manifest: all of it, or what comes before the damage, which is the error.
func (i inspector) showLog(kind string, facts *logFacts, lines []string, object any, err error) error {
	switch {
	case err != nil && !errors.Is(err, bloomkv.ErrCorruption):
		return err // nothing was read
	case i.asJSON:
		return errors.Join(i.printJSON(object), err)
	}
	fmt.Fprintf(i.out, "%s %s\n", kind, facts)
	for _, line := range lines {
		fmt.Fprintf(i.out, "  %s\n", line)
	}
	return err
}

// editText puts an edit into words.
func editText(e *manifest.Edit) string {
	var parts []string
	say := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if e.NextFile != 0 {
		say("next file %d", e.NextFile)
	}
	if e.LastSeq != 0 {
		say("sequences up to %d", e.LastSeq)
	}
	if e.MinLog != 0 {
		say("logs from %d", e.MinLog)
	}
	if e.Log != nil {
		say("log %d durable up to %d", e.Log.Number, e.Log.Synced)
	}
	if e.NoLog {
		say("no log")
	}
	for _, d := range e.Deleted {
		say("- table %d from level %d", d.Number, d.Level)
	}
	for _, t := range e.Added {
		say("+ table %d to level %d run %d (%s)", t.Table.Number, t.Level, t.Run, tableText(t.Table))
	}
	for _, c := range e.Counts {
		say("filter of table %d: about %d negative, %d true positive, %d false positive, %d not asked",
			c.Number, c.Negatives, c.TruePositives, c.FalsePositives, c.Unfiltered)
	}
	return strings.Join(parts, ", ")
}

// tableText puts what a manifest knows of a table into words.
func tableText(t *manifest.Table) string {
	s := plural(t.Entries, "entry") + ", "
	if t.RangeDeletes > 0 {
		s += plural(t.RangeDeletes, "range delete") + ", "
	}
	s += escaped(t.Smallest, keyLimit) + " … "
	switch {
	case t.Flags&manifest.LargestInfinite != 0:
		s += "the end"
	case t.Flags&manifest.LargestExclusive != 0:
		s += "before " + escaped(t.Largest, keyLimit)
	default:
		s += escaped(t.Largest, keyLimit)
	}
	if t.Flags&manifest.SeqOverridden != 0 {
		s += fmt.Sprintf(", ingested at sequence %d", t.MaxSeq)
	}
	return s
}
