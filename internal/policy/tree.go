package policy

import (
	"slices"

	"github.com/cedar-policy/cedar-go/types"
)

// tree is one expression with the token that stands for it: the operator of
// an operation, the name of an attribute, the first token of a literal.
// cedar-go parses without positions, so the syntax tree is laid along the
// policy's own tokens.
type tree struct {
	node astNode
	at   token
	kids []*tree
	// from and to are where its text stands in the source, in bytes; both are
	// 0 for what has no text of its own.
	from, to int
}

// condition is one when or unless clause.
type condition struct {
	when bool
	body *tree
}

// conditions lays the policy's clauses along its tokens.
func (c *compiled) conditions() []condition {
	if c.laid != nil || len(c.ast.Conditions) == 0 {
		return c.laid
	}
	starts := c.clauseStarts()
	for i, cond := range c.ast.Conditions {
		l := &layer{fallback: c.tokens[0], lost: true}
		if len(starts) == len(c.ast.Conditions) {
			l = &layer{tokens: c.tokens, at: starts[i] + 1, fallback: c.tokens[starts[i]]}
		}
		c.laid = append(c.laid, condition{when: bool(cond.Condition), body: l.lay(cond.Body)})
	}
	return c.laid
}

// clauseStarts returns the indexes of the words when and unless.
func (c *compiled) clauseStarts() []int {
	var starts []int
	depth := 0
	for i, t := range c.tokens {
		switch t.text {
		case "(", "{", "[":
			depth++
		case ")", "}", "]":
			depth--
		case "when", "unless":
			if depth == 0 && t.kind == tokIdent && (i == 0 || c.tokens[i-1].text != "@") {
				starts = append(starts, i)
			}
		}
	}
	return starts
}

// layer walks a syntax tree and the tokens side by side. Brackets, commas,
// dots and colons carry no node and are passed over. When the two disagree,
// which no known policy makes them do, the rest gets the last known place.
type layer struct {
	tokens   []token
	at       int
	fallback token
	lost     bool
}

func silent(t token) bool {
	if t.kind != tokPunct {
		return false
	}
	switch t.text {
	case "(", ")", "[", "]", "{", "}", ",", ".", ":":
		return true
	}
	return false
}

// take moves to the next token that is not silent and returns it, if ok says
// that it is the one wanted.
func (l *layer) take(ok func(token) bool) token {
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

func (l *layer) word(text string) token {
	return l.take(func(t token) bool { return t.text == text })
}

// name takes an attribute's name, as a word or as a string.
func (l *layer) name(name types.String) token {
	return l.take(func(t token) bool {
		return t.kind == tokString || t.kind == tokIdent && t.text == string(name)
	})
}

func (l *layer) lay(n astNode) *tree {
	first := l.at
	t := l.node(n)
	if !l.lost {
		t.from, t.to = l.extent(first)
	}
	return t
}

// extent returns where the text stands that was taken from a token on, with
// the brackets that belong to it.
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
	if last+1 < len(l.tokens) && l.tokens[last].text == "(" && l.tokens[last+1].text == ")" {
		last += 2 // a method without arguments
	}
	for ; open > 0 && last < len(l.tokens) && nesting(l.tokens[last]) < 0; open-- {
		last++
	}
	for ; unopened > 0 && first > 0 && nesting(l.tokens[first-1]) > 0; unopened-- {
		first--
	}
	return l.tokens[first].offset, l.tokens[last-1].end()
}

func (l *layer) node(n astNode) *tree {
	switch n := n.(type) {
	case nodeVariable:
		return &tree{node: n, at: l.word(string(n.Name))}
	case nodeValue:
		return &tree{node: n, at: l.literal(n.Value)}
	case nodeIf:
		return l.ifThenElse(n)
	case nodeAnd:
		return l.and(n)
	case nodeNot:
		at := l.word("!")
		return &tree{node: n, at: at, kids: []*tree{l.lay(n.Arg)}}
	case nodeNegate:
		at := l.word("-")
		return &tree{node: n, at: at, kids: []*tree{l.lay(n.Arg)}}
	case nodeAccess:
		arg := l.lay(n.Arg)
		return &tree{node: n, at: l.name(n.Value), kids: []*tree{arg}}
	case nodeHas:
		arg := l.lay(n.Arg)
		l.word("has")
		return &tree{node: n, at: l.name(n.Value), kids: []*tree{arg}}
	case nodeLike:
		arg := l.lay(n.Arg)
		at := l.word("like")
		l.take(func(t token) bool { return t.kind == tokString })
		return &tree{node: n, at: at, kids: []*tree{arg}}
	case nodeIs:
		return &tree{node: n, kids: []*tree{l.lay(n.Left)}, at: l.is(n.EntityType)}
	case nodeIsIn:
		left := l.lay(n.Left)
		at := l.is(n.EntityType)
		l.word("in")
		return &tree{node: n, at: at, kids: []*tree{left, l.lay(n.Entity)}}
	case nodeCall:
		return l.call(n)
	case nodeSet:
		return l.elements(n, n.Elements)
	case nodeRecord:
		return l.record(n)
	default:
		return l.operation(n)
	}
}

func (l *layer) ifThenElse(n nodeIf) *tree {
	at := l.word("if")
	cond := l.lay(n.If)
	l.word("then")
	then := l.lay(n.Then)
	l.word("else")
	return &tree{node: n, at: at, kids: []*tree{cond, then, l.lay(n.Else)}}
}

// and also reads "x has a.b", which cedar-go turns into "x has a && x.a has
// b": there, a dot follows where an operator would.
func (l *layer) and(n nodeAnd) *tree {
	left := l.lay(n.Left)
	if has, ok := n.Right.(nodeHas); ok && l.dotFollows() {
		at := l.name(has.Value)
		return &tree{node: n, at: at, kids: []*tree{left, synthetic(has, at)}}
	}
	at := l.word("&&")
	return &tree{node: n, at: at, kids: []*tree{left, l.lay(n.Right)}}
}

func (l *layer) dotFollows() bool {
	return !l.lost && l.at < len(l.tokens) && l.tokens[l.at].text == "."
}

// synthetic gives a whole expression one place.
func synthetic(n astNode, at token) *tree {
	return (&layer{fallback: at, lost: true}).lay(n)
}

func (l *layer) is(t types.EntityType) token {
	l.word("is")
	return l.path(t)
}

// path takes the words of a type name and returns the first.
func (l *layer) path(types.EntityType) token {
	first := l.take(func(t token) bool { return t.kind == tokIdent })
	for l.follows("::") && l.at+1 < len(l.tokens) && l.tokens[l.at+1].kind == tokIdent {
		l.at += 2
	}
	return first
}

func (l *layer) follows(text string) bool {
	return !l.lost && l.at < len(l.tokens) && l.tokens[l.at].text == text
}

func (l *layer) literal(v types.Value) token {
	switch v := v.(type) {
	case types.EntityUID:
		first := l.path(v.Type)
		l.word("::")
		at := l.take(func(t token) bool { return t.kind == tokString })
		if l.lost {
			return first
		}
		return at
	case types.Long:
		if v < 0 {
			l.word("-")
		}
		return l.take(func(t token) bool { return t.kind == tokInt })
	case types.Boolean:
		return l.take(func(t token) bool { return t.text == "true" || t.text == "false" })
	default:
		return l.take(func(t token) bool { return t.kind == tokString })
	}
}

var constructors = []types.Path{"ip", "decimal", "datetime", "duration"}

func (l *layer) call(n nodeCall) *tree {
	out := &tree{node: n}
	args := n.Args
	if !slices.Contains(constructors, n.Name) && len(args) > 0 {
		out.kids = append(out.kids, l.lay(args[0]))
		args = args[1:]
	}
	out.at = l.word(string(n.Name))
	for _, a := range args {
		out.kids = append(out.kids, l.lay(a))
	}
	return out
}

func (l *layer) elements(n astNode, list []astNode) *tree {
	out := &tree{node: n, at: l.fallback}
	for _, e := range list {
		out.kids = append(out.kids, l.lay(e))
	}
	if len(out.kids) > 0 {
		out.at = out.kids[0].at
	}
	return out
}

func (l *layer) record(n nodeRecord) *tree {
	out := &tree{node: n, at: l.fallback}
	for i, e := range n.Elements {
		key := l.name(e.Key)
		if i == 0 {
			out.at = key
		}
		out.kids = append(out.kids, l.lay(e.Value))
	}
	return out
}

// operation lays what has one or two operands around a word or sign.
func (l *layer) operation(n astNode) *tree {
	word, operands := operandsOf(n)
	out := &tree{node: n}
	for i, o := range operands {
		if i == 1 {
			out.at = l.word(word)
		}
		out.kids = append(out.kids, l.lay(o))
	}
	if len(operands) == 1 {
		out.at = l.word(word)
	}
	return out
}

func operandsOf(n astNode) (word string, operands []astNode) {
	pair := func(word string, b nodeBinary) (string, []astNode) { return word, []astNode{b.Left, b.Right} }
	switch n := n.(type) {
	case nodeOr:
		return pair("||", n.BinaryNode)
	case nodeLess:
		return pair("<", n.BinaryNode)
	case nodeLessEqual:
		return pair("<=", n.BinaryNode)
	case nodeGreater:
		return pair(">", n.BinaryNode)
	case nodeGreaterEqual:
		return pair(">=", n.BinaryNode)
	case nodeEqual:
		return pair("==", n.BinaryNode)
	case nodeNotEqual:
		return pair("!=", n.BinaryNode)
	case nodeIn:
		return pair("in", n.BinaryNode)
	case nodeAdd:
		return pair("+", n.BinaryNode)
	case nodeSub:
		return pair("-", n.BinaryNode)
	case nodeMult:
		return pair("*", n.BinaryNode)
	case nodeContains:
		return pair("contains", n.BinaryNode)
	case nodeContainsAll:
		return pair("containsAll", n.BinaryNode)
	case nodeContainsAny:
		return pair("containsAny", n.BinaryNode)
	case nodeHasTag:
		return pair("hasTag", n.BinaryNode)
	case nodeGetTag:
		return pair("getTag", n.BinaryNode)
	case nodeIsEmpty:
		return "isEmpty", []astNode{n.Arg}
	default:
		return "", nil
	}
}

// walk visits a tree in the order of the source, parents first, while visit
// says so.
func (t *tree) walk(visit func(*tree) bool) {
	if !visit(t) {
		return
	}
	for _, k := range t.kids {
		k.walk(visit)
	}
}

// chain returns variable and attributes of an access such as
// context.args.path, or nil when t is no such chain.
func (t *tree) chain() []string {
	switch n := t.node.(type) {
	case nodeVariable:
		return []string{string(n.Name)}
	case nodeAccess:
		if up := t.kids[0].chain(); up != nil {
			return append(up, string(n.Value))
		}
	}
	return nil
}
