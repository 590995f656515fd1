package access

import (
	"fmt"
	"slices"
	"time"

	"palyra/internal/core/lazyregexp"
	"palyra/internal/core/reason"
)

// Role is a name that policies refer to. The built-in roles have permissions
// through the default access policies. A role that an operator adds, such as
// "security", has none by itself; it is for rules such as "two votes of security".
type Role string

// The built-in roles.
const (
	RoleOwner     Role = "owner"
	RoleAdmin     Role = "admin"
	RoleOperator  Role = "operator"
	RoleAuditor   Role = "auditor"
	RoleDeveloper Role = "developer"
	RoleAgent     Role = "agent"
)

// BuiltinRoles are the roles that always exist, in descending power.
var BuiltinRoles = []Role{RoleOwner, RoleAdmin, RoleOperator, RoleAuditor, RoleDeveloper, RoleAgent}

var roleForm = lazyregexp.New(`^[a-z][a-z0-9_]{0,31}$`)

// ParseRole checks the form of a role name: 1 to 32 of [a-z0-9_], beginning
// with a letter, so that it can be an attribute name in Cedar.
func ParseRole(s string) (Role, error) {
	if !roleForm.MatchString(s) {
		return "", fmt.Errorf("role %q: a role is 1 to 32 of a-z, 0-9 and '_' and begins with a letter", s)
	}
	return Role(s), nil
}

// For reports whether members of a kind can hold the role: an agent runs tools and makes no decisions,
// and a delegate is not a user.
func (r Role) For(k Kind) bool {
	switch k {
	case KindUser:
		return r != RoleAgent
	case KindAgent:
		return r == RoleAgent || !slices.Contains(BuiltinRoles, r)
	default:
		return false
	}
}

// Surface is the kind of interface that a vote or a call came from.
type Surface string

// The surfaces.
const (
	SurfaceConsole  Surface = "console"
	SurfaceCLI      Surface = "cli"
	SurfaceTUI      Surface = "tui"
	SurfaceGRPC     Surface = "grpc"
	SurfaceStream   Surface = "stream"
	SurfaceInClient Surface = "in_client"
	SurfaceWebhook  Surface = "webhook"
	SurfaceSlack    Surface = "slack"
	// SurfaceMCP is the surface of MCP clients; it accepts no votes.
	SurfaceMCP Surface = "mcp"
)

// Transport is how a caller reached the gateway.
type Transport string

// TransportSocket is the Unix socket on the gateway's host. Its callers are neither paired nor
// present: the operating system identifies the user of the process, and no key is involved.
const TransportSocket Transport = "socket"

// SurfaceHeader is the header with which a client may name its kind: "cli". It is unverified, and
// no policy fact depends on it.
const SurfaceHeader = "Palyra-Surface"

// Permission is a Cedar action of the API's access rules, such as
// "approval.decide".
type Permission string

// Member is a known principal: a user, or an agent that acts for one.
type Member struct {
	Principal Principal `json:"principal"`
	// Owner is the user that an agent acts on behalf of; zero for a user.
	Owner    Principal `json:"owner"`
	Roles    []Role    `json:"roles"`
	Disabled bool      `json:"disabled"`
	// NoDevice is true for a member whose devices are all revoked. The Registry sets it from the
	// known devices and ignores the value passed to Put.
	NoDevice bool `json:"no_device,omitempty"`
	// AwaitsConsent is true for an agent whose owner has not yet agreed that the agent acts in
	// their name.
	AwaitsConsent bool `json:"awaits_consent,omitempty"`
	// CreatedAt is in UTC.
	CreatedAt time.Time `json:"created_at"`
	// RemovedAt is the time of removal in UTC, zero for a member that was not removed. A removed
	// member remains known, because the journal, votes and grants name it. It is disabled
	// permanently.
	RemovedAt time.Time `json:"removed_at,omitzero"`
}

// Removed reports whether m was removed for good.
func (m Member) Removed() bool { return !m.RemovedAt.IsZero() }

// Waiting returns the error for a member that may not act because it awaits consent. Its reason
// is Unauthenticated.
func (m Member) Waiting() *reason.Error {
	return reason.Errorf(reason.Unauthenticated, "%s waits for the consent of %s", m.Principal, m.Owner).
		WithRemedy("%s agrees that it acts in their name: `palyra members consent %s`.", m.Owner, m.Principal)
}

// Holds reports whether m has the role and is not disabled.
func (m Member) Holds(r Role) bool { return !m.Disabled && slices.Contains(m.Roles, r) }

// CanVote reports whether m could cast a vote if policy permits it: m is a user that is not
// disabled and has a device.
func (m Member) CanVote() bool {
	return m.Principal.Kind == KindUser && !m.Disabled && !m.NoDevice
}

// Decides reports whether m is an approver: it can vote and holds a role that decides. A single
// approver also answers their own calls; with two or more, another approver must. An operator's
// policies may permit further approvers (package policy); no other code defines approvers.
func (m Member) Decides() bool {
	return m.CanVote() && slices.ContainsFunc(m.Roles, Role.Decides)
}

// Decides reports whether the default policies let the role answer approvals.
func (r Role) Decides() bool { return r == RoleOwner || r == RoleAdmin || r == RoleOperator }

// Caller is an authenticated principal, with its credential, surface and transport. It is
// created from a credential, never from a header or a message field.
type Caller struct {
	Principal Principal `json:"principal"`
	// OnBehalfOf is the user responsible for the call: the principal itself if it is a user, the
	// owner if it is an agent.
	OnBehalfOf Principal `json:"on_behalf_of"`
	Roles      []Role    `json:"roles"`
	// DeviceID is the ULID of the device whose certificate was presented, or of the token. Both
	// share this field, so that revoking a credential of either kind ends its sessions, streams
	// and runs.
	DeviceID string  `json:"device_id"`
	Surface  Surface `json:"surface"`
	// Paired is true for a device that holds its own key and certificate.
	Paired bool `json:"paired"`
	// Present is true when the person proved their presence. Only votes can have it, by the proof
	// that each vote carries (docs/identity.md); no credential sets it.
	Present bool `json:"present"`
	// Transport is TransportSocket for a caller on the local operator's socket, "" for a caller
	// over TLS.
	Transport Transport `json:"transport,omitempty"`
	// Address is the peer's network address, for rate limits and logs.
	Address string `json:"-"`
	// Token limits a caller with an API token; nil for a caller with a certificate.
	Token *TokenBounds `json:"-"`
}

// Caller returns the caller that a credential of the member represents. deviceID is the id of
// the device or token.
func (m Member) Caller(deviceID string) Caller {
	c := Caller{Principal: m.Principal, OnBehalfOf: m.Principal, Roles: m.Roles, DeviceID: deviceID}
	if m.Principal.Kind == KindAgent {
		c.OnBehalfOf = m.Owner
	}
	return c
}

// Reduced returns an error if work started by c must stop. now is the caller that the
// credential currently represents. Work must stop if now is another member, acts for another
// user, or lacks a role of c. The error's reason is Unauthenticated.
func (c Caller) Reduced(now Caller) error {
	same := now.Principal == c.Principal && now.OnBehalfOf == c.OnBehalfOf
	if same && !slices.ContainsFunc(c.Roles, func(r Role) bool { return !slices.Contains(now.Roles, r) }) {
		return nil
	}
	return reason.Errorf(reason.Unauthenticated, "the permissions of %s were changed", c.Principal).WithRemedy("Connect again.")
}

// TokenBounds limit the use of a token: to its scopes, and to the current permissions of its
// creator.
type TokenBounds struct {
	Scopes    []Permission
	Creator   Principal
	ExpiresAt time.Time
	// Issuer is the issuer of the token, "" for the gateway itself.
	Issuer string
}
