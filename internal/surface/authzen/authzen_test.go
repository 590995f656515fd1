package authzen_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"palyra/internal/call/approval"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/journal"
	"palyra/internal/gateway/gatewaytest"
	"palyra/internal/store/sqlite"
	"palyra/internal/store/sqlite/sqlitetest"
	"palyra/internal/surface/authzen"
)

type object = map[string]any

var edge, other = access.Agent("edge"), access.Agent("other")

// world is the service over real stages: edge may ask about coder and about bob, who is
// disabled; other about no subject. The read tool requires no approval, and the run tool does.
type world struct {
	t       *testing.T
	server  *httptest.Server
	gateway *gatewaytest.Gateway
	read    *gatewaytest.Probe
	run     *gatewaytest.Probe
	db      *sqlite.DB

	mu      sync.Mutex
	noted   []object
	counted int
	full    error
	ahead   time.Duration
}

type members map[access.Principal]access.Member

func (m members) Active(p access.Principal) (access.Member, bool) {
	found, ok := m[p]
	return found, ok && !found.Disabled
}

// Record records the events that are journaled outside the pipeline.
func (w *world) Record(_ context.Context, code event.Code, actor, subject string, payload any) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.full != nil {
		return w.full
	}
	var p object
	must.Do(w.t, json.Unmarshal(must.Get(json.Marshal(payload))(w.t), &p))
	w.noted = append(w.noted, object{"code": string(code), "actor": actor, "subject": subject, "payload": p})
	return nil
}

func newWorld(t *testing.T, policies string) *world {
	t.Helper()
	w := &world{t: t, read: gatewaytest.NewProbe(policytest.Read), run: gatewaytest.NewProbe(policytest.Run)}
	more := []access.Member{
		{Principal: edge, Owner: policytest.Alice, Roles: []access.Role{access.RoleAgent}},
		{Principal: other, Owner: policytest.Alice, Roles: []access.Role{access.RoleAgent}},
		{Principal: access.User("bob"), Roles: []access.Role{access.RoleOperator}, Disabled: true},
		{Principal: access.User("eve"), Roles: []access.Role{access.RoleAuditor}},
	}
	engine := policytest.Engine(t, policytest.Options{Members: more, Policies: policies})
	w.db = sqlitetest.Open(t)
	w.gateway = gatewaytest.New(t, gatewaytest.Config{DB: w.db, Engine: engine, Notary: gatewaytest.Notary(t), Tools: []tool.Runnable{w.read, w.run}})
	active := members{policytest.Agent: {Principal: policytest.Agent, Owner: policytest.Alice, Roles: []access.Role{access.RoleAgent}}}
	for _, m := range more {
		active[m.Principal] = m
	}
	s := must.Get(authzen.New(authzen.Config{
		Pipeline: w.gateway.Pipeline, Engine: engine, Members: active, Journal: w, Gateway: "a.palyra",
		Subjects: map[access.Principal][]access.Principal{edge: {policytest.Agent, access.User("bob"), access.User("nobody"), access.User("eve")}},
		Caller:   func(ctx context.Context) access.Caller { return ctx.Value(callerKey{}).(access.Caller) },
		Origin:   func(r *http.Request) string { return "http://" + r.Host },
		Count: func(context.Context) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.counted++; w.counted > 10 {
				return reason.Errorf(reason.RateLimited, "too many")
			}
			return nil
		},
		Refuse: func(rw http.ResponseWriter, _ *http.Request, _ string, err error) {
			http.Error(rw, string(reason.Of(err))+": "+err.Error(), http.StatusBadRequest)
		},
		Now: w.now,
	}))(t)
	must.Run(t, s.Tasks.Run)
	mux := http.NewServeMux()
	for pattern, h := range s.Handlers() {
		mux.Handle(pattern, h)
	}
	w.server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		p := edge
		if name := r.Header.Get("As"); name != "" {
			p = access.Agent(name)
		}
		c := access.Caller{Principal: p, OnBehalfOf: policytest.Alice, DeviceID: "01JNA3Q0G0DEV1CE0000000009"}
		mux.ServeHTTP(rw, r.WithContext(context.WithValue(r.Context(), callerKey{}, c)))
	}))
	t.Cleanup(w.server.Close)
	return w
}

type callerKey struct{}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.ahead)
}

// ask sends a request and returns its status, its decoded body and the body's text.
func (w *world) ask(method, path string, body any, headers ...string) (int, object, string) {
	w.t.Helper()
	text, raw := body.(string)
	if !raw {
		text = string(must.Get(json.Marshal(body))(w.t))
	}
	if strings.HasPrefix(path, "/") {
		path = w.server.URL + path
	}
	req := must.Get(http.NewRequestWithContext(w.t.Context(), method, path, strings.NewReader(text)))(w.t)
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res := must.Get(w.server.Client().Do(req))(w.t)
	defer res.Body.Close()
	var b bytes.Buffer
	must.Get(b.ReadFrom(res.Body))(w.t)
	var o object
	_ = json.Unmarshal(b.Bytes(), &o)
	return res.StatusCode, o, b.String()
}

func about(subject, tool string, arguments object) object {
	kind, id, _ := strings.Cut(subject, ":")
	e := object{"subject": object{"type": kind, "id": id}, "action": object{"name": "tools/call"}, "resource": object{"type": "tool", "id": tool}}
	if arguments != nil {
		e["context"] = object{"arguments": arguments}
	}
	return e
}

var (
	reading = object{"path": "a"}
	running = object{"argv": []string{"make"}}
)

func (w *world) evaluate(e object, headers ...string) object {
	w.t.Helper()
	status, got, text := w.ask("POST", "/access/v1/evaluation", e, headers...)
	if status != http.StatusOK {
		w.t.Fatalf("%d: %s", status, text)
	}
	return got
}

func in(o object, path ...string) any {
	var v any = o
	for _, name := range path {
		next, _ := v.(object)
		v = next[name]
	}
	return v
}

// events returns the pipeline's events with a code.
func (w *world) events(code event.Code) []journal.Event {
	w.t.Helper()
	return must.Get(sqlite.NewCalls(w.db).Events(w.t.Context(), journal.Filter{Code: string(code)}))(w.t)
}

func TestEvaluation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	if got := w.evaluate(about("agent:coder", "fs.read", reading)); got["decision"] != true {
		t.Errorf("what policy allows: %v", got)
	}
	if got := w.evaluate(object{
		"subject": object{"type": "identity", "id": "agent:coder"}, "action": object{"name": "tool.call"},
		"resource": object{"type": "tool", "id": "fs.read"}, "context": object{"arguments": reading, "agent": "client"},
	}); got["decision"] != true {
		t.Errorf("as the profile for MCP names it: %v", got)
	}
	got := w.evaluate(about("agent:coder", "process.run", running))
	if got["decision"] != false || in(got, "context", "reason") != "approval_required" || in(got, "context", "access_request", "binding_token") == "" {
		t.Errorf("what takes a person: %v", got)
	}
	if got := w.evaluate(about("agent:coder", "fs.read", object{"nonsense": 1})); got["decision"] != false || in(got, "context", "reason") != string(reason.InvalidInput) {
		t.Errorf("what is no call: %v", got)
	}
	// No tool ran, no approval was requested, and the journal has only the answers.
	if w.read.Runs.Load()+w.run.Runs.Load() != 0 || len(w.events(event.Asked)) != 0 || len(w.events(event.Proposed)) != 0 {
		t.Error("an evaluation made something")
	}
	list := w.events(event.EvaluatedFor)
	if len(list) != 3 || list[0].Actor != "agent:edge" || list[0].Subject != "agent:coder" || !strings.Contains(string(list[0].Payload), `"caller":"agent:edge"`) ||
		!strings.Contains(string(list[0].Payload), `"allowed":true`) || !strings.Contains(string(list[2].Payload), `"allowed":false`) {
		t.Errorf("journal: %+v", list)
	}
}

// TestUnknownAndForbiddenAreIndistinguishable: subjects that are unknown, inactive or not visible
// to the caller, and calls that no subject could make, all have byte-identical answers.
func TestUnknownAndForbiddenAreIndistinguishable(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `@id("no-run") forbid(principal, action, resource == Tool::"process.run");`)
	var first string
	for name, e := range map[string]object{
		"not listed":             about("user:alice", "fs.read", reading),
		"listed, and not there":  about("user:nobody", "fs.read", reading),
		"listed, and disabled":   about("user:bob", "fs.read", reading),
		"not there":              about("user:ghost", "fs.read", reading),
		"no principal":           about("user:???", "fs.read", reading),
		"a node":                 about("node:x", "fs.read", reading),
		"may call no tool":       about("user:eve", "fs.read", reading),
		"no such tool":           about("agent:coder", "fs.none", reading),
		"a tool that is barred":  about("agent:coder", "process.run", running),
		"a tool, wrong argument": about("agent:coder", "process.run", object{"x": 1}),
		"another action":         {"subject": object{"type": "agent", "id": "coder"}, "action": object{"name": "delete"}, "resource": object{"type": "tool", "id": "fs.read"}},
		"another resource":       {"subject": object{"type": "agent", "id": "coder"}, "action": object{"name": "tools/call"}, "resource": object{"type": "file", "id": "fs.read"}},
	} {
		status, got, text := w.ask("POST", "/access/v1/evaluation", e)
		if first == "" {
			first = text
		}
		if status != http.StatusOK || got["decision"] != false || text != first {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
	if got := w.evaluate(about("agent:coder", "fs.read", reading), "As", "other"); got["decision"] != false {
		t.Errorf("a caller without a list: %v", got)
	}
	// Control: the gateway answers about a listed subject.
	if got := w.evaluate(about("agent:coder", "fs.read", reading)); got["decision"] != true {
		t.Errorf("control: %v", got)
	}
	if len(w.noted) != 13 || in(w.noted[0], "payload", "caller") != "agent:edge" {
		t.Errorf("%d refusals are journaled: %v", len(w.noted), w.noted)
	}
}

// TestAnswersAreJournaledFirst: an answer that cannot be journaled is not sent.
func TestAnswersAreJournaledFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	w.full = reason.Errorf(reason.JournalUnavailable, "the disk is full")
	if status, _, text := w.ask("POST", "/access/v1/evaluation", about("user:alice", "fs.read", reading)); status == http.StatusOK {
		t.Errorf("answered: %s", text)
	}
}

func TestMalformed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	for name, body := range map[string]string{
		"no JSON": "{", "twice": `{"subject":{"type":"user","id":"a"},"subject":{"type":"agent","id":"coder"}}`, "no subject": `{"action":{"name":"x"},"resource":{"type":"tool","id":"x"}}`,
		"a subject as text": `{"subject":"agent:coder"}`, "too long": `{"x":"` + strings.Repeat("x", 1<<20) + `"}`, "no id": `{"subject":{"type":"user"},"action":{"name":"x"},"resource":{"type":"tool","id":"x"}}`,
	} {
		if status, _, text := w.ask("POST", "/access/v1/evaluation", body); status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
	_, _, _ = w.ask("POST", "/access/v1/evaluation", about("agent:coder", "fs.read", reading), "X-Request-ID", "abc")
}

// TestBodiesAreReadExactly: a request with a second spelling of a member that is read is
// refused. Control: a second spelling of a member that is not read is accepted.
func TestBodiesAreReadExactly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	good := `{"subject":{"type":"agent","id":"coder"%s},"action":{"name":"tools/call"},"resource":{"type":"tool","id":"fs.read"},"context":{"arguments":{"path":"a"},"x":1,"X":2%s}%s}`
	for _, c := range []struct {
		subject, context, top string
		refused               bool
	}{
		{}, {subject: `,"ID":"other"`, refused: true}, {subject: `,"Type":"user"`, refused: true},
		{context: `,"Arguments":{"path":"b"}`, refused: true}, {context: `,"Requester_Reason":"r"`, refused: true}, {context: `,"approval":{"id":"a","Id":"b"}`, refused: true},
		{top: `,"SUBJECT":{"type":"user","id":"ann"}`, refused: true}, {top: `,"Context":{}`, refused: true}, {top: `,"other":1,"OTHER":2`},
	} {
		body := fmt.Sprintf(good, c.subject, c.context, c.top)
		for path, text := range map[string]string{"/access/v1/evaluation": body, "/access/v1/evaluations": `{"evaluations":[` + body + `]}`} {
			status, _, answer := w.ask("POST", path, text)
			if (status == http.StatusBadRequest && strings.Contains(answer, "only in case")) != c.refused || !c.refused && status != http.StatusOK {
				t.Errorf("%s %s: %d %s", path, text, status, answer)
			}
		}
	}
}

func TestBatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	batch := func(semantic string) object {
		b := about("agent:coder", "fs.read", reading)
		b["evaluations"] = []object{
			{}, {"resource": object{"type": "tool", "id": "fs.none"}}, {"context": object{"arguments": object{"path": "b"}}},
		}
		if semantic != "" {
			b["options"] = object{"evaluations_semantic": semantic}
		}
		return b
	}
	for semantic, want := range map[string][]bool{"": {true, false, true}, "execute_all": {true, false, true}, "deny_on_first_deny": {true, false}, "permit_on_first_permit": {true}} {
		status, got, text := w.ask("POST", "/access/v1/evaluations", batch(semantic))
		list, _ := got["evaluations"].([]any)
		if status != http.StatusOK || len(list) != len(want) {
			t.Fatalf("%s: %d %s", semantic, status, text)
		}
		for i, yes := range want {
			if list[i].(object)["decision"] != yes {
				t.Errorf("%s: %s", semantic, text)
			}
		}
	}
	single := about("agent:coder", "fs.read", reading)
	single["evaluations"] = []object{}
	if status, got, text := w.ask("POST", "/access/v1/evaluations", single); status != http.StatusOK || got["decision"] != true {
		t.Errorf("none in the list is one at the top: %d %s", status, text)
	}
	if w.counted != 8 {
		t.Errorf("counted %d times beside the requests", w.counted)
	}
	// A batch over the limit is not evaluated.
	before := len(w.events(event.EvaluatedFor))
	if status, _, text := w.ask("POST", "/access/v1/evaluations", batch("")); status == http.StatusOK && w.counted > 10 {
		t.Errorf("over the limit: %s", text)
	}
	if status, _, text := w.ask("POST", "/access/v1/evaluations", batch("")); status == http.StatusOK || !strings.Contains(text, string(reason.RateLimited)) {
		t.Errorf("over the limit: %d %s", status, text)
	}
	if more := len(w.events(event.EvaluatedFor)) - before; more > 2 {
		t.Errorf("%d were evaluated", more)
	}
	for name, b := range map[string]object{
		"another semantic": batch("first_wins"), "nothing": {"evaluations": []object{}}, "too many": {"evaluations": make([]object, 51)},
	} {
		if status, _, text := w.ask("POST", "/access/v1/evaluations", b); status == http.StatusOK {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// denied evaluates a call that requires an approval, and returns the access request that the
// denial offers.
func (w *world) denied(e object) object {
	w.t.Helper()
	got := w.evaluate(e)
	offer, _ := in(got, "context", "access_request").(object)
	if got["decision"] != false || offer == nil {
		w.t.Fatalf("no request is offered: %v", got)
	}
	q := object{"denial": object{"expires_at": offer["expires_at"], "binding_token": offer["binding_token"]}}
	for k, v := range e {
		q[k] = v
	}
	return q
}

// asked makes a request and returns its task and the pending approval.
func (w *world) asked(e object) (task object, rec approval.Record) {
	w.t.Helper()
	status, got, text := w.ask("POST", "/access/v1/requests", w.denied(e))
	task, _ = got["task"].(object)
	if status != http.StatusAccepted || in(task, "status") != "pending" {
		w.t.Fatalf("%d %s", status, text)
	}
	page, _, err := w.gateway.Desk.Records.List(w.t.Context(), approval.Filter{Traits: approval.Traits{States: []approval.State{approval.Pending}}})
	if err != nil || len(page) != 1 {
		w.t.Fatalf("%d pending approvals, %v", len(page), err)
	}
	return task, page[0]
}

// wait polls a task until it has ended.
func (w *world) wait(task object) object {
	w.t.Helper()
	for range 2000 {
		if _, got, _ := w.ask("GET", task["status_endpoint"].(string), ""); in(got, "task", "status") != "pending" {
			return got
		}
	}
	w.t.Fatal("the task does not end")
	return nil
}

func (w *world) vote(rec approval.Record, b approval.Ballot) {
	w.t.Helper()
	must.Get(w.gateway.Desk.Votes.Decide(w.t.Context(), gatewaytest.Person(policytest.Alice, access.RoleOwner), rec.ID, b))(w.t)
}

// again returns an evaluation with an approval.
func again(e, got object) object {
	c := object{}
	for k, v := range e["context"].(object) {
		c[k] = v
	}
	c["approval"] = in(got, "result", "approval")
	out := object{}
	for k, v := range e {
		out[k] = v
	}
	out["context"] = c
	return out
}

// TestAskAPerson: after a denial, a request and a vote, the vote permits one evaluation.
func TestAskAPerson(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	e := about("agent:coder", "process.run", running)
	task, rec := w.asked(e)
	if rec.RequestedBy != policytest.Agent || rec.OnBehalfOf != policytest.Alice || !strings.Contains(strings.Join(rec.Prompt.Notes, " "), "agent:edge requests this call and runs it outside this gateway") {
		t.Errorf("people are asked %+v", rec)
	}
	if n := w.noted[len(w.noted)-1]; n["code"] != string(event.AskedFor) || n["subject"] != rec.ID || in(n, "payload", "caller") != "agent:edge" {
		t.Errorf("journal: %v", n)
	}
	if got := w.evaluate(e); got["decision"] != false {
		t.Errorf("allowed before anybody answered: %v", got)
	}
	w.vote(rec, approval.Ballot{Allow: true})
	got := w.wait(task)
	if in(got, "task", "status") != "approved" || in(got, "result", "mode") != "reevaluate" {
		t.Fatalf("%v", got)
	}
	until, err := time.Parse(time.RFC3339, in(got, "result", "approval", "approved_until").(string))
	if err != nil || time.Until(until) < 4*time.Minute || time.Until(until) > 6*time.Minute {
		t.Errorf("approved until %v, %v", until, err)
	}
	// The evaluation is denied without the approval, for another call, and for another caller.
	if got := w.evaluate(e); got["decision"] != false {
		t.Errorf("without the approval: %v", got)
	}
	wrong := again(about("agent:coder", "process.run", object{"argv": []string{"rm"}}), got)
	if got := w.evaluate(wrong); got["decision"] != false || in(got, "context", "reason") != "out_of_scope" || in(got, "context", "next_action") != "request" || in(got, "context", "access_request") == nil {
		t.Errorf("for another call: %v", got)
	}
	if got := w.evaluate(again(e, got), "As", "other"); got["decision"] != false {
		t.Errorf("of another caller: %v", got)
	}
	yes := w.evaluate(again(e, got))
	if yes["decision"] != true || in(yes, "context", "approval", "id") != in(got, "result", "approval", "id") {
		t.Fatalf("with the approval: %v", yes)
	}
	if no := w.evaluate(again(e, got)); no["decision"] != false || in(no, "context", "reason") != "approval_expired" || in(no, "context", "next_action") != "request" {
		t.Errorf("a second time: %v", no)
	}
	if r := must.Get(w.gateway.Desk.Records.Get(t.Context(), rec.ID))(t); r.State != approval.Consumed {
		t.Errorf("the approval is %s", r.State)
	}
	list := w.events(event.EvaluatedFor)
	allowed := 0
	for _, e := range list {
		if strings.Contains(string(e.Payload), `"allowed":true`) && strings.Contains(string(e.Payload), rec.ID) {
			allowed++
		}
	}
	if allowed != 1 || w.run.Runs.Load() != 0 {
		t.Errorf("%d allowed, %d ran", allowed, w.run.Runs.Load())
	}
}

// TestDenialsAreFinal: calls that approvers or policy denied stay denied.
func TestDenialsAreFinal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	e := about("agent:coder", "process.run", running)
	task, rec := w.asked(e)
	w.vote(rec, approval.Ballot{Allow: false})
	got := w.wait(task)
	if in(got, "task", "status") != "denied" || got["result"] != nil {
		t.Errorf("%v", got)
	}
	forged := object{"result": object{"approval": object{"id": "apr_x", "approved_until": "2099-01-01T00:00:00Z"}}}
	if got := w.evaluate(again(e, forged)); got["decision"] != false || in(got, "context", "reason") != "approval_unverifiable" || in(got, "context", "next_action") != "none" {
		t.Errorf("an approval that nobody gave: %v", got)
	}
	// The denial is stored, so that the same request is answered without an approver. The status
	// code matches the state in the body.
	status, got, text := w.ask("POST", "/access/v1/requests", w.denied(e))
	state := in(got, "task", "status")
	if (status == http.StatusCreated) != (state == "denied") || (status == http.StatusAccepted) != (state == "pending") {
		t.Errorf("%d %s", status, text)
	}
	if got := w.wait(got["task"].(object)); in(got, "task", "status") != "denied" {
		t.Errorf("the same question: %v", got)
	}
}

// TestRevoked: a revoked approval permits nothing.
func TestRevoked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	e := about("agent:coder", "process.run", running)
	task, rec := w.asked(e)
	w.vote(rec, approval.Ballot{Allow: true})
	got := w.wait(task)
	must.Get(w.gateway.Desk.Records.Revoke(t.Context(), gatewaytest.Person(policytest.Alice, access.RoleOwner), rec.ID, "wrong"))(t)
	if no := w.evaluate(again(e, got)); no["decision"] != false || in(no, "context", "reason") != "approval_expired" {
		t.Errorf("%v", no)
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	task, rec := w.asked(about("agent:coder", "process.run", running))
	cancel := in(task, "links", "cancel").(string)
	if status, got, _ := w.ask("POST", cancel, "", "As", "other"); status != http.StatusNotFound || in(got, "type") != "urn:openid:authzen:access-request:error:unknown_task" {
		t.Errorf("another caller took it back: %d %v", status, got)
	}
	if status, got, text := w.ask("POST", cancel, ""); status != http.StatusOK || in(got, "task", "status") != "cancelled" {
		t.Errorf("%d %s", status, text)
	}
	if status, got, _ := w.ask("POST", cancel, ""); status != http.StatusConflict || in(got, "type") != "urn:openid:authzen:access-request:error:invalid_task_state" {
		t.Errorf("again: %d %v", status, got)
	}
	if r := must.Get(w.gateway.Desk.Records.Get(t.Context(), rec.ID))(t); r.State != approval.Cancelled {
		t.Errorf("the approval is %s", r.State)
	}
}

// TestForgedRequests: a request must refer to a denial of this gateway, to the same caller, and
// be made once and in time.
func TestForgedRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	e := about("agent:coder", "process.run", running)
	const kind = "urn:openid:authzen:access-request:error:"
	for name, test := range map[string]struct {
		change  func(q object)
		headers []string
		want    string
	}{
		"another call":    {func(q object) { q["context"] = object{"arguments": object{"argv": []string{"rm"}}} }, nil, "invalid_denial_binding"},
		"another subject": {func(q object) { q["subject"] = object{"type": "user", "id": "alice"} }, nil, "invalid_denial_binding"},
		"another tool":    {func(q object) { q["resource"] = object{"type": "tool", "id": "fs.read"} }, nil, "invalid_denial_binding"},
		"a session added": {func(q object) { q["context"] = object{"arguments": running, "session": "x"} }, nil, "invalid_denial_binding"},
		"a longer time":   {func(q object) { q["denial"].(object)["expires_at"] = "2099-01-01T00:00:00Z" }, nil, "invalid_denial_binding"},
		"no token":        {func(q object) { q["denial"] = object{} }, nil, "invalid_denial_binding"},
		"a changed token": {func(q object) {
			q["denial"].(object)["binding_token"] = q["denial"].(object)["binding_token"].(string) + "A"
		}, nil, "invalid_denial_binding"},
		"another caller": {func(object) {}, []string{"As", "other"}, "invalid_denial_binding"},
	} {
		q := w.denied(e)
		test.change(q)
		status, got, text := w.ask("POST", "/access/v1/requests", q, test.headers...)
		if status != http.StatusBadRequest || got["type"] != kind+test.want {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
	late := w.denied(e)
	w.mu.Lock()
	w.ahead = 11 * time.Minute
	w.mu.Unlock()
	if status, got, text := w.ask("POST", "/access/v1/requests", late); status != http.StatusGone || got["type"] != kind+"expired_denial" {
		t.Errorf("late: %d %s", status, text)
	}
	if page, _, err := w.gateway.Desk.Records.List(t.Context(), approval.Filter{}); err != nil || len(page) != 0 {
		t.Errorf("somebody was asked: %v, %v", page, err)
	}
	// Control: a valid request. A repetition with the same key returns the same task.
	q := w.denied(e)
	status, got, text := w.ask("POST", "/access/v1/requests", q, "Idempotency-Key", "k")
	if status != http.StatusAccepted {
		t.Fatalf("control: %d %s", status, text)
	}
	if _, same, text := w.ask("POST", "/access/v1/requests", q, "Idempotency-Key", "k"); in(same, "task", "id") != in(got, "task", "id") {
		t.Errorf("the same request is another task: %s", text)
	}
	if status, _, text := w.ask("POST", "/access/v1/requests", q); status != http.StatusBadRequest || !strings.Contains(text, "invalid_denial_binding") {
		t.Errorf("the same denial again: %d %s", status, text)
	}
	if status, _, text := w.ask("POST", "/access/v1/requests", w.denied(e), "Idempotency-Key", "k"); status != http.StatusConflict || !strings.Contains(text, "duplicate_request") {
		t.Errorf("another request under the key: %d %s", status, text)
	}
	if status, _, _ := w.ask("GET", in(got, "task", "status_endpoint").(string), "", "As", "other"); status != http.StatusNotFound {
		t.Errorf("another caller sees the task: %d", status)
	}
}

// TestGrants: a grant permits evaluations, and each counts as a use.
func TestGrants(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	e := about("agent:coder", "process.run", running)
	task, rec := w.asked(e)
	w.vote(rec, approval.Ballot{Allow: true, Scope: approval.Session, Match: approval.MatchExact})
	got := w.wait(task)
	if yes := w.evaluate(again(e, got)); yes["decision"] != true {
		t.Fatalf("%v", yes)
	}
	uses := len(w.events(event.GrantUsed))
	if yes := w.evaluate(e); yes["decision"] != true {
		t.Errorf("with a grant: %v", yes)
	}
	if more := len(w.events(event.GrantUsed)) - uses; more != 1 {
		t.Errorf("%d uses are counted", more)
	}
}

// TestFrozen: a frozen gateway permits no evaluation.
func TestFrozen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	w.gateway.Router.Freeze()
	if got := w.evaluate(about("agent:coder", "fs.read", reading)); got["decision"] != false {
		t.Errorf("%v", got)
	}
	w.gateway.Router.Thaw()
	if got := w.evaluate(about("agent:coder", "fs.read", reading)); got["decision"] != true {
		t.Errorf("control: %v", got)
	}
}

func TestMetadata(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	_, got, text := w.ask("GET", "/.well-known/authzen-configuration", "")
	if got["policy_decision_point"] != w.server.URL || got["access_evaluation_endpoint"] != w.server.URL+"/access/v1/evaluation" || !strings.Contains(text, "urn:openid:authzen:capability:access-request") {
		t.Errorf("%s", text)
	}
	if _, got, text := w.ask("GET", "/access/v1/jwks", ""); len(got["keys"].([]any)) != 1 || strings.Contains(text, `"d":`) {
		t.Errorf("%s", text)
	}
}
