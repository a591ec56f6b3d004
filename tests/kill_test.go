//go:build unix

package tests

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/backup"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs"
)

// TestKillsOfAWritingProcessLoseNothingAcknowledged also counts the kills during a flush or a compaction. After
// every second kill, the next process recovers the store by itself, and is killed again.
func TestKillsOfAWritingProcessLoseNothingAcknowledged(t *testing.T) {
	const seed = 11
	dir := filepath.Join(t.TempDir(), "db")
	rng := rand.New(rand.NewPCG(seed, 0))
	kills, whileBusy := max(4, storetest.AtStride(50)), 0
	reports, busyReports := 0, 0
	want, applied := map[string]string{}, uint64(0) // want is the state after applied commits
	var low, high uint64                            // the store must hold at least low and at most high commits
	holds := func(who string, n uint64) {
		t.Helper()
		if n < low || n > high {
			t.Fatalf("%s found %d commits, want %d to %d", who, n, low, high)
		}
		low, high = n, n
	}
	for kill := range kills {
		busy := false
		writer := child(t, "write", dir, strconv.Itoa(seed))
		for _, r := range killed(t, writer, time.Duration(20+rng.IntN(100))*time.Millisecond) {
			busy = r.busy
			if reports++; busy {
				busyReports++
			}
			switch r.what {
			case reportOpened:
				holds(fmt.Sprintf("process %d", kill), r.commit)
			case reportBegins:
				high = r.commit
			case reportAcked:
				low = r.commit
			}
		}
		if busy {
			whileBusy++
		}
		if kill%2 == 0 && kill < kills-1 {
			continue
		}
		db, err := bloomkv.Open(dir, storetest.Tiny(vfs.OS))
		if err != nil {
			t.Fatalf("after kill %d: %v", kill, err)
		}
		n, err := commitsIn(db)
		must(t, err)
		holds("the test", n)
		for ; applied < n; applied++ {
			numbered(seed, applied+1).apply(want)
		}
		got, err := storetest.Contents(db)
		must(t, err)
		if d := storetest.Diff(got, want); d != "" {
			t.Fatalf("after kill %d and %d commits: %s", kill, n, d)
		}
		must(t, lookupsAgree(db, want))
		must(t, db.Close())
	}
	if _, err := bloomkv.Check(t.Context(), dir, bloomkv.CheckOptions{FS: vfs.OS}); err != nil {
		t.Error(err)
	}
	t.Logf("%d kills, %d of them while a flush or a compaction ran, as one did for %d of %d reports; %d commits",
		kills, whileBusy, busyReports, reports, applied)
	// A few kills say nothing about the share.
	if kills >= 50 && whileBusy*5 < kills*2 {
		t.Errorf("%d of %d kills hit while a flush or a compaction ran, want two fifths", whileBusy, kills)
	}
}

// killed starts a process, kills it some time after its first report of work in the background, and returns all its
// reports.
func killed(t *testing.T, process *exec.Cmd, after time.Duration) (reports []report) {
	t.Helper()
	out, err := process.StdoutPipe()
	if err == nil {
		err = process.Start()
	}
	must(t, err)
	works, all := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(all)
		in, busy := bufio.NewReader(out), false
		var b [reportSize]byte
		for {
			if _, err := io.ReadFull(in, b[:]); err != nil {
				return
			}
			r := parseReport(b[:])
			reports = append(reports, r)
			if r.busy && !busy {
				busy = true
				close(works)
			}
		}
	}()
	select {
	case <-works:
	case <-all:
	case <-time.After(testkit.Patience):
		t.Error("a process flushed nothing in a minute")
	}
	time.Sleep(after)
	if err := process.Process.Kill(); err != nil {
		t.Error(err)
	}
	<-all // its last reports may still be in the pipe
	_ = process.Wait()
	if len(reports) == 0 {
		t.Fatal("a process ended without a report")
	}
	return reports
}

// TestASecondProcessIsRefusedAtOnce checks that a store is locked while the first process lives, even stopped, and no
// longer.
func TestASecondProcessIsRefusedAtOnce(t *testing.T) {
	testkit.Long(t)
	dir := filepath.Join(t.TempDir(), "db")
	db, err := bloomkv.Open(dir, storetest.Tiny(vfs.OS))
	must(t, err)
	testkit.Within(t, "another process", func() {
		if out, err := child(t, "open", dir).Output(); err != nil || !strings.HasPrefix(string(out), "locked true") ||
			!strings.Contains(string(out), dir) {
			t.Errorf("second process: %s, %v, want ErrLocked and the directory", out, err)
		}
	})
	testkit.Within(t, "Open of a second process to read", func() {
		if out, err := child(t, "read", dir).Output(); err != nil || !strings.HasPrefix(string(out), "locked true") {
			t.Errorf("second process, read-only: %s, %v, want ErrLocked", out, err)
		}
	})
	must(t, db.Close())
	o := storetest.Tiny(vfs.OS)
	o.ReadOnly = true
	db = storetest.Open(t, dir, o)
	for how, want := range map[string]string{"open": "locked true", "read": "locked false: <nil>"} {
		if out, err := child(t, how, dir).Output(); err != nil || !strings.HasPrefix(string(out), want) {
			t.Errorf("%s while a reader has the store open: %s, %v, want %s", how, out, err, want)
		}
	}
	must(t, db.Close())
	writer := child(t, "write", dir, "1")
	out, err := writer.StdoutPipe()
	if err == nil {
		err = writer.Start()
	}
	must(t, err)
	if _, err := io.ReadFull(out, make([]byte, 3*reportSize)); err != nil {
		t.Fatal(err)
	}
	must(t, writer.Process.Signal(syscall.SIGSTOP))
	testkit.Within(t, "Open while another process is stopped", func() {
		if _, err := bloomkv.Open(dir, storetest.Tiny(vfs.OS)); !errors.Is(err, bloomkv.ErrLocked) {
			t.Errorf("while the first process is stopped: %v, want ErrLocked", err)
		}
	})
	must(t, writer.Process.Kill())
	_ = writer.Wait()
	if db, err = bloomkv.Open(dir, storetest.Tiny(vfs.OS)); err != nil {
		t.Fatalf("after the first process was killed: %v", err)
	}
	must(t, db.Close())
}

// TestKillsOfABackupLeaveWholeGenerations kills a process that writes, stores generations and removes old ones.
// After each kill, everything that is stored is verified, all generations that the process has reported and not removed
// are there, and the newest is restored: it has all commits that were made before it was begun.
func TestKillsOfABackupLeaveWholeGenerations(t *testing.T) {
	const seed = 5
	dir := t.TempDir()
	store, target := filepath.Join(dir, "db"), filepath.Join(dir, "backups")
	rng := rand.New(rand.NewPCG(seed, 0))
	kills, whileBusy := max(4, storetest.AtStride(50)), 0
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
