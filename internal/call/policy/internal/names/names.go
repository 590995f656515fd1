// Package names defines the names of the vocabulary other than facts: entity types, and the
// sets and actions that the code refers to.
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

var typeOfKind = map[access.Kind]types.EntityType{
	access.KindUser:    TypeUser,
	access.KindAgent:   TypeAgent,
	access.KindDevice:  typeDevice,
	access.KindNode:    typeNode,
	access.KindService: typeService,
}

const (
	// ToolGroup is the group of all actions tool.execute/<tool>.
	ToolGroup = "tool.execute"
	// CommitAction is the action of a change set.
	CommitAction = "workspace.commit"
	// InjectAction is the action of passing a secret to a program in plain text.
	InjectAction = "secret.inject"
	// SkillAction is the action of running a skill at all.
	SkillAction = "skill.execute"
	// ToolPrefix is the prefix of the action of one tool.
	ToolPrefix = ToolGroup + "/"
	// UnknownTool stands for every tool without a pin. It is not a valid tool name.
	UnknownTool = "(unknown)"
	// GatewayID is the id of the resource of actions without another resource.
	GatewayID = "palyra"
	// AnyRole is the role under which every vote is listed.
	AnyRole = "*"
	// Nobody is the owner id of an unregistered agent.
	Nobody = "(nobody)"
)

// UID returns the entity of a principal.
func UID(p access.Principal) types.EntityUID {
	return types.NewEntityUID(typeOfKind[p.Kind], types.String(p.Name))
}
