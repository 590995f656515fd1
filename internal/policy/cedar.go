package policy

import (
	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/cedar-policy/cedar-go/x/exp/eval"
	"github.com/cedar-policy/cedar-go/x/exp/schema"
	schemaast "github.com/cedar-policy/cedar-go/x/exp/schema/ast"
	"github.com/cedar-policy/cedar-go/x/exp/schema/resolved"
	"github.com/cedar-policy/cedar-go/x/exp/schema/validate"
)

// This is the one file that names cedar-go's x/exp packages: they are outside
// its promise of compatibility, so a change of theirs is felt here and
// nowhere else.

type (
	astPolicy = ast.Policy
	astNode   = ast.IsNode

	conditionNode = ast.ConditionType

	nodeIf           = ast.NodeTypeIfThenElse
	nodeOr           = ast.NodeTypeOr
	nodeAnd          = ast.NodeTypeAnd
	nodeLess         = ast.NodeTypeLessThan
	nodeLessEqual    = ast.NodeTypeLessThanOrEqual
	nodeGreater      = ast.NodeTypeGreaterThan
	nodeGreaterEqual = ast.NodeTypeGreaterThanOrEqual
	nodeEqual        = ast.NodeTypeEquals
	nodeNotEqual     = ast.NodeTypeNotEquals
	nodeHas          = ast.NodeTypeHas
	nodeHasTag       = ast.NodeTypeHasTag
	nodeGetTag       = ast.NodeTypeGetTag
	nodeAccess       = ast.NodeTypeAccess
	nodeAdd          = ast.NodeTypeAdd
	nodeSub          = ast.NodeTypeSub
	nodeMult         = ast.NodeTypeMult
	nodeNegate       = ast.NodeTypeNegate
	nodeNot          = ast.NodeTypeNot
	nodeContains     = ast.NodeTypeContains
	nodeContainsAll  = ast.NodeTypeContainsAll
	nodeContainsAny  = ast.NodeTypeContainsAny
	nodeIsEmpty      = ast.NodeTypeIsEmpty
	nodeCall         = ast.NodeTypeExtensionCall
	nodeValue        = ast.NodeValue
	nodeIn           = ast.NodeTypeIn
	nodeIs           = ast.NodeTypeIs
	nodeIsIn         = ast.NodeTypeIsIn
	nodeLike         = ast.NodeTypeLike
	nodeSet          = ast.NodeTypeSet
	nodeRecord       = ast.NodeTypeRecord
	nodeBinary       = ast.BinaryNode
	nodeVariable     = ast.NodeTypeVariable

	scopeAll   = ast.ScopeTypeAll
	scopeEq    = ast.ScopeTypeEq
	scopeIn    = ast.ScopeTypeIn
	scopeInSet = ast.ScopeTypeInSet
	scopeIs    = ast.ScopeTypeIs
	scopeIsIn  = ast.ScopeTypeIsIn
	scopeNode  = ast.IsScopeNode

	evalEnv = eval.Env

	schemaType      = schemaast.IsType
	schemaRecord    = schemaast.RecordType
	schemaAttribute = schemaast.Attribute
	schemaSet       = schemaast.SetType
	schemaString    = schemaast.StringType
	schemaLong      = schemaast.LongType
	schemaBool      = schemaast.BoolType

	resolvedSchema = resolved.Schema
	resolvedRecord = resolved.RecordType
	resolvedEntity = resolved.EntityType
	validator      = validate.Validator
)

// astOf returns the syntax tree of a parsed policy.
func astOf(p *cedar.Policy) *astPolicy { return (*astPolicy)(p.AST()) }

// inspect walks a tree depth first, in source order, while visit says so.
func inspect(n astNode, visit func(astNode) bool) { ast.Inspect(ast.NewNode(n), visit) }

// evalNode evaluates one expression.
func evalNode(n astNode, env evalEnv) (types.Value, error) { return eval.Eval(n, env) }

// nodesEqual reports whether two expressions are the same tree.
func nodesEqual(a, b astNode) bool { return ast.Equal(ast.NewNode(a), ast.NewNode(b)) }

func newValidator(s *resolvedSchema) *validator { return validate.New(s, validate.WithStrict()) }

// parseSchema reads the fixed part of the vocabulary.
func parseSchema(name string, text []byte) (*schemaast.Schema, error) {
	var s schema.Schema
	s.SetFilename(name)
	if err := s.UnmarshalCedar(text); err != nil {
		return nil, err
	}
	return s.AST(), nil
}

// resolveSchema checks a schema and returns it resolved, with its text in
// Cedar's own form, which is the same for equal schemas.
func resolveSchema(in *schemaast.Schema) (*resolvedSchema, []byte, error) {
	s := schema.NewSchemaFromAST(in)
	r, err := s.Resolve()
	if err != nil {
		return nil, nil, err
	}
	text, err := s.MarshalCedar()
	if err != nil {
		return nil, nil, err
	}
	return r, text, nil
}

// addToolAction declares the action of one tool, whose context is the common
// one plus the tool's typed arguments.
func addToolAction(s *schemaast.Schema, name types.String, common schemaRecord, args schemaRecord) {
	context := make(schemaRecord, len(common)+1)
	for k, v := range common {
		context[k] = v
	}
	context["args"] = schemaAttribute{Type: args}
	principals := make([]schemaast.EntityTypeRef, 0, len(principalTypes))
	for _, t := range principalTypes {
		principals = append(principals, schemaast.EntityType(t))
	}
	s.Actions[name] = schemaast.Action{
		Parents: []schemaast.ParentRef{schemaast.ParentRefFromID(toolGroup)},
		AppliesTo: &schemaast.AppliesTo{
			Principals: principals,
			Resources:  []schemaast.EntityTypeRef{typeTool},
			Context:    context,
		},
	}
}

// addRecordType declares a common type.
func addRecordType(s *schemaast.Schema, name string, fields schemaRecord) {
	s.CommonTypes[schemaast.Ident(name)] = schemaast.CommonType{Type: fields}
}

// commonRecord returns the declared common type of that name.
func commonRecord(s *schemaast.Schema, name string) schemaRecord {
	fields, _ := s.CommonTypes[schemaast.Ident(name)].Type.(schemaRecord)
	return fields
}

// whenNode is the condition when { n }.
func whenNode(n astNode) conditionNode {
	return conditionNode{Condition: ast.ConditionWhen, Body: n}
}

// anyTypeNode is a condition that type-checks n and takes any type.
func anyTypeNode(n astNode) conditionNode {
	set := ast.NodeTypeSet{Elements: []astNode{n}}
	return whenNode(ast.NodeTypeIsEmpty{UnaryNode: ast.UnaryNode{Arg: set}})
}
