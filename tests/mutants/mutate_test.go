//go:build unix

package mutants

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A mutant is one small change of the source. All mutants of a package are in one binary: the rewritten source asks at
// each place whether its mutant is the one that is on.
type mutant struct {
	pkg, file string // file is relative to the root of the repository
	line      int
	text      string // of the line
	from, to  string
}

func (m mutant) String() string { return fmt.Sprintf("%s:%d: %s → %s", m.file, m.line, m.from, m.to) }

type operators map[token.Token]token.Token

// What a mutant has instead of an operator.
var (
	boundaries = operators{token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR}
	negations  = operators{
		token.LSS: token.GEQ, token.GEQ: token.LSS, token.GTR: token.LEQ, token.LEQ: token.GTR,
		token.EQL: token.NEQ, token.NEQ: token.EQL,
	}
	logical = operators{token.LAND: token.LOR, token.LOR: token.LAND}
	numeric = operators{token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO, token.QUO: token.MUL}
	integer = operators{
		token.REM: token.MUL, token.AND: token.OR, token.OR: token.AND, token.XOR: token.AND, token.AND_NOT: token.AND,
	}
	shifts   = operators{token.SHL: token.SHR, token.SHR: token.SHL}
	assigned = operators{
		token.ADD_ASSIGN: token.SUB_ASSIGN, token.SUB_ASSIGN: token.ADD_ASSIGN, token.MUL_ASSIGN: token.QUO_ASSIGN,
		token.AND_ASSIGN: token.OR_ASSIGN, token.OR_ASSIGN: token.AND_ASSIGN, token.XOR_ASSIGN: token.OR_ASSIGN,
		token.AND_NOT_ASSIGN: token.OR_ASSIGN, token.SHL_ASSIGN: token.SHR_ASSIGN, token.SHR_ASSIGN: token.SHL_ASSIGN,
		token.INC: token.DEC, token.DEC: token.INC,
	}
)

// switchSource is the file that each mutated package gets besides its own. The environment says which mutant is on, and
// names a file of one byte for each mutant, which is set when its place is reached.
func switchSource(pkg string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `package %s

import ("os"; "strconv"; "syscall")

var mutantOn, mutantSeen = func() (int, []byte) {
	on, _ := strconv.Atoi(os.Getenv("MUTANT"))
	f, err := os.OpenFile(os.Getenv("MUTANTS_SEEN"), os.O_RDWR, 0)
	if err != nil { return on, nil }
	defer f.Close()
	info, _ := f.Stat()
	seen, _ := syscall.Mmap(int(f.Fd()), 0, int(info.Size()), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	return on, seen
}()

func mutantIs(i int) bool { if mutantSeen != nil { mutantSeen[i] = 1 }; return i == mutantOn }
func mutantNil(i int, err error) error { if mutantIs(i) { return nil }; return err }

type mutantInteger interface { ~int|~int8|~int16|~int32|~int64|~uint|~uint8|~uint16|~uint32|~uint64|~uintptr }
type mutantNumber interface { mutantInteger|~float32|~float64 }
type mutantOrdered interface { mutantNumber|~string }

func mutantMore[T mutantNumber](i int, x T) T { if mutantIs(i) { return x + 1 }; return x }
func mutantFewer[T mutantNumber](i int, x T) T { if mutantIs(i) { return x - 1 }; return x }
`, pkg)
	function := func(ops operators, types, second, result string) {
		for _, op := range slices.Sorted(maps.Keys(ops)) { // in order: the same source is built once
			fmt.Fprintf(&b, "func mutant%d[%s](i int, x T, y %s) %s {\n", op, types, second, result)
			fmt.Fprintf(&b, "if mutantIs(i) { return x %s y }; return x %s y }\n", ops[op], op)
		}
	}
	function(boundaries, "T mutantOrdered", "T", "bool")
	function(numeric, "T mutantNumber", "T", "T")
	function(integer, "T mutantInteger", "T", "T")
	function(shifts, "T, S mutantInteger", "S", "T")
	return b.String()
}

// A source is a package as go list shows it.
type source struct {
	ImportPath, Name, Dir, Export string
	GoFiles                       []string
	DepOnly, Standard             bool
}

// list runs go list in the root of the repository.
func list[T any](root string, args ...string) (all []T, err error) {
	cmd := exec.Command("go", append([]string{"list"}, args...)...)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var one T
		if err := d.Decode(&one); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
}

// rewrite writes the packages with all their mutants into dir, and an overlay for go test. The number of a mutant is
// its index in all; the first is none.
func rewrite(root, dir, tags string, patterns []string) (all []mutant, overlay string, err error) {
	args := []string{"-export", "-deps", "-tags=" + tags, "-json", "os", "strconv", "syscall"}
	sources, err := list[source](root, append(args, patterns...)...)
	if err != nil {
		return nil, "", err
	}
	exports, replace := map[string]string{}, map[string]string{}
	for _, s := range sources {
		exports[s.ImportPath] = s.Export
	}
	all = []mutant{{}}
	for n, s := range sources {
		if s.DepOnly || s.Standard {
			continue
		}
		texts, err := rewritePackage(root, s, exports, &all)
		if err != nil {
			return nil, "", fmt.Errorf("%s: %w", s.ImportPath, err)
		}
		for name, text := range texts {
			to := filepath.Join(dir, fmt.Sprintf("%d-%s", n, filepath.Base(name)))
			if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
				return nil, "", err
			}
			replace[name] = to
		}
	}
	overlay = filepath.Join(dir, "overlay.json")
	b, err := json.Marshal(map[string]any{"Replace": replace})
	return all, overlay, errors.Join(err, os.WriteFile(overlay, b, 0o600))
}

var asked = regexp.MustCompile(`mutant\w*(?:\[[\w.]+\])?\((\d+)`)

// rewritePackage returns the new text of each file. Mutants that do not compile are left out.
func rewritePackage(root string, s source, exports map[string]string, all *[]mutant) (map[string]string, error) {
	fset := token.NewFileSet()
	open := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	imports, files := importer.ForCompiler(fset, "gc", open), []*ast.File{}
	info := &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{},
		Uses:  map[*ast.Ident]types.Object{},
		Defs:  map[*ast.Ident]types.Object{},
	}
	for _, name := range s.GoFiles {
		f, err := parser.ParseFile(fset, filepath.Join(s.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	pkg, err := (&types.Config{Importer: imports}).Check(s.ImportPath, fset, files, info)
	if err != nil {
		return nil, err
	}
	first, dropped := len(*all), map[int]bool{}
	for {
		*all = (*all)[:first]
		texts, again := map[string]string{}, []*ast.File{}
		texts[filepath.Join(s.Dir, "zz_mutants.go")] = switchSource(s.Name)
		for _, f := range files {
			name := fset.Position(f.Package).Filename
			src, err := os.ReadFile(name)
			if err != nil {
				return nil, err
			}
			rel, _ := filepath.Rel(root, name)
			r := rewriter{fset, info, pkg, f, src, s.ImportPath, rel, all, dropped, nil}
			texts[name] = r.whole()
		}
		fresh := token.NewFileSet()
		for name, text := range texts {
			f, err := parser.ParseFile(fresh, name, text, parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			again = append(again, f)
		}
		var wrong error
		before := len(dropped)
		check := types.Config{Importer: imports, Error: func(err error) {
			wrong = err
			if e := (types.Error{}); errors.As(err, &e) {
				at := fresh.Position(e.Pos)
				line := strings.Split(texts[at.Filename], "\n")[at.Line-1]
				for _, m := range asked.FindAllStringSubmatch(line, -1) {
					id, _ := strconv.Atoi(m[1])
					dropped[id] = true
				}
			}
		}}
		_, _ = check.Check(s.ImportPath, fresh, again, nil)
		switch {
		case wrong == nil:
			return texts, nil
		case len(dropped) == before:
			return nil, wrong
		}
	}
}

// A rewriter writes one file.
type rewriter struct {
	fset      *token.FileSet
	info      *types.Info
	pkg       *types.Package
	file      *ast.File
	src       []byte
	path, rel string
	all       *[]mutant
	dropped   map[int]bool
	results   *types.Tuple // of the function that the text is in
}

const (
	is     = "\x00" // in changed text: whether the mutant is on
	number = "\x01" // its number
)

func (r *rewriter) offset(p token.Pos) int { return r.fset.Position(p).Offset }
func (r *rewriter) between(from, to token.Pos) string {
	return string(r.src[r.offset(from):r.offset(to)])
}
func (r *rewriter) source(n ast.Node) string { return r.between(n.Pos(), n.End()) }

// mutate adds a mutant and returns the changed text, or plain if it does not compile.
func (r *rewriter) mutate(n ast.Node, from, to, plain, changed string) string {
	at, id := r.fset.Position(n.Pos()), len(*r.all)
	line, _, _ := strings.Cut(string(r.src[at.Offset-at.Column+1:]), "\n")
	from, _, _ = strings.Cut(from, "\n")
	to, _, _ = strings.Cut(to, "\n")
	m := mutant{r.path, r.rel, at.Line, strings.TrimSpace(line), from, to}
	if r.dropped[id] {
		m, changed = mutant{}, plain
	}
	*r.all = append(*r.all, m)
	text := strconv.Itoa(id)
	return strings.NewReplacer(is, "mutantIs("+text+")", number, text).Replace(changed)
}

// whole returns the text of the file. Only bodies of functions have mutants.
func (r *rewriter) whole() string {
	var b strings.Builder
	at := r.file.FileStart
	for _, d := range r.file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
			b.WriteString(r.between(at, f.Body.Pos()))
			b.WriteString(r.body(r.info.TypeOf(f.Name), f.Body))
			at = f.Body.End()
		}
	}
	return b.String() + string(r.src[r.offset(at):])
}

// body returns the body of a function.
func (r *rewriter) body(function types.Type, body *ast.BlockStmt) string {
	outer := r.results
	defer func() { r.results = outer }()
	if s, ok := function.(*types.Signature); ok {
		r.results = s.Results()
	}
	return r.text(body)
}

// parts returns the text of a node with what child returns in place of its children.
func (r *rewriter) parts(n ast.Node, child func(ast.Node) string) string {
	var children []ast.Node
	ast.Inspect(n, func(c ast.Node) bool {
		if _, comment := c.(*ast.CommentGroup); c != n && c != nil && !comment {
			children = append(children, c)
		}
		return c == n
	})
	slices.SortFunc(children, func(a, b ast.Node) int { return int(a.Pos() - b.Pos()) })
	var b strings.Builder
	at := n.Pos()
	for _, c := range children {
		b.WriteString(r.between(at, c.Pos()))
		b.WriteString(child(c))
		at = c.End()
	}
	return b.String() + r.between(at, n.End())
}

// text returns the text of a node with its mutants.
func (r *rewriter) text(n ast.Node) string {
	if e, ok := n.(ast.Expr); ok {
		if t := r.info.Types[e]; t.Value != nil || t.IsType() {
			return r.source(n)
		}
	}
	in := func(list []ast.Stmt) func(ast.Node) string {
		return func(c ast.Node) string {
			if s, ok := c.(ast.Stmt); ok && slices.Contains(list, s) {
				return r.statement(s)
			}
			return r.text(c)
		}
	}
	switch n := n.(type) {
	case *ast.FuncLit:
		return r.between(n.Pos(), n.Body.Pos()) + r.body(r.info.TypeOf(n), n.Body)
	case *ast.BlockStmt:
		return r.parts(n, in(n.List))
	case *ast.CaseClause:
		return r.parts(n, in(n.Body))
	case *ast.CommClause:
		return r.parts(n, in(n.Body))
	case *ast.BinaryExpr:
		return r.binary(n)
	case *ast.UnaryExpr:
		s := r.parts(n, r.text)
		if n.Op == token.NOT {
			s = r.mutate(n, r.source(n), r.source(n.X), s, "(("+s+") != "+is+")")
		}
		return s
	case *ast.IndexExpr, *ast.SliceExpr:
		return r.parts(n, func(c ast.Node) string { return r.operand(n, c) })
	case *ast.IfStmt:
		return r.parts(n, func(c ast.Node) string {
			s := r.text(c)
			if c == n.Cond && r.info.Types[n.Cond].Value == nil {
				s = r.mutate(c, "if "+r.source(c), "if true", s, "("+s+" || "+is+")")
				s = r.mutate(c, "if "+r.source(c), "if false", s, "(("+s+") && !"+is+")")
			}
			return s
		})
	case *ast.ReturnStmt:
		i := -1
		return r.parts(n, func(c ast.Node) string {
			i++
			s := r.text(c)
			if r.results.Len() == len(n.Results) && r.results.At(i).Type() == errorType && s != "nil" {
				s = r.mutate(c, "return "+r.source(c), "return nil", s, "mutantNil("+number+", "+s+")")
			}
			return s
		})
	}
	return r.parts(n, r.text)
}

var errorType = types.Universe.Lookup("error").Type()

// statement returns a statement of a list.
func (r *rewriter) statement(s ast.Stmt) string {
	text := r.text(s)
	swap := func(x ast.Expr, op token.Token, at token.Pos) {
		other, ok := assigned[op]
		if b, basic := r.info.TypeOf(x).Underlying().(*types.Basic); ok && basic && b.Info()&types.IsNumeric != 0 {
			changed := r.between(s.Pos(), at) + other.String() + r.between(at+token.Pos(len(op.String())), s.End())
			text = r.mutate(s, r.source(s), changed, text, "if "+is+" { "+changed+" } else { "+text+" }")
		}
	}
	switch s := s.(type) {
	case *ast.ExprStmt:
		if call := r.source(s); strings.HasPrefix(call, "panic(") || strings.HasPrefix(call, "step.At(") {
			return text // the end of a function; nothing in a program
		}
	case *ast.AssignStmt:
		if s.Tok == token.DEFINE || r.source(s.Lhs[0]) == "_" {
			return text
		}
		swap(s.Lhs[0], s.Tok, s.TokPos)
	case *ast.IncDecStmt:
		swap(s.X, s.Tok, s.TokPos)
	case *ast.BranchStmt:
		if s.Tok != token.BREAK && s.Tok != token.CONTINUE {
			return text
		}
	case *ast.ReturnStmt:
		if r.results.Len() > 0 {
			return text
		}
	case *ast.SendStmt, *ast.GoStmt, *ast.DeferStmt:
	default:
		return text
	}
	return r.mutate(s, r.source(s), "left out", text, "if !"+is+" { "+text+" }")
}

// operand returns an operand of n, which may be a number.
func (r *rewriter) operand(n, c ast.Node) string {
	literal, ok := c.(*ast.BasicLit)
	if !ok || literal.Kind != token.INT {
		return r.text(c)
	}
	typ := r.typeName(r.info.TypeOf(literal))
	value, err := strconv.ParseInt(literal.Value, 0, 64)
	if typ == "" || err != nil {
		return r.text(c)
	}
	with := func(value int64) string {
		return r.between(n.Pos(), c.Pos()) + strconv.FormatInt(value, 10) + r.between(c.End(), n.End())
	}
	text := r.mutate(n, r.source(n), with(value+1), literal.Value, "mutantMore["+typ+"]("+number+", "+literal.Value+")")
	if value > 0 {
		text = r.mutate(n, r.source(n), with(value-1), text, "mutantFewer["+typ+"]("+number+", "+text+")")
	}
	return text
}

// typeName returns the name that the file has for a type of numbers, or "".
func (r *rewriter) typeName(t types.Type) string {
	if b, ok := t.Underlying().(*types.Basic); !ok || b.Info()&types.IsNumeric == 0 || b.Info()&types.IsUntyped != 0 {
		return ""
	}
	if _, ok := t.(*types.TypeParam); ok {
		return ""
	}
	return types.TypeString(t, func(p *types.Package) string {
		if p == r.pkg {
			return ""
		}
		for _, s := range r.file.Imports {
			if path, _ := strconv.Unquote(s.Path.Value); path == p.Path() && s.Name != nil {
				return s.Name.Name
			}
		}
		return p.Name()
	})
}

// binary returns an operation of two operands.
func (r *rewriter) binary(n *ast.BinaryExpr) string {
	x, y, op := r.operand(n, n.X), r.operand(n, n.Y), n.Op.String()
	before, after := r.between(n.X.End(), n.OpPos), r.between(n.OpPos+token.Pos(len(op)), n.Y.Pos())
	text, from := x+before+op+after+y, r.source(n)
	mutate := func(other token.Token, format string, args ...any) {
		to := r.source(n.X) + before + other.String() + after + r.source(n.Y)
		text = r.mutate(n, from, to, text, fmt.Sprintf(format, args...))
	}
	call := func(ops operators, x string) {
		if other, ok := ops[n.Op]; ok {
			mutate(other, "mutant%d(%s, %s%s,%s%s)", n.Op, number, x, before, after, y)
		}
	}
	if other, ok := logical[n.Op]; ok { // x && y is !(!x || !y)
		mutate(other, "(((%s) != %s%s%s%s(%s) != %s) != %s)", x, is, before, op, after, y, is, is)
	}
	call(boundaries, x)
	if other, ok := negations[n.Op]; ok {
		mutate(other, "((%s) != %s)", text, is)
	}
	if typ := r.typeName(r.info.TypeOf(n)); typ != "" && typ != "uintptr" {
		call(numeric, x)
		call(integer, x)
		call(shifts, typ+"("+x+")")
	}
	return text
}
