package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

func TestLinesComeOutInTheirOrder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "jobs")
	for _, items := range [][]string{{"first", "", "third"}, {"fourth"}} {
		if err := run(dir, "push", items, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"first\n", "\n", "third\n", "fourth\n"} {
		var out strings.Builder
		if err := run(dir, "pop", nil, &out); err != nil || out.String() != want {
			t.Fatalf("pop: got %q, %v, want %q", out.String(), err, want)
		}
	}
	if err := run(dir, "pop", nil, nil); !errors.Is(err, errEmpty) {
		t.Errorf("pop of an empty queue: got %v, want %v", err, errEmpty)
	}
	if err := run(dir, "peek", nil, nil); err == nil {
		t.Error("an unknown verb is no error")
	}
}

func TestEachItemIsTakenOnce(t *testing.T) {
	const pushers, each = 4, 50
	db, err := bloomkv.Open("jobs", &bloomkv.Options{FS: vfstest.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	q := queue{db}

	var workers sync.WaitGroup
	for p := range pushers {
		workers.Go(func() {
			for i := range each {
				if err := q.push(fmt.Append(nil, p*each+i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	popped := make(chan string, pushers*each)
	for range pushers {
		workers.Go(func() {
			for n := 0; n < each && !t.Failed(); {
				item, err := q.pop()
				switch {
				case err == nil:
					popped <- string(item)
					n++
				case !errors.Is(err, errEmpty):
					t.Error(err)
				}
			}
		})
	}
	workers.Wait()
	close(popped)
	times := make(map[string]int)
	for item := range popped {
		times[item]++
	}
	for i := range pushers * each {
		if got := times[strconv.Itoa(i)]; got != 1 {
			t.Errorf("item %d was taken %d times, want once", i, got)
		}
	}
}
