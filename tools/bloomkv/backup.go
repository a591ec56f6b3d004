package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/backup"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/tools/cli"
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

// A target is an open directory of backups, and its generations.
type target struct {
	*backup.Dir

	name    string
	numbers []uint64 // ascending, at least one
}

// openTarget opens a directory of backups. It creates none.
func openTarget(ctx context.Context, name string) (*target, error) {
	if _, err := os.Stat(filepath.Join(name, "generations")); err != nil {
		if _, missing := os.Stat(name); missing != nil {
			return nil, cli.PathError(name, missing)
		}
		return nil, fmt.Errorf("%s has no backups", name)
	}
	dir, err := backup.OpenDirToRead(nil, name)
	if err != nil {
		return nil, inUse(name, err)
	}
	t := &target{Dir: dir, name: name}
	if t.numbers, err = backup.List(ctx, dir); err == nil && len(t.numbers) == 0 {
		err = fmt.Errorf("%s has no backups", name)
	}
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return t, nil
}

// made returns when a generation was stored.
func (t *target) made(n uint64) (time.Time, error) {
	info, err := os.Stat(filepath.Join(t.name, "generations", fmt.Sprintf("%08d", n)))
	if err != nil {
		return time.Time{}, err
	}
	return info.ModTime().UTC().Truncate(time.Second), nil
}

// find returns the generation with the given number.
func (t *target) find(number string) (uint64, error) {
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("generation %s: want a whole number; there %s", words.Quoted(number), listed(t.numbers))
	}
	if !slices.Contains(t.numbers, n) {
		return 0, fmt.Errorf("no generation %d; there %s", n, listed(t.numbers))
	}
	return n, nil
}

// listed says which numbers there are, such as "is only 3", or "are 1, 2, 5 to 9".
func listed(numbers []uint64) string {
	if len(numbers) == 1 {
		return fmt.Sprintf("is only %d", numbers[0])
	}
	var parts []string
	for i := 0; i < len(numbers); {
		last := i
		for last+1 < len(numbers) && numbers[last+1] == numbers[last]+1 {
			last++
		}
		if last-i < 2 {
			last = i
			parts = append(parts, strconv.FormatUint(numbers[i], 10))
		} else {
			parts = append(parts, fmt.Sprintf("%d to %d", numbers[i], numbers[last]))
		}
		i = last + 1
	}
	return "are " + strings.Join(parts, ", ")
}

func (a *app) backupsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "backups TARGET",
		Short: "List the generations that backup has stored",
		Long: `backups lists the generations in the directory TARGET, the newest last: the number, when it was
stored, and how many tables and bytes it has. Generations share tables, so together they take less space.`,
		Example: `  bloomkv backups /mnt/backups`,
		RunE: func(c *cobra.Command, args []string) (err error) {
			t, err := openTarget(c.Context(), args[0])
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, t.Close()) }()
			type generation struct {
				Number uint64    `json:"generation"`
				Made   time.Time `json:"stored_at"`
				Tables int       `json:"tables"`
				Bytes  int64     `json:"bytes"`
			}
			all, rows := []generation{}, [][]string{}
			for _, n := range t.numbers {
				g, err := backup.Describe(c.Context(), t, n)
				at, statErr := t.made(n)
				if err = errors.Join(err, statErr); err != nil {
					return notOurs(err)
				}
				all = append(all, generation{n, at, g.Tables, g.Bytes})
				rows = append(rows, []string{
					strconv.FormatUint(n, 10), at.Format(time.DateTime), words.Count(g.Tables), words.Size(g.Bytes),
				})
			}
			return a.printResult(map[string][]generation{"generations": all}, func() {
				words.Columns(a.Out, []string{"generation", "stored at (UTC)", "tables", "size"}, rows)
			})
		},
	}
	a.addJSON(c, "print a JSON object")
	return c
}

func (a *app) restoreCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "restore TARGET[@GENERATION] NEW",
		Short: "Make a store of a generation that backup has stored",
		Long: `restore makes a store in NEW, a directory that must be empty or not exist, of the newest generation in
the directory TARGET, or of the one whose number follows the @; backups lists them. It verifies every byte. After an
error or an interrupt, nothing is left in NEW. Then it checks the store, as check does: if tables were damaged before
they were stored, the exit status is 2, and NEW stays. An interrupt of the check leaves NEW too.`,
		Example: `  bloomkv restore /mnt/backups ./store
  bloomkv restore /mnt/backups@12 ./store`,
		RunE: func(c *cobra.Command, args []string) (err error) {
			name, number, given := args[0], "", false
			if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) { // else a directory with an @ in its name
				if i := strings.LastIndexByte(name, '@'); i >= 0 {
					name, number, given = name[:i], name[i+1:], true
				}
			}
			from, err := openTarget(c.Context(), name)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, from.Close()) }()
			generation := from.numbers[len(from.numbers)-1]
			if given {
				if generation, err = from.find(number); err != nil {
					return err
				}
			}
			err = backup.Restore(c.Context(), from, generation, args[1], bloomkv.NewStoreOptions{})
			if err != nil {
				return notOurs(err)
			}
			return a.checkCopy(c.Context(), args[1], generation)
		},
	}
	a.addJSON(c, "print a JSON object with the generation and the number of tables, entries and bytes")
	return c
}
