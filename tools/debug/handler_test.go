package debug_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/tools/debug"
	"github.com/bloomkv/bloomkv/vfs"
)

// fast are options for tests that do not want to wait.
var fast = debug.Options{Interval: 100 * time.Millisecond, Reread: time.Nanosecond}

// newStore returns a store on the disk, with a few tables.
func newStore(t *testing.T) *bloomkv.DB {
	t.Helper()
	o := storetest.Small(vfs.OS)
	o.Durability = bloomkv.DurabilityNoSync
	db, err := bloomkv.Open(filepath.Join(t.TempDir(), "orders"), o)
	must(t, err)
	t.Cleanup(func() { _ = db.Close() }) // some tests have closed it
	fill(t, db)
	return db
}

// fill writes some new keys, and flushes them.
func fill(tb testing.TB, db *bloomkv.DB) {
	tb.Helper()
	suffix := ""
	if n := db.Metrics().Writes.Operations; n > 0 {
		suffix = fmt.Sprint("/", n)
	}
	for i := range 1000 {
		must(tb, db.Put(fmt.Appendf(nil, "key%04d%s", i, suffix), []byte("value")))
	}
	must(tb, db.Flush(tb.Context()))
}

// serve returns the address of a server with a handler.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// get returns the answer to a request, with its body.
func get(t *testing.T, method, address string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, http.NoBody)
	must(t, err)
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	answer, err := client.Do(r)
	must(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	must(t, err)
	return answer, string(body)
}

func TestThePageHasLiveFiguresAndWhatTheFilesShow(t *testing.T) {
	testkit.LongUnderRace(t)
	db := newStore(t)
	for range 10 {
		_, err := db.Has([]byte("key0500x"))
		must(t, err)
	}
	answer, page := get(t, http.MethodGet, serve(t, debug.Handler(db, fast))+"/")
	if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "text/html; charset=utf-8" ||
		answer.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("answer %s with %v", answer.Status, answer.Header)
	}
	for _, want := range []string{
		"<h1>bloomkv: orders</h1>", `<h2 id="now">Now</h2>`, "wasted reads per absent key, measured",
		"<polyline points=", `<dl id="live-tiles" class="tiles"><div>`, `<h2 id="tree">The tree</h2>`,
		`<h2 id="tables">Tables</h2>`, `<p id="live-state" role="status">The store is open`, " written</li>",
		"No problems found",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %s", want)
		}
	}
	for _, outside := range []string{"http:", "https:", "url(", "@import", "<!--"} {
		if strings.Contains(page, outside) {
			t.Errorf("the page has %q", outside)
		}
	}
}

// TestThePageIsOfTheMemoryThatTheStoreHas shows what is promised with the MemoryBudget of the store, not the default.
func TestThePageIsOfTheMemoryThatTheStoreHas(t *testing.T) {
	db, err := bloomkv.Open(t.TempDir(), &bloomkv.Options{MemoryBudget: 32 << 20})
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	must(t, errors.Join(db.Put([]byte("k"), nil), db.Flush(t.Context())))
	_, page := get(t, http.MethodGet, serve(t, debug.Handler(db, fast))+"/")
	for _, want := range []string{
		"What memory keeps", "<td>32 MiB</td>", `<th scope="row">asked</th>`, `<p id="live-memory"></p>`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %s", want)
		}
	}
}

func TestThePolicyAllowsTheScriptOfThePageAndNothingElse(t *testing.T) {
	testkit.LongUnderRace(t)
	db := newStore(t)
	for _, h := range []http.Handler{debug.Handler(db, fast), debug.FilesHandler(db.Dir(), fast)} {
		answer, page := get(t, http.MethodGet, serve(t, h)+"/")
		scripts := regexp.MustCompile(`(?s)<script>(.*?)</script>`).FindAllStringSubmatch(page, -1)
		if len(scripts) != 3 {
			t.Fatalf("the page has %d scripts, want those of all pages, of stores, and of this one", len(scripts))
		}
		hash := func(i int) string {
			sum := sha256.Sum256([]byte(scripts[i][1]))
			return " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
		}
		want := "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src" + hash(0) + hash(1) +
			hash(2) + "; connect-src 'self'"
		if got := answer.Header.Get("Content-Security-Policy"); !strings.HasPrefix(got, want+"; ") {
			t.Errorf("the policy is %s, want %s", got, want)
		}
		if !strings.Contains(page, `content="`+want+`"`) {
			t.Error("the page itself has no such policy")
		}
	}
}

func TestPathsAndMethods(t *testing.T) {
	h := debug.Handler(newStore(t), fast)
	for _, mount := range []struct {
		name, path string
		handler    http.Handler
	}{
		{"at the root", "/", h},
		{"as it is", "/debug/bloomkv/", h},
		{"without its prefix", "/debug/bloomkv/", http.StripPrefix("/debug/bloomkv", h)},
		{"without its prefix and the slash", "/debug/bloomkv/", http.StripPrefix("/debug/bloomkv/", h)},
	} {
		mux := http.NewServeMux()
		mux.Handle(mount.path, mount.handler)
		address := serve(t, mux) + mount.path
		for path, kind := range map[string]string{
			"": "text/html; charset=utf-8", "json": "application/json", "events": "text/event-stream",
			"ask": "application/json", "rain": "application/json", "tree": "text/html; charset=utf-8",
			"film": "text/html; charset=utf-8",
			"toy":  "text/html; charset=utf-8",
		} {
			if answer, body := get(t, http.MethodHead, address+path); answer.StatusCode != http.StatusOK ||
				answer.Header.Get("Content-Type") != kind || body != "" {
				t.Errorf("%s: HEAD %q: %s, %v", mount.name, path, answer.Status, answer.Header)
			}
			for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions} {
				if answer, _ := get(t, method, address+path); answer.StatusCode != http.StatusMethodNotAllowed ||
					answer.Header.Get("Allow") != "GET, HEAD" {
					t.Errorf("%s: %s %q: %s, want 405", mount.name, method, path, answer.Status)
				}
			}
		}
		if answer, _ := get(t, http.MethodGet, address+"json"); answer.StatusCode != http.StatusOK {
			t.Errorf("%s: GET json: %s", mount.name, answer.Status)
		}
		if answer, _ := get(t, http.MethodGet, address+"other"); answer.StatusCode != http.StatusNotFound {
			t.Errorf("%s: GET other: %s, want 404", mount.name, answer.Status)
		}
	}
	bare := http.NewServeMux()
	bare.Handle("/debug/bloomkv", http.StripPrefix("/debug/bloomkv", h))
	if answer, _ := get(t, http.MethodGet, serve(t, bare)+"/debug/bloomkv?x=1"); answer.StatusCode !=
		http.StatusMovedPermanently || answer.Header.Get("Location") != "./bloomkv/" {
		t.Errorf("without a slash: %s to %q, want ./bloomkv/", answer.Status, answer.Header.Get("Location"))
	}
}

func TestTheFilmIsOfTheManifestInUse(t *testing.T) {
	db := newStore(t)
	must(t, db.Flush(t.Context()))
	answer, body := get(t, http.MethodGet, serve(t, debug.Handler(db, fast))+"/film")
	if policy := answer.Header.Get("Content-Security-Policy"); answer.StatusCode != http.StatusOK ||
		!strings.Contains(body, "A flush writes ") || !strings.Contains(policy, "frame-ancestors 'none'") ||
		!strings.Contains(policy, "script-src 'sha256-") {
		t.Errorf("%s, %q:\n%.2000s", answer.Status, policy, body)
	}
	elsewhere := debug.FilesHandler(t.TempDir(), fast)
	if answer, body := get(t, http.MethodGet, serve(t, elsewhere)+"/film"); answer.StatusCode !=
		http.StatusServiceUnavailable || !strings.Contains(body, "CURRENT") {
		t.Errorf("without a store: %s: %s", answer.Status, body)
	}
}

// A report is what the tests read of GET json.
type report struct {
	Open    bool
	Metrics *bloomkv.Metrics
	Tables  []bloomkv.TableMetrics
	Samples []debug.Sample
	Error   string
	Files   *struct{ Manifest string }
}

func reportOf(t *testing.T, address string) (r report) {
	t.Helper()
	_, body := get(t, http.MethodGet, address+"/json")
	must(t, json.Unmarshal([]byte(body), &r))
	return r
}

func TestTheReportHasMetricsTablesAndSamples(t *testing.T) {
	db := newStore(t)
	address := serve(t, debug.Handler(db, fast))
	r := reportOf(t, address)
	if !r.Open || r.Metrics == nil || r.Metrics.Writes.Flushes == 0 || len(r.Tables) != r.Metrics.Files.Tables ||
		len(r.Samples) == 0 || r.Samples[0].Writes.Flushes != r.Metrics.Writes.Flushes {
		t.Errorf("got %+v", r)
	}
}

func TestAStoreOnAnotherFileSystemHasLiveFiguresOnly(t *testing.T) {
	db := storetest.OpenTiny(t)
	defer db.Close()
	_, page := get(t, http.MethodGet, serve(t, debug.Handler(db, fast))+"/")
	if !strings.Contains(page, `<h2 id="now">Now</h2>`) || !strings.Contains(page, "its files are not shown") ||
		strings.Contains(page, `id="tables"`) {
		t.Errorf("the page of a store in memory: %s", page)
	}
}

func TestFilesAreShownWithoutTheStore(t *testing.T) {
	testkit.LongUnderRace(t)
	db := newStore(t) // locked, as by another process
	storetest.Settle(t, db)
	address := serve(t, debug.FilesHandler(db.Dir(), fast))
	_, page := get(t, http.MethodGet, address+"/")
	if !strings.Contains(page, `<h2 id="now">Files only</h2>`) ||
		!strings.Contains(page, `<h2 id="tree">The tree</h2>`) || strings.Contains(page, `id="live-now"`) {
		t.Error("the page has live figures, or not what the files show")
	}
	shown := regexp.MustCompile(`data-shown="([^"]+)"`).FindStringSubmatch(page)
	if shown == nil {
		t.Fatal("the page does not have the stamp of the files")
	}
	if r := reportOf(t, address); r.Open || r.Metrics != nil || r.Files == nil || r.Files.Manifest == "" {
		t.Errorf("got %+v", r)
	}
	events := watch(t.Context(), t, address, "?shown="+url.QueryEscape(shown[1]))
	time.Sleep(2 * fast.Interval)
	if len(events) > 0 {
		t.Errorf("%v, although nothing has changed", <-events)
	}
	fill(t, db)
	if e := <-events; e != (event{"changed", "{}"}) {
		t.Errorf("%v after a flush, want changed", e)
	}
	if e, more := <-events; more {
		t.Errorf("%v after the change, want the end", e)
	}
	missing := serve(t, debug.FilesHandler(filepath.Join(t.TempDir(), "none"), fast))
	if r := reportOf(t, missing); r.Error == "" {
		t.Error("a store that does not exist has no error")
	}
}

func TestAStoreWhoseDirectoryIsGoneStillHasLiveFigures(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("open files cannot be removed")
	}
	db := newStore(t)
	address := serve(t, debug.Handler(db, fast))
	must(t, os.RemoveAll(db.Dir()))
	answer, page := get(t, http.MethodGet, address+"/")
	if answer.StatusCode != http.StatusOK || !strings.Contains(page, "the files of the store could not be read") ||
		!strings.Contains(page, "The store is open") {
		t.Errorf("%s: %s", answer.Status, page)
	}
	if r := reportOf(t, address); !r.Open || len(r.Tables) == 0 {
		t.Errorf("got %+v", r)
	}
}

// TestThePageLeadsToTheToyAndBack follows the links between the page of a store and that of a filter to try.
func TestThePageLeadsToTheToyAndBack(t *testing.T) {
	testkit.LongUnderRace(t)
	db := newStore(t)
	for _, h := range []http.Handler{debug.Handler(db, fast), debug.FilesHandler(db.Dir(), fast)} {
		address := serve(t, h)
		if _, page := get(t, http.MethodGet, address+"/"); !strings.Contains(page, `<a href="toy">`) {
			t.Error("the page has no link to toy")
		}
		answer, toy := get(t, http.MethodGet, address+"/toy")
		if !strings.Contains(toy, `<a href="./">Back to the store</a>`) || !strings.Contains(toy, `id="toy-cells"`) {
			t.Errorf("toy has no link to the page, or no cells: %s", answer.Status)
		}
		policy := answer.Header.Get("Content-Security-Policy")
		inPage, _, ok := strings.Cut(policy, "; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		if !ok || !strings.Contains(toy, `content="`+inPage+`"`) || strings.Contains(policy, "connect-src") {
			t.Errorf("the policy of toy is %s", policy)
		}
	}
}
