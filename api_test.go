package bloomkv_test

import (
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/testkit"
)

// publicPackages are the packages that programs may import, from the root of the module.
var publicPackages = []string{
	".", "backup", "bloom", "bloomblock", "digest", "memtable", "salvage", "sstable", "tools/debug", "vfs",
	"vfs/vfstest",
}

// TestExportedAPI compares what the public packages export with api.txt, as it is on linux/amd64. A change of the API
// changes that file, so that nobody changes it by accident.
func TestExportedAPI(t *testing.T) {
	testkit.Long(t)
	const name = "api.txt"
	got := exportedAPI(t)
	for _, line := range got {
		if strings.Contains(line, "internal/") {
			t.Errorf("a type that programs cannot name: %s", line)
		}
	}
	if *testkit.Update {
		must(t, os.WriteFile(name, []byte(strings.Join(got, "\n")+"\n"), 0o644))
		return
	}
	text, err := os.ReadFile(name)
	must(t, err)
	want := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if slices.Equal(got, want) {
		return
	}
	var diff strings.Builder
	for _, side := range []struct {
		sign         string
		lines, other []string
	}{{"-", want, got}, {"+", got, want}} {
		for _, line := range side.lines {
			if _, ok := slices.BinarySearch(side.other, line); !ok {
				fmt.Fprintln(&diff, side.sign, line)
			}
		}
	}
	t.Errorf("the exported API differs from %s:\n%sdocs/compatibility.md says which changes are allowed. To accept "+
		"them: go test -run TestExportedAPI . -update", name, &diff)
}

// exportedAPI returns a sorted line for each exported name, field and method of the public packages.
func exportedAPI(t *testing.T) []string {
	t.Helper()
	c := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}")
	for _, p := range publicPackages {
		c.Args = append(c.Args, "./"+p)
	}
	c.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	var errs strings.Builder
	c.Stderr = &errs
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", c.Args, err, &errs)
	}
	files := make(map[string]string) // export data, by import path
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), "\t")
		files[path] = file
	}
	imports := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(files[path])
	})
	var a apiLines
	for _, p := range publicPackages {
		pkg, err := imports.Import(strings.TrimSuffix(modulePath+"/"+p, "/."))
		must(t, err)
		a.pkg = pkg
		for _, name := range pkg.Scope().Names() {
			if obj := pkg.Scope().Lookup(name); obj.Exported() {
				a.object(obj)
			}
		}
	}
	slices.Sort(a.lines)
	return a.lines
}

// apiLines collects the lines of packages.
type apiLines struct {
	pkg   *types.Package
	lines []string
}

func (a *apiLines) add(format string, values ...any) {
	a.lines = append(a.lines, a.pkg.Name()+": "+fmt.Sprintf(format, values...))
}

// text returns a type as this package writes it. Other packages have their paths within the module.
func (a *apiLines) text(of types.Type) string {
	return types.TypeString(of, func(p *types.Package) string {
		if p == a.pkg {
			return ""
		}
		return strings.TrimPrefix(strings.Replace(p.Path(), modulePath, "bloomkv", 1), "bloomkv/")
	})
}

func (a *apiLines) object(obj types.Object) {
	switch obj := obj.(type) {
	case *types.Const:
		a.add("const %s %s = %s", obj.Name(), a.text(obj.Type()), obj.Val().ExactString())
	case *types.Var:
		a.add("var %s %s", obj.Name(), a.text(obj.Type()))
	case *types.Func:
		a.add("func %s%s", obj.Name(), a.signature(obj))
	case *types.TypeName:
		a.typeName(obj)
	}
}

func (a *apiLines) typeName(obj *types.TypeName) {
	if obj.IsAlias() {
		a.add("type %s = %s", obj.Name(), a.text(types.Unalias(obj.Type())))
		return
	}
	var of string
	switch u := obj.Type().Underlying().(type) {
	case *types.Struct:
		of = "struct"
		for i := range u.NumFields() {
			f := u.Field(i)
			switch {
			case !f.Exported():
			case f.Embedded():
				a.add("type %s struct, embeds %s %s", obj.Name(), a.text(f.Type()), u.Tag(i))
			default:
				a.add("type %s struct, %s %s %s", obj.Name(), f.Name(), a.text(f.Type()), u.Tag(i))
			}
		}
	case *types.Interface:
		of = "interface"
		for f := range u.Methods() {
			a.add("type %s interface, %s%s", obj.Name(), f.Name(), a.signature(f))
		}
	default:
		of = a.text(u)
	}
	a.add("type %s %s", obj.Name(), of)
	if !types.IsInterface(obj.Type()) {
		a.methods(obj.Name(), obj.Type())
	}
}

// methods adds the methods of a type, those of embedded types too.
func (a *apiLines) methods(name string, of types.Type) {
	byValue := types.NewMethodSet(of)
	for m := range types.NewMethodSet(types.NewPointer(of)).Methods() {
		f, ok := m.Obj().(*types.Func)
		if !ok || !f.Exported() {
			continue
		}
		star := "*"
		if byValue.Lookup(f.Pkg(), f.Name()) != nil {
			star = ""
		}
		a.add("method (%s%s) %s%s", star, name, f.Name(), a.signature(f))
	}
}

// signature returns the parameters and results of a function, without their names, which may change.
func (a *apiLines) signature(f *types.Func) string {
	unnamed := func(vars *types.Tuple) *types.Tuple {
		var list []*types.Var
		for v := range vars.Variables() {
			list = append(list, types.NewParam(token.NoPos, nil, "", v.Type()))
		}
		return types.NewTuple(list...)
	}
	s := f.Signature()
	bare := types.NewSignatureType(nil, nil, nil, unnamed(s.Params()), unnamed(s.Results()), s.Variadic())
	return strings.TrimPrefix(a.text(bare), "func")
}
