package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/cli"
	"github.com/bloomkv/bloomkv/internal/words"
)

// errLost is an answer rather than trouble: the new store is there.
var errLost = errors.New("something could not be read; what could is in the new store")

// salvageHelp advises what to do about damage.
const salvageHelp = `to save what can be read run "bloomkv salvage DIR NEW", or restore a backup`

func (a *app) salvageCommand() *cobra.Command {
	var w writeFlags
	var asJSON bool
	c := &cobra.Command{
		Use:   "salvage DIR NEW",
		Short: "Save what can be read of a damaged store into a new one",
		Long: `salvage reads every table, log and manifest of DIR as far as it can be read, block by block, and makes a store of
it in NEW, a directory that must not exist or be empty. It changes nothing in DIR, which may be on a disk that can't be
written, and refuses while a program has the store open for writing. Without a manifest, tables and logs say by
themselves what they hold.

The new store has the newest version of each key that could be read, unless a deletion that could be read is newer.
What could not be read is listed by file and offset with the keys between which it lies, and so is what can't be known:
where a newer value is lost an older one shows, and where a deletion is lost the key is back.

The exit status is 0 if nothing was lost, 1 if something was and the rest is in NEW, and 2 if there is no new store;
then nothing is left in NEW.`,
		Example: `  bloomkv salvage ./store ./saved && bloomkv check ./saved
  bloomkv salvage --json ./store ./saved > report.json`,
		Args: cli.Arguments,
		RunE: func(c *cobra.Command, args []string) error {
			o, err := w.options(args[0], bloomkv.Options{})
			if err != nil {
				return err
			}
			bar := a.Progress("salvage", -1, true)
			r, err := bloomkv.Salvage(c.Context(), args[0], args[1], &o, func(done, total uint64) {
				bar.SetBytes(done, total)
			})
			bar.End()
			if err != nil {
				return err
			}
			if asJSON {
				err = a.PrintJSON(salvageJSON(&r))
			} else {
				a.printSalvage(args[1], &r)
			}
			if !r.Whole() {
				err = errors.Join(err, errLost)
			}
			return err
		},
	}
	w.add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print the report as a JSON object")
	return c
}

// printSalvage prints a report as text.
func (a *app) printSalvage(dir string, r *bloomkv.SalvageReport) {
	keys, size := words.Plural(r.Keys, "key"), words.Plural(r.Bytes, "byte")
	fmt.Fprintf(a.Out, "%s: %s in %s\n", words.Escaped([]byte(dir), 200), keys, size)
	manifest := r.Manifest
	if manifest == "" {
		manifest = "no manifest"
	}
	fmt.Fprintf(a.Out, "read: %s, %s with %s, %s\n", manifest,
		words.Plural(r.Logs, "log"), words.Plural(r.Records, "record"), words.Plural(r.Tables, "table"))
	for i := range r.Lost {
		l := &r.Lost[i]
		lost := "lost"
		if l.Harmless {
			lost = "damaged, and no data lost"
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

// A salvageLoss is a loss as JSON has it: keys are escaped, and absent where they are not known.
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

// salvageJSON is a report as JSON has it.
func salvageJSON(r *bloomkv.SalvageReport) any {
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
		Lost     []salvageLoss `json:"lost"`
		Unknown  []string      `json:"unknown"`
	}{
		r.Whole(), r.Manifest, r.Tables, r.Logs, r.Records, r.Entries, r.Keys, r.Bytes, lost,
		append([]string{}, r.Unknown...),
	}
}
