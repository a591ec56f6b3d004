package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"html"
	"image"
	"image/draw"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/storetest"
)

var shots = flag.String("shots", "", "write the screenshots of the documents into this `directory`")

// A browser displays pages, if one is installed.
type browser struct {
	program, home string
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	return &browser{storetest.Browser(t), t.TempDir()}
}

// run opens a file. The messages of the browser and of the console of its pages are in errs. The test is skipped if the
// browser does not run.
func (b *browser) run(t *testing.T, file string, flags ...string) (out, errs []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.program, append(append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-extensions",
		"--disable-background-networking",
		"--disable-dev-shm-usage", "--user-data-dir=" + filepath.Join(b.home, "profile"), "--enable-logging=stderr",
	}, flags...), "file://"+filepath.ToSlash(file))...)
	cmd.WaitDelay = time.Second
	cmd.Env = append(os.Environ(), "HOME="+b.home)
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	if err := cmd.Run(); err != nil {
		t.Skipf("%s does not run here: %v", b.program, err)
	}
	return o.Bytes(), e.Bytes()
}

// lookAround runs at the end of a page in a frame and writes its measurements outside the frame.
const lookAround = `<script>
for (const d of document.querySelectorAll("details")) d.open = true;
const seen = {
	width: innerWidth, scroll: document.documentElement.scrollWidth,
	background: getComputedStyle(document.body).backgroundColor, pictures: 0, wrong: [],
};
const ids = new Set();
for (const e of document.querySelectorAll("[id]")) {
	if (ids.has(e.id)) seen.wrong.push("two of the address " + e.id);
	ids.add(e.id);
}
for (const a of document.querySelectorAll("a"))
	if (!ids.has(a.getAttribute("href").slice(1))) seen.wrong.push("a link to nowhere: " + a.getAttribute("href"));
let level = 1;
for (const h of document.querySelectorAll("h1, h2, h3, h4")) {
	const n = Number(h.tagName[1]);
	if (n > level + 1) seen.wrong.push("a heading of level " + n + " below one of " + level + ": " + h.textContent);
	level = n;
}
for (const r of document.querySelectorAll(".scroll"))
	if (r.tabIndex !== 0 || !r.getAttribute("aria-label")) seen.wrong.push("a table that keys cannot scroll");
for (const svg of document.querySelectorAll("figure > svg")) {
	const box = svg.getBoundingClientRect();
	if (box.width === 0) continue;
	seen.pictures++;
	if (!svg.getAttribute("aria-label")) seen.wrong.push("a picture that cannot be listened to");
	const upright = [];
	for (const text of svg.querySelectorAll("text")) {
		const b = text.getBoundingClientRect();
		const size = parseFloat(getComputedStyle(text).fontSize) * box.width / svg.viewBox.baseVal.width;
		if (size < 11) seen.wrong.push(text.textContent + ": letters of " + size + " px");
		if (b.left < box.left - 1 || b.right > box.right + 1 || b.top < box.top - 1 || b.bottom > box.bottom + 1)
			seen.wrong.push(text.textContent + ": outside its picture");
		if (b.height > 1.7 * size) continue; // turned
		for (const [other, o] of upright)
			if (b.left < o.right && o.left < b.right && b.top + 3 < o.bottom && o.top + 3 < b.bottom)
				seen.wrong.push(text.textContent + ": over " + other);
		upright.push([text.textContent, b]);
	}
}
frameElement.setAttribute("data-seen", JSON.stringify(seen));
</script>
</body>`

func TestABrowserShowsWhatInspectDraws(t *testing.T) {
	if testing.Short() {
		t.Skip("millions of probes of filters, by one goroutine")
	}
	b := newBrowser(t)
	dir := treeStore(t, bloomkv.Options{FilterPrefix: bloomkv.PrefixLen(7)})
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatal(tables, err)
	}
	fault := faulty(t, glob(t, newStore(t, manyLines(5000)), "*.sst"),
		func(seed bloomblock.Seed, add func(bloomblock.Hash)) {
			add(seed.Mix(lineKey(0)))
		})
	for _, c := range []struct {
		name string
		args []string
	}{
		{"a table", []string{tables[len(tables)-1], "--verify", "--key", "key/000007"}},
		{"a table whose filter is wrong", []string{fault, "--verify"}},
		{"a store", []string{
			dir, "--verify", "--key", "key/000007", "--what-if", "fpr=0.001", "--what-if",
			"kind=ribbon",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			doc, _ := pageOf(t, c.args...)
			page := filepath.Join(t.TempDir(), "page.html")
			writeFile(t, page, []byte(doc))
			// The page forbids all loading, so an attempt is reported.
			dom, errs := b.run(t, page, "--dump-dom")
			if complaints := regexp.MustCompile(`(?m)^.*CONSOLE.*$`).FindAll(errs, -1); len(complaints) > 0 ||
				!bytes.Contains(dom, []byte("</main>")) {
				t.Errorf("%d bytes are shown, and the browser complains: %q", len(dom), complaints)
			}
			b.look(t, doc, strings.Count(doc, "<figure "))
		})
	}
}

// look measures a page in frames as wide as a phone and as a desk, light and dark.
func (b *browser) look(t *testing.T, doc string, pictures int) {
	t.Helper()
	// the policy forbids the script
	doc = regexp.MustCompile(`<meta http-equiv="Content-Security-Policy"[^>]*>`).ReplaceAllString(doc, "")
	doc = html.EscapeString(strings.Replace(doc, "</body>", lookAround, 1))
	var frames strings.Builder
	frames.WriteString(`<!DOCTYPE html><html><head><meta charset="utf-8"></head><body>`)
	schemes, widths := []string{"light", "dark"}, []int{360, 390, 1280}
	for _, scheme := range schemes {
		for _, width := range widths { // a window cannot be as narrow as a phone
			fmt.Fprintf(&frames,
				`<iframe style="width: %dpx; height: 900px; border: 0; color-scheme: %s" srcdoc="%s"></iframe>`, width,
				scheme, doc)
		}
	}
	file := filepath.Join(t.TempDir(), "frames.html")
	writeFile(t, file, []byte(frames.String()+"</body></html>"))
	out, _ := b.run(t, file, "--window-size=1400,900", "--dump-dom")
	found := regexp.MustCompile(`data-seen="([^"]*)"`).FindAllSubmatch(out, -1)
	if len(found) != len(schemes)*len(widths) {
		t.Fatalf("the browser shows %d frames of %d", len(found), len(schemes)*len(widths))
	}
	backgrounds := make(map[string]string)
	for i, match := range found {
		scheme, width := schemes[i/len(widths)], widths[i%len(widths)]
		var seen struct {
			Width, Scroll, Pictures int
			Background              string
			Wrong                   []string
		}
		must(t, json.Unmarshal([]byte(html.UnescapeString(string(match[1]))), &seen))
		if seen.Width != width || seen.Scroll > width || seen.Pictures != pictures || len(seen.Wrong) > 0 {
			t.Errorf("%s, a window of %d px: %d px wide, %d pictures of %d, and %q", scheme, seen.Width, seen.Scroll,
				seen.Pictures, pictures, seen.Wrong)
		}
		backgrounds[scheme] = seen.Background
	}
	if backgrounds["light"] == backgrounds["dark"] {
		t.Errorf("light and dark have the background %s", backgrounds["light"])
	}
}

// With -shots it writes the images in docs/images, of the store that bloomkv demo creates and of a larger table.
func TestScreenshotsForTheDocuments(t *testing.T) {
	if *shots == "" {
		t.Skip("without -shots")
	}
	b := newBrowser(t)
	dir := filepath.Join(t.TempDir(), "demo")
	(tool{}).must(t, "demo", "--keep", dir)
	table := glob(t, newStore(t, manyLines(100_000)), "*.sst") // those of the demo are small
	for _, c := range []struct {
		name, of, part string
		width, height  int
		dark           bool
	}{
		{"inspect-light", dir, "", 1280, 900, false},
		{"inspect-dark", table, "", 1380, 900, true},
		{"inspect-phone", dir, "", 390, 900, false},
	} {
		doc, _ := pageOf(t, c.of)
		page := filepath.Join(t.TempDir(), "page.html")
		frame := filepath.Join(t.TempDir(), "frame.html")
		text := fmt.Sprintf(`<!DOCTYPE html><body style="margin: 0">`+
			`<iframe src="file://%s%s" style="width: %dpx; height: %dpx; border: 0"></iframe>`,
			filepath.ToSlash(page), c.part, c.width, c.height)
		for name, content := range map[string]string{page: doc, frame: text} {
			writeFile(t, name, []byte(content))
		}
		scheme := 1 // of Blink: light
		if c.dark {
			scheme = 0
		}
		shot := filepath.Join(t.TempDir(), "shot.png")
		b.run(t, frame, fmt.Sprintf("--blink-settings=preferredColorScheme=%d", scheme),
			fmt.Sprintf("--window-size=%d,%d", max(c.width, 500), c.height), "--screenshot="+shot)
		whole, err := png.Decode(bytes.NewReader(readFile(t, shot)))
		must(t, err)
		cut := image.NewNRGBA(image.Rect(0, 0, c.width, c.height))
		draw.Draw(cut, cut.Bounds(), whole, image.Point{}, draw.Src)
		var out bytes.Buffer
		must(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, cut))
		if out.Len() > 150_000 {
			t.Errorf("%s has %d bytes, want 150000 at most", c.name, out.Len())
		}
		must(t, os.WriteFile(filepath.Join(*shots, c.name+".png"), out.Bytes(), 0o644))
	}
}
