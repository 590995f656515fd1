package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/exec/program/envsecret"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/upstream/declared"
	"palyra/internal/vault"
)

// Risk of a call of an upstream server; docs/upstreams.md has the table.
const (
	riskServer    = 30
	riskUntrusted = 15
	riskReaches   = 15
	riskWrites    = 10
	riskMeta      = 20
)

// proxied is one approved tool of an upstream server. It implements tool.Runnable.
type proxied struct {
	manager *Manager
	server  declared.Server
	// digest is the digest of the server's declaration.
	digest string
	// name is the server's own name of the tool.
	name       string
	descriptor tool.Descriptor
	// naming are the arguments that name another tool; see metaArguments.
	naming []string
	// ask makes the call of a tool that the gateway made (see ownTools); nil for a tool of the server.
	ask func(context.Context, sending) (got, error)
}

// describedTool makes the tool for a definition. The statements of the server are claims. Unless an
// operator trusts the server, its tools count as destructive, open-world and sensitive.
func describedTool(m *Manager, s declared.Server, digest string, d declared.Definition) (proxied, error) {
	var definition mcp.Tool
	if err := canonical.Read(d.Text, &definition); err != nil {
		return proxied{}, fmt.Errorf("reading the definition of %s/%s: %w", s.Name, d.Name, err)
	}
	extended, err := withMeta(definition.InputSchema, s.Meta)
	if err != nil {
		return proxied{}, err
	}
	if object, ok := extended.(map[string]any); ok && object["type"] != "object" {
		object = maps.Clone(object)
		object["type"], extended = "object", object // as clients expect it, and as calls are checked
	}
	schema, err := json.Marshal(extended)
	if err != nil {
		return proxied{}, fmt.Errorf("reading the schema of %s/%s: %w", s.Name, d.Name, err)
	}
	t := proxied{manager: m, server: s, digest: digest, name: d.Name, naming: metaArguments(d.Name, definition.InputSchema)}
	t.descriptor = tool.Descriptor{
		Name: s.Name + "/" + d.Name, Title: clean(titleOf(definition), 200),
		Description: "A tool of the upstream server " + s.Name + ", which describes it as follows: " + clean(definition.Description, mostDescription),
		InputSchema: schema, Capabilities: capabilities(s), Executor: tool.MCPUpstream,
		Destructive: true, OpenWorld: true, AlwaysSensitive: !s.Trusted || len(t.naming) > 0,
	}
	if a := definition.Annotations; s.Trusted && a != nil {
		t.descriptor.ReadOnly = a.ReadOnlyHint
		t.descriptor.Destructive = !a.ReadOnlyHint && (a.DestructiveHint == nil || *a.DestructiveHint)
		t.descriptor.OpenWorld = a.OpenWorldHint == nil || *a.OpenWorldHint
	}
	return t, nil
}

func titleOf(t mcp.Tool) string {
	if t.Title == "" && t.Annotations != nil {
		return t.Annotations.Title
	}
	return t.Title
}

// capabilities returns the capabilities that the operator gave the server. They do not depend on
// the server's statements.
func capabilities(s declared.Server) []tool.Capability {
	var list []tool.Capability
	if s.Remote() || len(s.Hosts) > 0 {
		list = append(list, tool.Network)
	}
	if len(s.SecretRefs()) > 0 || s.OAuth != nil {
		list = append(list, tool.SecretsRead)
	}
	switch {
	case s.Write:
		list = append(list, tool.FilesystemRead, tool.FilesystemWrite)
	case s.Workspace != "":
		list = append(list, tool.FilesystemRead)
	}
	return list
}

// Descriptor implements tool.Runnable.
func (t proxied) Descriptor() tool.Descriptor { return t.descriptor }

// Unusable returns the reason why no call can run, nil if calls can run.
func (t proxied) Unusable() error {
	k, err := t.manager.catalog.find(t.server.Name)
	if err != nil {
		return err
	}
	if c, is := declared.Suspends(k.changes, t.name); is {
		return suspended(t.server.Name+"/"+t.name, t.server.Name, c)
	}
	if !t.server.Remote() {
		return t.manager.Runs()
	}
	return nil
}

// Plan implements tool.Runnable.
func (t proxied) Plan(ctx context.Context, p tool.Proposal) (tool.Plan, error) {
	_, plan, err := t.prepare(ctx, p)
	return plan, err
}

// Prepare implements tool.Runnable. The program is checked again when an instance starts. A
// running instance was started from the bound program.
func (t proxied) Prepare(ctx context.Context, p tool.Proposal) (tool.Prepared, error) {
	l, plan, err := t.prepare(ctx, p)
	return l.prepared(plan, err, t.run)
}

// prepared returns the prepared call of a launch.
func (l launch) prepared(plan tool.Plan, err error, run func(context.Context, tool.Call, launch) tool.Report) (tool.Prepared, error) {
	if err != nil {
		return tool.Prepared{}, err
	}
	return tool.Prepared{Plan: plan, Run: func(ctx context.Context, c tool.Call) tool.Report { return run(ctx, c, l) }}, nil
}

func (t proxied) prepare(ctx context.Context, p tool.Proposal) (launch, tool.Plan, error) {
	if err := t.Unusable(); err != nil {
		return launch{}, tool.Plan{}, err
	}
	if err := errors.Join(t.checkMeta(p.Input), t.checkOwn(p.Input)); err != nil {
		return launch{}, tool.Plan{}, err
	}
	l, err := t.manager.launcher.launchFor(ctx, t.server, t.digest, p)
	if err != nil {
		return launch{}, tool.Plan{}, err
	}
	plan, err := t.plan(l)
	return l, plan, err
}

func (t proxied) plan(l launch) (tool.Plan, error) {
	plan := tool.Plan{
		Binding: tool.Binding{
			Argv: t.server.Command, Environment: slices.Concat(t.server.Environment(), bound(l.secrets), envsecret.Bound(l.injections)), Executable: l.program,
			SandboxProfile: "upstream server " + t.server.Name + ", declared as " + t.digest,
		},
		Facts: tool.Facts{
			Risk: t.risk(), SandboxTier: "builtin", SandboxLevel: sandbox.LevelNone, EgressMode: egress.Strict.String(), Secrets: names(l),
		},
		Preview:       tool.Preview{Notes: t.notes(l)},
		Subject:       t.descriptor.Name + " as declared " + t.digest,
		SubjectCovers: fmt.Sprintf("any call of the tool %s of the upstream server %s, any arguments", t.name, t.server.Name),
	}
	slices.Sort(plan.Binding.Environment)
	if len(t.naming) > 0 {
		plan.ExactOnly = t.descriptor.Name + " calls any tool that its arguments name"
	}
	if t.server.Remote() {
		return plan, t.planRemote(&plan)
	}
	return plan, t.planProgram(&plan, l)
}

func (t proxied) planRemote(plan *tool.Plan) error {
	u, target, err := t.server.Target()
	if err != nil {
		return err
	}
	plan.Binding.Egress = []string{target.String()}
	plan.Facts.Host, plan.Facts.Domain, plan.Facts.Port, plan.Facts.Method = target.Host.String(), target.Host.Domain(), int(target.Port), "POST"
	plan.Facts.EgressHosts = plan.Binding.Egress
	plan.Preview.Summary = fmt.Sprintf("Call the tool %s of the upstream server %s at %s.", t.name, t.server.Name, u.Redacted())
	plan.MaySend = mostMessage
	return nil
}

func (t proxied) planProgram(plan *tool.Plan, l launch) error {
	status := t.manager.use.Runner.Status()
	reach, err := t.server.Reach()
	if err != nil {
		return err
	}
	f := &plan.Facts
	f.Workspace, f.WorkspaceMode = t.server.Workspace, string(l.mode)
	f.SandboxTier, f.SandboxLevel = string(status.Tier), sandbox.Level(egress.Strict, status.Requested, status.Layers)
	f.SandboxRung, f.SandboxLayers, f.SandboxLimits, f.LandlockABI = string(status.Rung), slices.Sorted(slices.Values(status.Layers)), status.Limits, status.LandlockABI
	f.EgressHosts = reach.Hosts()
	if t.server.Workspace != "" {
		plan.Binding.Cwd = t.server.Workspace + ":."
	}
	reach.Secrets = l.secrets
	plan.Binding.Egress = append([]string{egress.Strict.String()}, reach.Lines()...)
	plan.Preview.Summary = fmt.Sprintf("Call the tool %s of the upstream server %s (%s, in a sandbox).", t.name, t.server.Name, strings.Join(t.server.Command, " "))
	if len(reach.Rules.Allow) > 0 {
		plan.MaySend = reach.Budget.OrDefault().BytesOut
	}
	return nil
}

func (t proxied) risk() int {
	risk := riskServer
	for _, part := range []struct {
		is   bool
		more int
	}{
		{!t.server.Trusted, riskUntrusted}, {t.server.Remote() || len(t.server.Hosts) > 0, riskReaches}, {t.server.Write, riskWrites}, {len(t.naming) > 0, riskMeta},
	} {
		if part.is {
			risk += part.more
		}
	}
	return risk
}

// notes are displayed to the approver.
func (t proxied) notes(l launch) []string {
	var notes []string
	if !t.server.Trusted {
		notes = append(notes, "The server is not trusted: its description of the tool is an unverified claim.")
	}
	if len(t.naming) > 0 {
		notes = append(notes, fmt.Sprintf("The tool calls other tools, which are named in the arguments %s.", strings.Join(t.naming, ", ")))
	}
	for _, s := range l.secrets {
		notes = append(notes, fmt.Sprintf("The server may use the secret %s for %s; it sees a placeholder.", s.Called(), egress.Named(s.Reach())))
	}
	for _, i := range l.injections {
		notes = append(notes, fmt.Sprintf("The server has the secret vault://%s as a plain value, which its start asks about separately. Its output is scrubbed of the value.", i.Secret))
	}
	if l.login != (vault.Ref{}) {
		notes = append(notes, fmt.Sprintf("The gateway is logged in there (%s): the server acts in the name of the user who logged in.", l.login))
	}
	if t.server.Shared {
		notes = append(notes, "One instance of the server serves all principals.")
	}
	return notes
}

// bound formats secrets for a binding.
func bound(secrets []egress.Secret) (list []string) {
	for _, s := range secrets {
		list = append(list, s.Bound())
	}
	return list
}

func names(l launch) (list []string) {
	for _, s := range l.secrets {
		list = append(list, s.Name)
	}
	for _, i := range l.injections {
		list = append(list, i.Secret)
	}
	if l.login != (vault.Ref{}) {
		list = append(list, l.login.Name())
	}
	slices.Sort(list)
	return list
}

// checkMeta refuses a call that reaches a tool of the same server through another tool, because
// policy and approvers would not receive the inner call.
func (t proxied) checkMeta(input json.RawMessage) error {
	for _, pointer := range t.naming {
		for _, named := range at(input, pointer) {
			own := strings.TrimPrefix(named, t.server.Name+"/")
			if own != t.name && t.manager.catalog.offers(t.server.Name, own) {
				return reason.Errorf(reason.InvalidInput, "%s would call the tool %s of the same server, and policy would decide on the wrong call", t.descriptor.Name, clean(own, 100)).
					WithField("pointer", pointer).WithRemedy("Call %s/%s itself.", t.server.Name, clean(own, 100))
			}
		}
	}
	return nil
}
