package browser

import (
	"bytes"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/bloomkv/bloomkv/tools/debug"
	"github.com/bloomkv/bloomkv/tools/internal/inspect"
)

// newToy opens the page of a filter of 64 cells.
func newToy(t *testing.T) *tab {
	t.Helper()
	b := newTab(t)
	var doc bytes.Buffer
	must(t, inspect.Toy("").WriteHTML(&doc))
	file := filepath.Join(t.TempDir(), "toy.html")
	must(t, os.WriteFile(file, doc.Bytes(), 0o600))
	b.do(t, emulation.SetDeviceMetricsOverride(1400, 900, 1, false),
		chromedp.Navigate("file://"+filepath.ToSlash(file)))
	return b
}

// press clicks a button, and returns what the page then says.
func (b *tab) press(t *testing.T, button string) string {
	t.Helper()
	return eval[string](t, b, `(() => { document.getElementById("toy-`+button+`").click();
		return document.getElementById("toy-answer").textContent; })()`)
}

// about types a key and clicks a button.
func (b *tab) about(t *testing.T, key, button string) string {
	t.Helper()
	b.do(t, chromedp.Evaluate(fmt.Sprintf(`document.getElementById("toy-key").value = %q`, key), nil))
	return b.press(t, button)
}

// choose chooses the kind of filter, an index, and the cells of a key.
func (b *tab) choose(t *testing.T, kind, bits int) {
	t.Helper()
	b.do(t, chromedp.Evaluate(fmt.Sprintf(`for (const [id, value] of [["kind", %d], ["bits", %d]]) {
		const list = document.getElementById("toy-" + id);
		list.value = value;
		list.dispatchEvent(new Event("change")); }`, kind, bits), nil))
}

func (b *tab) figure(t *testing.T, name string) string {
	t.Helper()
	return eval[string](t, b, `document.getElementById("toy-`+name+`").textContent`)
}

const (
	classic     = 0
	blocked     = 1
	partitioned = 3
	counting    = 4
	twoUnits    = 5
)

func TestTheToyAnswersAsEachKindOfFilter(t *testing.T) {
	b := newToy(t)
	if text := b.about(t, "apple", "ask"); !strings.HasPrefix(text, "No: “apple” was certainly not added.") {
		t.Errorf("an empty filter says %q", text)
	}
	b.do(t, chromedp.SendKeys("#toy-key", kb.Enter, chromedp.ByQuery))
	for i := range 11 {
		b.do(t, chromedp.SendKeys("#toy-key", fmt.Sprint("key", i)+kb.Enter, chromedp.ByQuery))
	}
	for kind, groups := range []int{classic: 1, blocked: 8, 4, partitioned: 4, counting: 1, twoUnits: 2} {
		b.choose(t, kind, 3)
		if n := eval[int](t, b, `document.querySelectorAll("#toy-cells .group").length`); n != groups {
			t.Errorf("kind %d: %d groups of cells, want %d", kind, n, groups)
		}
		for _, key := range []string{"apple", "key0", "key10"} {
			if text := b.about(t, key, "ask"); !strings.HasSuffix(text, " It was added.") {
				t.Errorf("kind %d: of %s the page says %q", kind, key, text)
			}
		}
		text := b.press(t, "search")
		if !strings.HasPrefix(text, "Maybe, for ") || !strings.Contains(text, "not added: a false yes, after ") {
			t.Errorf("kind %d: the search for a false yes says %q", kind, text)
		}
		if text := b.press(t, "ask"); !strings.HasSuffix(text, " It was not added: this is a false yes.") {
			t.Errorf("kind %d: of the false yes the page says %q", kind, text)
		}
		if n := b.figure(t, "denied"); n != "0" {
			t.Errorf("kind %d: %s keys are denied", kind, n)
		}
		// The words that 1,000 searches take, of those that the rate allows.
		share := eval[float64](t, b, `(() => { let words = 0;
			const text = id => document.getElementById(id).textContent.replaceAll(",", "");
			for (let i = 0; i < 1000; i++) {
				document.getElementById("toy-search").click();
				words += Number(/after ([0-9]+) word/.exec(text("toy-answer"))[1]);
			}
			return words * parseFloat(text("toy-rate")) / 100 / 1000; })()`)
		if share < 0.85 || share > 1.15 {
			t.Errorf("kind %d: false yeses take %.2f of the words that are expected", kind, share)
		}
	}
	found := func() string { return eval[string](t, b, `document.getElementById("toy-key").value`) }
	b.do(t, chromedp.Reload()) // the search begins with the same words
	b.press(t, "ten")
	b.press(t, "search")
	first := found()
	b.do(t, chromedp.Reload())
	b.press(t, "ten")
	b.about(t, first, "add")
	if b.press(t, "search"); found() == first || found() == "" {
		t.Errorf("the false yes is %q, and %q was added", found(), first)
	}
	b.checkQuiet(t, func(url string) bool { return strings.HasPrefix(url, "file:") })
}

// TestTheToyDeniesKeysAfterZeroing removes a key by zeroing its cells, which other keys need, and from counters. The
// page is the one that a server has.
func TestTheToyDeniesKeysAfterZeroing(t *testing.T) {
	server := httptest.NewServer(debug.FilesHandler(t.TempDir(), debug.Options{}))
	defer server.CloseClientConnections()
	b := newTab(t)
	b.do(t, chromedp.Navigate(server.URL+"/toy"))
	b.press(t, "ten")
	text := b.about(t, "pear", "remove")
	if !strings.Contains(text, "which the filter now denies: a false no.") || b.figure(t, "denied") == "0" {
		t.Errorf("zeroing says %q, and %s keys are denied", text, b.figure(t, "denied"))
	}
	lost := eval[string](t, b, `document.querySelector("#toy-keys .denied").textContent.replace(", denied", "")`)
	if text := b.about(t, lost, "ask"); !strings.HasPrefix(text, "No, and this is false: “"+lost+"” was added") {
		t.Errorf("of %s, whose cells were cleared, the page says %q", lost, text)
	}
	b.press(t, "empty")
	b.choose(t, counting, 3)
	b.press(t, "ten")
	for left := range 10 {
		if text := b.about(t, "", "remove"); !strings.HasSuffix(text, "No other key is denied.") {
			t.Errorf("counting says %q", text)
		}
		if n := b.figure(t, "count"); n != strconv.Itoa(9-left) || b.figure(t, "denied") != "0" {
			t.Errorf("%s keys are left, %s are denied, want %d and none", n, b.figure(t, "denied"), 9-left)
		}
	}
	if set := b.figure(t, "fill"); set != "0 of 64" {
		t.Errorf("without keys, %s cells are set", set)
	}
	b.checkQuiet(t, func(url string) bool { return url == server.URL+"/toy" })
}

func TestTheToyFitsItsWindows(t *testing.T) {
	b := newToy(t)
	b.press(t, "ten")
	for kind, name := range []string{"classic", "blocked", "blocks", "partitioned", "counting", "units"} {
		b.choose(t, kind, 3)
		b.press(t, "search")
		if kind == classic {
			b.about(t, "pear", "remove")
			b.do(t, chromedp.Evaluate(`document.querySelector("#toy-keys .denied").click()`, nil))
		}
		b.soon(t, `document.getAnimations().every(a => a.playState === "finished")`)
		for _, width := range []int64{390, 1400} {
			for _, dark := range []bool{false, true} {
				b.picture(t, "toy-"+name, width, dark)
				if got := eval[int64](t, b, `document.documentElement.scrollWidth`); got > width {
					t.Errorf("%s at %d px: %d px wide", name, width, got)
				}
			}
		}
	}
}
