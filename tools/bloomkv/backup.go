package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/backup"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/tools/cli"
)

func (a *app) backupCommand() *cobra.Command {
	var w writeFlags
	var verify bool
	var keep int
	c := &cobra.Command{
		Use:   "backup DIR TARGET",
		Short: "Add a generation of a store to a directory of backups",
		Long: `backup stores the store DIR, as it is now, as a new generation in the directory TARGET, which it creates.
Only tables that no earlier generation has are copied. It prints the number of the generation. Interrupted at any
point, it leaves the earlier generations as they were, and the new one whole or not at all.

A store with damaged tables gives no new generation: bloomkv salvage makes a sound store of it.

--verify then reads all generations in TARGET, compares them with their checksums, and checks each table as check does.
--prune N then removes all but the newest N, and the tables that only they needed.

If DIR was not closed cleanly, the contents of its logs are first written into tables of DIR.`,
		Example: `  bloomkv backup ./store /mnt/backups
  bloomkv backup --verify --prune 7 ./store /mnt/backups`,
		Args: cli.Arguments,
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("prune") && keep < 1 {
				return fmt.Errorf("--prune %d: want at least 1", keep)
			}
			db, err := w.open(c.Context(), args[0], bloomkv.Options{ErrorIfMissing: true})
			return with(db, err, func(db *bloomkv.DB) (err error) {
				to, err := backup.OpenDir(nil, args[1])
				if err != nil {
					return err
				}
				defer func() { err = errors.Join(err, to.Close()) }()
				r, err := backup.Make(c.Context(), db, to)
				if err != nil {
					return err
				}
				fmt.Fprintf(a.Out, "generation %d: %s, %d of them new, %s\n", r.Generation,
					words.Plural(r.Tables, "table"), r.Stored, words.Plural(r.Bytes, "byte"))
				if verify {
					bar := a.Progress("verify", -1, false)
					err = backup.Verify(c.Context(), to, bar.SetBytes)
					bar.End()
				}
				if err == nil && keep > 0 {
					err = backup.Prune(c.Context(), to, keep)
				}
				return notOurs(err)
			})
		},
	}
	w.add(c)
	c.Flags().BoolVar(&verify, "verify", false, "read all generations and check their tables")
	c.Flags().IntVar(&keep, "prune", 0, "keep only the newest `N` generations")
	return c
}

func (a *app) restoreCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "restore TARGET[@GENERATION] NEW",
		Short: "Make a store of a generation that backup has stored",
		Long: `restore makes a store in NEW, a directory that must be empty or not exist, of the newest generation in
the directory TARGET, or of the one whose number follows the @. It verifies every byte. After an error or an interrupt,
nothing is left in NEW. Then it checks the store, as check does: if tables were damaged before they were stored, the
exit status is 2, and NEW stays.`,
		Example: `  bloomkv restore /mnt/backups ./store
  bloomkv restore /mnt/backups@12 ./store`,
		Args: cli.Arguments,
		RunE: func(c *cobra.Command, args []string) (err error) {
			target, generation, newest := args[0], uint64(0), true
			if i := strings.LastIndexByte(target, '@'); i >= 0 {
				if n, err := strconv.ParseUint(target[i+1:], 10, 64); err == nil {
					target, generation, newest = target[:i], n, false
				}
			}
			if _, err := os.Stat(filepath.Join(target, "generations")); err != nil {
				return fmt.Errorf("%s has no backups: %w", target, cli.PathError("generations", err))
			}
			from, err := backup.OpenDir(nil, target)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, from.Close()) }()
			if newest {
				all, err := backup.List(c.Context(), from)
				if err != nil {
					return err
				}
				if len(all) == 0 {
					return fmt.Errorf("%s has no backups", target)
				}
				generation = all[len(all)-1]
			}
			err = backup.Restore(c.Context(), from, generation, args[1], bloomkv.NewStoreOptions{})
			if err != nil {
				return notOurs(err)
			}
			return a.checkCopy(c.Context(), args[1])
		},
	}
}
