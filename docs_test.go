package bloomkv_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/bloomkv/bloomkv/internal/testkit"
)

// TestDocumentsNameWhatThereIs checks that each name of this package in docs exists. In a table, only the second column
// is about this package.
func TestDocumentsNameWhatThereIs(t *testing.T) {
	exported := exportedNames(t)
	variables := map[string]string{ // names of variables in the documents, with their types
		"db": "DB.", "b": "Batch.", "it": "Iterator.", "snap": "Snapshot.", "bloomkv": "",
		"Options": "Options.", "IterOptions": "IterOptions.", "IngestOptions": "IngestOptions.",
	}
	quoted := regexp.MustCompile("`[^`]+`")
	use := regexp.MustCompile(`\b(` + strings.Join(slices.Collect(maps.Keys(variables)), "|") + `)\.([A-Z]\w*)`)
	documents, err := filepath.Glob("docs/*.md")
	if err != nil || len(documents) == 0 {
		t.Fatalf("no documents: %v", err)
	}
	for _, document := range documents {
		text, err := os.ReadFile(document)
		must(t, err)
		uses := 0
		for line := range strings.Lines(string(text)) {
			if columns := strings.Split(line, "|"); len(columns) > 3 {
				line = columns[2]
			}
			for _, code := range quoted.FindAllString(line, -1) {
				for _, m := range use.FindAllStringSubmatch(code, -1) {
					uses++
					if name := variables[m[1]] + m[2]; !exported[name] {
						t.Errorf("%s: %s: there is no %s", document, m[0], name)
					}
				}
			}
		}
		if uses == 0 {
			t.Errorf("%s mentions no name of this package", document)
		}
	}
}

// TestDocumentsNameFilesAndTestsThatExist checks the links of all documents, the tests and Go files that they name, and
// the width of their lines, except for tables and links.
func TestDocumentsNameFilesAndTestsThatExist(t *testing.T) {
	testkit.Long(t)
	declaration := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)
	tests := make(map[string]bool)
	var documents []string
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (d.Name() == "bin" || strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case strings.HasSuffix(name, ".md"):
			documents = append(documents, name)
		case strings.HasSuffix(name, "_test.go"):
			source, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			for _, m := range declaration.FindAllSubmatch(source, -1) {
				tests[string(m[1])] = true
			}
		}
		return nil
	})
	must(t, err)
	link := regexp.MustCompile(`\]\(([^)#]+)[^)]*\)`)
	test := regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z]\w+`)
	file := regexp.MustCompile("`([a-z]+/[a-z_/]+\\.go)`")
	for _, document := range documents {
		text, err := os.ReadFile(document)
		must(t, err)
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			_, err := os.Stat(filepath.Join(filepath.Dir(document), m[1]))
			if err != nil && !strings.Contains(m[1], "://") {
				t.Errorf("%s: a link to %s, which does not exist", document, m[1])
			}
		}
		for _, name := range test.FindAllString(string(text), -1) {
			if !tests[name] {
				t.Errorf("%s: there is no %s", document, name)
			}
		}
		for _, m := range file.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.FromSlash(m[1])); err != nil {
				t.Errorf("%s: there is no %s", document, m[1])
			}
		}
		for i, line := range strings.Split(string(text), "\n") {
			if utf8.RuneCountInString(line) > 120 && line[0] != '|' && !strings.Contains(line, "](") {
				t.Errorf("%s:%d: more than 120 columns", document, i+1)
			}
		}
	}
}

// TestInvariantsAreDefinedOnceAndCited checks that ARCHITECTURE.md defines each number of an invariant once, and that
// the code cites all of them, and no others.
func TestInvariantsAreDefinedOnceAndCited(t *testing.T) {
	testkit.Long(t)
	text, err := os.ReadFile("ARCHITECTURE.md")
	must(t, err)
	defined, cited := make(map[string]int), make(map[string]bool)
	for _, m := range regexp.MustCompile(`\*\*(I\d+)\*\*`).FindAllStringSubmatch(string(text), -1) {
		defined[m[1]]++
	}
	comment := regexp.MustCompile(`//.*\bI\d+\b`)
	number := regexp.MustCompile(`\bI\d+\b`)
	for _, s := range parseSources(t, token.NewFileSet()) {
		source, err := os.ReadFile(s.name)
		must(t, err)
		for _, line := range comment.FindAllString(string(source), -1) {
			for _, n := range number.FindAllString(line, -1) {
				if cited[n] = true; defined[n] == 0 {
					t.Errorf("%s cites %s, which ARCHITECTURE.md does not define", s.name, n)
				}
			}
		}
	}
	for n, times := range defined {
		if times != 1 || !cited[n] {
			t.Errorf("%s is defined %d times, want once; cited in the code: %v, want true", n, times, cited[n])
		}
	}
}

// exportedNames returns the names that this package exports: "Open", "DB.Put", "Options.FS".
func exportedNames(t *testing.T) map[string]bool {
	t.Helper()
	names := make(map[string]bool)
	files, err := filepath.Glob("*.go")
	must(t, err)
	fset := token.NewFileSet()
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		must(t, err)
		for _, decl := range f.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				receiver := ""
				if d.Recv != nil {
					of := d.Recv.List[0].Type
					if star, ok := of.(*ast.StarExpr); ok {
						of = star.X
					}
					if id, ok := of.(*ast.Ident); ok {
						receiver = id.Name + "."
					}
				}
				names[receiver+d.Name.Name] = true
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch s := spec.(type) {
					case *ast.ValueSpec:
						for _, id := range s.Names {
							names[id.Name] = true
						}
					case *ast.TypeSpec:
						names[s.Name.Name] = true
						if fields, ok := s.Type.(*ast.StructType); ok {
							for _, field := range fields.Fields.List {
								for _, id := range field.Names {
									names[s.Name.Name+"."+id.Name] = true
								}
							}
						}
					}
				}
			}
		}
	}
	return names
}
