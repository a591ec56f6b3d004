// Package browser drives the pages of bloomkv in a headless Chromium. Without a Chromium its tests are skipped.
package browser

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	cdpruntime "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/tools/debug"
	"github.com/bloomkv/bloomkv/tools/internal/inspect"
	"github.com/bloomkv/bloomkv/tools/picture"
	"github.com/bloomkv/bloomkv/vfs"
)

var shots = flag.String("shots", "", "write screenshots of the pages into this `directory`")

// allowed is the time that a test may take; a busy machine needs half a minute to start a browser.
const allowed = 3 * time.Minute

var must = testkit.Must

// A tab is a tab of a browser with what it has asked for and complained about.
type tab struct {
	context.Context

	mu       sync.Mutex
	requests []string // guarded by mu
	wrong    []string // guarded by mu
}

// newTab starts a browser. Without one, it skips the test.
func newTab(t *testing.T) *tab {
	t.Helper()
	program := storetest.Browser(t)
	ctx, cancel := context.WithTimeout(t.Context(), allowed)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.WSURLReadTimeout(time.Minute))...)
	t.Cleanup(cancel)
	b := &tab{}
	b.Context, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	chromedp.ListenTarget(b.Context, func(event any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch e := event.(type) {
		case *network.EventRequestWillBeSent:
			b.requests = append(b.requests, e.Request.URL)
		case *cdpruntime.EventExceptionThrown:
			b.wrong = append(b.wrong, e.ExceptionDetails.Error())
		case *cdpruntime.EventConsoleAPICalled:
			b.wrong = append(b.wrong, fmt.Sprintf("console: %s", e.Type))
		}
	})
	must(t, chromedp.Run(b, network.Enable()))
	return b
}

// do runs actions.
func (b *tab) do(t *testing.T, actions ...chromedp.Action) {
	t.Helper()
	must(t, chromedp.Run(b, actions...))
}

// eval evaluates an expression.
func eval[T any](t *testing.T, b *tab, expression string) (v T) {
	t.Helper()
	b.do(t, chromedp.Evaluate(expression, &v))
	return v
}

// soon waits until an expression is true.
func (b *tab) soon(t *testing.T, expression string) {
	t.Helper()
	const within = 30 * time.Second // of a busy machine
	ctx, cancel := context.WithTimeout(b.Context, within)
	defer cancel()
	poll := chromedp.Poll(expression, nil, chromedp.WithPollingInterval(50*time.Millisecond))
	if err := chromedp.Run(ctx, poll); err != nil {
		t.Fatalf("%s is not true within %v: %v", expression, within, err)
	}
}

// checkQuiet checks that the page asked for nothing but itself, and that nothing went wrong.
func (b *tab) checkQuiet(t *testing.T, allowed func(url string) bool) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, url := range b.requests {
		if !strings.HasPrefix(url, "data:") && !allowed(url) {
			t.Errorf("the page asks for %s", url)
		}
	}
	if len(b.wrong) > 0 {
		t.Errorf("the browser complains: %q", b.wrong)
	}
}

// newStore returns the directory of a store with tables in three levels, as small as that needs.
func newStore(t *testing.T, tables int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "orders")
	db, err := bloomkv.Open(dir, &bloomkv.Options{
		TableSize: 64 << 10, MemtableSize: 512 << 10, BaseLevelSize: 1 << 20, Durability: bloomkv.DurabilityNoSync,
		MaxOpenFiles: 2000,
	})
	must(t, err)
	value := make([]byte, 200)
	random := rand.NewChaCha8([32]byte{1})
	n := tables * 320 // 216 bytes each
	for i := range n {
		_, _ = random.Read(value) // does not fail
		must(t, db.Put(fmt.Appendf(nil, "user/%08d", i*7919%n), value))
	}
	must(t, db.Flush(t.Context()))
	must(t, errors.Join(db.Compact(t.Context(), bloomkv.CompactOptions{})))
	for i := range n / 20 {
		must(t, db.Put(fmt.Appendf(nil, "user/%08d", i*104729%n), value))
	}
	must(t, db.Flush(t.Context()))
	for i := range 20_000 {
		_, err := db.Has(fmt.Appendf(nil, "user/%08dx", i*7919%n))
		must(t, err)
	}
	must(t, db.Close())
	return dir
}

// read inspects a store.
func read(t *testing.T, dir string) *inspect.Store {
	t.Helper()
	s, err := inspect.ReadStore(t.Context(), dir, inspect.Options{Full: true, Path: "/srv/orders"})
	must(t, err)
	return s
}

// show opens the page of a store.
func (b *tab) show(t *testing.T, s *inspect.Store) {
	t.Helper()
	b.open(t, s.Page())
}

// open opens a page.
func (b *tab) open(t *testing.T, p *picture.Page) {
	t.Helper()
	var doc bytes.Buffer
	must(t, p.WriteHTML(&doc))
	file := filepath.Join(t.TempDir(), "page.html")
	must(t, os.WriteFile(file, doc.Bytes(), 0o600))
	b.do(t, emulation.SetDeviceMetricsOverride(1400, 900, 1, false),
		chromedp.Navigate("file://"+filepath.ToSlash(file)))
}

// middle returns the middle of an element, which is scrolled into view.
func (b *tab) middle(t *testing.T, element string) (x, y float64) {
	t.Helper()
	at := eval[[2]float64](t, b, `(() => { const e = `+element+`; e.scrollIntoView({block: "center"});
		const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()`)
	return at[0], at[1]
}

const firstBox = `document.querySelector("figure[data-name=tree] svg.wide a rect")`

func TestAPointerShowsWhatItIsAt(t *testing.T) {
	b := newTab(t)
	b.show(t, read(t, newStore(t, 8)))
	x, y := b.middle(t, firstBox)
	b.do(t, chromedp.MouseEvent("mouseMoved", x, y))
	b.soon(t, `!document.querySelector(".tip").hidden`)
	text := eval[string](t, b, `document.querySelector(".tip").textContent`)
	for _, want := range []string{".sst: level ", " MB", "from user/", "to user/", "rate of the filter: "} {
		if !strings.Contains(text, want) && !(want == " MB" && strings.Contains(text, " kB")) {
			t.Errorf("beside the pointer is %q, want %q", text, want)
		}
	}
	b.do(t, chromedp.Evaluate(`for (const d of document.querySelectorAll("details")) d.open = true`, nil))
	x, y = b.middle(t, `document.querySelector("figure svg.wide g.cells image.light")`)
	b.do(t, chromedp.MouseEvent("mouseMoved", x, y))
	b.soon(t,
		`/^block [0-9,]+( to [0-9,]+)?: [0-9.]+ %$/.test(document.querySelector(".tip").textContent)`)
	b.checkQuiet(t, func(url string) bool { return strings.HasPrefix(url, "file:") })
}

func TestABoxLeadsToItsTableAndBack(t *testing.T) {
	b := newTab(t)
	b.show(t, read(t, newStore(t, 8)))
	x, y := b.middle(t, firstBox)
	b.do(t, chromedp.MouseClickXY(x, y))
	b.soon(t, `location.hash.startsWith("#table-")`)
	b.soon(t, `(() => {
		const e = document.getElementById(location.hash.slice(1)), r = e.getBoundingClientRect();
		return e.closest("details").open && r.top >= -60 && r.top < innerHeight; })()`)
	b.do(t, chromedp.NavigateBack())
	b.soon(t, `location.hash === ""`)
	b.checkQuiet(t, func(url string) bool { return strings.HasPrefix(url, "file:") })
}

func TestTablesAreSortedAndChosen(t *testing.T) {
	b := newTab(t)
	b.show(t, read(t, newStore(t, 8)))
	const table = `document.querySelector("section:has(#tables) table")`
	column := func(name string) []string {
		return eval[[]string](t, b, `(() => {
			const t = `+table+`, i = [...t.tHead.rows[0].cells].findIndex(c => c.textContent === "`+name+`");
			return [...t.tBodies[0].rows].map(r => r.cells[i].textContent); })()`)
	}
	number := func(s string) (n int) {
		_, err := fmt.Sscan(strings.ReplaceAll(s, ",", ""), &n)
		must(t, err)
		return n
	}
	press := `[...` + table + `.tHead.querySelectorAll("button")].find(b => b.textContent === "bytes").click()`
	for _, down := range []bool{false, true} {
		b.do(t, chromedp.Evaluate(press, nil))
		if bytes := column("bytes"); len(bytes) < 8 || !slices.IsSortedFunc(bytes, func(x, y string) int {
			if down {
				x, y = y, x
			}
			return number(x) - number(y)
		}) {
			t.Errorf("sorted, downwards %t: %q", down, bytes)
		}
	}
	if visible := eval[bool](t, b, table+`.querySelector("th.more").offsetParent !== null`); visible {
		t.Error("all columns are shown at once")
	}
	b.do(t, chromedp.Click("section:has(#tables) input.all", chromedp.ByQuery))
	b.soon(t, table+`.querySelector("th.more").offsetParent !== null`)
	const list = "section:has(#tables) select"
	b.do(t, chromedp.SetValue(list, "level 0", chromedp.ByQuery),
		chromedp.Evaluate(`document.querySelector("`+list+`").dispatchEvent(new Event("change"))`, nil))
	levels := eval[[]string](t, b,
		`[...`+table+`.tBodies[0].rows].filter(r => !r.hidden).map(r => r.cells[1].textContent)`)
	if len(levels) == 0 || slices.ContainsFunc(levels, func(l string) bool { return l != "0" }) {
		t.Errorf("levels %q are shown, want 0", levels)
	}
	if n := eval[int](t, b, `document.querySelectorAll("svg.wide a.dim").length`); n == 0 {
		t.Error("the tables of other levels are as bright as before in the tree")
	}
}

// ask lets a key fall, and returns what the page says.
func (b *tab) ask(t *testing.T, key string) string {
	t.Helper()
	b.do(t, chromedp.Evaluate(`document.getElementById("found").replaceChildren();
		document.getElementById("find-key").value = ""`, nil),
		chromedp.SendKeys("#find-key", key+kb.Enter, chromedp.ByQuery))
	b.soon(t, `(document.querySelector("#found .hint") || {innerText: ""}).innerText.includes("Hash")`)
	return eval[string](t, b, `document.getElementById("found").innerText`)
}

// checkFall compares what the page shows of a key with what the filters say: which tables are asked, their answers, and
// each bit. It returns the text of the page.
func (b *tab) checkFall(t *testing.T, dir, key string) string {
	t.Helper()
	k, err := inspect.Ask(t.Context(), dir, []byte(key))
	must(t, err)
	text := b.ask(t, key)
	if !strings.Contains(text, k.Hash) {
		t.Errorf("key %q: %q, want the hash %s", key, text, k.Hash)
	}
	asked := 0
	var bits strings.Builder
	for _, x := range k.Tables {
		if !x.Within {
			continue
		}
		asked++
		for i, u := range x.Units {
			want := fmt.Sprintf("; unit %d: block %s, bits", i, words.Count(u.Block))
			if !strings.Contains(text, want) {
				t.Errorf("key %q: %q, want %q of %s", key, text, want, x.File)
			}
			for _, p := range u.Probes {
				fmt.Fprintf(&bits, "%d%t ", p.Bit, p.Set)
			}
		}
		if want := x.File + " " + x.Answer; !strings.Contains(text, want) {
			t.Errorf("key %q: %q, want %q", key, text, want)
		}
	}
	shown := eval[string](t, b, `[...document.querySelectorAll("#found .bit")].map(e =>
		e.textContent + e.classList.contains("set") + " ").join("")`)
	if shown != bits.String() {
		t.Errorf("key %q: bits %q\nwant %q", key, shown, &bits)
	}
	for what, selector := range map[string]string{
		"rows": "tr.hit", "boxes": "svg.wide .hit", "stops": ".layer .stop",
	} {
		if n := eval[int](t, b, `document.querySelectorAll("`+selector+`").length`); n != asked {
			t.Errorf("key %q: %d %s are marked, want %d", key, n, what, asked)
		}
	}
	return text
}

// TestAKeyFallsThroughTheTree asks for keys that are there, that are not, and that a filter lets through.
func TestAKeyFallsThroughTheTree(t *testing.T) {
	dir := newStore(t, 40)
	s := read(t, dir)
	b := newTab(t)
	b.show(t, s)
	if n := eval[int](t, b, `document.querySelectorAll("svg.wide g[data-id]").length`); n == 0 {
		t.Fatal("all tables have a section of their own, want also some without")
	}
	for _, key := range []string{
		"user/00000042", "user/00000642", "user/00001280", "user/00004711x", "user/0000",
		"user/00001234, which is longer than 32 bytes",
	} {
		b.checkFall(t, dir, key)
	}
	const try = `[...document.querySelectorAll(".hint button")].map(b => b.textContent).join()`
	if got := eval[string](t, b, try); got != "a present key,an absent one,a false maybe" {
		t.Fatalf("keys to try: %s", got)
	}
	for i, want := range []string{
		"The store has this key: ", "The store does not have this key: ", "maybe: read, and it is not there: wasted",
	} {
		b.do(t, chromedp.Evaluate(fmt.Sprintf(`document.querySelectorAll(".hint button")[%d].click()`, i), nil))
		b.soon(t, `document.getElementById("found").innerText.includes("`+want+`")`)
	}
	b.soon(t, `document.getAnimations().every(a => a.playState === "finished")`)
	b.picture(t, "fall", 1400, false)
	b.do(t, chromedp.Evaluate(`[...document.querySelectorAll("form button")].at(1).click()`, nil))
	b.soon(t, `/^10,000 absent keys: filters let [0-9]+ through, .* the promise allows 100\./.test(
		document.getElementById("found").innerText) && document.querySelector("#found .hint") !== null`)
	b.checkQuiet(t, func(url string) bool { return strings.HasPrefix(url, "file:") })
}

// TestAServedPageAsksTheFilters asks an open store for a key in a table, and for one that is in memory alone.
func TestAServedPageAsksTheFilters(t *testing.T) {
	dir := newStore(t, 8)
	db, err := bloomkv.Open(dir, nil)
	must(t, err)
	defer db.Close()
	storetest.Settle(t, db) // so that the page has the tables that are asked
	server := httptest.NewServer(debug.Handler(db, debug.Options{}))
	defer server.CloseClientConnections()
	b := newTab(t)
	b.do(t, chromedp.Navigate(server.URL))
	for key, want := range map[string]string{
		"user/00000042": "The store has this key: ", "user/00000042x": "The store does not have this key: ",
	} {
		if text := b.checkFall(t, dir, key); !strings.Contains(text, want) {
			t.Errorf("key %q: %q, want %q", key, text, want)
		}
	}
	must(t, db.Put([]byte("user/00000042y"), nil))
	if text := b.ask(t, "user/00000042y"); !strings.Contains(text, "has this key in memory, and in no table yet") {
		t.Errorf("a key in a memtable: %q", text)
	}
	b.do(t, chromedp.Evaluate(`[...document.querySelectorAll("form button")].at(1).click()`, nil))
	b.soon(t, `document.getElementById("found").innerText.startsWith("10,000 absent keys: ")`)
	b.checkQuiet(t, func(url string) bool { return strings.HasPrefix(url, server.URL) })
}

// TestTheKeyboardAloneReachesEverything presses Tab until the page begins again.
func TestTheKeyboardAloneReachesEverything(t *testing.T) {
	b := newTab(t)
	b.show(t, read(t, newStore(t, 8)))
	b.do(t, chromedp.Evaluate(`for (const d of document.querySelectorAll("details")) d.open = true;
		window.met = new Set(); document.addEventListener("focusin", e => met.add(e.target));
		document.querySelector("a.skip").focus()`, nil))
	wanted := `[...document.querySelectorAll("a, button, input, select, summary, .scroll, g.cells[data-values]")]
		.filter(e => e.getClientRects().length > 0)`
	n := eval[int](t, b, wanted+`.length`)
	for range n + 10 {
		b.do(t, chromedp.KeyEvent(kb.Tab))
	}
	left := eval[[]string](t, b, wanted+`.filter(e => !met.has(e)).map(e => e.outerHTML.slice(0, 200))`)
	if n < 20 || len(left) > 0 {
		t.Errorf("%d of %d are not reached: %q", len(left), n, left)
	}
}

func TestAFilmPlaysAManifest(t *testing.T) {
	dir := t.TempDir()
	log, err := manifest.Create(vfs.OS, dir, 1, manifest.State{NextFile: 2, Seed: 1})
	must(t, err)
	merge := manifest.Edit{NextFile: 9, LastSeq: 9}
	for i := range uint64(4) {
		table := &manifest.Table{
			Number: i + 2, ID: i + 2, Size: 1 << 20, TailLen: 1000, FilterLen: 1000, Entries: 100,
			MinSeq: ikey.Seq(i + 1), MaxSeq: ikey.Seq(i + 1), Smallest: []byte("a"), Largest: []byte("z"),
		}
		if i == 3 {
			merge.Added = []manifest.Added{{Level: 6, Run: i + 2, Table: table}}
			break
		}
		merge.Deleted = append(merge.Deleted, manifest.Deleted{Number: i + 2})
		must(t, log.Append(&manifest.Edit{
			NextFile: i + 3, LastSeq: ikey.Seq(i + 1), Added: []manifest.Added{{Run: i + 2, Table: table}},
		}))
	}
	must(t, errors.Join(log.Append(&merge), log.Close()))
	m, err := inspect.ReadCurrent(t.Context(), dir)
	must(t, err)
	b := newTab(t)
	b.open(t, m.Page())
	const boxes = `[...document.querySelectorAll("figure[data-name=film] svg.wide [data-id]:not(.gone)")].length`
	said := func(want string) {
		t.Helper()
		if got := eval[string](t, b, `document.getElementById("now").textContent`); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	said("4 of 4: A compaction merges 3 tables of 3.15 MB of level 0 into 1 table of 1.05 MB of level 6.")
	b.do(t, chromedp.Focus("input[type=range]"), chromedp.KeyEvent(kb.Home))
	said("1 of 4: A flush writes 1 table of 1.05 MB to level 0.")
	for _, want := range []int{1, 2, 3, 1} {
		if n := eval[int](t, b, boxes); n != want {
			t.Errorf("%d boxes, want %d", n, want)
		}
		b.do(t, chromedp.KeyEvent(kb.ArrowRight))
	}
	b.do(t, chromedp.Evaluate(`document.querySelector(".film button.main").click()`, nil))
	said("1 of 4: A flush writes 1 table of 1.05 MB to level 0.")
	b.soon(t, `document.querySelector(".film button.main").textContent === "Play"`)
	said("4 of 4: A compaction merges 3 tables of 3.15 MB of level 0 into 1 table of 1.05 MB of level 6.")
	b.checkQuiet(t, func(url string) bool { return strings.HasPrefix(url, "file:") })
}

func TestAFilmFitsItsWindow(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "orders")
	db, err := bloomkv.Open(dir, &bloomkv.Options{
		TableSize: 64 << 10, MemtableSize: 256 << 10, BaseLevelSize: 512 << 10, LevelRatio: 4,
		Durability: bloomkv.DurabilityNoSync,
	})
	must(t, err)
	value, random := make([]byte, 200), rand.New(rand.NewPCG(1, 2))
	for range 40_000 {
		must(t, db.Put(fmt.Appendf(nil, "user/%06d", random.IntN(50_000)), value))
	}
	m, err := inspect.ReadCurrent(t.Context(), dir)
	must(t, errors.Join(err, db.Close()))
	b := newTab(t)
	b.open(t, m.Page())
	b.do(t, chromedp.Evaluate(`(() => { const slider = document.querySelector("input[type=range]");
		slider.value = 1 + JSON.parse(document.getElementById("data").textContent).steps
			.findLastIndex(s => s.what.startsWith("A compaction"));
		slider.dispatchEvent(new Event("input")); })()`, nil))
	for _, width := range []int64{390, 1400} {
		for _, dark := range []bool{false, true} {
			b.picture(t, "film", width, dark)
			if got := eval[int64](t, b, `document.documentElement.scrollWidth`); got > width {
				t.Errorf("at %d px: %d px wide", width, got)
			}
		}
	}
}

func TestPagesCanBeReadWithoutScripts(t *testing.T) {
	b := newTab(t)
	b.do(t, emulation.SetScriptExecutionDisabled(true))
	dir := newStore(t, 8)
	m, err := inspect.ReadCurrent(t.Context(), dir)
	must(t, err)
	for name, p := range map[string]*picture.Page{"tree": read(t, dir).Page(), "film": m.Page()} {
		b.open(t, p)
		var boxes []*cdp.Node
		b.do(t, chromedp.Nodes(`figure[data-name=`+name+`] svg.wide rect`, &boxes, chromedp.ByQueryAll))
		var rows []*cdp.Node
		b.do(t, chromedp.Nodes(`tbody tr`, &rows, chromedp.ByQueryAll))
		if len(boxes) < 8 || len(rows) == 0 {
			t.Errorf("%s: %d boxes and %d rows of tables, want 8 and some", name, len(boxes), len(rows))
		}
	}
}

func TestAChartIsStretched(t *testing.T) {
	b := newTab(t)
	b.show(t, read(t, newStore(t, 8)))
	width := `document.querySelector("figure[data-name=tree] svg.wide svg.zoom").viewBox.baseVal.width`
	whole := eval[float64](t, b, width)
	b.do(t, chromedp.Click(`figure[data-name=tree] button[aria-label="Zoom in"]`, chromedp.ByQuery))
	if got := eval[float64](t, b, width); got*2 != whole {
		t.Errorf("%g of %g are shown, want half of it", got, whole)
	}
	b.do(t, chromedp.Click(`figure[data-name=tree] button[aria-label="Show everything"]`, chromedp.ByQuery))
	if got := eval[float64](t, b, width); got != whole {
		t.Errorf("%g of %g are shown, want all of it", got, whole)
	}
}

func TestTheLivePageFollowsTheStore(t *testing.T) {
	t.Chdir(t.TempDir()) // the page shows the directory as it was given
	db, err := bloomkv.Open("orders", &bloomkv.Options{MemtableSize: 1 << 20, BaseLevelSize: 4 << 20})
	must(t, err)
	defer db.Close()
	mux := http.NewServeMux()
	mux.Handle("/debug/bloomkv/", debug.Handler(db, debug.Options{}))
	server := httptest.NewServer(mux)
	defer server.CloseClientConnections()
	b := newTab(t)
	b.do(t, chromedp.Navigate(server.URL+"/debug/bloomkv/"))
	b.soon(t, `document.getElementById("live-log").innerText.includes("nothing yet")`)
	const boxes = `document.querySelectorAll("#live-tree svg.wide [data-id]").length`
	if n := eval[int](t, b, boxes); n != 0 {
		t.Errorf("the tree of an empty store has %d tables", n)
	}
	must(t, db.Put([]byte("user/00000000"), []byte("b")))
	must(t, db.Flush(t.Context()))
	testkit.Soon(t, "the page loads itself with the first table", func() bool {
		var n int
		return chromedp.Run(b, chromedp.Evaluate(boxes, &n)) == nil && n == 1
	})
	// A flush is on the page within two seconds of its end. A busy machine may be later: one of five is enough.
	const within = 2 * time.Second
	took := within
	for i := 1; took >= within && i <= 5; i++ {
		must(t, db.Put([]byte("user/00000000"), []byte("b")))
		must(t, db.Flush(t.Context()))
		began := time.Now()
		b.soon(t, fmt.Sprintf(`document.getElementById("live-log").innerText.split("1 flush").length > %d`, i+1)+
			" && "+boxes+" > 0")
		took = time.Since(began)
		t.Logf("flush %d is on the page after %v", i, took)
	}
	if took >= within {
		t.Errorf("no flush is on the page within %v", within)
	}
	// The tree is drawn anew: what was named stays named, and a compaction takes its tables away.
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	b.soon(t, boxes+` === 1 && document.querySelector("#live-tree svg.wide").textContent.includes("level 6")`)
	if n := eval[int](t, b, `document.querySelectorAll("#live-tree svg title").length`); n > 0 {
		t.Errorf("%d tables have the browser's own box beside the pointer", n)
	}
	if *shots != "" {
		work(t, db)
		b.do(t, chromedp.Reload()) // for what its files show now
	}
	for _, width := range []int64{390, 1400} {
		for _, dark := range []bool{false, true} {
			b.picture(t, "live", width, dark)
		}
	}
	must(t, db.Close())
	b.soon(t, `document.getElementById("live-state").innerText.includes("closed")`)
	b.checkQuiet(t, func(url string) bool {
		return url == server.URL+"/debug/bloomkv/" || url == server.URL+"/debug/bloomkv/events?page" ||
			url == server.URL+"/debug/bloomkv/tree"
	})
}

// work uses the store for long enough to see it on the page: more puts at the end than at the beginning.
func work(t *testing.T, db *bloomkv.DB) {
	t.Helper()
	value := make([]byte, 200)
	for round := range 100 {
		for i := range 20 * round {
			key := fmt.Appendf(nil, "user/%08d", (round*2000+i)*7919%1_000_000)
			must(t, storetest.PutWith(db, bloomkv.DurabilityNoSync, key, value))
			_, err := db.Has(fmt.Appendf(nil, "user/%08dx", i*7919%1_000_000))
			must(t, err)
		}
		time.Sleep(400 * time.Millisecond)
	}
}

// TestPagesFitTheirWindows looks at the page of a healthy, a damaged and a large store on a phone and on a desk.
func TestPagesFitTheirWindows(t *testing.T) {
	healthy := newStore(t, 8)
	damaged := newStore(t, 8)
	tables, err := filepath.Glob(filepath.Join(damaged, "*.sst"))
	must(t, err)
	must(t, os.Remove(tables[len(tables)/2]))
	must(t, os.Truncate(tables[0], 1000))
	for name, dir := range map[string]string{"healthy": healthy, "damaged": damaged, "large": newStore(t, 500)} {
		b := newTab(t)
		s := read(t, dir)
		b.show(t, s)
		if n := len(s.Tables); name == "large" && n < 500 {
			t.Errorf("%d tables, want 500", n)
		}
		for _, width := range []int64{390, 1400} {
			for _, dark := range []bool{false, true} {
				b.picture(t, name, width, dark)
				if got := eval[int64](t, b, `document.documentElement.scrollWidth`); got > width {
					t.Errorf("%s at %d px: %d px wide", name, width, got)
				}
			}
		}
		const treeTop = `document.querySelector("figure[data-name=tree] svg.wide").getBoundingClientRect().top`
		if top := eval[float64](t, b, treeTop); name != "damaged" && top > 200 {
			t.Errorf("%s: the tree begins at %g px, want it to be the first thing on the page", name, top)
		}
		if name == "damaged" {
			first := eval[string](t, b, `document.querySelector(".note").innerText`)
			if !strings.Contains(first, "Serious problem: opening the store is refused") {
				t.Errorf("the first note is %q, want that opening is refused", first)
			}
		}
		b.checkQuiet(t, func(url string) bool { return strings.HasPrefix(url, "file:") })
	}
}

// picture shows the page at a width, light or dark, and takes a screenshot if -shots asks for it.
func (b *tab) picture(t *testing.T, name string, width int64, dark bool) {
	t.Helper()
	scheme, kind := "light", "desk"
	if dark {
		scheme = "dark"
	}
	if width < 600 {
		kind = "phone"
	}
	var data []byte
	b.do(t, emulation.SetDeviceMetricsOverride(width, 900, 1, false),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: scheme},
		}),
		chromedp.Evaluate(`scrollTo(0, 0)`, nil),
		chromedp.ActionFunc(func(ctx context.Context) (err error) {
			data, err = page.CaptureScreenshot().Do(ctx)
			return err
		}))
	if *shots == "" {
		return
	}
	must(t, os.WriteFile(filepath.Join(*shots, fmt.Sprintf("%s-%s-%s.png", name, kind, scheme)), small(t, data), 0o644))
}

// small returns a PNG with the colors of a palette, which takes a third of the bytes.
func small(t *testing.T, data []byte) []byte {
	t.Helper()
	img, err := png.Decode(bytes.NewReader(data))
	must(t, err)
	box := img.Bounds()
	counts := map[color.RGBA]int{}
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			r, g, b, _ := img.At(x, y).RGBA()
			counts[color.RGBA{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8), 255}]++
		}
	}
	all := make([]color.RGBA, 0, len(counts))
	for c := range counts {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b color.RGBA) int { return counts[b] - counts[a] })
	palette := color.Palette{}
	for _, c := range all[:min(256, len(all))] {
		palette = append(palette, c)
	}
	out := image.NewPaletted(box, palette)
	index := map[color.RGBA]uint8{}
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			r, g, b, _ := img.At(x, y).RGBA()
			c := color.RGBA{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8), 255}
			i, known := index[c]
			if !known {
				i = uint8(palette.Index(c))
				index[c] = i
			}
			out.SetColorIndex(x, y, i)
		}
	}
	var b bytes.Buffer
	must(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, out))
	return b.Bytes()
}
