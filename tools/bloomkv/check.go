package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/words"
)

// damageReport is one damage in JSON.
type damageReport struct {
	File   string `json:"file"`
	Offset int64  `json:"offset"`
	Reason string `json:"reason"`
}

// damages returns all damage in a tree of errors, in the order of the tree.
func damages(err error) []damageReport {
	var damage *bloomkv.CorruptionError
	switch e := err.(type) { //nolint:errorlint // the tree is walked by hand: errors.As finds only the first
	case nil:
		return nil
	case interface{ As(target any) bool }:
		if !e.As(&damage) {
			return damages(errors.Unwrap(err))
		}
		return []damageReport{{damage.File, damage.Offset, damage.Err.Error()}}
	case interface{ Unwrap() []error }:
		var all []damageReport
		for _, branch := range e.Unwrap() {
			all = append(all, damages(branch)...)
		}
		return all
	default:
		return damages(errors.Unwrap(err))
	}
}

func (a *app) checkCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "check DIR",
		Short: "Verify a whole store; exit status 2 if it is damaged",
		Long: `check reads every byte of a store and changes nothing. The store must not be open for writing. check
verifies all checksums, the order of the keys, that the tables of a run do not overlap, the counts, that the manifest
matches the directory, every record of the logs, and that the filter of each table answers "maybe" for each of its
keys.

Each damage is printed on a line of its own with its file and offset, and the exit status is 2.`,
		RunE: func(c *cobra.Command, args []string) error {
			if err := storeDir(args[0]); err != nil {
				return err
			}
			bar := a.Progress("check", -1, true)
			r, err := bloomkv.Check(c.Context(), args[0], bloomkv.CheckOptions{Progress: bar.SetBytes})
			bar.End()
			damage := damages(err)
			if err != nil && len(damage) == 0 {
				return err // the store was not checked
			}
			mark := words.Escaped(r.Mark, len(r.Mark))
			return errors.Join(err, a.printResult(struct {
				OK      bool           `json:"ok"`
				Levels  int            `json:"levels"`
				Runs    int            `json:"runs"`
				Tables  int            `json:"tables"`
				Entries uint64         `json:"entries"`
				Bytes   uint64         `json:"bytes"`
				Logs    int            `json:"logs"`
				Records int            `json:"records"`
				Mark    string         `json:"mark,omitempty"`
				Damage  []damageReport `json:"damage"`
			}{
				err == nil, r.Levels, r.Runs, r.Tables, r.Entries, r.Bytes, r.Logs, r.Records, mark,
				append([]damageReport{}, damage...),
			}, func() {
				if err == nil {
					fmt.Fprintf(a.Out, "ok: %s in %s on %s, %s, %s; %s, %s\n",
						words.Plural(r.Tables, "table"), words.Plural(r.Runs, "run"), words.Plural(r.Levels, "level"),
						words.Plural(r.Entries, "entry"), words.Plural(r.Bytes, "byte"),
						words.Plural(r.Logs, "log"), words.Plural(r.Records, "record"))
					a.printMark(mark)
				}
			}))
		},
	}
	a.addJSON(c, "print a JSON object, which also lists damage")
	return c
}
