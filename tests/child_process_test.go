package tests

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/backup"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/vfs"
)

// The test binary runs itself as a second process; childEnv holds its arguments.
const childEnv = "BLOOMKV_TEST_CHILD"

func child(t *testing.T, what ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childEnv+"="+strings.Join(what, "\n"))
	cmd.Stderr = os.Stderr
	return cmd
}

// childMain is the main function of that process: "open DIR" prints the result of opening a store, "read DIR" of
// opening it read-only, "write DIR SEED" writes until it is killed, and "backup DIR TARGET SEED" writes and stores
// generations.
func childMain(what string) int {
	args := strings.Split(what, "\n")
	switch {
	case len(args) == 2 && (args[0] == "open" || args[0] == "read"):
		o := storetest.Tiny(vfs.OS)
		o.ReadOnly = args[0] == "read"
		_, err := bloomkv.Open(args[1], o)
		fmt.Printf("locked %v: %v\n", errors.Is(err, bloomkv.ErrLocked), err)
		return 0
	case len(args) == 3 && args[0] == "write":
		seed, err := strconv.ParseUint(args[2], 10, 64)
		if err == nil {
			err = writeUntilKilled(args[1], seed)
		}
		fmt.Fprintln(os.Stderr, err)
		return 1
	case len(args) == 4 && args[0] == "backup":
		seed, err := strconv.ParseUint(args[3], 10, 64)
		if err == nil {
			err = backUpUntilKilled(args[1], args[2], seed)
		}
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 2
}

// The reports of the writing process, each with a number of commits: one write of reportSize bytes to a pipe, which is
// atomic.
const (
	reportOpened = iota // the store holds the given number of commits
	reportBegins
	reportAcked
)

const reportSize = 10

type report struct {
	what   byte
	busy   bool // a flush or a compaction is left to do
	commit uint64
}

func (r report) bytes() []byte {
	b := []byte{r.what, 0}
	if r.busy {
		b[1] = 1
	}
	return binary.LittleEndian.AppendUint64(b, r.commit)
}

func parseReport(b []byte) report {
	return report{b[0], b[1] == 1, binary.LittleEndian.Uint64(b[2:])}
}

// numbered returns the commit of a number: always the same, of several operations.
func numbered(seed, n uint64) modelWrite {
	rng := rand.New(rand.NewPCG(seed, n))
	w := modelWrite{{key: counterKey, value: strconv.FormatUint(n, 10)}}
	for range 1 + rng.IntN(5) {
		k := fmt.Sprintf("k%03d", rng.IntN(400))
		if rng.IntN(8) == 0 {
			w = append(w, modelOp{key: k, del: true})
			continue
		}
		w = append(w, modelOp{key: k, value: strings.Repeat(strconv.FormatUint(rng.Uint64(), 36), 1+rng.IntN(60))})
	}
	return w
}

// writeUntilKilled continues after the last commit in the store; every fiftieth commit is a Sync one.
func writeUntilKilled(dir string, seed uint64) error {
	db, err := bloomkv.Open(dir, storetest.Tiny(vfs.OS))
	if err != nil {
		return err
	}
	tell := func(what byte, n uint64) error {
		_, err := os.Stdout.Write(report{what, !db.Metrics().Settled, n}.bytes())
		return err
	}
	n, err := commitsIn(db)
	if err != nil {
		return err
	}
	if err := tell(reportOpened, n); err != nil {
		return err
	}
	for {
		n++
		if err := tell(reportBegins, n); err != nil {
			return err
		}
		d := bloomkv.DurabilityNoSync
		if n%50 == 0 {
			d = bloomkv.DurabilitySync
		}
		if err := db.ApplyWith(numbered(seed, n).batch(), d); err != nil {
			return err
		}
		if err := tell(reportAcked, n); err != nil {
			return err
		}
	}
}

const keptGenerations = 3

// backUpUntilKilled continues after the last commit in the store. It tells how many commits there are before it stores
// a generation, which is what "busy" means here, and the number of the generation afterwards.
func backUpUntilKilled(dir, target string, seed uint64) error {
	db, err := bloomkv.Open(dir, storetest.Tiny(vfs.OS))
	if err != nil {
		return err
	}
	objects, err := backup.OpenDir(nil, target)
	if err != nil {
		return err
	}
	n, err := commitsIn(db)
	if err != nil {
		return err
	}
	for {
		for range 50 {
			n++
			if err := db.ApplyWith(numbered(seed, n).batch(), bloomkv.DurabilityNoSync); err != nil {
				return err
			}
		}
		if _, err := os.Stdout.Write(report{reportBegins, true, n}.bytes()); err != nil {
			return err
		}
		made, err := backup.Make(context.Background(), db, objects)
		if err != nil {
			return err
		}
		if _, err := os.Stdout.Write(report{reportAcked, false, made.Generation}.bytes()); err != nil {
			return err
		}
		if err := backup.Prune(context.Background(), objects, keptGenerations); err != nil {
			return err
		}
	}
}

// commitsIn returns the number of the last commit in a store.
func commitsIn(db *bloomkv.DB) (uint64, error) {
	v, err := db.Get([]byte(counterKey))
	if errors.Is(err, bloomkv.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(string(v), 10, 64)
}
