package policy

import (
	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/access"
)

// Entity types of the vocabulary.
const (
	typeAction       types.EntityType = "Action"
	typeRole         types.EntityType = "Role"
	typePrincipalSet types.EntityType = "PrincipalSet"
	typeUser         types.EntityType = "User"
	typeAgent        types.EntityType = "Agent"
	typeService      types.EntityType = "Service"
	typeDevice       types.EntityType = "Device"
	typeNode         types.EntityType = "Node"
	typeToolSet      types.EntityType = "ToolSet"
	typeServer       types.EntityType = "Server"
	typeTool                          = "Tool"
	typeWorkspace    types.EntityType = "Workspace"
	typeChannelSet   types.EntityType = "ChannelSet"
	typeChannel      types.EntityType = "Channel"
	typeSkillSet     types.EntityType = "SkillSet"
	typeSkill        types.EntityType = "Skill"
	typeApproval     types.EntityType = "Approval"
	typePolicy       types.EntityType = "Policy"
	typeGateway      types.EntityType = "Gateway"
)

var principalTypes = []types.EntityType{typeUser, typeAgent, typeDevice, typeNode, typeService}

var typeOfKind = map[access.Kind]types.EntityType{
	access.KindUser:    typeUser,
	access.KindAgent:   typeAgent,
	access.KindDevice:  typeDevice,
	access.KindNode:    typeNode,
	access.KindService: typeService,
}

const (
	// toolGroup is the action that all tool.execute/<tool> are in.
	toolGroup = "tool.execute"
	// toolPrefix begins the action of one tool.
	toolPrefix = toolGroup + "/"
	// unknownTool stands for every tool without a pin. It cannot be a tool's
	// name.
	unknownTool = "(unknown)"
	// setAllowed and setActive are the members of the *Set entities.
	setAllowed = "allowed"
	setActive  = "active"
	// gatewayID is the id of the resource of actions that have no other.
	gatewayID = "palyra"
	// anyRole is the role under which every vote is listed.
	anyRole = "*"
	// nobody is the id of the owner of an agent that is not registered.
	nobody = "(nobody)"
)

// The permissions that the gateway asks about, each a Cedar action. The
// vocabulary has more, for policies that are written ahead.
const (
	PermToolList           access.Permission = "tool.list"
	PermToolCall           access.Permission = "tool.call"
	PermToolEvaluate       access.Permission = "tool.evaluate"
	PermDaemonStatus       access.Permission = "daemon.status"
	PermApprovalRead       access.Permission = "approval.read"
	PermApprovalDecide     access.Permission = "approval.decide"
	PermApprovalExport     access.Permission = "approval.export"
	PermApprovalGrantBroad access.Permission = "approval.grant_broad"
	PermGrantRead          access.Permission = "grant.read"
	PermGrantRevoke        access.Permission = "grant.revoke"
	PermPolicyRead         access.Permission = "policy.read"
	PermPolicyCheck        access.Permission = "policy.check"
	PermPolicyExplain      access.Permission = "policy.explain"
	PermPolicySnapshot     access.Permission = "policy.snapshot"
	PermPolicyActivate     access.Permission = "policy.activate"
	PermJournalRead        access.Permission = "journal.read"
	PermJournalTail        access.Permission = "journal.tail"
	PermJournalProve       access.Permission = "journal.prove"
	PermJournalExport      access.Permission = "journal.export"
	PermAttestationRead    access.Permission = "attestation.read"
	PermAttestationVerify  access.Permission = "attestation.verify"
	PermAccessRead         access.Permission = "access.read"
	PermAccessWrite        access.Permission = "access.write"
	PermAccessWriteOwner   access.Permission = "access.write_owner"
	PermPolicySimulate     access.Permission = "policy.simulate"
	PermPolicyTest         access.Permission = "policy.test"
	PermRunStart           access.Permission = "run.start"
	PermRunRead            access.Permission = "run.read"
	PermRunCancel          access.Permission = "run.cancel"
	PermGatewayFreeze      access.Permission = "gateway.freeze"
	PermGatewayThaw        access.Permission = "gateway.thaw"
	PermWorkspaceRead      access.Permission = "workspace.read"
	PermWorkspaceUndo      access.Permission = "workspace.undo"
)
