package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra/internal/call/policyadmin"
	"palyra/internal/core/access"
	"palyra/internal/core/change"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/journal"
	"palyra/internal/gateway/gatewaytest"
)

// shaped returns a tool whose input has one property.
func shaped(name, property, kind string) *gatewaytest.Probe {
	schema := fmt.Sprintf(`{"type":"object","additionalProperties":false,"required":[%q],"properties":{%q:{"type":%q}}}`, property, property, kind)
	p := gatewaytest.NewProbe(tool.Descriptor{
		Name: name, Title: name, Description: "Has one property.", InputSchema: json.RawMessage(schema),
		Capabilities: []tool.Capability{tool.FilesystemRead}, Executor: tool.Builtin, ReadOnly: true,
	})
	p.Found = tool.Plan{Subject: name, Facts: tool.Facts{SandboxTier: "builtin", SandboxLevel: "none"}}
	return p
}

// pinWorld is a state directory with its own policies, started repeatedly with different tools.
type pinWorld struct {
	t   *testing.T
	dir string
	o   Options
	g   *gateway
}

func newPinWorld(t *testing.T) *pinWorld {
	cfg := testConfig(t)
	cfg.Policy.Dir = t.TempDir()
	return &pinWorld{t: t, dir: cfg.Policy.Dir, o: Options{Config: cfg, Log: slog.New(slog.DiscardHandler)}}
}

// start builds a gateway with the tools and loads its policies.
func (w *pinWorld) start(tools ...tool.Runnable) error {
	w.t.Helper()
	w.stop()
	w.o.tools = tools
	g := must.Get(build(w.t.Context(), w.o))(w.t)
	w.g = g
	return g.policies.Loader.Load(w.t.Context())
}

func (w *pinWorld) mustStart(tools ...tool.Runnable) {
	w.t.Helper()
	must.Do(w.t, w.start(tools...))
}

func (w *pinWorld) stop() {
	w.t.Helper()
	if w.g != nil {
		must.Do(w.t, w.g.close(nil))
		w.g = nil
	}
}

func (w *pinWorld) policy(text string) { must.Write(w.t, filepath.Join(w.dir, "10-own.cedar"), text) }

// about returns a policy that forbids calls of a tool by the value of its property.
func about(name, condition string) string {
	return fmt.Sprintf("@id(\"own.%[1]s\")\n@reason(\"test\")\nforbid(principal, action == Action::\"tool.execute/%[1]s\", resource) when { %[2]s };\n", name, condition)
}

// events lists the pin events about a tool, over all starts.
func (w *pinWorld) events(name string) string {
	w.t.Helper()
	page := must.Get(w.g.journal.List(w.t.Context(), journal.Filter{Subject: name}))(w.t)
	words := map[event.Code]string{event.ToolPinned: "pinned", event.ToolSuspended: "suspended", event.ToolResumed: "resumed"}
	var list []string
	for _, e := range page {
		list = append(list, words[e.Code])
	}
	return strings.Join(list, " ")
}

func (w *pinWorld) wantEvents(name, want string) {
	w.t.Helper()
	if got := w.events(name); got != want {
		w.t.Errorf("events about %s: %q, want %q", name, got, want)
	}
}

// callable returns the reason for which a call is refused, or "".
func (w *pinWorld) callable(name, input string) reason.Code {
	_, _, err := w.g.router.Check(name, []byte(input))
	return reason.Of(err)
}

func TestToolDefinitionsArePinned(t *testing.T) {
	t.Parallel()
	w := newPinWorld(t)
	w.mustStart(shaped("test.a", "x", "string"))
	w.wantEvents("test.a", "pinned")
	w.wantEvents("echo", "pinned")
	w.mustStart(shaped("test.a", "x", "string"))
	w.wantEvents("test.a", "pinned")
	// A change that fits all policies is accepted.
	w.mustStart(shaped("test.a", "y", "string"))
	w.wantEvents("test.a", "pinned pinned")
	w.wantEvents("echo", "pinned")
	if code := w.callable("test.a", `{"y":"1"}`); code != "" {
		t.Errorf("a call by the accepted definition gives %s", code)
	}
	pins := must.Get(w.g.stores.policies.Pins(t.Context()))(t)
	i := slices.IndexFunc(pins, func(p policyadmin.Pin) bool { return p.Tool == "test.a" })
	if want := digest(t, shaped("test.a", "y", "string").Descriptor()); i < 0 || pins[i].Digest != want || !strings.Contains(string(pins[i].Definition), `"y"`) || pins[i].At.IsZero() {
		t.Errorf("pins %+v", pins)
	}
	w.stop()
}

// TestChangedDefinitionIsSuspended: a changed tool that the policies do not fit is suspended,
// and other tools are not.
func TestChangedDefinitionIsSuspended(t *testing.T) {
	t.Parallel()
	w := newPinWorld(t)
	w.policy(about("test.a", `context.args.x == "no"`))
	w.mustStart(shaped("test.a", "x", "string"), shaped("test.b", "x", "string"))
	before := w.g.engine.Current().SnapshotDigest()
	for range 2 { // the second start adds no event
		w.mustStart(shaped("test.a", "x", "integer"), shaped("test.b", "y", "string"))
		w.wantEvents("test.a", "pinned suspended")
		w.wantEvents("test.b", "pinned pinned")
		if code := w.callable("test.a", `{"x":1}`); code != reason.ToolSuspended {
			t.Errorf("a call of the suspended tool gives %q", code)
		}
		for name, input := range map[string]string{"test.b": `{"y":"1"}`, "echo": `{"text":"x"}`} {
			if code := w.callable(name, input); code != "" {
				t.Errorf("%s, whose definition fits, gives %s", name, code)
			}
		}
		descriptor := shaped("test.a", "x", "integer").Descriptor()
		if _, err := w.g.router.Plan(t.Context(), tool.Proposal{Tool: descriptor, Input: []byte(`{"x":1}`)}); reason.Of(err) != reason.ToolSuspended {
			t.Errorf("planning the suspended tool gives %v", err)
		}
	}
	if after := w.g.engine.Current(); after.SnapshotDigest() == before || strings.Contains(string(after.SnapshotJSON()), `"allowed_tools":["echo","fs.list","fs.patch","fs.read","fs.search","fs.write","http.fetch","process.run","sleep","test.a"`) {
		t.Error("the snapshot allows the suspended tool")
	}
	if notices := strings.Join(notices(w.g), "\n"); !strings.Contains(notices, "test.a") {
		t.Errorf("the status does not name the suspended tool: %s", notices)
	}
	// The check of an operator uses the new definition.
	if findings := w.g.policies.Drafts.Check(t.Context(), nil); len(findings) > 0 && findings[0].Severity == "error" {
		t.Errorf("no policies at all: %v", findings)
	}
	// A reload that still does not fit changes nothing.
	by := access.Caller{Principal: access.User("local")}
	w.policy(about("test.a", `context.args.x == "never"`))
	reload(t, w.g, by)
	if code := w.callable("test.a", `{"x":1}`); code != reason.ToolSuspended {
		t.Errorf("after a reload that does not fit: %q", code)
	}
	// A reload that fits lifts the suspension.
	w.policy(about("test.a", `context.args.x == 7`))
	reload(t, w.g, by)
	if code := w.callable("test.a", `{"x":1}`); code != "" {
		t.Errorf("after the policy was corrected: %q", code)
	}
	w.wantEvents("test.a", "pinned suspended pinned resumed")
	w.mustStart(shaped("test.a", "x", "integer"), shaped("test.b", "y", "string"))
	w.wantEvents("test.a", "pinned suspended pinned resumed")
	w.stop()
}

// TestRestoredDefinition: a tool whose definition matches its pin again is no longer suspended.
func TestRestoredDefinition(t *testing.T) {
	t.Parallel()
	w := newPinWorld(t)
	w.policy(about("test.a", `context.args.x == "no"`))
	old, changed := shaped("test.a", "x", "string"), shaped("test.a", "x", "integer")
	w.mustStart(old)
	w.mustStart(changed)
	w.mustStart(old)
	w.wantEvents("test.a", "pinned suspended resumed")
	if code := w.callable("test.a", `{"x":"1"}`); code != "" {
		t.Errorf("the old definition gives %s", code)
	}
	w.stop()
}

// TestBrokenPoliciesSuspendNoTools: policies that fit neither definition prevent the start of
// palyrad, and suspend no tool.
func TestBrokenPoliciesSuspendNoTools(t *testing.T) {
	t.Parallel()
	w := newPinWorld(t)
	w.mustStart(shaped("test.a", "x", "string"))
	w.policy("permit(principal, action, resource) when { contxt.risk };")
	if err := w.start(shaped("test.a", "x", "integer")); reason.Of(err) != reason.PolicyInvalid {
		t.Errorf("starting with broken policies gives %v", err)
	}
	w.wantEvents("test.a", "pinned")
	w.stop()
}

// ofServer returns a tool of an upstream server with one property.
func ofServer(name, property string) *gatewaytest.Probe {
	p := shaped(name, property, "string")
	p.Of.Executor = tool.MCPUpstream
	return p
}

// TestNewServerThatPoliciesDoNotFit: a new upstream server is suspended as a whole, also over a
// restart, if the earlier policies about it do not fit. Other tools are not affected, and a
// policy that fits lifts the suspension. Policies that do not fit an active server do not load.
func TestNewServerThatPoliciesDoNotFit(t *testing.T) {
	t.Parallel()
	w := newPinWorld(t)
	by := access.Caller{Principal: access.User("local")}
	server := []tool.Runnable{ofServer("docs/list", "y"), ofServer("docs/search", "y")}
	states := func(when string, want reason.Code) {
		t.Helper()
		for _, name := range []string{"docs/list", "docs/search"} {
			if code := w.callable(name, `{"y":"1"}`); code != want {
				t.Errorf("%s: %s gives %q, want %q", when, name, code, want)
			}
		}
		if code := w.callable("echo", `{"text":"x"}`); code != "" {
			t.Errorf("%s: echo gives %q", when, code)
		}
		if named := strings.Contains(strings.Join(notices(w.g), "\n"), "docs/search"); named != (want != "") {
			t.Errorf("%s: the status names the tool: %v", when, named)
		}
	}
	w.policy(about("docs/search", `context.args.x == "no"`))
	w.mustStart()
	must.Do(t, w.g.router.SetTools("docs", server))
	must.Do(t, w.g.policies.Active.Rebuild(t.Context(), "user:local"))
	states("new", reason.ToolSuspended)
	if why := w.g.router.Suspended("docs/list"); why == nil || !strings.Contains(why.Message, "none of whose tools is available") || !strings.Contains(why.NextStep(), "palyra policy check") {
		t.Errorf("the reason is %v", why)
	}
	must.Do(t, w.g.policies.Active.Rebuild(t.Context(), "user:local")) // as after a change of a member
	w.mustStart(server...)
	states("after a restart", reason.ToolSuspended)
	w.wantEvents("docs/list", "")
	w.policy(about("docs/search", `context.args.y == "no"`))
	reload(t, w.g, by)
	states("with a policy that fits", "")
	w.wantEvents("docs/list", "pinned")
	w.policy(about("docs/search", `context.args.x == "no"`))
	err := permitted(t, w.g, change.ReloadPolicy, func(ctx context.Context) error { _, err := w.g.policies.Loader.Reload(ctx, by); return err })
	if reason.Of(err) != reason.PolicyInvalid {
		t.Errorf("a policy that does not fit a server in force: %v", err)
	}
	states("after a policy that does not fit was refused", "")
	// A server that was removed and returns is new again.
	w.mustStart()
	must.Do(t, w.g.router.SetTools("docs", server))
	must.Do(t, w.g.policies.Active.Rebuild(t.Context(), "user:local"))
	states("back again", reason.ToolSuspended)
	w.mustStart(server...)
	states("back again, after a restart", reason.ToolSuspended)
	w.stop()
}
