package expr

// Chain returns the variable and the attributes of an access such as context.args.path, or nil
// if t is not such a chain.
func (t *Tree) Chain() []string {
	switch n := t.Node.(type) {
	case NodeVariable:
		return []string{string(n.Name)}
	case NodeAccess:
		if up := t.Kids[0].Chain(); up != nil {
			return append(up, string(n.Value))
		}
	}
	return nil
}

// Walk visits a tree in source order, parents first. It descends while visit returns true.
func (t *Tree) Walk(visit func(*Tree) bool) {
	if !visit(t) {
		return
	}
	for _, k := range t.Kids {
		k.Walk(visit)
	}
}

func operandsOf(n Node) (word string, operands []Node) {
	pair := func(word string, b nodeBinary) (string, []Node) { return word, []Node{b.Left, b.Right} }
	switch n := n.(type) {
	case NodeOr:
		return pair("||", n.BinaryNode)
	case NodeLess:
		return pair("<", n.BinaryNode)
	case NodeLessEqual:
		return pair("<=", n.BinaryNode)
	case NodeGreater:
		return pair(">", n.BinaryNode)
	case NodeGreaterEqual:
		return pair(">=", n.BinaryNode)
	case NodeEqual:
		return pair("==", n.BinaryNode)
	case NodeNotEqual:
		return pair("!=", n.BinaryNode)
	case nodeIn:
		return pair("in", n.BinaryNode)
	case NodeAdd:
		return pair("+", n.BinaryNode)
	case NodeSub:
		return pair("-", n.BinaryNode)
	case NodeMult:
		return pair("*", n.BinaryNode)
	case NodeContains:
		return pair("contains", n.BinaryNode)
	case NodeContainsAll:
		return pair("containsAll", n.BinaryNode)
	case NodeContainsAny:
		return pair("containsAny", n.BinaryNode)
	case nodeHasTag:
		return pair("hasTag", n.BinaryNode)
	case nodeGetTag:
		return pair("getTag", n.BinaryNode)
	case NodeIsEmpty:
		return "isEmpty", []Node{n.Arg}
	default:
		return "", nil
	}
}

// synthetic gives a whole expression one position.
func synthetic(n Node, at Token) *Tree {
	return (&layer{fallback: at, lost: true}).lay(n)
}

func silent(t Token) bool {
	if t.Kind != tokPunct {
		return false
	}
	switch t.Text {
	case "(", ")", "[", "]", "{", "}", ",", ".", ":":
		return true
	}
	return false
}
