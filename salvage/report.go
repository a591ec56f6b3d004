package salvage

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bloomkv/bloomkv/internal/filename"
)

// A Report describes what Run read and wrote, what it could not read, and what it cannot know.
type Report struct {
	Manifest string // base name of the manifest that was read; empty if none could be read
	Tables   int    // tables that count
	Logs     int    // logs that count
	Records  int    // records read from logs
	Entries  uint64 // versions read from tables and logs, including older and deleted ones
	Keys     uint64 // keys in the new store
	Bytes    uint64 // bytes of the new store's tables
	Mark     []byte // mark of the new store: that of the old one, or nil if data from before it may be lost

	// Lost lists what could not be read, by file and offset. Filters are not included: Run does not read them, and the
	// new store gets its own.
	Lost []Loss
	// Unknown lists, in sentences, what cannot be known about the new store: which keys may have reappeared, or may
	// be out of date.
	Unknown []string
}

// Whole reports whether no data was lost: all that could not be read in one place is in the new store nevertheless.
func (r *Report) Whole() bool { return !slices.ContainsFunc(r.Lost, harmful) }

// A Loss is a part of a file that Run could not read.
type Loss struct {
	File     string // base name
	Offset   int64  // where the part begins, in bytes
	Bytes    int64  // length of the part; 0 for a whole file, or if it is not known
	Part     string // kind of part: "data block", "index", "log record" and so on
	Harmless bool   // it held no key and no deletion, or they were found elsewhere

	// The keys in the part were between these two, both inclusive. An empty Lower means the first key, a nil Upper
	// means no upper bound. For a log, no narrower bounds are known.
	Lower, Upper []byte

	Err error // what is wrong
}

func harmful(l Loss) bool { return !l.Harmless }

func (s *salvage) lose(l Loss) { s.report.Lost = append(s.report.Lost, l) }

// missing returns the error for a file that is not there.
func (s *salvage) missing() error {
	if !s.traces.whole {
		return errors.New("missing, a part of the manifest names it; a later part, which is lost, may not")
	}
	return errors.New("missing, the manifest names it")
}

// markHolds reports whether all that was written up to the newest mark that was seen is in the new store, as far as can
// be known: nothing of it is lost, and the whole manifest says which tables count.
func (s *salvage) markHolds() bool {
	return s.mark.Seq <= s.last && s.traces.number != 0 && s.traces.whole &&
		!slices.ContainsFunc(s.report.Lost[:s.behindMark], harmful) &&
		!slices.ContainsFunc(s.report.Lost[s.behindLogs:], harmful)
}

// doubts returns sentences about what cannot be known.
func (s *salvage) doubts() (all []string) {
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if !s.report.Whole() {
		add("The lost data may have included newer values and deletions: a key may be missing, may have an older " +
			"value, or may be back although it was deleted.")
	}
	if len(s.found[filename.Log]) > 0 {
		add("The end of the last log, or the whole newest log, may be missing without a trace: " +
			"the last writes may be lost.")
	}
	if s.behindGap {
		add("Log records after lost ones were read: a write may be present although an earlier one is lost.")
	}
	const replaced = "A table that the store had already replaced but not yet removed brings back older values and " +
		"deleted keys, and its deletions may hide keys that were put later."
	switch {
	case s.traces.number == 0:
		add("No manifest could be read, so all tables were read. " + replaced)
	case !s.traces.whole:
		add("Parts of the manifest could not be read, so tables that it does not name were read too. " + replaced)
	}
	if len(s.mark.Bytes) > 0 && !s.markHolds() {
		add("The new store has no mark, since data from before it may be lost. The newest mark that could be read "+
			"is %q.",
			s.mark.Bytes)
	}
	if len(s.unnamed) > 0 {
		add("These tables were read although the manifest does not name them: %s.", list(s.unnamed))
	}
	if len(s.unplaced) > 0 {
		add("Only a manifest has the sequence numbers of ingested tables. If one of these tables was ingested, "+
			"older values of its keys may have been kept: %s.", list(s.unplaced))
	}
	if len(s.leftOver) > 0 {
		add("By the manifest, these tables were replaced, so they were not read: %s.", list(s.leftOver))
	}
	return all
}

// list joins names. It leaves out all but the first ones if there are many.
func list(names []string) string {
	const most = 20
	if n := len(names); n > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), n-most)
	}
	return strings.Join(names, ", ")
}

// A progress counts the bytes that were read.
type progress struct {
	tell        func(done, total uint64) // or nil
	done, total uint64
}

// advance reports progress by the given number of bytes.
func (p *progress) advance(n uint64) {
	p.done = min(p.done+n, p.total)
	if p.tell != nil {
		p.tell(p.done, p.total)
	}
}
