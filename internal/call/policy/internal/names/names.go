// Package names has the names of the vocabulary beside facts: types of entities,
// the sets and actions that the code itself speaks of.
package names

import (
	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/core/access"
)

// Entity types of the vocabulary.
const (
	TypeAction       types.EntityType = "Action"
	TypeRole         types.EntityType = "Role"
	TypePrincipalSet types.EntityType = "PrincipalSet"
	TypeUser         types.EntityType = "User"
	TypeAgent        types.EntityType = "Agent"
	typeService      types.EntityType = "Service"
	typeDevice       types.EntityType = "Device"
	typeNode         types.EntityType = "Node"
	TypeToolSet      types.EntityType = "ToolSet"
	TypeServer       types.EntityType = "Server"
	TypeTool                          = "Tool"
	TypeWorkspace    types.EntityType = "Workspace"
	TypeChannelSet   types.EntityType = "ChannelSet"
	TypeChannel      types.EntityType = "Channel"
	TypeSkillSet     types.EntityType = "SkillSet"
	TypeSkill        types.EntityType = "Skill"
	TypeApproval     types.EntityType = "Approval"
	TypeSecret       types.EntityType = "Secret"
	TypePolicy       types.EntityType = "Policy"
	TypeGateway      types.EntityType = "Gateway"
)

// UpstreamActions are the groups in UpstreamGroup: names of tools that the gateway makes
// for each upstream server.
var UpstreamActions = []string{
	"mcp.complete", "mcp.elicit", "mcp.get_prompt", "mcp.list_resources", "mcp.list_roots", "mcp.read_resource", "mcp.sample", "mcp.start", "mcp.subscribe",
}

// PrincipalTypes are the types of those who act.
var PrincipalTypes = []types.EntityType{TypeUser, TypeAgent, typeDevice, typeNode, typeService}

var typeOfKind = map[access.Kind]types.EntityType{
	access.KindUser:    TypeUser,
	access.KindAgent:   TypeAgent,
	access.KindDevice:  typeDevice,
	access.KindNode:    typeNode,
	access.KindService: typeService,
}

const (
	// ToolGroup is the action that all tool.execute/<tool> are in.
	ToolGroup = "tool.execute"
	// CommitAction is what a change set is decided under.
	CommitAction = "workspace.commit"
	// InjectAction is what it is decided under that a program gets a secret as it is.
	InjectAction = "secret.inject"
	// SkillAction is what it is decided under that a skill runs at all.
	SkillAction = "skill.execute"
	// UpstreamGroup is the group of what an upstream server is asked beside its tools:
	// "<server>/mcp.elicit" is in "mcp.elicit" and in this.
	UpstreamGroup = "mcp.*"
	// ToolPrefix begins the action of one tool.
	ToolPrefix = ToolGroup + "/"
	// UnknownTool stands for every tool without a pin. It cannot be a tool's
	// name.
	UnknownTool = "(unknown)"
	// SetAllowed is the member of a set entity that holds what is allowed.
	SetAllowed = "allowed"
	// SetActive is the member of a set entity that holds what is active.
	SetActive = "active"
	// GatewayID is the id of the resource of actions that have no other.
	GatewayID = "palyra"
	// AnyRole is the role under which every vote is listed.
	AnyRole = "*"
	// Nobody is the id of the owner of an agent that is not registered.
	Nobody = "(nobody)"
)

// UID is the entity of a principal.
func UID(p access.Principal) types.EntityUID {
	return types.NewEntityUID(typeOfKind[p.Kind], types.String(p.Name))
}
