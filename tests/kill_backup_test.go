//go:build unix

package tests

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/backup"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/vfs"
)

// TestAHundredKillsOfABackupLeaveWholeGenerations kills a process that writes, stores generations and removes old ones.
// After each kill, everything that is stored is verified, all generations that the process has reported and not removed
// are there, and the newest is restored: it has all commits that were made before it was begun.
func TestAHundredKillsOfABackupLeaveWholeGenerations(t *testing.T) {
	const seed = 5
	dir := t.TempDir()
	store, target := filepath.Join(dir, "db"), filepath.Join(dir, "backups")
	rng := rand.New(rand.NewPCG(seed, 0))
	kills, whileBusy := max(4, storetest.AtStride(100)), 0
	want, applied := map[string]string{}, uint64(0) // want is the state after applied commits
	newest, commits := uint64(0), uint64(0)         // the newest generation, and how many commits it has at least
	for kill := range kills {
		reports := killed(t, child(t, "backup", store, target, strconv.Itoa(seed)),
			time.Duration(rng.IntN(60))*time.Millisecond)
		if reports[len(reports)-1].busy {
			whileBusy++
		}
		begun := uint64(0)
		for _, r := range reports {
			switch r.what {
			case reportBegins:
				begun = r.commit
			case reportAcked:
				newest, commits = r.commit, begun
			}
		}
		objects, err := backup.OpenDir(nil, target)
		must(t, err)
		if err := backup.Verify(t.Context(), objects, nil); err != nil {
			t.Fatalf("after kill %d: %v", kill, err)
		}
		all, err := backup.List(t.Context(), objects)
		must(t, err)
		for g := max(1, newest-min(newest, keptGenerations-1)); g <= newest; g++ {
			if !slices.Contains(all, g) {
				t.Fatalf("after kill %d: generations %d, want %d too", kill, all, g)
			}
		}
		if len(all) == 0 {
			must(t, objects.Close())
			continue
		}
		if last := all[len(all)-1]; last > newest+1 {
			t.Fatalf("after kill %d: generations %d, want at most %d", kill, all, newest+1)
		} else if last == newest+1 { // stored, and not reported
			newest, commits = last, begun
		}
		restored := filepath.Join(dir, "restored "+strconv.Itoa(kill))
		must(t, backup.Restore(t.Context(), objects, newest, restored, bloomkv.NewStoreOptions{}))
		must(t, objects.Close())
		n, got := restoredContents(t, restored)
		if n < commits {
			t.Fatalf("after kill %d: generation %d has %d commits, want at least %d", kill, newest, n, commits)
		}
		for ; applied < n; applied++ {
			numbered(seed, applied+1).apply(want)
		}
		if d := storetest.Diff(got, want); d != "" {
			t.Fatalf("after kill %d: generation %d of %d commits: %s", kill, newest, n, d)
		}
	}
	t.Logf("%d kills, %d of them while a generation was stored; %d generations, %d commits",
		kills, whileBusy, newest, applied)
	if kills >= 50 && whileBusy*3 < kills { // a few kills say nothing about the share
		t.Errorf("%d of %d kills hit while a generation was stored, want a third", whileBusy, kills)
	}
}

// restoredContents returns the number of commits in a store, and its contents.
func restoredContents(t *testing.T, dir string) (commits uint64, got map[string]string) {
	t.Helper()
	o := storetest.Tiny(vfs.OS)
	o.ErrorIfMissing = true
	db, err := bloomkv.Open(dir, o)
	must(t, err)
	commits, err = commitsIn(db)
	must(t, err)
	got, err = storetest.Contents(db)
	must(t, err)
	must(t, db.Close())
	return commits, got
}
