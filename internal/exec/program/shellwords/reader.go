package shellwords

import (
	"fmt"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// reader collects the content of a parsed text.
type reader struct {
	script Script
	text   string
	// documents are the bodies of here-documents: words for the parser, of which only expansions
	// count.
	documents map[*syntax.Word]bool
	nodes     int
	words     int
	err       error
}

// visit processes one node; Walk continues with its children. An unlisted node is unknown and
// counts as Other.
func (r *reader) visit(node syntax.Node) bool {
	if node == nil || r.err != nil {
		return false
	}
	r.nodes++
	switch n := node.(type) {
	case *syntax.CallExpr:
		r.command(n.Args)
	case *syntax.Stmt:
		if n.Coprocess || n.Disown {
			r.has(Other)
		}
	case *syntax.Redirect:
		r.redirect(n)
	case *syntax.Word:
		_, literal := literalOf(n.Parts)
		r.script.Dynamic = r.script.Dynamic || !literal && !r.documents[n]
	case *syntax.TestClause:
		r.add(Literal("[["))
	case *syntax.UnaryTest:
		if n.Op == syntax.TsVarSet || n.Op == syntax.TsRefVar {
			r.has(Arithmetic)
		}
	case *syntax.BinaryTest:
		if arithmeticTest(n.Op) {
			r.has(Arithmetic)
		}
	case *syntax.DeclClause:
		r.declare(n)
	case *syntax.LetClause:
		r.add(Literal("let"))
		r.has(Arithmetic)
	default:
		r.structure(node)
	}
	if r.nodes > maxNodes || r.words > MaxWords || len(r.script.Commands) > MaxCommands {
		r.err = ErrTooLarge
	}
	return r.err == nil
}

// structure processes nodes that run, repeat or join commands, and the parts of words.
func (r *reader) structure(node syntax.Node) {
	switch n := node.(type) {
	case *syntax.BinaryCmd:
		r.script.Pipes = r.script.Pipes || n.Op == syntax.Pipe || n.Op == syntax.PipeAll
	case *syntax.File, *syntax.Comment, *syntax.Subshell, *syntax.Block, *syntax.IfClause, *syntax.WhileClause, *syntax.WordIter,
		*syntax.CaseClause, *syntax.CaseItem, *syntax.TimeClause, *syntax.ParenTest,
		*syntax.Lit, *syntax.SglQuoted, *syntax.DblQuoted:
	case *syntax.CmdSubst, *syntax.ProcSubst, *syntax.ExtGlob, *syntax.BraceExp:
		r.script.Dynamic = true
	case *syntax.ParamExp:
		r.script.Dynamic = true
		r.expansion(n)
	case *syntax.ArithmExp:
		r.script.Dynamic = true
		r.has(Arithmetic)
	case *syntax.Assign:
		r.has(Assignment)
		r.assign(n)
	case *syntax.ArrayExpr, *syntax.ArrayElem:
		r.has(Assignment)
	case *syntax.ForClause:
		r.has(Assignment)
		if loop, ok := n.Loop.(*syntax.WordIter); ok {
			r.set(loop.Name.Value, Word{})
		}
		if n.Select {
			r.has(Other)
		}
	case *syntax.FuncDecl:
		r.has(Function)
	case *syntax.CoprocClause:
		r.has(Coprocess)
	case *syntax.ArithmCmd, *syntax.CStyleLoop, *syntax.BinaryArithm, *syntax.UnaryArithm, *syntax.ParenArithm:
		r.has(Arithmetic)
	default:
		r.has(Other)
	}
}

func (r *reader) has(f Feature) {
	if !slices.Contains(r.script.Features, f) {
		r.script.Features = append(r.script.Features, f)
	}
}

func (r *reader) set(name string, value Word) {
	r.script.Settings = append(r.script.Settings, Setting{Name: name, Value: value})
}

// assign processes A=b, or an argument of export and similar builtins, which may be an option or
// an expansion. The value of a variable without an assignment is unknown.
func (r *reader) assign(n *syntax.Assign) {
	switch {
	case n.Name == nil:
		r.set("", Word{})
	case n.Naked || n.Append || n.Index != nil || n.Array != nil:
		r.set(n.Name.Value, Word{})
	case n.Value == nil:
		r.set(n.Name.Value, Literal(""))
	default:
		r.set(n.Name.Value, r.word(n.Value))
	}
}

// expansion processes a parameter, to which ${A:=b} assigns a value.
func (r *reader) expansion(n *syntax.ParamExp) {
	if n.Exp == nil || n.Exp.Op != syntax.AssignUnset && n.Exp.Op != syntax.AssignUnsetOrNull {
		return
	}
	name := ""
	if n.Param != nil && !n.Excl {
		name = n.Param.Value
	}
	r.set(name, Word{})
}

func (r *reader) add(words ...Word) {
	r.words += len(words)
	r.script.Commands = append(r.script.Commands, Command{Words: words})
}

// command adds a simple command. A command of only assignments and redirects has no words.
func (r *reader) command(args []*syntax.Word) {
	if len(args) == 0 {
		return
	}
	words := make([]Word, len(args))
	for i, arg := range args {
		words[i] = r.word(arg)
	}
	r.add(words...)
}

func (r *reader) word(w *syntax.Word) Word {
	if text, literal := literalOf(w.Parts); literal {
		return Literal(text)
	}
	return Word{text: r.source(w)}
}

// source returns the source text of a node.
func (r *reader) source(n syntax.Node) string {
	from, to := n.Pos().Offset(), n.End().Offset()
	if from > to || to > uint(len(r.text)) {
		return ""
	}
	return r.text[from:to]
}

// declare processes export, declare and similar builtins of bash, whose arguments are not words
// that are passed on.
func (r *reader) declare(n *syntax.DeclClause) {
	words := []Word{Literal(n.Variant.Value)}
	for _, arg := range n.Args {
		words = append(words, Word{text: r.source(arg)})
	}
	r.add(words...)
	r.script.Commands[len(r.script.Commands)-1].Declares = true
	r.has(Assignment)
}

func (r *reader) redirect(n *syntax.Redirect) {
	if n.N != nil {
		r.descriptor(n.N.Value)
	}
	if n.Hdoc != nil {
		r.documents[n.Hdoc] = true
		r.script.Documents = append(r.script.Documents, r.source(n.Hdoc))
	}
	target := r.word(n.Word)
	switch n.Op {
	case syntax.Hdoc, syntax.DashHdoc:
		// The word is the end marker of the document, which is never expanded.
		r.documents[n.Word] = true
	case syntax.WordHdoc:
	case syntax.DplIn:
		r.copied(target)
	case syntax.RdrIn:
		r.script.Redirects = append(r.script.Redirects, Redirect{Target: target})
	case syntax.DplOut:
		// In bash, >&file means >file 2>&1.
		if !r.copied(target) {
			r.script.Redirects = append(r.script.Redirects, Redirect{Target: target, Writes: true})
		}
	case syntax.RdrOut, syntax.AppOut, syntax.RdrInOut, syntax.RdrClob, syntax.RdrAll, syntax.AppAll:
		r.script.Redirects = append(r.script.Redirects, Redirect{Target: target, Writes: true})
	default:
		r.has(Other)
	}
}

// descriptor processes the part before a redirect: {A}> assigns a value to A, and 10> is an
// argument and a redirect for shells that support only one-digit descriptors.
func (r *reader) descriptor(n string) {
	switch {
	case strings.HasPrefix(n, "{"):
		r.has(Assignment)
		r.set(strings.Trim(n, "{}"), Word{})
	case len(n) > 1 && r.script.Dialect != Bash:
		r.has(Other)
	}
}

// copied reports whether a redirect copies or closes a descriptor. bash parses a target that only
// begins like a descriptor, such as >&-a, as a redirect and a command.
func (r *reader) copied(target Word) bool {
	text, literal := target.Literal()
	if !literal || text == "" {
		return false
	}
	if strings.Trim(strings.TrimSuffix(text, "-"), "0123456789") == "" {
		return true
	}
	if strings.IndexByte("-0123456789", text[0]) >= 0 {
		r.err = fmt.Errorf("shells interpret the redirect to &%s differently", text)
	}
	return false
}

// arithmeticTest reports whether [[ evaluates both sides as arithmetic.
func arithmeticTest(op syntax.BinTestOperator) bool {
	switch op {
	case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
		return true
	}
	return false
}
