package salvage

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bloomkv/bloomkv/internal/filename"
)

// markHolds reports whether all that was written up to the newest mark that was seen is in the new store, as far as can
// be known: nothing of it is lost, and the whole manifest says which tables count.
func (s *Salvage) markHolds() bool {
	harmful := func(l Loss) bool { return !l.Harmless }
	return s.mark.Seq <= s.last && s.traces.Number != 0 && s.traces.Whole &&
		!slices.ContainsFunc(s.losses[:s.behindMark], harmful) &&
		!slices.ContainsFunc(s.losses[s.behindLogs:], harmful)
}

// doubts returns sentences about what cannot be known.
func (s *Salvage) doubts() (all []string) {
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if slices.ContainsFunc(s.losses, func(l Loss) bool { return !l.Harmless }) {
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
		"deleted keys."
	switch {
	case s.traces.Number == 0:
		add("No manifest could be read, so all tables were read. " + replaced)
	case !s.traces.Whole:
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
