package run_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	toolcall "palyra/internal/call"
	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/reason/reasontest"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/journal"
	"palyra/internal/run"
	"palyra/internal/run/model"
)

var errDisk = errors.New("the disk is full")

func TestInteractiveRunWaitsForItsInboxes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, says("what next?"), says("and then?"), says("bye"))
		defer w.stop()
		r, first := w.start(run.Start{Interactive: true})
		synctest.Wait()
		second, err := w.Attach(t.Context(), agent, r.ID)
		must.Do(t, err)
		first.Close()
		first.Close() // only the first Close counts
		synctest.Wait()
		if w.Roster.Active() != 1 {
			t.Fatal("the run ended while an inbox was open")
		}
		must.Do(t, second.Say(t.Context(), "go on"))
		synctest.Wait()
		if got := w.model.asked(2).Messages; len(got) != 3 || got[2].Text != "go on" || got[1].Text != "what next?" {
			t.Errorf("the model was told %+v", got)
		}
		second.Close()
		wantEnd(t, w.finish(r.ID), run.Completed, "")
		want := []string{"started", "delta", "turn", "message", "delta", "turn", "finished"}
		if got := kinds(w.events(r.ID, 0)); !slices.Equal(got, want) {
			t.Errorf("tape %v, want %v", got, want)
		}
		_, err = w.Attach(t.Context(), agent, r.ID)
		reasontest.Want(t, "the error", err, reason.RunEnded)
		_, err = w.Attach(t.Context(), agent, "01JNONE0000000000000000000")
		reasontest.Want(t, "the error", err, reason.NotFound)
	})
}

// A client without an inbox counts as a disconnected one, so that the run waits for its
// messages. A retry with the same key adds no message. A last message ends a run that waited
// only for it.
func TestMessagesWithoutAnInbox(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, says("what next?"), says("and then?"), says("bye"))
		defer w.stop()
		r, inbox := w.start(run.Start{Interactive: true})
		inbox.Leave()
		synctest.Wait()
		user := access.Caller{Principal: agent.OnBehalfOf, OnBehalfOf: agent.OnBehalfOf}
		for range 2 {
			must.Get(w.Say(t.Context(), user, r.ID, run.Post{Text: "go on", Key: "k"}))(t)
			synctest.Wait()
		}
		if got := w.model.asked(2).Messages; len(got) != 3 || got[2].Text != "go on" {
			t.Errorf("the model was told %+v", got)
		}
		if w.Roster.Active() != 1 {
			t.Fatal("the run ended before its last message")
		}
		// The agent's key with the same name is a different key.
		must.Get(w.Say(t.Context(), agent, r.ID, run.Post{Text: "enough", Last: true, Key: "k"}))(t)
		wantEnd(t, w.finish(r.ID), run.Completed, "")
		want := []string{"started", "delta", "turn", "message", "delta", "turn", "message", "delta", "turn", "finished"}
		if got := kinds(w.events(r.ID, 0)); !slices.Equal(got, want) {
			t.Errorf("tape %v, want %v", got, want)
		}
		var said []string
		for _, e := range must.Get(w.store.Events(t.Context(), journal.Filter{Run: r.ID, Limit: 100}))(t) {
			if e.Code == event.UserMessage {
				said = append(said, e.Actor)
			}
		}
		if want := []string{user.Principal.String(), agent.Principal.String()}; !slices.Equal(said, want) {
			t.Errorf("the journal says that %v spoke, want %v", said, want)
		}
		_, err := w.Say(t.Context(), user, r.ID, run.Post{Text: "more"})
		reasontest.Want(t, "the error", err, reason.RunEnded)
		_, err = w.Say(t.Context(), user, "01JNONE0000000000000000000", run.Post{Text: "more"})
		reasontest.Want(t, "the error", err, reason.NotFound)
	})
}

// TestEmptyLastMessage: the last message may be empty, and does not end a run that a stream keeps
// open. A message that cannot be stored changes nothing.
func TestEmptyLastMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, says("what next?"))
		defer w.stop()
		r, inbox := w.start(run.Start{Interactive: true})
		synctest.Wait()
		_, err := w.Say(t.Context(), agent, r.ID, run.Post{})
		reasontest.Want(t, "the error", err, reason.InvalidInput)
		must.Get(w.Say(t.Context(), agent, r.ID, run.Post{Last: true}))(t)
		synctest.Wait()
		if w.Roster.Active() != 1 {
			t.Fatal("the run ended while an inbox was open")
		}
		inbox.Leave()
		synctest.Wait()
		if w.Roster.Active() != 1 {
			t.Fatal("the run ended with its lost client")
		}
		must.Get(w.Say(t.Context(), agent, r.ID, run.Post{Last: true}))(t)
		wantEnd(t, w.finish(r.ID), run.Completed, "")
	})
}

// A client that disconnected without closing its inbox can return. A client that closes its
// inbox also releases the wait for the disconnected one.
func TestInteractiveRunWaitsForALostClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, says("what next?"), says("and then?"))
		defer w.stop()
		r, inbox := w.start(run.Start{Interactive: true})
		synctest.Wait()
		inbox.Leave()
		inbox.Leave()
		inbox.Close() // closing an inbox after Leave has no effect
		synctest.Wait()
		if w.Roster.Active() != 1 {
			t.Fatal("the run ended with its lost client")
		}
		for _, hangUp := range []func(run.Inbox){run.Inbox.Leave, run.Inbox.Close} {
			back := must.Get(w.Attach(t.Context(), agent, r.ID))(t)
			hangUp(back)
			synctest.Wait()
		}
		wantEnd(t, w.finish(r.ID), run.Completed, "")
	})
}

// An interactive run that waits for its next message ends with a reason some time after its
// client disconnected. It does not end while it waits for a vote, while a call runs, or if the
// client returned. The time starts when the run begins to wait.
func TestAbandonedRunEnds(t *testing.T) {
	t.Parallel()
	busy := []step{calls(modelCall("a", "echo", `{}`)), says("done")}
	for name, c := range map[string]struct {
		steps []step
		tool  work
		back  bool
		ends  time.Duration // after the client disconnected; 0 is never
	}{
		"waits for its client": {[]step{says("what next?")}, nil, false, time.Minute},
		"has a call running":   {busy, sleeps(10 * time.Minute), false, 11 * time.Minute},
		"waits for a vote":     {busy, fails(errAsk), false, 0},
		"its client came back": {[]step{says("what next?")}, nil, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, c.steps...)
				w.stop()
				w.config.Limits.AbandonedAfter = time.Minute
				w.open()
				defer func() { w.stop() }()
				if c.tool != nil {
					w.pipeline.tools["echo"] = c.tool
				}
				r, inbox := w.start(run.Start{Interactive: true})
				synctest.Wait()
				inbox.Leave()
				if c.back {
					time.Sleep(time.Minute - time.Second)
					must.Get(w.Attach(t.Context(), agent, r.ID))(t)
				}
				if c.ends == 0 {
					time.Sleep(30 * time.Minute)
					synctest.Wait()
					if w.Roster.Active() != 1 {
						t.Errorf("the run ended: %+v", w.finish(r.ID))
					}
					return
				}
				time.Sleep(c.ends - time.Second)
				synctest.Wait()
				if w.Roster.Active() != 1 {
					t.Fatalf("the run ended too early: %+v", w.finish(r.ID))
				}
				time.Sleep(time.Second)
				synctest.Wait()
				wantEnd(t, w.finish(r.ID), run.Failed, reason.RunAbandoned)
			})
		})
	}
}

func TestMessagesJoinTheNextRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, calls(modelCall("c1", "slow", `{}`)), says("one"), says("two"))
		defer w.stop()
		w.pipeline.tools["slow"] = sleeps(time.Second)
		r, inbox := w.start(run.Start{})
		synctest.Wait() // the call is running
		for _, text := range []string{"also this", "and that"} {
			must.Do(t, inbox.Say(t.Context(), text))
		}
		wantEnd(t, w.finish(r.ID), run.Completed, "")
		request := w.model.asked(2)
		last := request.Messages[len(request.Messages)-1]
		if last.Text != "also this\n\nand that" || len(last.Results) != 1 {
			t.Errorf("the next request ends with %+v", last)
		}
	})
}

func TestMessagesAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, calls(modelCall("c1", "slow", `{}`)), says("done"))
		defer w.stop()
		w.pipeline.tools["slow"] = sleeps(time.Second)
		_, inbox := w.start(run.Start{})
		reasontest.Want(t, "the error", inbox.Say(t.Context(), ""), reason.InvalidInput)
		for range run.MostQueued {
			must.Do(t, inbox.Say(t.Context(), "x"))
		}
		reasontest.Want(t, "the error", inbox.Say(t.Context(), "one too many"), reason.RateLimited)
	})
}

func TestUnrecordedMessageIsNotDelivered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, calls(modelCall("c1", "slow", `{}`)), says("done"))
		defer w.stop()
		w.pipeline.tools["slow"] = sleeps(time.Second)
		r, inbox := w.start(run.Start{})
		synctest.Wait()
		w.store.failWith(func(run.Write) error { return errDisk })
		if err := inbox.Say(t.Context(), "lost"); err == nil {
			t.Error("a message that is not durable was accepted")
		}
		w.store.failWith(nil)
		w.finish(r.ID)
		if last := w.model.asked(2).Messages[2]; last.Text != "" {
			t.Errorf("the model was told %q", last.Text)
		}
	})
}

func TestCancelReachesTheModel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, waits)
		defer w.stop()
		r, _ := w.start(run.Start{})
		synctest.Wait()
		got, err := w.Cancel(t.Context(), alice, r.ID, "enough")
		must.Do(t, err)
		wantEnd(t, got, run.Cancelled, reason.Cancelled)
		if got.CancelledBy != alice.Principal || !strings.Contains(got.Detail, "enough") {
			t.Errorf("cancelled by %s: %s", got.CancelledBy, got.Detail)
		}
		if w.finish(r.ID) != got {
			t.Error("Cancel returned another record than the row")
		}
		_, err = w.Cancel(t.Context(), alice, r.ID, "")
		reasontest.Want(t, "the error", err, reason.RunEnded)
		_, err = w.Cancel(t.Context(), alice, "01JNONE0000000000000000000", "")
		reasontest.Want(t, "the error", err, reason.NotFound)
	})
}

func TestCancelReachesCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, calls(modelCall("a", "slow", `{}`), modelCall("b", "ask", `{}`)))
		defer w.stop()
		w.pipeline.tools["slow"], w.pipeline.tools["ask"] = sleeps(time.Hour), fails(errAsk)
		r, _ := w.start(run.Start{})
		synctest.Wait()
		began := time.Now()
		must.Get(w.Cancel(t.Context(), alice, r.ID, ""))(t)
		if took := time.Since(began); took != 0 {
			t.Errorf("the cancel took %s", took)
		}
		ends := map[string]string{}
		for _, e := range w.events(r.ID, 0) {
			switch {
			case e.Result != nil:
				ends[e.CallID] = string(e.Result.Outcome)
			case e.Decision != nil && !e.Decision.Allowed:
				ends[e.CallID] = string(e.Decision.Reason)
			}
		}
		if ends["a"] != string(tool.Stopped) || ends["b"] != string(reason.ApprovalCancelled) {
			t.Errorf("the calls ended as %v", ends)
		}
	})
}

func TestCancelReachesAnIdleRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, says("and now?"))
		defer w.stop()
		r, _ := w.start(run.Start{Interactive: true})
		synctest.Wait()
		must.Get(w.Cancel(t.Context(), alice, r.ID, ""))(t)
		wantEnd(t, w.finish(r.ID), run.Cancelled, reason.Cancelled)
	})
}

// A run without a client's session has its own session, which a client cannot name for another
// run. A grant for that session then applies only to the run.
func TestRunIsItsOwnSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, calls(modelCall("c1", "echo", `{"x":1}`)), says("done"), waits, says("named"))
		defer w.stop()
		one, _ := w.start(run.Start{Message: "the task"})
		w.finish(one.ID)
		two, _ := w.start(run.Start{Message: "the task"})
		if one.Session != toolcall.SessionID(agent, one.ID) || two.Session == one.Session {
			t.Errorf("the runs are of the sessions %q and %q", one.Session, two.Session)
		}
		if s := w.pipeline.submitted[0]; toolcall.SessionID(agent, s.Session) != one.Session {
			t.Errorf("the call is of session %q", s.Session)
		}
		for _, taken := range []string{one.ID, strings.ToLower(two.ID)} {
			if _, _, err := w.Start(t.Context(), agent, run.Start{Message: "x", Session: taken}); reason.Of(err) != reason.InvalidInput {
				t.Errorf("a run in the session %q: %v", taken, err)
			}
		}
		if r, _, err := w.Start(t.Context(), agent, run.Start{Message: "x", Session: "mine"}); err != nil || r.Session != toolcall.SessionID(agent, "mine") {
			t.Errorf("control: a named session: %q, %v", r.Session, err)
		}
	})
}

func TestEndSessionAndRevokedStopTheRightRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, waits, waits, waits)
		defer w.stop()
		one, _ := w.start(run.Start{Session: "one"})
		two, _ := w.start(run.Start{Session: "two"})
		other := agent
		other.DeviceID = "01JNA3Q0G0DEV1CE0000000002"
		three, _, err := w.Start(t.Context(), other, run.Start{Session: "one", Message: "x"})
		must.Do(t, err)
		must.Do(t, w.EndSession(t.Context(), alice, toolcall.SessionID(agent, "one")))
		wantEnd(t, w.finish(one.ID), run.Cancelled, reason.Cancelled)
		if w.Roster.Active() != 2 {
			t.Fatalf("%d runs are active, want 2", w.Roster.Active())
		}
		if n := w.EndDevice(other.DeviceID, reason.Errorf(reason.Unauthenticated, "device %s was revoked", other.DeviceID)); n != 1 {
			t.Errorf("%d runs of the revoked device", n)
		}
		wantEnd(t, w.finish(three.ID), run.Failed, reason.Unauthenticated)
		if got, _ := w.Get(t.Context(), two.ID); got.State != run.Running {
			t.Errorf("the other run is %s", got.State)
		}
	})
}

// A stop of the gateway ends requests to models immediately and lets calls continue for the
// drain period. All events are durable.
func TestStopInterruptsRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, waits, calls(modelCall("a", "short", `{}`)), calls(modelCall("b", "long", `{}`)))
		w.pipeline.tools["short"], w.pipeline.tools["long"] = sleeps(500*time.Millisecond), sleeps(time.Hour)
		var ids []string
		for range 3 {
			r, _ := w.start(run.Start{})
			ids = append(ids, r.ID)
			synctest.Wait()
		}
		began := time.Now()
		w.stop()
		if took := time.Since(began); took != time.Second {
			t.Errorf("the stop took %s, want the drain of a second", took)
		}
		for i, outcome := range []tool.Outcome{"", tool.Succeeded, tool.Stopped} {
			wantEnd(t, w.finish(ids[i]), run.Interrupted, reason.RunInterrupted)
			for _, e := range w.events(ids[i], 0) {
				if e.Result != nil && e.Result.Outcome != outcome {
					t.Errorf("the call of run %d %s, want %s", i, e.Result.Outcome, outcome)
				}
			}
		}
		_, _, err := w.Start(t.Context(), agent, run.Start{Message: "x"})
		reasontest.Want(t, "the error", err, reason.ShuttingDown)
	})
}

// A call that waits for approval when the gateway stops leaves the approval pending.
func TestStopLeavesApprovalsPending(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, calls(modelCall("a", "ask", `{}`)))
		w.pipeline.tools["ask"] = fails(errAsk)
		r, _ := w.start(run.Start{})
		synctest.Wait()
		w.stop()
		wantEnd(t, w.finish(r.ID), run.Interrupted, reason.RunInterrupted)
		for _, e := range w.events(r.ID, 0) {
			if e.Decision != nil {
				t.Errorf("the call was decided: %+v", e.Decision)
			}
		}
	})
}

func TestKilledRunsAreClosedAtTheNextStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, calls(modelCall("a", "echo", `{}`), modelCall("b", "none", `{}`)), waits)
		r, _ := w.start(run.Start{})
		synctest.Wait()
		// The disk is full, as if the process had been killed.
		w.store.failWith(func(run.Write) error { return errDisk })
		w.stop()
		if got, _ := w.Get(t.Context(), r.ID); got.State != run.Running {
			t.Fatalf("control: the run is %s", got.State)
		}
		w.store.failWith(nil)
		w.open()
		defer w.stop()
		n, err := run.CloseInterrupted(t.Context(), w.store, slog.New(slog.DiscardHandler))
		if err != nil || n != 1 {
			t.Fatalf("closed %d runs, %v", n, err)
		}
		end := w.finish(r.ID)
		wantEnd(t, end, run.Interrupted, reason.RunInterrupted)
		if want := (run.Usage{Calls: 2, Turns: 1, InputTokens: 10, OutputTokens: 5}); end.Usage != want {
			t.Errorf("usage %+v, want %+v", end.Usage, want)
		}
		if n, err := run.CloseInterrupted(t.Context(), w.store, slog.New(slog.DiscardHandler)); n != 0 || err != nil {
			t.Errorf("closed %d again, %v", n, err)
		}
	})
}

// An event that this version cannot read does not prevent the start.
func TestUnreadableRunIsClosedAtTheNextStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, waits)
	r, _ := w.start(run.Start{})
	w.store.failWith(func(run.Write) error { return errDisk })
	w.stop()
	w.store.failWith(nil)
	bad := event.Draft{Code: event.ModelTurn, Run: r.ID, Actor: agent.Principal.String(), Subject: r.ID, Payload: json.RawMessage(`{"input_tokens":9223372036854776000}`)}
	must.Do(t, w.store.Append(t.Context(), run.Write{Drafts: []event.Draft{bad}}))
	w.open()
	defer w.stop()
	if n, err := run.CloseInterrupted(t.Context(), w.store, slog.New(slog.DiscardHandler)); n != 1 || err != nil {
		t.Fatalf("closed %d runs, %v", n, err)
	}
	if got, err := w.Get(t.Context(), r.ID); err != nil || got.State != run.Interrupted {
		t.Errorf("the run is %s, %v", got.State, err)
	}
}

// The write of a run's end is retried until it is durable.
func TestEndIsTriedUntilItIsDurable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, says("done"))
		defer w.stop()
		refused := 0
		w.store.failWith(func(wr run.Write) error {
			if wr.Drafts[0].Code == event.RunFinished && refused < 3 {
				refused++
				return errDisk
			}
			return nil
		})
		r, _ := w.start(run.Start{})
		wantEnd(t, w.finish(r.ID), run.Completed, "")
		if refused != 3 {
			t.Errorf("%d writes failed, want 3", refused)
		}
	})
}

// A turn whose only call cannot start becomes durable with the run's end.
func TestTurnIsNotLostWithItsCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(context.Context, model.Request, func(model.Event)) (model.Turn, error) {
			return model.Turn{Text: "thinking aloud", Calls: []model.Call{modelCall("a", "closed", `{}`)}, Stop: model.ToolUse}, nil
		})
		defer w.stop()
		w.pipeline.tools["closed"] = fails(reason.Errorf(reason.ShuttingDown, "the gateway is stopping"))
		r, _ := w.start(run.Start{})
		w.finish(r.ID)
		if got := kinds(w.events(r.ID, 0)); !slices.Equal(got, []string{"started", "turn", "finished"}) {
			t.Errorf("tape %v", got)
		}
	})
}

func TestStartRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	defer w.stop()
	for name, c := range map[string]struct {
		start run.Start
		code  reason.Code
		says  string
	}{
		"no task":           {run.Start{}, reason.InvalidInput, ""},
		"unknown model":     {run.Start{Message: "x", Model: "fke"}, reason.UnknownModel, `Did you mean fake?`},
		"another model":     {run.Start{Message: "x", Model: "something"}, reason.UnknownModel, `Use one of: fake.`},
		"unknown workspace": {run.Start{Message: "x", Workspace: "doc"}, reason.UnknownWorkspace, `Did you mean docs?`},
		"calls":             {run.Start{Message: "x", Budget: run.Budget{Calls: 21}}, reason.InvalidInput, "between 0 and 20"},
		"tokens":            {run.Start{Message: "x", Budget: run.Budget{Tokens: -1}}, reason.InvalidInput, "between 0 and 100000"},
		"time":              {run.Start{Message: "x", Budget: run.Budget{WallClock: 2 * time.Hour}}, reason.InvalidInput, "between 0 and 1h0m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := w.Start(t.Context(), agent, c.start)
			reasontest.Want(t, "the error", err, c.code)
			e := &reason.Error{}
			if !errors.As(err, &e) || !strings.Contains(e.Message+" "+e.NextStep(), c.says) {
				t.Errorf("error %v, want %q", err, c.says)
			}
		})
	}
	if w.Roster.Active() != 0 || len(w.store.all()) != 0 {
		t.Errorf("%d runs, %d events", w.Roster.Active(), len(w.store.all()))
	}
}

func TestStartBoundsActiveRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, waits, waits, waits, waits)
		defer w.stop()
		known := run.Start{Message: "x", IdempotencyKey: "k"}
		first, _ := w.start(known)
		w.start(run.Start{})
		w.start(run.Start{})
		_, _, err := w.Start(t.Context(), agent, run.Start{Message: "x"})
		reasontest.Want(t, "the error", err, reason.RateLimited)
		// A retry starts no run.
		if again, _ := w.start(known); again.ID != first.ID || w.Roster.Active() != 3 {
			t.Errorf("the retry got run %s, want %s; %d are active", again.ID, first.ID, w.Roster.Active())
		}
		other := agent
		other.Principal = access.Agent("another")
		if _, _, err := w.Start(t.Context(), other, run.Start{Message: "x"}); err != nil {
			t.Errorf("another principal: %v", err)
		}
	})
}

func TestStartThatIsNotDurableStartsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, says("done"))
		defer w.stop()
		w.store.failWith(func(run.Write) error { return errDisk })
		if _, _, err := w.Start(t.Context(), agent, run.Start{Message: "x"}); err == nil {
			t.Error("a run that is not durable was started")
		}
		synctest.Wait()
		if w.Roster.Active() != 0 || len(w.model.requests) != 0 {
			t.Errorf("%d runs, %d requests to the model", w.Roster.Active(), len(w.model.requests))
		}
	})
}

func TestStartIsIdempotent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, waits, says("done"))
		defer w.stop()
		s := run.Start{Message: "x", IdempotencyKey: "k"}
		first, _ := w.start(s)
		again, inbox := w.start(s)
		if again.ID != first.ID || w.Roster.Active() != 1 {
			t.Errorf("the retry got run %s, want %s; %d are active", again.ID, first.ID, w.Roster.Active())
		}
		if err := inbox.Say(t.Context(), "hello"); err != nil {
			t.Errorf("the retry's inbox: %v", err)
		}
		_, _, err := w.Start(t.Context(), agent, run.Start{Message: "y", IdempotencyKey: "k"})
		reasontest.Want(t, "the error", err, reason.IdempotencyMismatch)
		must.Get(w.Cancel(t.Context(), alice, first.ID, ""))(t)
		ended, inbox := w.start(s)
		if ended.ID != first.ID || ended.State != run.Cancelled {
			t.Errorf("the retry got run %s, %s", ended.ID, ended.State)
		}
		reasontest.Want(t, "the error", inbox.Say(t.Context(), "hello"), reason.RunEnded)
		inbox.Close()
	})
}
