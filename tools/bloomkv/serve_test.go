package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/tools/cli"
)

// A served is a run of serve.
type served struct {
	address string
	end     func() result // interrupts it
}

func serveStore(t *testing.T, dir string) served {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	var errs strings.Builder
	a := &app{Streams: cli.Streams{In: strings.NewReader(""), Out: in, Err: &errs}}
	code := make(chan int, 1)
	go func() {
		code <- a.run(ctx, []string{"serve", dir, "--listen", "127.0.0.1:0"})
		_ = in.Close()
	}()
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	if err != nil {
		t.Fatalf("exit %d without an address: %s", <-code, &errs)
	}
	return served{strings.TrimSpace(line), func() result {
		cancel()
		return result{<-code, line, errs.String()}
	}}
}

// ask returns the status and the body of the answer to a request for a host.
func ask(t *testing.T, address, host string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	must(t, err)
	if host != "" {
		r.Host = host
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(r)
	must(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	must(t, err)
	return answer.StatusCode, string(body)
}

func TestServeShowsAStoreUntilItIsInterrupted(t *testing.T) {
	dir := newStore(t, "a\t1\nb\t2\n")
	s := serveStore(t, dir)
	if code, page := ask(t, s.address, ""); code != http.StatusOK || !strings.Contains(page, `<h2 id="now">Now</h2>`) ||
		!strings.Contains(page, `<h2 id="tree">The tree</h2>`) {
		t.Errorf("status %d: %.200s", code, page)
	}
	if code, report := ask(t, s.address+"json", "localhost"); code != http.StatusOK ||
		!strings.Contains(report, `"open": true`) {
		t.Errorf("status %d: %.200s", code, report)
	}
	for host, want := range map[string]int{
		"example.com": http.StatusForbidden, "example.com:8077": http.StatusForbidden, "127.0.0.1": http.StatusOK,
		"[::1]": http.StatusOK, "[::1]:8077": http.StatusOK, "localhost.example.com": http.StatusForbidden,
	} {
		for _, path := range []string{"json", "ask?key=a", "rain"} {
			if code, _ := ask(t, s.address+path, host); code != want {
				t.Errorf("%s for host %s: status %d, want %d and nothing", path, host, code, want)
			}
		}
	}
	if r := s.end(); r.code != cli.ExitOK || r.err != "" {
		t.Errorf("exit %d, %q; want %d and nothing", r.code, r.err, cli.ExitOK)
	}
	tool{}.must(t, "put", dir, "c", "3") // it is no longer open
}

func TestServeOfAStoreInUseShowsItsFiles(t *testing.T) {
	dir := newStore(t, "a\t1\nb\t2\n")
	db, err := bloomkv.Open(dir, nil)
	must(t, err)
	defer db.Close()
	s := serveStore(t, dir)
	if code, page := ask(t, s.address, ""); code != http.StatusOK ||
		!strings.Contains(page, `<h2 id="now">Files only</h2>`) {
		t.Errorf("status %d: %.200s", code, page)
	}
	must(t, db.Put([]byte("c"), []byte("3"))) // serve does not disturb it
	if r := s.end(); r.code != cli.ExitOK || !strings.Contains(r.err, "in another process") ||
		!strings.Contains(r.err, "only what the files show") {
		t.Errorf("exit %d, %q; want %d and a message", r.code, r.err, cli.ExitOK)
	}
}

func TestServeOfADamagedStoreShowsItsFiles(t *testing.T) {
	dir := newStore(t, "a\t1\nb\t2\n")
	must(t, os.Remove(glob(t, dir, "*.sst")))
	s := serveStore(t, dir)
	if code, page := ask(t, s.address, ""); code != http.StatusOK || !strings.Contains(page, "missing") {
		t.Errorf("status %d: %.200s", code, page)
	}
	if r := s.end(); r.code != cli.ExitOK || !strings.Contains(r.err, ".sst") ||
		!strings.Contains(r.err, "only what the files show") {
		t.Errorf("exit %d, %q; want %d and the damage", r.code, r.err, cli.ExitOK)
	}
}

func TestServeShowsTheTablesOfAnotherStore(t *testing.T) {
	s := serveStore(t, filepath.Join("..", "internal", "foreign", "testdata"))
	for path, want := range map[string]struct {
		code int
		text string
	}{
		"":          {http.StatusOK, `of absent keys through. The same memory could let`},
		"json":      {http.StatusOK, `"fpr_same_memory": 0.`},
		"ask?key=a": {http.StatusNotFound, "cannot be asked"},
		"rain":      {http.StatusNotFound, "cannot be asked"},
		"film":      {http.StatusNotFound, "cannot be seen"},
	} {
		if code, body := ask(t, s.address+path, ""); code != want.code || !strings.Contains(body, want.text) ||
			strings.Contains(body, "A key falls through the tree") || strings.Contains(body, "film\">") {
			t.Errorf("%q: status %d, want %d and %q: %.300s", path, code, want.code, want.text, body)
		}
		if code, _ := ask(t, s.address+path, "example.com"); code != http.StatusForbidden {
			t.Errorf("%q for another host: status %d", path, code)
		}
	}
	if r := s.end(); r.code != cli.ExitOK || r.err != "" {
		t.Errorf("exit %d, %q", r.code, r.err)
	}
}

func TestServeAtAnAddressThatIsTaken(t *testing.T) {
	dir := newStore(t, "a\t1\n")
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	for address, want := range map[string]string{
		l.Addr().String(): "the port is in use",
		"nonsense":        "--listen nonsense: ",
	} {
		if r := (tool{}).run(t, "serve", dir, "--listen", address); r.code != cli.ExitTrouble ||
			!strings.Contains(r.err, want) || r.out != "" {
			t.Errorf("at %s: exit %d, %q; want 2 and %q", address, r.code, r.err, want)
		}
	}
}
