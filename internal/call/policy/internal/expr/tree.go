package expr

import (
	"slices"

	"github.com/cedar-policy/cedar-go/types"
)

// Tree is one expression with its main token: the operator of an operation, the name of an
// attribute, or the first token of a literal. The syntax tree is aligned with the policy's own
// tokens, because cedar-go parses without positions.
type Tree struct {
	Node Node
	At   Token
	Kids []*Tree
	// From and To delimit its text in the source, in bytes; both are 0 for an expression
	// without its own text.
	From, To int
}

// Condition is one when or unless clause.
type Condition struct {
	When bool
	Body *Tree
}

// Conditions aligns the policy's clauses with its tokens.
func (c *Policy) Conditions() []Condition {
	if c.laid != nil || len(c.AST.Conditions) == 0 {
		return c.laid
	}
	starts := c.clauseStarts()
	for i, cond := range c.AST.Conditions {
		l := &layer{fallback: c.Tokens[0], lost: true}
		if len(starts) == len(c.AST.Conditions) {
			l = &layer{tokens: c.Tokens, at: starts[i] + 1, fallback: c.Tokens[starts[i]]}
		}
		c.laid = append(c.laid, Condition{When: bool(cond.Condition), Body: l.lay(cond.Body)})
	}
	return c.laid
}

// clauseStarts returns the indexes of the words when and unless.
func (c *Policy) clauseStarts() []int {
	var starts []int
	depth := 0
	for i, t := range c.Tokens {
		switch t.Text {
		case "(", "{", "[":
			depth++
		case ")", "}", "]":
			depth--
		case "when", "unless":
			if depth == 0 && t.Kind == TokIdent && (i == 0 || c.Tokens[i-1].Text != "@") {
				starts = append(starts, i)
			}
		}
	}
	return starts
}

// layer walks a syntax tree and the tokens in parallel. Brackets, commas, dots and colons carry
// no node and are skipped. If the two disagree, which does not happen for any known policy, the
// rest gets the last known position.
type layer struct {
	tokens   []Token
	at       int
	fallback Token
	lost     bool
}

// take moves to the next token that is not silent, and returns it if ok accepts it.
func (l *layer) take(ok func(Token) bool) Token {
	for !l.lost && l.at < len(l.tokens) {
		t := l.tokens[l.at]
		l.at++
		if silent(t) {
			continue
		}
		if ok(t) {
			l.fallback = t
			return t
		}
		break
	}
	l.lost = true
	return l.fallback
}

func (l *layer) word(text string) Token {
	return l.take(func(t Token) bool { return t.Text == text })
}

// name takes the name of an attribute, as a word or as a string.
func (l *layer) name(name types.String) Token {
	return l.take(func(t Token) bool {
		return t.Kind == TokString || t.Kind == TokIdent && t.Text == string(name)
	})
}

func (l *layer) lay(n Node) *Tree {
	first := l.at
	t := l.node(n)
	if !l.lost {
		t.From, t.To = l.extent(first)
	}
	return t
}

// extent returns the byte range of the text taken since a token, including matching brackets.
func (l *layer) extent(first int) (from, to int) {
	for first < l.at-1 && silent(l.tokens[first]) {
		first++
	}
	open, unopened := 0, 0
	for _, t := range l.tokens[first:l.at] {
		open += nesting(t)
		if open < 0 {
			open, unopened = 0, unopened+1
		}
	}
	last := l.at
	if last+1 < len(l.tokens) && l.tokens[last].Text == "(" && l.tokens[last+1].Text == ")" {
		last += 2 // a method without arguments
	}
	for ; open > 0 && last < len(l.tokens) && nesting(l.tokens[last]) < 0; open-- {
		last++
	}
	for ; unopened > 0 && first > 0 && nesting(l.tokens[first-1]) > 0; unopened-- {
		first--
	}
	return l.tokens[first].Offset, l.tokens[last-1].End()
}

func (l *layer) node(n Node) *Tree {
	switch n := n.(type) {
	case NodeVariable:
		return &Tree{Node: n, At: l.word(string(n.Name))}
	case NodeValue:
		return &Tree{Node: n, At: l.literal(n.Value)}
	case NodeIf:
		return l.ifThenElse(n)
	case NodeAnd:
		return l.and(n)
	case NodeNot:
		at := l.word("!")
		return &Tree{Node: n, At: at, Kids: []*Tree{l.lay(n.Arg)}}
	case NodeNegate:
		at := l.word("-")
		return &Tree{Node: n, At: at, Kids: []*Tree{l.lay(n.Arg)}}
	case NodeAccess:
		arg := l.lay(n.Arg)
		return &Tree{Node: n, At: l.name(n.Value), Kids: []*Tree{arg}}
	case NodeHas:
		arg := l.lay(n.Arg)
		l.word("has")
		return &Tree{Node: n, At: l.name(n.Value), Kids: []*Tree{arg}}
	case NodeLike:
		arg := l.lay(n.Arg)
		at := l.word("like")
		l.take(func(t Token) bool { return t.Kind == TokString })
		return &Tree{Node: n, At: at, Kids: []*Tree{arg}}
	case nodeIs:
		return &Tree{Node: n, Kids: []*Tree{l.lay(n.Left)}, At: l.is(n.EntityType)}
	case nodeIsIn:
		left := l.lay(n.Left)
		at := l.is(n.EntityType)
		l.word("in")
		return &Tree{Node: n, At: at, Kids: []*Tree{left, l.lay(n.Entity)}}
	case nodeCall:
		return l.call(n)
	case NodeSet:
		return l.elements(n, n.Elements)
	case NodeRecord:
		return l.record(n)
	default:
		return l.operation(n)
	}
}

func (l *layer) ifThenElse(n NodeIf) *Tree {
	at := l.word("if")
	cond := l.lay(n.If)
	l.word("then")
	then := l.lay(n.Then)
	l.word("else")
	return &Tree{Node: n, At: at, Kids: []*Tree{cond, then, l.lay(n.Else)}}
}

// and also handles "x has a.b", which cedar-go converts to "x has a && x.a has b". In this
// form, a dot follows instead of an operator.
func (l *layer) and(n NodeAnd) *Tree {
	left := l.lay(n.Left)
	if has, ok := n.Right.(NodeHas); ok && l.dotFollows() {
		at := l.name(has.Value)
		return &Tree{Node: n, At: at, Kids: []*Tree{left, synthetic(has, at)}}
	}
	at := l.word("&&")
	return &Tree{Node: n, At: at, Kids: []*Tree{left, l.lay(n.Right)}}
}

func (l *layer) dotFollows() bool {
	return !l.lost && l.at < len(l.tokens) && l.tokens[l.at].Text == "."
}

func (l *layer) is(t types.EntityType) Token {
	l.word("is")
	return l.path(t)
}

// path takes the words of a type name and returns the first.
func (l *layer) path(types.EntityType) Token {
	first := l.take(func(t Token) bool { return t.Kind == TokIdent })
	for l.follows("::") && l.at+1 < len(l.tokens) && l.tokens[l.at+1].Kind == TokIdent {
		l.at += 2
	}
	return first
}

func (l *layer) follows(text string) bool {
	return !l.lost && l.at < len(l.tokens) && l.tokens[l.at].Text == text
}

func (l *layer) literal(v types.Value) Token {
	switch v := v.(type) {
	case types.EntityUID:
		first := l.path(v.Type)
		l.word("::")
		at := l.take(func(t Token) bool { return t.Kind == TokString })
		if l.lost {
			return first
		}
		return at
	case types.Long:
		if v < 0 {
			l.word("-")
		}
		return l.take(func(t Token) bool { return t.Kind == tokInt })
	case types.Boolean:
		return l.take(func(t Token) bool { return t.Text == "true" || t.Text == "false" })
	default:
		return l.take(func(t Token) bool { return t.Kind == TokString })
	}
}

var constructors = []types.Path{"ip", "decimal", "datetime", "duration"}

func (l *layer) call(n nodeCall) *Tree {
	out := &Tree{Node: n}
	args := n.Args
	if !slices.Contains(constructors, n.Name) && len(args) > 0 {
		out.Kids = append(out.Kids, l.lay(args[0]))
		args = args[1:]
	}
	out.At = l.word(string(n.Name))
	for _, a := range args {
		out.Kids = append(out.Kids, l.lay(a))
	}
	return out
}

func (l *layer) elements(n Node, list []Node) *Tree {
	out := &Tree{Node: n, At: l.fallback}
	for _, e := range list {
		out.Kids = append(out.Kids, l.lay(e))
	}
	if len(out.Kids) > 0 {
		out.At = out.Kids[0].At
	}
	return out
}

func (l *layer) record(n NodeRecord) *Tree {
	out := &Tree{Node: n, At: l.fallback}
	for i, e := range n.Elements {
		key := l.name(e.Key)
		if i == 0 {
			out.At = key
		}
		out.Kids = append(out.Kids, l.lay(e.Value))
	}
	return out
}

// operation aligns an operation with one or two operands and its word or sign.
func (l *layer) operation(n Node) *Tree {
	word, operands := operandsOf(n)
	out := &Tree{Node: n}
	for i, o := range operands {
		if i == 1 {
			out.At = l.word(word)
		}
		out.Kids = append(out.Kids, l.lay(o))
	}
	if len(operands) == 1 {
		out.At = l.word(word)
	}
	return out
}
