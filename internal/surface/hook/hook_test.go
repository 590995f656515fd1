package hook_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra/internal/agent/files"
	"palyra/internal/call"
	"palyra/internal/call/approval"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/call/record"
	"palyra/internal/call/session"
	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/journal"
	"palyra/internal/exec/workspace"
	"palyra/internal/gateway/gatewaytest"
	"palyra/internal/store/sqlite"
	"palyra/internal/store/sqlite/sqlitetest"
	"palyra/internal/surface/hook"
	"palyra/internal/surface/resume"
)

// world is a gateway that serves the hooks of agents.
type world struct {
	*gatewaytest.Gateway
	t       testing.TB
	db      *sqlite.DB
	hooks   *hook.Service
	ws, out string
	caller  access.Caller
	near    error
	session string
	probe   *gatewaytest.Probe
	limit   string
}

// newWorld returns a world with one workspace, and with policies in addition to the default
// ones.
func newWorld(t testing.TB, policies string) *world {
	t.Helper()
	w := &world{t: t, ws: must.Get(filepath.EvalSymlinks(t.TempDir()))(t), out: must.Get(filepath.EvalSymlinks(t.TempDir()))(t), caller: gatewaytest.Agent, session: "s1"}
	set := must.Get(workspace.NewSet([]workspace.Declaration{{Name: "here", Path: w.ws}}))(t)
	tools := hook.NewTools(set, files.Machine{Home: must.Get(os.UserHomeDir())(t), OS: "linux", Getenv: func(string) string { return "" }}.Guards(files.Gateway{StateDir: filepath.Join(w.out, "state")})).All()
	descriptors := make([]tool.Descriptor, len(tools))
	for i, one := range tools {
		descriptors[i] = one.Descriptor()
	}
	for _, d := range builtinTools(t) {
		if !slices.Contains([]string{policytest.Read.Name, policytest.Run.Name, policytest.Fetch.Name}, d.Name) {
			descriptors = append(descriptors, d)
		}
	}
	w.db = sqlitetest.Open(t)
	w.probe = gatewaytest.NewProbe(policytest.Run)
	w.Gateway = gatewaytest.New(t, gatewaytest.Config{
		DB: w.db, Engine: policytest.Engine(t, policytest.Options{Policies: policies, Tools: descriptors, Workspaces: []string{"here"}}),
		Notary: gatewaytest.Notary(t), Tools: append(tools, w.probe),
	})
	w.start()
	return w
}

// builtinTools returns the definitions of the daemon's own tools, which the profiles name.
func builtinTools(t testing.TB) (list []tool.Descriptor) {
	t.Helper()
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile(filepath.Join("..", "..", "cli", "policy", "builtin_tools.json")))(t), &list))
	return list
}

// start recreates the service, as a start of the daemon does.
func (w *world) start() {
	w.hooks = must.Get(hook.New(hook.Config{Calls: resume.New(w.Pipeline, w.t.Context().Done()), Past: w.Pipeline, Announced: w.announced, Stopping: w.t.Context().Done()}))(w.t)
}

// answer is the response to a hook.
type answer struct {
	status   int
	decision string
	body     string
}

func (a answer) says(code reason.Code) bool { return strings.Contains(a.body, string(code)) }

// send sends a body to the route of an agent.
func (w *world) send(ctx context.Context, agent, body string) answer {
	w.t.Helper()
	r := must.Get(http.NewRequestWithContext(ctx, http.MethodPost, "/hooks/v1/"+agent, strings.NewReader(body)))(w.t)
	if w.limit != "" {
		r.Header.Set(hook.LimitHeader, w.limit)
	}
	rec := httptest.NewRecorder()
	mux := http.NewServeMux()
	mux.Handle(hook.Pattern, hook.Route{
		Service: w.hooks, Caller: func(context.Context) access.Caller { return w.caller }, Near: func(context.Context) error { return w.near },
		Fail: func(rw http.ResponseWriter, _ *http.Request, err error) {
			http.Error(rw, string(reason.Of(err)), http.StatusForbidden)
		},
	})
	mux.ServeHTTP(rec, r)
	return answer{rec.Code, rec.Header().Get(hook.DecisionHeader), rec.Body.String()}
}

// claude sends an event of Claude Code.
func (w *world) claude(event, id, name string, input any, more ...any) answer {
	w.t.Helper()
	m := map[string]any{
		"session_id": w.session, "cwd": w.ws, "permission_mode": "default", "hook_event_name": event, "transcript_path": "/x",
		"effort": map[string]string{"level": "medium"},
	}
	if name != "" {
		m["tool_name"], m["tool_input"], m["tool_use_id"] = name, input, id
	}
	for i := 0; i+1 < len(more); i += 2 {
		m[more[i].(string)] = more[i+1]
	}
	return w.send(w.t.Context(), "claude-code", string(must.Get(json.Marshal(m))(w.t)))
}

func (w *world) before(id, name string, input any) answer {
	w.t.Helper()
	return w.claude("PreToolUse", id, name, input)
}

func (w *world) after(id, name string, input any) answer {
	w.t.Helper()
	return w.claude("PostToolUse", id, name, input, "tool_response", map[string]string{"stdout": "x"}, "duration_ms", 3)
}

// people decides every pending approval with answers. stop ends this and returns the approvals.
func (w *world) people(answers func(*approval.Record) approval.Ballot) (stop func() []approval.Record) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan struct{})
	var asked []approval.Record
	go func() {
		defer close(done)
		seen := map[string]bool{}
		_ = w.Desk.Records.Watch(ctx, 0, nil, func(r approval.Record) error { // ends with ctx
			if r.State != approval.Pending || seen[r.ID] {
				return nil
			}
			seen[r.ID] = true
			asked = append(asked, r)
			// stop must not cancel a decision that has started.
			if _, err := w.Desk.Votes.Decide(context.WithoutCancel(ctx), gatewaytest.Person(policytest.Alice, access.RoleOwner), r.ID, answers(&r)); err != nil {
				w.t.Errorf("answering %s: %v", r.Prompt.Summary, err)
			}
			return nil
		})
	}()
	return func() []approval.Record { cancel(); <-done; return asked }
}

func yes(*approval.Record) approval.Ballot { return approval.Ballot{Allow: true} }
func no(*approval.Record) approval.Ballot  { return approval.Ballot{} }

// TestUnknownEvents: a message with an unknown event gets an error, which every hook treats as
// a denial. With a status of 200 the tool would run.
func TestUnknownEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	input := map[string]any{"command": "x"}
	for _, event := range []string{"", "preToolUse", "PreTolUse", "PermissionRequest", "UserPromptSubmit", "before"} {
		if a := w.claude(event, "c1", "Bash", input); a.status == http.StatusOK || a.decision != "" {
			t.Errorf("claude-code: %q: %+v", event, a)
		}
		if a := w.send(t.Context(), "codex", strings.Replace(w.codex("c1", "Bash", input), "PreToolUse", event, 1)); a.status == http.StatusOK || a.decision != "" {
			t.Errorf("codex: %q: %+v", event, a)
		}
	}
	for _, event := range []string{"", "Before", "bfore", "PreToolUse"} {
		if a := w.send(t.Context(), "generic", `{"event":"`+event+`","session":"s","call":"c1","tool":"shell","input":{"command":"x"}}`); a.status == http.StatusOK || a.decision != "" {
			t.Errorf("generic: %q: %+v", event, a)
		}
	}
	// Control: a known report is accepted.
	if a := w.claude("Stop", "", "", nil); a.status != http.StatusOK || a.decision != "none" {
		t.Errorf("Stop: %+v", a)
	}
}

// events returns the journal's events with a code.
func (w *world) events(code event.Code) []journal.Event {
	w.t.Helper()
	var out []journal.Event
	for _, e := range must.Get(sqlite.NewCalls(w.db).Events(w.t.Context(), journal.Filter{}))(w.t) {
		if e.Code == code {
			out = append(out, e)
		}
	}
	return out
}

// report returns the n-th attested call, once n calls are attested.
func (w *world) report(n int) record.Attested {
	w.t.Helper()
	list := w.eventually(event.Attested, n)
	p, ok := must.Get(record.Decode(&list[n-1]))(w.t).(*record.Attested)
	if !ok {
		w.t.Fatal("no attestation")
	}
	return *p
}

// eventually waits for n events of a code, and returns the events.
func (w *world) eventually(code event.Code, n int) []journal.Event {
	w.t.Helper()
	var list []journal.Event
	must.Eventually(w.t, fmt.Sprintf("%d events %s", n, code), func() (bool, string) {
		list = w.events(code)
		return len(list) >= n, fmt.Sprint(len(list))
	})
	return list
}

// deny makes a call that an approver denies.
func (w *world) deny(id string) {
	w.t.Helper()
	stop := w.people(no)
	defer stop()
	if a := w.before(id, "Bash", map[string]any{"command": "x"}); a.decision != "deny" {
		w.t.Errorf("the call was let run: %+v", a)
	}
}

// requestWithoutTime sends a request whose hook has almost no time left.
func (w *world) requestWithoutTime(id string, input map[string]any) answer {
	w.t.Helper()
	w.limit = "6"
	defer func() { w.limit = "" }()
	return w.before(id, "Bash", input)
}

// codex returns an event of Codex.
func (w *world) codex(id, name string, input any) string {
	return string(must.Get(json.Marshal(map[string]any{
		"session_id": w.session, "turn_id": "x", "cwd": w.ws, "hook_event_name": "PreToolUse", "model": "gpt-5", "permission_mode": "default",
		"tool_name": name, "tool_input": input, "tool_use_id": id,
	}))(w.t))
}

// idle waits until no call runs.
func (w *world) idle() {
	w.t.Helper()
	must.Eventually(w.t, "no call runs", func() (bool, string) { return len(w.Running()) == 0, fmt.Sprint(w.Running()) })
}

// tainted reports whether the caller's newest session is tainted.
func (w *world) tainted() bool {
	w.t.Helper()
	list, _, err := w.Sessions(w.t.Context(), session.Filter{Principal: w.caller.Principal})
	must.Do(w.t, err)
	if len(list) == 0 {
		return false
	}
	return must.Get(w.Session(w.t.Context(), list[0].ID))(w.t).Facts.Tainted
}

// taintedIs waits until tainted returns want. A call's facts are updated a moment after its end
// is journaled.
func (w *world) taintedIs(want bool) bool {
	w.t.Helper()
	return must.Wait(func() bool { return w.tainted() == want })
}

// restart stops and starts the daemon.
func (w *world) restart() {
	w.t.Helper()
	w.StopDesk()
	w.Gateway = gatewaytest.New(w.t, w.Gateway.Config)
	must.Get(call.CloseAmbiguous(w.t.Context(), sqlite.NewCalls(w.db)))(w.t)
	w.start()
}
