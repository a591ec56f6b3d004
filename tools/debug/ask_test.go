package debug_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/tools/debug"
)

func TestTheFiltersOfAKeyAreAsked(t *testing.T) {
	db := newStore(t)
	must(t, db.Put([]byte("key0500y"), nil)) // in memory
	live, files := serve(t, debug.Handler(db, fast)), serve(t, debug.FilesHandler(db.Dir(), fast))
	for _, c := range []struct {
		address, key string
		status       int
		want         string // of the JSON
	}{
		{live, "key0500", 200, `"answer":"maybe"`},
		{live, "key0500", 200, `"has":true`},
		{live, "key0500x", 200, `"has":false`},
		{live, "key0500y", 200, `"has":true`},
		{files, "key0500", 200, `"found":"value"`},
		{files, "key0500y", 200, `"found":"nothing"`},
		{files, `\x00`, 200, `"key":"\\x00"`},
		{live, `\xzz`, 400, `"error":"key `},
		{files, strings.Repeat("k", 9000), 400, `"error":"the key is too long"`},
	} {
		answer, body := get(t, http.MethodGet, c.address+"/ask?key="+url.QueryEscape(c.key))
		if answer.StatusCode != c.status || answer.Header.Get("Content-Type") != "application/json" ||
			!strings.Contains(body, c.want) || !json.Valid([]byte(body)) {
			t.Errorf("key %.20q: %s, %s; want %s", c.key, answer.Status, body, c.want)
		}
	}
	if _, body := get(t, http.MethodGet, files+"/ask?key=key0500"); strings.Contains(body, `"has"`) {
		t.Errorf("a store that is not open here has %s", body)
	}
}

func TestRainFallsOnTheFiltersOfThePage(t *testing.T) {
	testkit.LongUnderRace(t)
	db := newStore(t)
	for _, h := range []http.Handler{debug.Handler(db, fast), debug.FilesHandler(db.Dir(), fast)} {
		answer, body := get(t, http.MethodGet, serve(t, h)+"/rain")
		var f struct {
			Drops, Passed, Unread int
			Promised              float64
		}
		if err := json.Unmarshal([]byte(body), &f); err != nil || answer.StatusCode != http.StatusOK ||
			f.Drops != 10_000 || f.Passed > 2000 || f.Unread > 0 || f.Promised <= 0 {
			t.Errorf("%s, %v, %+v", answer.Status, err, f)
		}
	}
	hidden := storetest.OpenTiny(t) // on another file system
	defer hidden.Close()
	for _, path := range []string{"/rain", "/ask?key=a"} {
		answer, body := get(t, http.MethodGet, serve(t, debug.Handler(hidden, fast))+path)
		if answer.StatusCode != http.StatusNotFound || !strings.Contains(body, "cannot be asked") {
			t.Errorf("%s: %s, %s", path, answer.Status, body)
		}
	}
}
