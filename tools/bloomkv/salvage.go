package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/salvage"
)

// errLost is a negative answer: the new store was created, but it is incomplete.
var errLost = errors.New("some data could not be read; the rest is in the new store")

// salvageHelp is the advice after damage, with the directory of the store.
const salvageHelp = `to copy the readable data into a new store run "bloomkv salvage %s NEW", or restore a backup`

func (a *app) salvageCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "salvage DIR NEW",
		Short: "Copy the readable data of a damaged store into a new one",
		Long: `salvage reads all intact parts of the tables, logs and manifests in DIR, block by block, and creates a
store of them in NEW, a directory that must be empty or not exist. It changes nothing in DIR, which may be read-only,
and fails while a program has the store open for writing. It does not need a manifest: tables and logs describe
themselves.

The new store has the newest readable version of each key, unless a newer deletion was readable too. salvage lists what
could not be read by file and offset with the range of keys, and what it cannot know: where a newer value is lost, an
older one appears; where a deletion is lost, the key is back.

The exit status is 0 if nothing was lost, 1 if something was lost and the rest is in NEW, and 2 if no new store was
created. In that case nothing is left in NEW.`,
		Example: `  bloomkv salvage ./store ./saved && bloomkv check ./saved
  bloomkv salvage --json ./store ./saved > report.json`,
		RunE: func(c *cobra.Command, args []string) error {
			o, err := new(writeFlags).options(c.Context(), args[0], bloomkv.Options{})
			if err != nil {
				return err
			}
			bar := a.Progress("salvage", -1, true)
			r, err := salvage.Run(c.Context(), args[0], args[1], salvage.Options{Store: &o, Progress: bar.SetBytes})
			bar.End()
			if err != nil {
				return err
			}
			err = a.printResult(salvageJSON(&r), func() { a.printSalvage(args[1], &r) })
			if !r.Whole() {
				err = errors.Join(err, errLost)
			}
			return err
		},
	}
	a.addJSON(c, "print the report as a JSON object")
	return c
}

// printSalvage prints a report as text.
func (a *app) printSalvage(dir string, r *salvage.Report) {
	keys, size := words.Plural(r.Keys, "key"), words.Plural(r.Bytes, "byte")
	fmt.Fprintf(a.Out, "%s: %s in %s\n", words.Escaped([]byte(dir), 200), keys, size)
	manifest := r.Manifest
	if manifest == "" {
		manifest = "no manifest"
	}
	fmt.Fprintf(a.Out, "read: %s, %s with %s, %s\n", manifest,
		words.Plural(r.Logs, "log"), words.Plural(r.Records, "record"), words.Plural(r.Tables, "table"))
	a.printMark(words.Escaped(r.Mark, len(r.Mark)))
	for i := range r.Lost {
		l := &r.Lost[i]
		lost := "lost"
		if l.Harmless {
			lost = "damaged, but no data lost"
		}
		keys := ""
		if !l.Harmless && (len(l.Lower) > 0 || l.Upper != nil) {
			to := "the last key"
			if l.Upper != nil {
				to = words.Escaped(l.Upper, 64)
			}
			keys = fmt.Sprintf(", keys from %s to %s", words.Escaped(l.Lower, 64), to)
		}
		fmt.Fprintf(a.Out, "%s: %s: offset %d: %s, %s%s: %s\n", lost, l.File, l.Offset, l.Part,
			words.Plural(l.Bytes, "byte"), keys, words.AppendPrintable(nil, []byte(l.Err.Error())))
	}
	for _, s := range r.Unknown {
		words.Wrapped(a.Out, "note: "+s)
	}
}

// A salvageLoss is a loss in JSON. Keys are escaped, and absent if they are not known.
type salvageLoss struct {
	File     string `json:"file"`
	Offset   int64  `json:"offset"`
	Bytes    int64  `json:"bytes"`
	Part     string `json:"part"`
	Harmless bool   `json:"harmless"`
	Lower    string `json:"lower,omitempty"`
	Upper    string `json:"upper,omitempty"`
	Reason   string `json:"reason"`
}

// salvageJSON returns a report for JSON.
func salvageJSON(r *salvage.Report) any {
	lost := []salvageLoss{}
	for i := range r.Lost {
		l := &r.Lost[i]
		lost = append(lost, salvageLoss{
			l.File, l.Offset, l.Bytes, l.Part, l.Harmless,
			string(words.AppendEscaped(nil, l.Lower)), string(words.AppendEscaped(nil, l.Upper)), l.Err.Error(),
		})
	}
	return struct {
		Whole    bool          `json:"whole"`
		Manifest string        `json:"manifest"`
		Tables   int           `json:"tables"`
		Logs     int           `json:"logs"`
		Records  int           `json:"records"`
		Entries  uint64        `json:"entries"`
		Keys     uint64        `json:"keys"`
		Bytes    uint64        `json:"bytes"`
		Mark     string        `json:"mark,omitempty"` // escaped
		Lost     []salvageLoss `json:"lost"`
		Unknown  []string      `json:"unknown"`
	}{
		r.Whole(), r.Manifest, r.Tables, r.Logs, r.Records, r.Entries, r.Keys, r.Bytes,
		words.Escaped(r.Mark, len(r.Mark)), lost, append([]string{}, r.Unknown...),
	}
}
