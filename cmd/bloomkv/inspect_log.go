package main

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/wal"
	"github.com/bloomkv/bloomkv/vfs"
)

// logFacts is one log, as JSON has it.
type logFacts struct {
	File         string `json:"file"`
	Bytes        int64  `json:"bytes"`
	Records      int    `json:"records"`
	End          int64  `json:"end"` // of the last whole record
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
	facts = logFacts{File: filepath.Base(name), Bytes: r.Size, Records: r.Records, End: r.End, Promise: r.Promise, OlderDurable: r.OlderDurable}
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
	records := []record{}
	facts, err := replayLog(name, number, func(payload []byte, end int64) error {
		records = append(records, record{end, len(payload)})
		return nil
	})
	if err != nil {
		return err
	}
	if i.asJSON {
		return i.printJSON(struct {
			logFacts
			List []record `json:"record_list"`
		}{facts, records})
	}
	fmt.Fprintf(i.out, "log %s\n", &facts)
	for n, r := range records {
		fmt.Fprintf(i.out, "  record %d: %s at %d\n", n+1, plural(r.Bytes, "byte"), r.End-int64(r.Bytes))
	}
	return nil
}

func (i inspector) manifest(name string, number uint64) error {
	var edits []string
	facts, err := replayLog(name, number, func(payload []byte, end int64) error {
		e, err := manifest.ParseEdit(payload)
		if err != nil {
			return fmt.Errorf("%s: record that ends at %d: %w", filepath.Base(name), end, err)
		}
		edits = append(edits, editText(e))
		return nil
	})
	if err != nil {
		return err
	}
	if i.asJSON {
		return i.printJSON(struct {
			logFacts
			Edits []string `json:"edits"`
		}{facts, append([]string{}, edits...)})
	}
	fmt.Fprintf(i.out, "manifest %s\n", &facts)
	for n, e := range edits {
		fmt.Fprintf(i.out, "  edit %d: %s\n", n+1, e)
	}
	return nil
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
		say("+ table %d to level %d run %d (%s, %s … %s)", t.Table.Number, t.Level, t.Run, plural(t.Table.Entries, "entry"),
			escaped(t.Table.Smallest, keyLimit), escaped(t.Table.Largest, keyLimit))
	}
	return strings.Join(parts, ", ")
}
