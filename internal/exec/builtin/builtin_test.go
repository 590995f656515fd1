package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra/internal/call/policy"
	"palyra/internal/core/canonical"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/exec/workspace"
)

// bench is a set of tools for one workspace.
type bench struct {
	t     *testing.T
	dir   string
	tools map[string]Tool
}

func newBench(t *testing.T, change func(*Config)) *bench {
	t.Helper()
	base := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	b := &bench{t: t, dir: filepath.Join(base, "ws"), tools: map[string]Tool{}}
	must.Do(t, os.Mkdir(b.dir, 0o755))
	cfg := Config{Version: "test"}
	cfg.Workspaces = must.Get(workspace.NewSet([]workspace.Declaration{{Name: "default", Path: b.dir}}, workspace.Private{Name: "state_dir", Path: filepath.Join(base, "state")}))(t)
	if change != nil {
		change(&cfg)
	}
	for _, tool := range New(cfg) {
		b.tools[tool.Descriptor().Name] = tool
	}
	return b
}

func (b *bench) write(name, content string) {
	b.t.Helper()
	full := filepath.Join(b.dir, name)
	must.Do(b.t, os.MkdirAll(filepath.Dir(full), 0o755))
	must.Do(b.t, os.WriteFile(full, []byte(content), 0o644))
}

func (b *bench) read(name string) string {
	b.t.Helper()
	data := must.Get(os.ReadFile(filepath.Join(b.dir, name)))(b.t)
	return string(data)
}

// propose checks the input against the schema, like the router does.
func (b *bench) propose(name string, input any) (tool.Proposal, error) {
	b.t.Helper()
	d := b.tools[name].Descriptor()
	s, err := tool.CompileSchema(d.InputSchema)
	if err != nil {
		b.t.Fatalf("%s: %v", name, err)
	}
	raw, ok := input.(string)
	if !ok {
		text := must.Get(json.Marshal(input))(b.t)
		raw = string(text)
	}
	checked, err := s.Check([]byte(raw))
	return tool.Proposal{ID: "p", Tool: d, Input: checked}, err
}

func (b *bench) plan(name string, input any) (tool.Plan, error) {
	p, err := b.propose(name, input)
	if err != nil {
		return tool.Plan{}, err
	}
	plan, err := b.tools[name].Plan(context.Background(), p)
	return plan, tool.Disclose(err, everything)
}

// everything is the disclosure check of a caller that may read all files.
func everything([]tool.FileAccess) bool { return true }

// anyCommit allows every change of a workspace.
func anyCommit(context.Context, tool.CommitRequest) (tool.CommitRuling, error) {
	return tool.CommitRuling{Allowed: true}, nil
}

// call plans and runs a call, and returns its report and decoded result.
func (b *bench) call(ctx context.Context, name string, input any) (tool.Report, map[string]any) {
	b.t.Helper()
	p, err := b.propose(name, input)
	if err != nil {
		b.t.Fatalf("%s: %v", name, err)
	}
	plan, err := b.tools[name].Plan(ctx, p)
	if err != nil {
		b.t.Fatalf("%s: %v", name, err)
	}
	report := b.run(ctx, tool.Call{Proposal: p, Plan: plan})
	return report, b.result(report)
}

// run executes a decided call like dispatch does: it plans the call again, and runs it if the
// plan is the decided one.
func (b *bench) run(ctx context.Context, c tool.Call) tool.Report {
	b.t.Helper()
	prepared, err := b.tools[c.Proposal.Tool.Name].Prepare(ctx, c.Proposal)
	if c.MayDisclose == nil {
		c.MayDisclose = everything
	}
	if c.Commit == nil && slices.Contains(c.Proposal.Tool.Capabilities, tool.FilesystemWrite) && c.Proposal.Tool.Executor == tool.Builtin {
		c.Commit = anyCommit
	}
	if err != nil {
		return begin("").Fail(ctx, tool.Disclose(err, c.MayDisclose))
	}
	defer prepared.Release()
	was, _ := c.Plan.Binding.Digest()
	is, _ := prepared.Plan.Binding.Digest()
	if changed := policy.ChangedFacts(c.Plan, prepared.Plan); was != is || len(changed) > 0 {
		return begin("").Fail(ctx, reason.Errorf(reason.BindingMismatch, "another call than was planned: %v", changed))
	}
	c.Plan = prepared.Plan
	if c.MayRead == nil {
		c.MayRead = func(tool.FileAccess) bool { return true }
	}
	return prepared.Run(ctx, c)
}

func (b *bench) result(report tool.Report) map[string]any {
	b.t.Helper()
	form, err := canonical.Marshal(report.Result)
	if err != nil || string(form) != string(report.Result) {
		b.t.Errorf("the result is not canonical: %s, %v", report.Result, err)
	}
	var result map[string]any
	if err := json.Unmarshal(report.Result, &result); err != nil {
		b.t.Fatalf("result %s: %v", report.Result, err)
	}
	if report.StartedAt.IsZero() || report.FinishedAt.Before(report.StartedAt) {
		b.t.Errorf("times: %v to %v", report.StartedAt, report.FinishedAt)
	}
	if report.Outcome != tool.Succeeded && (report.Reason == "" || report.Message == "" || report.Remedy == "") {
		b.t.Errorf("a failure without reason, message or remedy: %+v", report)
	}
	return result
}

func (b *bench) ok(name string, input any) map[string]any {
	b.t.Helper()
	report, result := b.call(context.Background(), name, input)
	if report.Outcome != tool.Succeeded {
		b.t.Fatalf("%s: %s %s: %s", name, report.Outcome, report.Reason, report.Message)
	}
	return result
}

func (b *bench) refused(name string, input any, want reason.Code) {
	b.t.Helper()
	_, err := b.plan(name, input)
	var e *reason.Error
	if !errors.As(err, &e) || e.Code != want {
		b.t.Errorf("%s %v: got %v (%v), want %s", name, input, reason.Of(err), err, want)
	}
}

func TestDescriptors(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	want := []string{"echo", "fs.list", "fs.patch", "fs.read", "fs.search", "fs.write", "http.fetch", "process.run", "secrets.list", "shell.run", "sleep"}
	var names []string
	for name := range b.tools {
		names = append(names, name)
	}
	slices.Sort(names)
	if !slices.Equal(names, want) {
		t.Fatalf("tools %v", names)
	}
	sensitive := []string{"fs.patch", "fs.write", "http.fetch", "process.run", "shell.run"}
	for name, tl := range b.tools {
		d := tl.Descriptor()
		if d.Sensitive() != slices.Contains(sensitive, name) {
			t.Errorf("%s: sensitive %v", name, d.Sensitive())
		}
		if d.Title == "" || d.Description == "" || d.Capabilities == nil {
			t.Errorf("%s: %+v", name, d)
		}
		if _, err := tool.CompileSchema(d.InputSchema); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var s struct {
			Schema     string                     `json:"$schema"`
			Additional *bool                      `json:"additionalProperties"`
			Properties map[string]json.RawMessage `json:"properties"`
		}
		if err := json.Unmarshal(d.InputSchema, &s); err != nil || s.Schema != "https://json-schema.org/draft/2020-12/schema" || s.Additional == nil || *s.Additional {
			t.Errorf("%s: schema %+v, %v", name, s, err)
		}
		for property, text := range s.Properties {
			if !strings.Contains(string(text), `"description"`) {
				t.Errorf("%s: %s has no description", name, property)
			}
		}
		one, err := d.Digest()
		two, _ := tl.Descriptor().Digest()
		if err != nil || one != two {
			t.Errorf("%s: digest %s, %s, %v", name, one, two, err)
		}
	}
}

// TestDocumentation verifies that the documents of the tools contain every tool and property.
func TestDocumentation(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for _, name := range []string{"../../../docs/tools.md", "../../../docs/tools-files.md", "../../../docs/tools-fetch.md", "../../../docs/tools-programs.md"} {
		text.Write(must.Get(os.ReadFile(name))(t))
	}
	for _, tl := range New(Config{}) {
		d := tl.Descriptor()
		_, section, ok := strings.Cut(text.String(), "\n## `"+d.Name+"`\n")
		if !ok {
			t.Errorf("docs/tools*.md have no section for %s", d.Name)
			continue
		}
		section, _, _ = strings.Cut(section, "\n## ")
		var s struct {
			Properties map[string]json.RawMessage `json:"properties"`
		}
		must.Do(t, json.Unmarshal(d.InputSchema, &s))
		for property := range s.Properties {
			if !strings.Contains(section, "| `"+property+"` |") {
				t.Errorf("docs/tools*.md: %s has no row for %s", d.Name, property)
			}
		}
	}
}

func TestEcho(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	report, _ := b.call(context.Background(), "echo", `{"text":"x","data":[1,{"a":null}]}`)
	if string(report.Result) != `{"data":[1,{"a":null}],"text":"x"}` {
		t.Errorf("got %s", report.Result)
	}
}

func TestSleep(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.ok("sleep", map[string]any{"duration_ms": 1})
	b.refused("sleep", map[string]any{"duration_ms": 3600000}, reason.InvalidInput)
	b.refused("sleep", map[string]any{"duration_ms": -1}, reason.InvalidInput)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if r, _ := b.call(ctx, "sleep", map[string]any{"duration_ms": 60000}); r.Outcome != tool.Stopped || r.Reason != string(reason.Cancelled) {
		t.Errorf("cancelled: %+v", r)
	}
	ctx, stop := context.WithTimeout(context.Background(), 0)
	defer stop()
	if r, _ := b.call(ctx, "sleep", map[string]any{"duration_ms": 60000}); r.Outcome != tool.TimedOut || r.Reason != string(reason.TimedOut) {
		t.Errorf("deadline: %+v", r)
	}
	frozen, freeze := context.WithCancelCause(context.Background())
	freeze(reason.Errorf(reason.GatewayFrozen, "an operator froze the gateway"))
	if r, _ := b.call(frozen, "sleep", map[string]any{"duration_ms": 60000}); r.Outcome != tool.Stopped || r.Reason != string(reason.GatewayFrozen) {
		t.Errorf("frozen: %+v", r)
	}
}

func TestAsBody(t *testing.T) {
	t.Parallel()
	tests := []struct {
		data           string
		cut            bool
		want, encoding string
	}{
		{"text", false, "text", encodingText},
		{"", false, "", encodingText},
		{"\xff\xfe", false, "//4=", encodingBase64},
		{"a\x00b", false, "YQBi", encodingBase64},
		{"\u20ac"[:2], false, "4oI=", encodingBase64},
		{"a\u20ac"[:3], true, "a", encodingText},
		{"a\U0001f600"[:4], true, "a", encodingText},
		{"a\u20ac", true, "a\u20ac", encodingText},
		{"\xff\u20ac"[:3], true, "/w==", encodingBase64},
	}
	for _, test := range tests {
		got := asBody([]byte(test.data), test.cut)
		if got.Content != test.want && test.encoding == encodingText || got.Encoding != test.encoding {
			t.Errorf("%q, %v: %+v", test.data, test.cut, got)
		}
	}
}
