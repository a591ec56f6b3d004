package inspect

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/bloomkv/bloomkv/internal/words"
)

// WriteText writes what is known of the store.
func (s *Store) WriteText(w io.Writer) {
	words.Wrapped(w, "read without the store's lock: what another process changes meanwhile may look torn")
	fmt.Fprintf(w, "%s: next file %d, sequences up to %d, logs from %d\n", s.Manifest, s.NextFile, s.LastSeq, s.MinLog)
	if s.Torn {
		fmt.Fprintln(w, "its last edit is not whole: it was never acknowledged, and is not part of the store")
	}
	if len(s.Tables) > 0 {
		fmt.Fprintln(w)
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "level\trun\ttable\tbytes\tentries\tdeletes\trange deletes\tfilter\tbits/key\tunits, probes\tfill\tpromised\tfrom the bits\tprefix filter, bytes, promised\tkeys")
		for n := range s.Tables {
			f := &s.Tables[n]
			units, fill := f.describe()
			fmt.Fprintf(t, "%d\t%d\t%s\t%d\t%d\t%d\t%d\t%d\t%.1f\t%s\t%s\t%.3g\t%.3g\t%s\t%s\n",
				*f.Level, *f.Run, f.File, f.Bytes, f.Entries, f.Deletes, f.RangeDels, f.FilterBytes, f.BitsPerKey,
				cmp.Or(units, "-"), cmp.Or(fill, "-"), f.FPRPromised, f.FPRFromBits, f.Prefix.describe(), f.keys())
		}
		t.Flush()
	}
	if slices.ContainsFunc(s.Tables, func(t Table) bool { return t.verified }) {
		fmt.Fprintln(w)
		for n := range s.Tables {
			words.Wrapped(w, fmt.Sprintf("%s: %s", s.Tables[n].File, s.Tables[n].Verify.verdict()))
		}
	}
	if s.Key != nil {
		drawKey(w, s.Key)
	}
	for n := range s.Logs {
		fmt.Fprintf(w, "\nlog %s\n", &s.Logs[n])
	}
	for _, name := range s.Others {
		fmt.Fprintf(w, "\nother file: %s\n", words.Escaped([]byte(name), 256))
	}
}
