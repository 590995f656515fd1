// Package expr is policies as they are written: tokens and the expressions laid
// along them, so that whatever is said of an expression has its place; their
// annotations; and what an expression comes to when not everything is known.
package expr

import (
	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/cedar-policy/cedar-go/x/exp/eval"
)

// This file and that of package schema alone name cedar-go's x/exp packages:
// they are outside its promise of compatibility, so a change of theirs is felt
// there and nowhere else.

type (
	AST  = ast.Policy
	Node = ast.IsNode

	ConditionNode = ast.ConditionType

	NodeIf           = ast.NodeTypeIfThenElse
	NodeOr           = ast.NodeTypeOr
	NodeAnd          = ast.NodeTypeAnd
	NodeLess         = ast.NodeTypeLessThan
	NodeLessEqual    = ast.NodeTypeLessThanOrEqual
	NodeGreater      = ast.NodeTypeGreaterThan
	NodeGreaterEqual = ast.NodeTypeGreaterThanOrEqual
	NodeEqual        = ast.NodeTypeEquals
	NodeNotEqual     = ast.NodeTypeNotEquals
	NodeHas          = ast.NodeTypeHas
	nodeHasTag       = ast.NodeTypeHasTag
	nodeGetTag       = ast.NodeTypeGetTag
	NodeAccess       = ast.NodeTypeAccess
	NodeAdd          = ast.NodeTypeAdd
	NodeSub          = ast.NodeTypeSub
	NodeMult         = ast.NodeTypeMult
	NodeNegate       = ast.NodeTypeNegate
	NodeNot          = ast.NodeTypeNot
	NodeContains     = ast.NodeTypeContains
	NodeContainsAll  = ast.NodeTypeContainsAll
	NodeContainsAny  = ast.NodeTypeContainsAny
	NodeIsEmpty      = ast.NodeTypeIsEmpty
	nodeCall         = ast.NodeTypeExtensionCall
	NodeValue        = ast.NodeValue
	nodeIn           = ast.NodeTypeIn
	nodeIs           = ast.NodeTypeIs
	nodeIsIn         = ast.NodeTypeIsIn
	NodeLike         = ast.NodeTypeLike
	NodeSet          = ast.NodeTypeSet
	NodeRecord       = ast.NodeTypeRecord
	nodeBinary       = ast.BinaryNode
	NodeVariable     = ast.NodeTypeVariable

	ScopeAll   = ast.ScopeTypeAll
	ScopeEq    = ast.ScopeTypeEq
	ScopeIn    = ast.ScopeTypeIn
	ScopeInSet = ast.ScopeTypeInSet
	ScopeIs    = ast.ScopeTypeIs
	ScopeIsIn  = ast.ScopeTypeIsIn
	ScopeNode  = ast.IsScopeNode

	Env = eval.Env
)

// astOf returns the syntax tree of a parsed policy.
func astOf(p *cedar.Policy) *AST { return (*AST)(p.AST()) }

// inspect walks a tree depth first, in source order, while visit says so.
func inspect(n Node, visit func(Node) bool) { ast.Inspect(ast.NewNode(n), visit) }

// Eval evaluates one expression.
func Eval(n Node, env Env) (types.Value, error) { return eval.Eval(n, env) }

// Same reports whether two expressions are the same tree.
func Same(a, b Node) bool { return ast.Equal(ast.NewNode(a), ast.NewNode(b)) }

// WhenNode is the condition when { n }.
func WhenNode(n Node) ConditionNode {
	return ConditionNode{Condition: ast.ConditionWhen, Body: n}
}

// AnyTypeNode is a condition that type-checks n and takes any type.
func AnyTypeNode(n Node) ConditionNode {
	set := ast.NodeTypeSet{Elements: []Node{n}}
	return WhenNode(ast.NodeTypeIsEmpty{UnaryNode: ast.UnaryNode{Arg: set}})
}
