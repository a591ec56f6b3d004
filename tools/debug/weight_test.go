package debug

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/testkit"
)

// program is a server with a store, without and with the page.
const program = `package main

import (
	"net/http"

	"github.com/bloomkv/bloomkv"
	%s
)

func main() {
	db, err := bloomkv.Open("store", nil)
	if err != nil {
		panic(err)
	}
	http.HandleFunc("/get", func(w http.ResponseWriter, _ *http.Request) {
		v, _ := db.Get([]byte("a"))
		_, _ = w.Write(v)
	})
	%s
	panic(http.ListenAndServe("localhost:80", nil))
}
`

// TestThePageBringsLittleIntoAProgram builds a program without and with the page. One use of text/template, by which
// the linker keeps every method, would take more than is allowed.
func TestThePageBringsLittleIntoAProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds two programs")
	}
	const most = 3_000_000
	build := func(imported, used string) (bytes int64, modules []string) {
		dir := t.TempDir()
		source, out := filepath.Join(dir, "main.go"), filepath.Join(dir, "main.exe")
		testkit.Must(t, os.WriteFile(source, fmt.Appendf(nil, program, imported, used), 0o600))
		c := exec.CommandContext(t.Context(), "go", "build", "-o", out, source)
		if text, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		info, err := os.Stat(out)
		testkit.Must(t, err)
		about, err := buildinfo.ReadFile(out)
		testkit.Must(t, err)
		for _, m := range about.Deps {
			modules = append(modules, m.Path)
		}
		return info.Size(), modules
	}
	without, own := build("", "")
	with, modules := build(`"github.com/bloomkv/bloomkv/tools/debug"`,
		`http.Handle("/debug/bloomkv/", debug.Handler(db, debug.Options{}))`)
	t.Logf("%d bytes, and %d with the page", without, with)
	if with-without > most {
		t.Errorf("the page adds %d bytes to a program of %d, want at most %d", with-without, without, most)
	}
	const tools = "github.com/bloomkv/bloomkv/tools"
	if i := slices.Index(modules, tools); i < 0 || !slices.Equal(slices.Delete(slices.Clone(modules), i, i+1), own) {
		t.Errorf("with the page the program links %s, and without it %s; want only %s more",
			strings.Join(modules, " "), strings.Join(own, " "), tools)
	}
}
