package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/backup"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/vfs"
)

func (a *app) backupCommand() *cobra.Command {
	var verify bool
	var keep int
	c := &cobra.Command{
		Use:   "backup DIR TARGET",
		Short: "Add a generation of a store to a directory of backups",
		Long: `backup stores the store DIR, as it is now, as a new generation in the directory TARGET, which it
creates. Only tables that no earlier generation has are copied. It prints the number of the generation; backups lists
them. Interrupted at any point, it leaves the earlier generations as they were, and the new one whole or not at all.

A store with damaged tables gives no new generation: bloomkv salvage makes a sound store of it.

--verify then reads all generations in TARGET, compares them with their checksums, and checks each table as check does.
--prune N then removes all but the newest N, and the tables that only they needed.

If DIR was not closed cleanly, the contents of its logs are first written into tables of DIR.`,
		Example: `  bloomkv backup ./store /mnt/backups
  bloomkv backup --verify --prune 7 ./store /mnt/backups`,
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("prune") && keep < 1 {
				return fmt.Errorf("--prune %d: want at least 1", keep)
			}
			if err := outside(args[0], args[1]); err != nil {
				return err
			}
			db, err := openToWrite(c.Context(), args[0])
			return with(db, err, func(db *bloomkv.DB) (err error) {
				to, err := backup.OpenDir(nil, args[1])
				if err != nil {
					return inUse(args[1], err)
				}
				defer func() { err = errors.Join(err, to.Close()) }()
				r, err := backup.Make(c.Context(), db, to)
				if err != nil {
					return err
				}
				if !a.asJSON {
					fmt.Fprintf(a.Out, "generation %d: %s, %d of them new, %s\n", r.Generation,
						words.Plural(r.Tables, "table"), r.Stored, words.Plural(r.Bytes, "byte"))
				}
				if verify {
					bar := a.Progress("verify", -1, false)
					err = backup.Verify(c.Context(), to, bar.SetBytes)
					bar.End()
				}
				if err == nil && keep > 0 {
					err = backup.Prune(c.Context(), to, keep)
				}
				if a.asJSON { // after an error too: the generation is there
					err = errors.Join(a.PrintJSON(struct {
						Generation uint64 `json:"generation"`
						Tables     int    `json:"tables"`
						Stored     int    `json:"stored"`       // new tables among them
						Bytes      int64  `json:"stored_bytes"` // of the new ones
					}(r)), err)
				}
				return notOurs(err)
			})
		},
	}
	a.addJSON(c, "print a JSON object with the number of tables and bytes")
	c.Flags().BoolVar(&verify, "verify", false, "read all generations and check their tables")
	c.Flags().IntVar(&keep, "prune", 0, "keep only the newest `N` generations")
	return c
}

// inUse returns an error of opening a directory of backups. One that is locked is not the store.
func inUse(target string, err error) error {
	if errors.Is(err, bloomkv.ErrLocked) {
		return fmt.Errorf("%s: another backup or restore has it open", target)
	}
	return err
}

// outside returns an error if target is the directory of a store or in it, also through links.
func outside(dir, target string) error {
	at, err := filepath.Abs(target)
	for err == nil {
		var inside bool
		switch inside, err = vfs.Inside(vfs.OS, at, dir); {
		case inside:
			return fmt.Errorf("%s lies inside the directory of the store, want another TARGET", target)
		case errors.Is(err, fs.ErrNotExist) && at != filepath.Dir(at): // the directory that it will be made in
			at, err = filepath.Dir(at), nil
		default:
			return nil // an error is that of opening them
		}
	}
	return err
}
