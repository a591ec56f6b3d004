package main

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// TestMain runs the program itself in the processes that TestTwentyKills starts.
func TestMain(m *testing.M) {
	if os.Getenv("FRONTIER_TEST_PROGRAM") != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestTwentyKills crawls the source of Go and kills the program twenty times at random moments. The crawl must visit
// the pages that a plain one finds, and none again but those in flight at a kill.
func TestTwentyKills(t *testing.T) {
	testkit.Long(t)
	want := pages(site{os.DirFS(sourceOfGo())})
	if len(want) < 3000 {
		t.Fatalf("%d pages, want thousands", len(want))
	}
	for kills := 20; kills > 0; { // a crawl that ends before its kills is followed by another
		kills -= crawlWithKills(t, want, kills)
	}
}

// crawlWithKills crawls with a new store, kills the program the given number of times, and returns how often it was
// killed before the crawl had ended.
func crawlWithKills(t *testing.T, want map[string]bool, kills int) (killed int) {
	t.Helper()
	const workers = 2
	dir := filepath.Join(t.TempDir(), "store")
	visits, again := make(map[string]int), 0
	rng := rand.New(rand.NewPCG(uint64(kills), 1))
	var inFlight map[string]bool // when the last process was killed, of the pages that were visited
	for {
		// Some processes are killed while they open the store, the others after some pages. All of them together
		// visit about a quarter of the pages, since they run on while this one is late to kill them.
		lines, delay := 1+rng.IntN(len(want)/40), 2*time.Millisecond
		if rng.IntN(5) == 0 {
			lines, delay = 0, 40*time.Millisecond
		}
		if killed == kills {
			lines = len(want)
		}
		urls, running := runProgram(t, dir, workers, lines, time.Duration(rng.Int64N(int64(delay))))
		for _, url := range urls {
			if visits[url]++; visits[url] > 1 {
				again++
				if !inFlight[url] {
					t.Errorf("after kill %d, %s was visited again and was not in flight", killed, url)
				}
				delete(inFlight, url) // once for each kill
			}
		}
		if !running {
			break
		}
		killed++
		_, inFlight = stored(t, dir, &bloomkv.Options{ReadOnly: true})
		maps.DeleteFunc(inFlight, func(url string, _ bool) bool { return visits[url] == 0 })
		if len(inFlight) > workers {
			t.Errorf("%d pages in flight at kill %d, want at most one for each worker", len(inFlight), killed)
		}
	}
	for url := range want {
		if visits[url] == 0 {
			t.Errorf("%s was not visited", url)
		}
	}
	if len(visits) != len(want) {
		t.Errorf("%d pages visited, want %d", len(visits), len(want))
	}
	t.Logf("%d pages, %d of them visited again after %d kills", len(visits), again, killed)
	return killed
}

// runProgram runs the program and kills it some time after it has visited the given number of pages. It returns the
// pages that were visited, and whether the program was killed before it had ended.
func runProgram(
	t *testing.T, dir string, workers, lines int, delay time.Duration,
) (visited []string, killed bool) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := exec.CommandContext(t.Context(), self, "-list", "-workers", strconv.Itoa(workers), dir)
	program.Env = append(os.Environ(), "FRONTIER_TEST_PROGRAM=1")
	var messages strings.Builder
	program.Stderr = &messages
	out, err := program.StdoutPipe()
	if err == nil {
		err = program.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	for in := bufio.NewReader(out); ; {
		if len(visited) == lines && !killed {
			killed = true
			time.Sleep(delay)
			_ = program.Process.Kill() // it may just have ended
		}
		line, err := in.ReadString('\n')
		if err == io.EOF && line == "" {
			break
		}
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		visited = append(visited, strings.TrimSuffix(line, "\n"))
	}
	err = program.Wait()
	if failed := program.ProcessState.ExitCode() > 0 && messages.Len() > 0; failed || err != nil && !killed {
		t.Fatalf("%v\n%s", err, &messages)
	}
	return visited, err != nil
}

// TestEveryCrash crawls a small site in two processes, and resumes from the files that a kill, or a power cut, leaves
// before each file operation of theirs. What is left in the store determines which pages are still visited.
func TestEveryCrash(t *testing.T) {
	testkit.Long(t)
	c := crawler{site: web(9)}
	want := pages(c.site)
	type state struct {
		files         *vfstest.Mem
		before, after string // what was visited just before and just after the crash
		power         bool   // a power cut
	}
	var mu sync.Mutex
	var states []state
	var visited lockedBuilder
	mem := vfstest.NewMem()
	hook := vfstest.NewHook(mem, func(vfstest.Op) error {
		mu.Lock()
		defer mu.Unlock()
		before, killed, after := visited.String(), mem.Kill(), visited.String()
		states = append(states, state{killed, before, after, false})
		for _, keep := range []vfstest.Keep{vfstest.KeepNothing, vfstest.KeepSome(uint64(len(states)), 50)} {
			states = append(states, state{killed.Crash(keep), before, after, true})
		}
		return nil
	})
	c.visited = &visited
	q := open(t, hook, small)
	push(t, q, home)
	for range 4 { // most pages are pushed by the second process, to which the filter of the first one is old
		do(t, c.visit(q))
	}
	do(t, q.close())
	q = open(t, hook, small)
	do(t, c.crawl(q, 1))
	do(t, q.close())

	for _, s := range states {
		marked, todo := stored(t, "store", &bloomkv.Options{FS: s.files.Kill()})
		var resumed strings.Builder
		q := open(t, s.files, small)
		do(t, (&crawler{site: c.site, visited: &resumed}).crawl(q, 1))
		do(t, q.close())

		repeated := 0
		for url := range strings.FieldsSeq(s.before) {
			if strings.Contains(resumed.String(), url+"\n") {
				repeated++
			}
		}
		if !s.power && repeated > 1 {
			t.Errorf("%d pages were visited again after a kill, want at most one", repeated)
		}
		for url := range want {
			visits, expected := strings.Count(resumed.String(), url+"\n"), 1
			if marked[url] && !todo[url] {
				expected = 0
				if !strings.Contains(s.after, url+"\n") {
					t.Errorf("%s is lost", url)
				}
			}
			if visits != expected {
				t.Errorf("%s was visited %d times after the crash, want %d", url, visits, expected)
			}
		}
	}
	if t.Logf("%d crashes", len(states)); len(states) < 200 {
		t.Errorf("%d crashes, want hundreds", len(states))
	}
}

// stored returns the URLs with a mark and those with an entry. A store that does not exist yet has none.
func stored(t *testing.T, dir string, o *bloomkv.Options) (marked, todo map[string]bool) {
	t.Helper()
	marked, todo = make(map[string]bool), make(map[string]bool)
	db, err := bloomkv.Open(dir, o)
	if errors.Is(err, fs.ErrNotExist) {
		return marked, todo
	}
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for kv, err := range db.Scan(bloomkv.IterOptions{}) {
		switch {
		case err != nil:
			t.Fatal(err)
		case kv.Key[0] == 's':
			marked[string(kv.Key[1:])] = true
		case kv.Key[0] == 'q':
			todo[string(kv.Value)] = true
		}
	}
	return marked, todo
}
