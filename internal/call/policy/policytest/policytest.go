// Package policytest builds real policy sets for the tests of other packages: a few tools and
// members, the embedded default policies, and the test's additions.
package policytest

import (
	"encoding/json"
	"testing"
	"time"

	"palyra/internal/call/policy"
	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/provenance"
	"palyra/internal/core/tool"
)

// The tools of every set in this package.
var (
	// Read is not sensitive: it runs without an approval.
	Read = tool.Descriptor{
		Name: "fs.read", Title: "Read a file", Executor: tool.Builtin, ReadOnly: true,
		Capabilities: []tool.Capability{tool.FilesystemRead},
		InputSchema: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["path"],` +
			`"properties":{"path":{"type":"string"},"workspace":{"type":"string"},"limit":{"type":"integer"}}}`),
	}
	// Run is sensitive and destructive: it asks.
	Run = tool.Descriptor{
		Name: "process.run", Title: "Run a program", Executor: tool.TierCBubblewrap, Destructive: true,
		Capabilities: []tool.Capability{tool.ProcessExec},
		InputSchema: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["argv"],` +
			`"properties":{"argv":{"type":"array","items":{"type":"string"}},"timeout_ms":{"type":"integer"}}}`),
	}
	// Fetch is sensitive and not destructive: it asks.
	Fetch = tool.Descriptor{
		Name: "http.fetch", Title: "Fetch a URL", Executor: tool.Builtin, OpenWorld: true,
		Capabilities: []tool.Capability{tool.Network},
		InputSchema: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["url"],` +
			`"properties":{"url":{"type":"string"},"method":{"type":"string","enum":["GET","POST"]},` +
			`"headers":{"type":"object","additionalProperties":{"type":"string"}}}}`),
	}
)

// The members of every set in this package.
var (
	Alice = access.User("alice") // owner
	Bob   = access.User("bob")   // operator, only with Options.TwoUsers
	Agent = access.Agent("coder")
)

// Now is the time of requests in this package.
var Now = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)

// Options changes a set. The zero value has one user, alice, who is an owner; one agent, coder;
// and the tools Read, Run and Fetch.
type Options struct {
	// Policies is Cedar text that is loaded after the defaults.
	Policies string
	// TwoUsers adds bob, who is an operator.
	TwoUsers bool
	// Members and Tools are added to the default ones.
	Members []access.Member
	Tools   []tool.Descriptor
	// Provenance records who created whom; nil means an empty history.
	Provenance provenance.History
	// Roles are declared in addition to the built-in ones.
	Roles      []access.Role
	Workspaces []string
	Snapshot   policy.Snapshot
	// Surfaces and NoPresence are fields of policy.Config.
	Surfaces   []access.Surface
	NoPresence bool
}

// Config returns the configuration that Set loads.
func Config(o Options) policy.Config {
	members := []access.Member{
		{Principal: Alice, Roles: []access.Role{access.RoleOwner}, CreatedAt: Now},
		{Principal: Agent, Owner: Alice, Roles: []access.Role{access.RoleAgent}, CreatedAt: Now},
	}
	if o.TwoUsers {
		members = append(members, access.Member{Principal: Bob, Roles: []access.Role{access.RoleOperator}, CreatedAt: Now})
	}
	cfg := policy.Config{
		Tools:       append([]tool.Descriptor{Read, Run, Fetch}, o.Tools...),
		Members:     append(members, o.Members...),
		Controllers: o.Provenance.Controllers(),
		Roles:       o.Roles,
		Workspaces:  append([]string{"default"}, o.Workspaces...),
		Snapshot:    o.Snapshot,
		Surfaces:    o.Surfaces, NoPresence: o.NoPresence,
	}
	if cfg.Snapshot.MaxCallsPerRun == 0 {
		cfg.Snapshot.MaxCallsPerRun = 200
	}
	if o.Policies != "" {
		cfg.Sources = []policy.Source{{Name: "test.cedar", Text: o.Policies}}
	}
	return cfg
}

// Set loads a set or fails the test.
func Set(t testing.TB, o Options) *policy.Set {
	t.Helper()
	return must.Get(policy.Load(Config(o)))(t)
}

// Engine returns an engine with the set that Set returns.
func Engine(t testing.TB, o Options) *policy.Engine {
	t.Helper()
	return policy.NewEngine(Set(t, o))
}

// Request returns a call of a tool by the agent on behalf of alice.
func Request(name, args string) policy.Request {
	return policy.Request{
		Caller: access.Caller{
			Principal: Agent, OnBehalfOf: Alice, Roles: []access.Role{access.RoleAgent},
			DeviceID: "01JNTESTDEVICE0000000000000", Surface: access.SurfaceGRPC, Paired: true,
		},
		Tool: name, Args: json.RawMessage(args), Session: "session-1", Run: "run-1",
		Facts: tool.Facts{Workspace: "default", SandboxTier: "builtin", SandboxLevel: "none"},
		Time:  Now,
	}
}

// Vote is an approving vote of a user with the given roles, on the CLI, just before Now.
func Vote(user access.Principal, roles ...access.Role) policy.Vote {
	return policy.Vote{User: user, Roles: roles, Surface: access.SurfaceCLI, Paired: true, At: Now}
}

// Approval counts votes at Now.
func Approval(votes ...policy.Vote) policy.Approval {
	return policy.Approval{Votes: votes, Now: Now}
}

// ManyMembers returns the options of a set with four users: alice, bob, and two with the role
// security, carol and dave.
func ManyMembers(policies string) Options {
	security := []access.Role{access.RoleOperator, "security"}
	return Options{
		Policies: policies, TwoUsers: true, Roles: []access.Role{"security"},
		Members: []access.Member{
			{Principal: access.User("carol"), Roles: security},
			{Principal: access.User("dave"), Roles: security},
		},
	}
}
