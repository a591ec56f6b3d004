package main

import (
	"cmp"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// home is the address of the site, and its first page.
const home = "https://go.dev/src/"

// A site is the source of Go as https://go.dev/src/ shows it, read from a disk: a page for each directory and each Go
// file. A page links to all directories above it. A directory links to its entries, and a file to the packages that it
// imports.
type site struct{ files fs.FS }

// links returns the links of a page in their order, with repetitions.
func (s site) links(url string) ([]string, error) {
	name := strings.TrimSuffix(strings.TrimPrefix(url, home), "/")
	find := s.imports
	if strings.HasSuffix(url, "/") {
		find = s.entries
	}
	below, err := find(name)
	if err != nil {
		return nil, err
	}
	links := []string{home}
	for i, c := range name {
		if c == '/' {
			links = append(links, home+name[:i+1])
		}
	}
	return append(links, below...), nil
}

// entries returns the pages of the entries of a directory.
func (s site) entries(name string) (pages []string, err error) {
	entries, err := fs.ReadDir(s.files, cmp.Or(name, "."))
	for _, entry := range entries {
		switch child := home + path.Join(name, entry.Name()); {
		case entry.IsDir():
			pages = append(pages, child+"/")
		case path.Ext(child) == ".go":
			pages = append(pages, child)
		}
	}
	return pages, err
}

// imports returns the pages of the packages that a file imports.
func (s site) imports(name string) (pages []string, err error) {
	source, err := fs.ReadFile(s.files, name)
	if err != nil {
		return nil, err
	}
	// Some files of Go's own tests are broken on purpose. The imports before the error count.
	file, _ := parser.ParseFile(token.NewFileSet(), name, source, parser.ImportsOnly)
	for _, spec := range file.Imports {
		pkg, _ := strconv.Unquote(spec.Path.Value)
		first, _, _ := strings.Cut(pkg, "/")
		if fs.ValidPath(pkg) && pkg != "C" && !strings.Contains(first, ".") { // a dot: another site
			pages = append(pages, home+pkg+"/")
		}
	}
	return pages, nil
}
