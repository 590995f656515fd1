package names

import "github.com/cedar-policy/cedar-go/types"

// Names that only the schema and the entities of a set use.
const (
	// UpstreamGroup is the group of requests of an upstream server other than tool calls:
	// "<server>/mcp.elicit" is in "mcp.elicit" and in this group.
	UpstreamGroup = "mcp.*"
	// SetAllowed is the member of a set entity for allowed entities.
	SetAllowed = "allowed"
	// SetActive is the member of a set entity for active entities.
	SetActive = "active"
)

// UpstreamActions are the groups in UpstreamGroup: names of tools that the gateway creates for
// each upstream server.
var UpstreamActions = []string{
	"mcp.complete", "mcp.elicit", "mcp.get_prompt", "mcp.list_resources", "mcp.list_roots", "mcp.read_resource", "mcp.sample", "mcp.start", "mcp.subscribe",
}

// PrincipalTypes are the types of principals.
var PrincipalTypes = []types.EntityType{TypeUser, TypeAgent, typeDevice, typeNode, typeService}
