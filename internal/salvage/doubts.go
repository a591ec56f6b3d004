package salvage

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bloomkv/bloomkv/internal/filename"
)

// doubts says in words what cannot be known.
func (s *Salvage) doubts() (all []string) {
	say := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if slices.ContainsFunc(s.losses, func(l Loss) bool { return !l.Harmless }) {
		say("What was lost may have held newer values and deletions: a key may be missing, may have an older value, " +
			"or may be back though it was deleted.")
	}
	if len(s.found[filename.Log]) > 0 {
		say("The end of the last log may be missing without a trace, and so may the newest log: what was written last.")
	}
	if s.behindGap {
		say("Log records behind lost ones were read: a write may be there that was made after one that is lost.")
	}
	const replaced = "One that the store had already replaced, and not yet removed, brings back older values and deleted keys."
	switch {
	case s.traces.Number == 0:
		say("No manifest could be read: all tables count. " + replaced)
	case !s.traces.Whole:
		say("The manifest could not be read whole: tables that it does not name count. " + replaced)
	}
	if len(s.unnamed) > 0 {
		say("The manifest that was read does not name these tables, which count all the same: %s.", list(s.unnamed))
	}
	if len(s.unplaced) > 0 {
		say("Only a manifest says how new ingested tables are. If one of these was ingested, older values of its keys may "+
			"have won: %s.", list(s.unplaced))
	}
	if len(s.leftOver) > 0 {
		say("The manifest says that these tables were replaced, and they were not read: %s.", list(s.leftOver))
	}
	return all
}

// list is the first names of many.
func list(names []string) string {
	const most = 20
	if n := len(names); n > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), n-most)
	}
	return strings.Join(names, ", ")
}
