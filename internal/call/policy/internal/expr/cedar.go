// Package expr parses policies into tokens and expressions, which are aligned with the tokens
// so that every expression has a position. It reads annotations, and evaluates expressions of
// which only some inputs are known.
package expr

import (
	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/cedar-policy/cedar-go/x/exp/eval"
)

// Only this file and package schema import cedar-go's x/exp packages. These are outside its
// promise of compatibility, so their changes affect only these places.

type (
	// AST is the syntax tree of a policy.
	AST = ast.Policy
	// Node is a node of an expression.
	Node = ast.IsNode

	// ConditionNode is one when or unless of a policy.
	ConditionNode = ast.ConditionType

	// NodeIf is if, then and else.
	NodeIf = ast.NodeTypeIfThenElse
	// NodeOr is ||.
	NodeOr = ast.NodeTypeOr
	// NodeAnd is &&.
	NodeAnd = ast.NodeTypeAnd
	// NodeLess is <.
	NodeLess = ast.NodeTypeLessThan
	// NodeLessEqual is <=.
	NodeLessEqual = ast.NodeTypeLessThanOrEqual
	// NodeGreater is >.
	NodeGreater = ast.NodeTypeGreaterThan
	// NodeGreaterEqual is >=.
	NodeGreaterEqual = ast.NodeTypeGreaterThanOrEqual
	// NodeEqual is ==.
	NodeEqual = ast.NodeTypeEquals
	// NodeNotEqual is !=.
	NodeNotEqual = ast.NodeTypeNotEquals
	// NodeHas is has: whether a record has an attribute.
	NodeHas    = ast.NodeTypeHas
	nodeHasTag = ast.NodeTypeHasTag
	nodeGetTag = ast.NodeTypeGetTag
	// NodeAccess is an attribute of a record or entity.
	NodeAccess = ast.NodeTypeAccess
	// NodeAdd is +.
	NodeAdd = ast.NodeTypeAdd
	// NodeSub is the binary -.
	NodeSub = ast.NodeTypeSub
	// NodeMult is *.
	NodeMult = ast.NodeTypeMult
	// NodeNegate is the unary -.
	NodeNegate = ast.NodeTypeNegate
	// NodeNot is !.
	NodeNot = ast.NodeTypeNot
	// NodeContains is contains of a set.
	NodeContains = ast.NodeTypeContains
	// NodeContainsAll is containsAll of a set.
	NodeContainsAll = ast.NodeTypeContainsAll
	// NodeContainsAny is containsAny of a set.
	NodeContainsAny = ast.NodeTypeContainsAny
	// NodeIsEmpty is isEmpty of a set.
	NodeIsEmpty = ast.NodeTypeIsEmpty
	nodeCall    = ast.NodeTypeExtensionCall
	// NodeValue is a literal.
	NodeValue = ast.NodeValue
	nodeIn    = ast.NodeTypeIn
	nodeIs    = ast.NodeTypeIs
	nodeIsIn  = ast.NodeTypeIsIn
	// NodeLike is like, with * as the wildcard.
	NodeLike = ast.NodeTypeLike
	// NodeSet is a set that is written out.
	NodeSet = ast.NodeTypeSet
	// NodeRecord is a record that is written out.
	NodeRecord = ast.NodeTypeRecord
	nodeBinary = ast.BinaryNode
	// NodeVariable is principal, action, resource or context.
	NodeVariable = ast.NodeTypeVariable

	// ScopeAll is a scope without a condition.
	ScopeAll = ast.ScopeTypeAll
	// ScopeEq is a scope with ==.
	ScopeEq = ast.ScopeTypeEq
	// ScopeIn is a scope with in and one entity.
	ScopeIn = ast.ScopeTypeIn
	// ScopeInSet is a scope with in and a set of entities.
	ScopeInSet = ast.ScopeTypeInSet
	// ScopeIs is a scope with is.
	ScopeIs = ast.ScopeTypeIs
	// ScopeIsIn is a scope with is and in.
	ScopeIsIn = ast.ScopeTypeIsIn
	// ScopeNode is the scope of a principal, action or resource.
	ScopeNode = ast.IsScopeNode

	// Env is the environment for evaluating an expression.
	Env = eval.Env
)

// astOf returns the syntax tree of a parsed policy.
func astOf(p *cedar.Policy) *AST { return (*AST)(p.AST()) }

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
