package api_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/canonical"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/gateway/gatewaytest"
	"palyra/internal/run/model"
	"palyra/internal/surface/api"
)

// runs returns the runs in a caller's list.
func (w *world) runs(by *client, req *palyrav1.ListRunsRequest) []*palyrav1.Run {
	w.t.Helper()
	res := must.Get(by.gateway().ListRuns(w.t.Context(), req))(w.t)
	return res.GetRuns()
}

// watchRun reads the events of a run to its end.
func (w *world) watchRun(by *client, id string, after int64) []*palyrav1.RunEvent {
	w.t.Helper()
	stream := must.Get(by.gateway().WatchRun(w.t.Context(), &palyrav1.WatchRunRequest{RunId: id, After: after}))(w.t)
	defer stream.Close()
	var list []*palyrav1.RunEvent
	for stream.Receive() {
		if e := stream.Msg().GetEvent(); e != nil {
			list = append(list, e)
		}
	}
	if stream.Err() != nil {
		w.t.Fatal(stream.Err())
	}
	return list
}

// completeRun starts a run that requires no approval, and returns its id and its events.
func (w *world) completeRun(by *client, req *palyrav1.StartRunRequest) (string, []*palyrav1.RunEvent) {
	w.t.Helper()
	res := must.Get(by.gateway().StartRun(w.t.Context(), req))(w.t)
	id := res.GetRun().GetRunId()
	return id, w.watchRun(by, id, 0)
}

// durable removes the events that are not sent again.
func durable(list []*palyrav1.RunEvent) []*palyrav1.RunEvent {
	return slices.DeleteFunc(slices.Clone(list), func(e *palyrav1.RunEvent) bool {
		return e.GetModelDelta() != nil || e.GetModelRetry() != nil || e.GetOutput() != nil
	})
}

// unattended allows programs without an approval.
const unattended = `@id("unattended") @waives("approval: a test")
permit(principal, action == Action::"tool.execute/process.run", resource) when { context.egress.mode != "none" };`

// A client can resume after any sequence number, also in the middle of a result of three parts,
// and gets every later event once.
func TestResumeAtEverySequenceNumber(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) { w.policies = unattended })
	big := []byte(`"` + strings.Repeat("r", 2<<20) + `"`)
	w.read.Work = func(context.Context, tool.Call) tool.Report { return gatewaytest.Succeeded(string(big)) }
	w.model.plays(wants(read("a"), program("b")), says("done"))
	id, events := w.completeRun(w.coder, &palyrav1.StartRunRequest{Message: "look"})
	all := durable(events)
	parts, attested, result := 0, 0, []byte{}
	for i, e := range all {
		if i > 0 && e.GetSequence() <= all[i-1].GetSequence() {
			t.Fatalf("event %d has sequence %d after %d", i, e.GetSequence(), all[i-1].GetSequence())
		}
		if e.GetAttestation() != nil {
			attested++
		}
		if r := e.GetResult(); r != nil && e.GetCallId() == "a" {
			parts++
			result = append(result, r.GetResultJson()...)
			if !r.GetMore() && r.GetExecutionDigest() != canonical.Digest(big) {
				t.Errorf("the digest of the last part is %s", r.GetExecutionDigest())
			}
		}
	}
	if attested != 2 {
		t.Errorf("two calls have %d attestations: %v", attested, kinds(all))
	}
	if parts != 3 || !bytes.Equal(result, big) {
		t.Errorf("the result came in %d parts with %d bytes, want %d", parts, len(result), len(big))
	}
	w.resumesAnywhere(id, all, durable)
}

// While a run's events are in memory, a client can also resume at events that are not
// journaled.
func TestResumeAtProvisionalEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.read.Work = func(_ context.Context, c tool.Call) tool.Report {
		for range 3 {
			c.Output("stdout", []byte("working"))
		}
		return gatewaytest.Succeeded(`{"ok":true}`)
	}
	first := wants(read("a"), read("b"))
	first.Text = "let me see"
	w.model.plays(first, says("all is well now"))
	id, all := w.completeRun(w.coder, &palyrav1.StartRunRequest{Message: "look"})
	if n := len(all) - len(durable(all)); n != 3+6+4 {
		t.Errorf("%d provisional events: %v", n, kinds(all))
	}
	w.resumesAnywhere(id, all, func(list []*palyrav1.RunEvent) []*palyrav1.RunEvent { return list })
}

// resumesAnywhere resumes a run of coder after every event and between events, and compares the
// events with the remaining ones.
func (w *world) resumesAnywhere(id string, all []*palyrav1.RunEvent, of func([]*palyrav1.RunEvent) []*palyrav1.RunEvent) {
	w.t.Helper()
	same := func(what string, got, want []*palyrav1.RunEvent) {
		w.t.Helper()
		got = of(got)
		if !slices.EqualFunc(got, want, func(a, b *palyrav1.RunEvent) bool { return proto.Equal(a, b) }) {
			w.t.Errorf("%s: %d events, want %d: %v", what, len(got), len(want), kinds(got))
		}
	}
	for i, e := range all {
		same("a watch", w.watchRun(w.coder, id, e.GetSequence()), all[i+1:])
		if i%4 > 0 {
			continue // both read the events in the same way
		}
		got := must.Get(w.coder.runStream(resume(id, e.GetSequence())).rest())(w.t)
		same("a stream", got, all[i+1:])
	}
	same("between two", w.watchRun(w.coder, id, all[2].GetSequence()-1), all[2:])
	same("after the end", w.watchRun(w.coder, id, last(all).GetSequence()+1), nil)
}

// A run can be read by its principal, its user and callers that may read the journal. The first
// two can send it messages; they and callers that may stop all calls can cancel it. Other
// callers get the same error as for an unknown run.
func TestRunsOfOthersDoNotExist(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.model.set(func(ctx context.Context, r model.Request, _ func(model.Event)) (model.Turn, error) {
		<-ctx.Done()
		return model.Turn{}, reason.Errorf(reason.Cancelled, "cut off")
	})
	start := func(by *client) string {
		res := must.Get(by.gateway().StartRun(t.Context(), &palyrav1.StartRunRequest{Message: "look"}))(t)
		return res.GetRun().GetRunId()
	}
	const never = "01JZ8Q4T2M0000000000000000"
	for name, c := range map[string]struct {
		by                *client
		of                *client
		see, say, stopped bool
	}{
		"the principal":               {w.coder, w.coder, true, true, true},
		"the user behind it":          {w.alice, w.coder, true, true, true},
		"an operator":                 {w.bob, w.coder, true, false, true},
		"a stranger":                  {w.dan, w.coder, false, false, false},
		"an agent, of its user's run": {w.coder, w.alice, false, false, false},
		"an agent, of a stranger's":   {w.coder, w.dan, false, false, false},
	} {
		id := start(c.of)
		get := func(id string) error {
			_, err := c.by.gateway().GetRun(t.Context(), &palyrav1.GetRunRequest{RunId: id})
			return err
		}
		watch := func(id string) error {
			stream, err := c.by.gateway().WatchRun(t.Context(), &palyrav1.WatchRunRequest{RunId: id})
			if err != nil {
				return err
			}
			defer stream.Close()
			stream.Receive()
			return stream.Err()
		}
		attach := func(id string) error {
			r := c.by.runStream(resume(id, 0))
			_, err := r.stream.Receive()
			if err == nil {
				r.send(userSays("hi"))
				m := last(r.until(func(m *palyrav1.RunStreamResponse) bool {
					return m.GetRefused() != nil || m.GetEvent().GetUserMessage() != nil
				}))
				if c.say != (m.GetRefused() == nil) || !c.say && m.GetRefused().GetReason() != string(reason.PermissionDenied) {
					t.Errorf("%s: a message: %v", name, m)
				}
			}
			_ = r.stream.CloseResponse()
			return err
		}
		// A caller that may read the run, and not send messages, gets PermissionDenied.
		say := func(id string) error {
			_, err := c.by.gateway().SendRunMessage(t.Context(), &palyrav1.SendRunMessageRequest{RunId: id, Text: "hi"})
			if c.see && !c.say {
				wantError(t, name+": say", err, reason.PermissionDenied)
				return nil
			}
			return err
		}
		stop := func(id string) error {
			_, err := c.by.gateway().CancelRun(t.Context(), &palyrav1.CancelRunRequest{RunId: id, Reason: "enough"})
			return err
		}
		for _, act := range []struct {
			name string
			do   func(string) error
			may  bool
		}{{"get", get, c.see}, {"watch", watch, c.see}, {"resume", attach, c.see}, {"say", say, c.see}, {"cancel", stop, c.stopped}} {
			err := act.do(id)
			if act.may {
				if err != nil {
					t.Errorf("%s: %s: %v", name, act.name, err)
				}
				continue
			}
			wantError(t, name+": "+act.name, err, reason.NotFound)
			if other := act.do(never); other == nil || err == nil || strings.ReplaceAll(other.Error(), never, id) != err.Error() {
				t.Errorf("%s: %s: %v tells more than %v", name, act.name, err, other)
			}
		}
		listed := slices.ContainsFunc(w.runs(c.by, &palyrav1.ListRunsRequest{}), func(r *palyrav1.Run) bool { return r.GetRunId() == id })
		if listed != c.see {
			t.Errorf("%s: listed %v", name, listed)
		}
	}
	// An auditor can only read.
	id := start(w.coder)
	if _, err := w.eve.gateway().GetRun(t.Context(), &palyrav1.GetRunRequest{RunId: id}); err != nil {
		t.Error(err)
	}
	_, err := w.eve.gateway().SendRunMessage(t.Context(), &palyrav1.SendRunMessageRequest{RunId: id, Text: "hi"})
	wantError(t, "an auditor talks", err, reason.PermissionDenied)
	_, err = w.eve.gateway().CancelRun(t.Context(), &palyrav1.CancelRunRequest{RunId: id})
	wantError(t, "an auditor cancels", err, reason.PermissionDenied)
	_, err = w.eve.runStream(resume(id, 0)).rest()
	wantError(t, "an auditor resumes", err, reason.PermissionDenied)
}

// TestCancelDoesNotAllowReading: a member that may cancel every run, and read none, can cancel
// a run.
func TestCancelDoesNotAllowReading(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) {
		w.policies = `@id("bob-reads-nothing") forbid(principal == User::"bob", action == Action::"journal.read", resource);`
	})
	w.model.set(func(ctx context.Context, _ model.Request, _ func(model.Event)) (model.Turn, error) {
		<-ctx.Done()
		return model.Turn{}, reason.Errorf(reason.Cancelled, "cut off")
	})
	for _, c := range []struct {
		by   *client
		want string
	}{{w.bob, ""}, {w.alice, "a secret task"}} {
		started := must.Get(w.coder.gateway().StartRun(t.Context(), &palyrav1.StartRunRequest{Message: "a secret task"}))(t)
		res := must.Get(c.by.gateway().CancelRun(t.Context(), &palyrav1.CancelRunRequest{RunId: started.GetRun().GetRunId()}))(t)
		if r := res.GetRun(); r.GetState() != palyrav1.RunState_RUN_STATE_CANCELLED || r.GetMessage() != c.want {
			t.Errorf("cancelled: %v, want the task %q", r, c.want)
		}
	}
}

// The largest turn fits in a message of the API, whose maximum size every client may enforce.
func TestLargestTurnFitsIntoAMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.model.plays(says(strings.Repeat("x", model.MaxTurn)))
	r := w.coder.runStream(startRun("talk"), connect.WithReadMaxBytes(api.MaxMessage))
	if turn := r.turn(); len(turn.GetText()) != model.MaxTurn {
		t.Errorf("the turn has %d bytes", len(turn.GetText()))
	}
}

func TestListRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var ids []string
	for _, c := range []struct {
		by      *client
		session string
	}{{w.coder, "s"}, {w.coder, ""}, {w.dan, "s"}, {w.alice, ""}} {
		id, _ := w.completeRun(c.by, &palyrav1.StartRunRequest{Message: "look", Session: c.session})
		ids = append(ids, id)
	}
	page := func(by *client, req *palyrav1.ListRunsRequest) []int {
		var list []int
		for {
			res := must.Get(by.gateway().ListRuns(t.Context(), req))(t)
			for _, r := range res.GetRuns() {
				list = append(list, slices.Index(ids, r.GetRunId()))
			}
			if req.PageToken = res.GetNextPageToken(); req.PageToken == "" {
				return list
			}
		}
	}
	done := []palyrav1.RunState{palyrav1.RunState_RUN_STATE_COMPLETED}
	for _, test := range []struct {
		name string
		by   *client
		req  *palyrav1.ListRunsRequest
		want []int
	}{
		{"all", w.bob, &palyrav1.ListRunsRequest{}, []int{3, 2, 1, 0}},
		{"in pages", w.bob, &palyrav1.ListRunsRequest{PageSize: 1}, []int{3, 2, 1, 0}},
		{"the agent's own", w.coder, &palyrav1.ListRunsRequest{}, []int{1, 0}},
		{"the agent's own in pages", w.coder, &palyrav1.ListRunsRequest{PageSize: 1}, []int{1, 0}},
		{"a developer's own", w.dan, &palyrav1.ListRunsRequest{States: done}, []int{2}},
		{"of one principal", w.bob, &palyrav1.ListRunsRequest{Principal: "agent:coder"}, []int{1, 0}},
		{"of another, for who may not", w.dan, &palyrav1.ListRunsRequest{Principal: "agent:coder"}, nil},
		{"that run", w.bob, &palyrav1.ListRunsRequest{States: []palyrav1.RunState{palyrav1.RunState_RUN_STATE_RUNNING}}, nil},
	} {
		if got := page(test.by, test.req); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
	_, err := w.bob.gateway().ListRuns(t.Context(), &palyrav1.ListRunsRequest{Principal: "nobody"})
	wantError(t, "no principal", err, reason.InvalidInput)
}

func TestStartRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.coder.gateway().StartRun(t.Context(), &palyrav1.StartRunRequest{Message: "x", Budget: &palyrav1.RunBudget{WallClock: durationpb.New(-time.Second)}})
	wantError(t, "no time", err, reason.InvalidInput)
	_, err = w.eve.gateway().StartRun(t.Context(), &palyrav1.StartRunRequest{Message: "x"})
	wantError(t, "an auditor", err, reason.PermissionDenied)

	req := &palyrav1.StartRunRequest{Message: "look", IdempotencyKey: "k", Session: "s", Budget: &palyrav1.RunBudget{Calls: 7}}
	id, events := w.completeRun(w.coder, req)
	run := events[0].GetStarted().GetRun()
	if run.GetPrincipal() != "agent:coder" || run.GetOnBehalfOf() != "user:alice" || run.GetBudget().GetCalls() != 7 || run.GetBudget().GetTokens() == 0 ||
		run.GetMessage() != "look" || run.GetDevice() != w.coder.device || run.GetSession() != w.coder.device+".s" {
		t.Errorf("started as %v", run)
	}
	again, err := w.coder.gateway().StartRun(t.Context(), req)
	if err != nil || again.GetRun().GetRunId() != id || again.GetRun().GetState() != palyrav1.RunState_RUN_STATE_COMPLETED {
		t.Errorf("a retry gave %v, %v", again, err)
	}
	shown, err := w.coder.gateway().GetRun(t.Context(), &palyrav1.GetRunRequest{RunId: id})
	if err != nil || shown.GetRun().GetRunId() != id || shown.GetLastSequence() != last(events).GetSequence() {
		t.Errorf("shown as %v, %v, and the tape ends with %d", shown, err, last(events).GetSequence())
	}
	got, err := w.coder.runStream(&palyrav1.RunStreamRequest{Message: &palyrav1.RunStreamRequest_Start{Start: req}}).rest()
	if err != nil || len(got) != len(durable(events)) {
		t.Errorf("a retry over the stream gave %v, %v", kinds(got), err)
	}
	req.Message = "look elsewhere"
	_, err = w.coder.gateway().StartRun(t.Context(), req)
	wantError(t, "another request with the key", err, reason.IdempotencyMismatch)
}

// A conversation works without a stream: the run waits for each message, and ends after the
// last.
func TestConversationWithoutAStream(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.model.set(func(_ context.Context, r model.Request, _ func(model.Event)) (model.Turn, error) {
		return says("you said " + last(r.Messages).Text), nil
	})
	res := must.Get(w.coder.gateway().StartRun(t.Context(), &palyrav1.StartRunRequest{Message: "one", Interactive: true}))(t)
	id := res.GetRun().GetRunId()
	tape := must.Get(w.coder.gateway().WatchRun(t.Context(), &palyrav1.WatchRunRequest{RunId: id}))(t)
	defer tape.Close()
	answer := func() string {
		for tape.Receive() {
			if turn := tape.Msg().GetEvent().GetModelTurn(); turn != nil {
				return turn.GetText()
			}
		}
		t.Fatal(tape.Err())
		return ""
	}
	if got := answer(); got != "you said one" {
		t.Errorf("got %q", got)
	}
	for name, req := range map[string]*palyrav1.SendRunMessageRequest{
		"empty": {RunId: id}, "no run": {Text: "x"}, "too large": {RunId: id, Text: strings.Repeat("x", 1<<20+1)},
	} {
		_, err := w.coder.gateway().SendRunMessage(t.Context(), req)
		wantError(t, name, err, reason.InvalidInput)
	}
	// The user of an agent can send messages to the agent's run.
	for range 2 {
		req := &palyrav1.SendRunMessageRequest{RunId: id, Text: "two", IdempotencyKey: "second"}
		if res := must.Get(w.alice.gateway().SendRunMessage(t.Context(), req))(t); res.GetRun().GetState() != palyrav1.RunState_RUN_STATE_RUNNING {
			t.Errorf("%v", res.GetRun())
		}
	}
	if got := answer(); got != "you said two" {
		t.Errorf("got %q", got)
	}
	must.Get(w.coder.gateway().SendRunMessage(t.Context(), &palyrav1.SendRunMessageRequest{RunId: id, Text: "three", Last: true}))(t)
	if got := answer(); got != "you said three" {
		t.Errorf("got %q", got)
	}
	if run := last(w.watchRun(w.coder, id, 0)).GetFinished().GetRun(); run.GetState() != palyrav1.RunState_RUN_STATE_COMPLETED || run.GetUsage().GetTurns() != 3 {
		t.Errorf("finished as %v", run)
	}
	_, err := w.coder.gateway().SendRunMessage(t.Context(), &palyrav1.SendRunMessageRequest{RunId: id, Text: "four"})
	wantError(t, "after the end", err, reason.RunEnded)
}

// TestRunNamesAreReserved: the names of the gateway's own runs are reserved.
func TestRunNamesAreReserved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, _ := w.completeRun(w.coder, &palyrav1.StartRunRequest{Message: "look"})
	for name, c := range map[string]struct {
		run  string
		fine bool
	}{
		"a run of the gateway": {id, false}, "in lower case": {strings.ToLower(id), false}, "any ULID": {"01JZ8Q4T2M0000000000000000", false},
		"another name": {"nightly", true}, "none": {"", true}, "almost one": {id[1:], true},
	} {
		req := reading()
		req.Run = c.run
		_, err := w.coder.call(req)
		if c.fine && err != nil {
			t.Errorf("%s: %v", name, err)
		} else if !c.fine {
			wantError(t, name, err, reason.InvalidInput)
			req = reading()
			req.Session = c.run
			_, err = w.coder.call(req)
			wantError(t, name+" as the session", err, reason.InvalidInput)
		}
	}
}

// Ending a session ends its own runs, and no others.
func TestEndSessionEndsItsRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.model.plays(wants(program("a")), says("done"))
	in := func(by *client, session string) *runClient {
		r := by.runStream(startRun("build", func(r *palyrav1.StartRunRequest) { r.Session = session }))
		r.asked()
		return r
	}
	ended, other, others := in(w.coder, "s"), in(w.coder, "t"), in(w.dan, "s")
	must.Get(w.coder.gateway().EndSession(t.Context(), &palyrav1.EndSessionRequest{Session: "s"}))(t)
	if run := ended.finished(); run.GetState() != palyrav1.RunState_RUN_STATE_CANCELLED {
		t.Errorf("finished as %v", run)
	}
	running := w.runs(w.alice, &palyrav1.ListRunsRequest{States: []palyrav1.RunState{palyrav1.RunState_RUN_STATE_RUNNING}})
	if len(running) != 2 {
		t.Errorf("%v go on", running)
	}
	for _, r := range []*runClient{other, others} {
		r.send(cancels("enough"))
		r.finished()
	}
}

// Events of a run have rule text only for callers that may read policies, like calls.
func TestRunRulesNeedPolicyRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) {
		w.policies = `@id("acme-merger") @reason("quiet period of the Acme merger") @remedy("Wait until Monday.")
forbid(principal, action == Action::"tool.execute/fs.read", resource);`
	})
	w.model.plays(wants(read("a")), says("done"))
	id, events := w.completeRun(w.coder, &palyrav1.StartRunRequest{Message: "look"})
	sees := func(list []*palyrav1.RunEvent) bool {
		for _, e := range list {
			if d := e.GetDecision(); d != nil {
				if d.GetAllowed() || d.GetRemedy() != "Wait until Monday." {
					t.Errorf("decision %v", d)
				}
				return len(d.GetDetermining()) > 0
			}
		}
		t.Error("there is no decision")
		return false
	}
	if sees(events) {
		t.Error("the agent sees the rule")
	}
	if !sees(w.watchRun(w.alice, id, 0)) {
		t.Error("its owner does not see the rule")
	}
	if w.read.Runs.Load() != 0 {
		t.Error("the tool ran")
	}
}
