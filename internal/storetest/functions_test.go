package storetest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

// TestFunctionsExist looks for each Function in the sources. If one were renamed, the tests that stop a store inside it
// would stop nothing.
func TestFunctionsExist(t *testing.T) {
	named := regexp.MustCompile(`^(bloomkv|internal/\w+)\.\(\*(\w+)\)\.(\w+)(\.func1)?$`)
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "functions.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		literal, ok := n.(*ast.BasicLit)
		if !ok {
			return true
		}
		name, err := strconv.Unquote(literal.Value)
		parts := named.FindStringSubmatch(name)
		if err != nil || parts == nil {
			t.Errorf("%s is not the name of a method", literal.Value)
			return true
		}
		dir := filepath.Join("..", "..", parts[1])
		if parts[1] == "bloomkv" {
			dir = filepath.Join("..", "..")
		}
		if !hasMethod(t, dir, parts[2], parts[3], parts[4] != "") {
			t.Errorf("there is no %s", name)
		}
		return true
	})
}

// hasMethod reports whether a package has a method, and, if wanted, a function literal in it.
func hasMethod(t *testing.T, dir, receiver, method string, literal bool) (has bool) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv == nil || f.Name.Name != method {
				continue
			}
			pointer, ok := f.Recv.List[0].Type.(*ast.StarExpr)
			if !ok || types.ExprString(pointer.X) != receiver {
				continue
			}
			has = !literal
			ast.Inspect(f.Body, func(n ast.Node) bool {
				if _, ok := n.(*ast.FuncLit); ok {
					has = true
				}
				return true
			})
		}
	}
	return has
}
