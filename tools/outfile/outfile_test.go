package outfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/testkit"
)

var must = testkit.Must

func wantContent(t *testing.T, name, want string) {
	t.Helper()
	if got, err := os.ReadFile(name); err != nil || string(got) != want {
		t.Errorf("%s holds %q, %v, want %q", filepath.Base(name), got, err, want)
	}
}

// wantNames checks that a directory contains these names and no others, such as temporary files.
func wantNames(t *testing.T, dir, want string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); got != want {
		t.Errorf("the directory holds %q, want %q", got, want)
	}
}

func TestAFileIsMadeAndReplaced(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, strings.Repeat("n", 255)) // the longest possible name
	for _, content := range []string{"first", "", "second"} {
		must(t, Check(name))
		must(t, Write(t.Context(), name, []byte(content)))
		wantContent(t, name, content)
	}
	wantNames(t, dir, filepath.Base(name))
	t.Chdir(dir)
	must(t, Write(t.Context(), "here", []byte("x")))
	wantContent(t, filepath.Join(dir, "here"), "x")
}

func TestWhatCannotBeWrittenIsAnErrorThatNamesIt(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	must(t, os.WriteFile(file, []byte("old"), 0o600))
	for _, c := range []struct{ name, at, want string }{
		{"a directory", dir, ": is a directory, want a file"},
		{"a directory with a slash", dir + string(filepath.Separator), ": is a directory, want a file"},
		{"in a directory that is not there", filepath.Join(dir, "none", "a"), ": "},
		{"below a file", filepath.Join(file, "a"), ": "},
		{"a new name with a slash", filepath.Join(dir, "new") + string(filepath.Separator), ": "},
		{"a table", filepath.Join(dir, "000001.sst"), ": is the name of a file of a store; choose another"},
		{
			"the file that names the manifest", filepath.Join(dir, "CURRENT"),
			": is the name of a file of a store; choose another",
		},
	} {
		for _, err := range []error{Check(c.at), Write(t.Context(), c.at, []byte("new"))} {
			if err == nil || !strings.HasPrefix(err.Error(), c.at+c.want) ||
				strings.Contains(err.Error(), ".bloomkv-") {
				t.Errorf("%s: got %v, want %s%s", c.name, err, c.at, c.want)
			}
		}
	}
	wantContent(t, file, "old")
	wantNames(t, dir, "file")
}

func TestALinkStaysAndLeadsToTheFile(t *testing.T) {
	dir := t.TempDir()
	at := func(elements ...string) string { return filepath.Join(append([]string{dir}, elements...)...) }
	must(t, os.MkdirAll(at("far", "deep"), 0o700))
	must(t, os.WriteFile(at("far", "old"), []byte("old"), 0o600))
	link := func(to, name string) {
		t.Helper()
		if err := os.Symlink(to, name); err != nil {
			if runtime.GOOS == "windows" {
				t.Skip("links need a privilege here: ", err)
			}
			t.Fatal(err)
		}
	}
	link(filepath.Join("far", "deep"), at("door"))       // door/.. is far
	link(filepath.Join("far", "old"), at("to-old"))      //
	link("to-old", at("to-link"))                        //
	link(filepath.Join("far", "new"), at("to-new"))      // dangling
	link("door/../twin", at("to-twin"))                  // dangling: far/twin, not twin
	link(at("far", "absolute"), at("to-absolute"))       // dangling
	link(at("far", "000001.sst"), at("to-table"))        //
	link("loop", at("loop"))                             //
	link("far", at("to-directory"))                      //
	link(filepath.Join("none", "new"), at("to-nowhere")) //
	must(t, os.Link(at("far", "old"), at("other")))      // shows that the system opens what the link leads to
	for _, c := range []struct{ link, file string }{
		{"to-old", "old"}, {"to-link", "old"}, {"to-new", "new"}, {"to-twin", "twin"}, {"to-absolute", "absolute"},
	} {
		must(t, Check(at(c.link)))
		must(t, Write(t.Context(), at(c.link), []byte("by "+c.link)))
		wantContent(t, at("far", c.file), "by "+c.link)
		if info, err := os.Lstat(at(c.link)); err != nil || info.Mode()&fs.ModeSymlink == 0 {
			t.Errorf("%s: %v, %v, want a link still", c.link, info.Mode(), err)
		}
	}
	wantContent(t, at("other"), "by to-link")
	for name, want := range map[string]string{
		"to-table": "is the name of a file of a store", "loop": "", // in the words of the system
		"to-directory": "is a directory", "to-nowhere": "",
	} {
		if err := Write(t.Context(), at(name), nil); err == nil || !strings.HasPrefix(err.Error(), at(name)+": "+want) {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
	}
	wantNames(t, at("far"), "absolute deep new old twin")
}

func TestAFileThatMayNotBeWrittenIsNotReplaced(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may write all")
	}
	name := filepath.Join(t.TempDir(), "a")
	must(t, os.WriteFile(name, []byte("old"), 0o600))
	must(t, os.Chmod(name, 0o400))
	for _, err := range []error{Check(name), Write(t.Context(), name, []byte("new"))} {
		if !errors.Is(err, fs.ErrPermission) {
			t.Errorf("got %v, want %v", err, fs.ErrPermission)
		}
	}
	wantContent(t, name, "old")
}
