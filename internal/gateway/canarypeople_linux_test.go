//go:build palyrainit

package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/config"
	"palyra/internal/core/must"
)

// inspectedGateway is a gateway with the member local, who has read everything, and other
// members, whose responses are inspected. These are coder, an agent; dev, a developer; olga, an
// operator, who edits calls and evaluates; and aud, an auditor.
type inspectedGateway struct {
	*running
	leaks  *leakDetector
	server string
	// people are the members whose responses are inspected. local is not one of them.
	people map[string]testClient
	local  testClient
	// evidence has the same members; only the text of their responses is inspected.
	text     *leakDetector
	evidence map[string]testClient
	// leakedBy has the interfaces through which the canary was found in the control.
	leakedBy map[string]bool
}

// testClient is a member with a client of each service.
type testClient struct {
	http       *http.Client
	calls      palyrav1connect.GatewayServiceClient
	approvals  palyrav1connect.ApprovalsServiceClient
	policy     palyrav1connect.PolicyServiceClient
	workspaces palyrav1connect.WorkspaceServiceClient
	journal    palyrav1connect.JournalServiceClient
	evidence   palyrav1connect.AttestationServiceClient
}

func newClient(c *http.Client, url string) testClient {
	plain := connect.WithAcceptCompression("gzip", nil, nil)
	return testClient{
		c, palyrav1connect.NewGatewayServiceClient(c, url, plain), palyrav1connect.NewApprovalsServiceClient(c, url, plain),
		palyrav1connect.NewPolicyServiceClient(c, url, plain), palyrav1connect.NewWorkspaceServiceClient(c, url, plain),
		palyrav1connect.NewJournalServiceClient(c, url, plain), palyrav1connect.NewAttestationServiceClient(c, url, plain),
	}
}

func startWithCanary(t *testing.T, policies string) *inspectedGateway {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Etag", canary)
		_, _ = io.WriteString(w, canary)
	}))
	t.Cleanup(server.Close)
	cfg := policyConfigAt(t)
	cfg.ProcessRunner.Enabled = true
	cfg.HTTP.AllowedHosts = []string{"127.0.0.1"}
	cfg.Approvals.Cooldown, cfg.Approvals.MaxCreatedPerMinutePerRun, cfg.Approvals.MaxCreatedPerMinutePerPrincipal = 0, 1<<20, 1<<20
	much := config.RateLimit{PerSecond: 1 << 20, Burst: 1 << 20}
	cfg.RateLimits.Read, cfg.RateLimits.ToolCall, cfg.RateLimits.Decide, cfg.RateLimits.Mutate = much, much, much, much
	cfg.MaxCallsPerSession, cfg.MaxCallsPerRun = 1<<20, 1<<20
	cfg.Evaluators = []config.Evaluator{{Caller: "user:ada", Subjects: []string{"agent:coder"}}}
	cfg.Workspaces = []config.Workspace{workspaceAt(t)}
	must.Write(t, filepath.Join(cfg.Policy.Dir, "10.cedar"), policies)
	must.Write(t, filepath.Join(cfg.Policy.Dir, "20.cedar"), `@id("local") @reason("a test") @waives("approval: a test")
permit(principal == User::"local", action in [Action::"tool.execute/fs.read", Action::"tool.execute/fs.write", Action::"tool.execute/fs.patch", Action::"tool.execute/http.fetch", Action::"workspace.commit"], resource);
@id("local-run") @reason("a test") @waives("approval: a test")
permit(principal == User::"local", action == Action::"tool.execute/process.run", resource) when { context.egress.mode != "none" };`)
	dir := cfg.Workspaces[0].Path
	for _, name := range canaryFiles {
		full := filepath.Join(dir, name)
		must.Do(t, os.MkdirAll(filepath.Dir(full), 0o755))
		must.Do(t, os.WriteFile(full, []byte(canaryText(name)), 0o755))
	}
	must.Do(t, os.Symlink(".env", filepath.Join(dir, "link")))
	must.Do(t, os.Symlink(canary+".txt", filepath.Join(dir, "pointer"))) // a link's target is content, too
	h := newLeakDetector()
	g := &inspectedGateway{running: start(t, cfg), leaks: h, text: h.withoutDigests(), server: server.URL + "/", people: map[string]testClient{}, evidence: map[string]testClient{}, leakedBy: map[string]bool{}}
	t.Cleanup(g.end)
	g.local = newClient(dialAs(t, g.Credentials), g.url())
	for name, role := range map[string]access.Role{
		"coder": access.RoleAgent, "dev": access.RoleDeveloper, "olga": access.RoleOperator, "aud": access.RoleAuditor, "ada": access.RoleAdmin,
	} {
		bundle := filepath.Join(t.TempDir(), name)
		operator := NewOperator{Name: name, Roles: []access.Role{role}, Dir: bundle, AcceptLoss: true}
		if role == access.RoleAgent {
			operator.Owner = access.User("local")
		}
		must.Get(AddOperator(t.Context(), cfg, operator))(t)
		for list, h := range map[*map[string]testClient]*leakDetector{&g.people: h, &g.evidence: g.text} {
			c := dialAs(t, bundle)
			c.Transport = overheard{c.Transport, h}
			(*list)[name] = newClient(c, g.url())
		}
	}
	g.readAll()
	return g
}

// readAll makes local read the files, the server and (in the header of a request) a secret, and
// change a file. Results, evidence and a change set then contain the canary.
func (g *inspectedGateway) readAll() {
	t := g.t
	t.Helper()
	must.Get(palyrav1connect.NewVaultServiceClient(g.client(), g.url()).PutSecret(t.Context(), &palyrav1.PutSecretRequest{
		Ref: "vault://global/canary", Value: []byte(canary + "-as-a-secret"), Hosts: &palyrav1.HostList{Hosts: []string{"example.com:443"}},
	}))(t)
	for _, c := range []struct {
		tool  string
		input map[string]any
		shows bool
	}{
		{"fs.read", map[string]any{"path": ".env"}, true},
		{"http.fetch", map[string]any{"url": g.server}, true},
		{"process.run", map[string]any{"argv": []string{"cat", "plain.txt"}}, true},
		{"process.run", map[string]any{"argv": []string{"cp", "plain.txt", "copied.txt"}}, false},
		{"fs.patch", map[string]any{"patch": "--- a/plain.txt\n+++ b/plain.txt\n@@ -1 +1 @@\n-first\n+changed\n"}, false},
		{"fs.patch", map[string]any{"patch": "--- a/plain.txt\n+++ b/plain.txt\n@@ -1 +1 @@\n-changed\n+first\n"}, false},
	} {
		stream := must.Get(g.local.calls.CallTool(t.Context(), &palyrav1.CallToolRequest{Tool: c.tool, InputJson: must.Get(json.Marshal(c.input))(t)}))(t)
		text := ""
		for stream.Receive() {
			text += stream.Msg().String()
		}
		if stream.Err() != nil || !strings.Contains(text, `outcome:"succeeded"`) && !strings.Contains(text, "OUTCOME_SUCCEEDED") || c.shows && !strings.Contains(text, canary) {
			t.Fatalf("%s %v ends with %s, %v", c.tool, c.input, text, stream.Err())
		}
	}
}

// listen sends random requests until the deadline. In the control, the canary must be found
// through every interface of hearing.
func (g *inspectedGateway) listen(t *testing.T, name string, random guesser, deadline time.Time, seed uint64) {
	control, calls := name == "the control", 0
	ways := g.ways()
	if control { // the control ends once all leaks were found
		deadline = time.Now().Add(must.Patience)
	}
	for time.Now().Before(deadline) {
		way := random.one(slices.Sorted(maps.Keys(ways))...)
		// Every other request of the control is one that has not leaked yet: by chance alone, a
		// busy machine does not find the rarest leak in time.
		if missing := g.unheard(); control && calls%2 == 1 {
			way = random.one(missing...)
		}
		what := ways[way](random)
		calls++
		for _, h := range []*leakDetector{g.leaks, g.text} {
			found := h.take()
			switch {
			case found == "":
			case control:
				g.leakedBy[way] = true
			default:
				t.Errorf("%s: after %s, %s (request %d, %s=%d): %s", name, way, what, calls, canarySeed, seed, found)
				return
			}
		}
		if control && len(g.unheard()) == 0 {
			break
		}
	}
	if missing := g.unheard(); control && len(missing) > 0 {
		t.Errorf("the control leaks nothing by %s", strings.Join(missing, ", "))
	}
	t.Logf("%s: %d requests, %d bytes", name, calls, g.leaks.bytes+g.text.bytes)
}

// hearing are the interfaces that return content to members with read permission.
var hearing = []string{"a call", "an explanation", "an evaluation of another's call", "an edit", "an export", "change sets"}

// unheard returns the interfaces of hearing that have leaked nothing yet.
func (g *inspectedGateway) unheard() []string {
	return slices.DeleteFunc(slices.Clone(hearing), func(way string) bool { return g.leakedBy[way] })
}

// ways returns the kinds of requests by name.
func (g *inspectedGateway) ways() map[string]func(guesser) string {
	return map[string]func(guesser) string{
		"an evaluation": func(r guesser) string {
			tool, text := g.input(r)
			_, _ = g.people[r.one("coder", "dev")].calls.EvaluateTool(g.t.Context(), &palyrav1.EvaluateToolRequest{Tool: tool, InputJson: text})
			return tool + " " + string(text)
		},
		"an explanation": func(r guesser) string {
			tool, text := g.input(r)
			_, _ = g.people[r.one("dev", "olga", "aud")].policy.ExplainPolicy(g.t.Context(), &palyrav1.ExplainPolicyRequest{
				Subject: &palyrav1.ExplainPolicyRequest_Call{Call: &palyrav1.CallDescription{Tool: tool, InputJson: text}},
			})
			return tool + " " + string(text)
		},
		"an evaluation of another's call": g.evaluateOther,
		"a call":                          func(r guesser) string { return g.call(r, g.people[r.one("coder", "dev")]) },
		"an edit":                         g.edit,
		"an export": func(guesser) string {
			stream, err := g.people["aud"].approvals.ExportApprovals(g.t.Context(), &palyrav1.ExportApprovalsRequest{Since: timestamppb.New(time.Now().Add(-10 * time.Second))})
			for err == nil && stream.Receive() {
				continue
			}
			_, _ = g.people["aud"].approvals.ListApprovals(g.t.Context(), &palyrav1.ListApprovalsRequest{})
			return ""
		},
		"change sets": g.changeSets,
		"records":     g.records,
	}
}

func (g *inspectedGateway) input(r guesser) (tool string, text []byte) {
	tool, input := r.call(g.server)
	return tool, must.Get(json.Marshal(input))(g.t)
}

// evaluateOther requests an AuthZEN evaluation of a call of the agent.
func (g *inspectedGateway) evaluateOther(r guesser) string {
	tool, text := g.input(r)
	body := must.Get(json.Marshal(map[string]any{
		"subject": map[string]string{"type": "agent", "id": "coder"}, "action": map[string]string{"name": "tools/call"},
		"resource": map[string]string{"type": "tool", "id": tool}, "context": map[string]any{"arguments": json.RawMessage(text)},
	}))(g.t)
	res, err := g.people["ada"].http.Post(g.url()+"/access/v1/evaluation", "application/json", strings.NewReader(string(body)))
	if err == nil {
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
	}
	return string(body)
}

// call makes a call, inspects its approval request through every interface, and disconnects.
func (g *inspectedGateway) call(r guesser, by testClient) string {
	tool, text := g.input(r)
	ctx, cancel := context.WithTimeout(g.t.Context(), must.Patience)
	defer cancel()
	stream, err := by.calls.CallTool(ctx, &palyrav1.CallToolRequest{Tool: tool, InputJson: text})
	for err == nil && stream.Receive() {
		if asked := stream.Msg().GetApprovalRequested().GetApproval(); asked != nil {
			_, _ = by.approvals.GetApproval(ctx, &palyrav1.GetApprovalRequest{ApprovalId: asked.GetApprovalId()})
			_, _ = by.approvals.ListApprovals(ctx, &palyrav1.ListApprovalsRequest{})
			_, _ = g.people["aud"].approvals.GetApproval(ctx, &palyrav1.GetApprovalRequest{ApprovalId: asked.GetApprovalId()})
			_, _ = by.approvals.CancelApproval(ctx, &palyrav1.CancelApprovalRequest{ApprovalId: asked.GetApprovalId()})
			cancel()
		}
	}
	if err == nil {
		_ = stream.Close()
	}
	return tool + " " + string(text)
}

// edit makes an operator change a pending call. The operator then counts as a requester and may
// not decide the call.
func (g *inspectedGateway) edit(r guesser) string {
	tool := r.one("fs.write", "fs.patch", "fs.patch", "fs.read", "fs.search", "process.run")
	text, plain := g.of(r, tool), g.of(r, tool)
	ctx, cancel := context.WithTimeout(g.t.Context(), must.Patience)
	defer cancel()
	stream, err := newClient(g.uninspectedClient("coder"), g.url()).calls.CallTool(ctx, &palyrav1.CallToolRequest{Tool: tool, InputJson: plain})
	for err == nil && stream.Receive() {
		asked := stream.Msg().GetApprovalRequested().GetApproval()
		if asked == nil {
			continue
		}
		whole, err := g.local.approvals.GetApproval(ctx, &palyrav1.GetApprovalRequest{ApprovalId: asked.GetApprovalId()})
		if err == nil {
			_, _ = g.people["olga"].approvals.EditApproval(ctx, &palyrav1.EditApprovalRequest{
				ApprovalId: asked.GetApprovalId(), Version: asked.GetVersion(), ShownDigest: cmp.Or(whole.GetApproval().GetCallDigest(), canonical.Digest(text)), InputJson: text,
			})
		}
		cancel()
	}
	if err == nil {
		_ = stream.Close()
	}
	return fmt.Sprintf("%s %s into %s", tool, plain, text)
}

// of returns an input of the tool.
func (g *inspectedGateway) of(r guesser, tool string) []byte {
	for {
		if one, text := g.input(r); one == tool {
			return text
		}
	}
}

// uninspectedClient returns a client whose responses are not inspected.
func (g *inspectedGateway) uninspectedClient(name string) *http.Client {
	c := *g.people[name].http
	c.Transport = c.Transport.(overheard).RoundTripper
	return &c
}

func (g *inspectedGateway) changeSets(r guesser) string {
	who := r.one("dev", "olga", "aud")
	by := g.people[who]
	list, err := by.workspaces.ListChangeSets(g.t.Context(), &palyrav1.ListChangeSetsRequest{Workspace: "default"})
	if err == nil {
		for _, set := range some(r, list.GetChangeSets()) {
			_, _ = by.workspaces.GetChangeSet(g.t.Context(), &palyrav1.GetChangeSetRequest{Workspace: "default", ChangeSetId: set.GetChangeSetId()})
		}
	}
	return who
}

// some returns at most five random entries of a list.
func some[T any](r guesser, list []T) []T {
	list = slices.Clone(list)
	r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list[:min(5, len(list))]
}

// records reads the evidence of other members' calls. Evidence contains digests of files.
func (g *inspectedGateway) records(r guesser) string {
	who := r.one("aud", "olga", "dev", "coder")
	by := g.evidence[who]
	if events, err := by.journal.ListEvents(g.t.Context(), &palyrav1.ListEventsRequest{}); err == nil {
		for _, e := range some(r, events.GetEvents()) {
			_, _ = by.journal.GetEvent(g.t.Context(), &palyrav1.GetEventRequest{Seq: e.GetSeq()})
		}
	}
	if list, err := by.evidence.ListAttestations(g.t.Context(), &palyrav1.ListAttestationsRequest{}); err == nil {
		for _, one := range some(r, list.GetAttestations()) {
			_, _ = by.evidence.GetAttestation(g.t.Context(), &palyrav1.GetAttestationRequest{Id: one.GetAttestationId()})
		}
	}
	if list, err := by.calls.ListCalls(g.t.Context(), &palyrav1.ListCallsRequest{}); err == nil {
		for _, one := range some(r, list.GetCalls()) {
			_, _ = by.calls.GetCall(g.t.Context(), &palyrav1.GetCallRequest{ProposalId: one.GetProposalId()})
		}
	}
	return who
}
