package api_test

import (
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/journal"
)

func (c *client) sessions() palyrav1connect.SessionServiceClient {
	return palyrav1connect.NewSessionServiceClient(c.http, c.w.url)
}

// listed returns the sessions in a caller's list.
func (c *client) listed() ([]*palyrav1.Session, error) {
	res, err := c.sessions().ListSessions(c.w.t.Context(), &palyrav1.ListSessionsRequest{All: true})
	return res.GetSessions(), err
}

// TestSessionsAreForPeople: the user of an agent, and members that may stop all calls, can end
// the agent's session. The agent cannot, although it has the permissions of these methods for
// its runs.
func TestSessionsAreForPeople(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.coder.call(reading())
	list, err := w.alice.listed()
	if err != nil || len(list) != 1 || list[0].GetPrincipal() != "agent:coder" || list[0].GetState() != palyrav1.SessionState_SESSION_STATE_OPEN {
		t.Fatalf("%v, %v", list, err)
	}
	id := list[0].GetSessionId()
	see := func(c *client) error {
		_, err := c.sessions().GetSession(t.Context(), &palyrav1.GetSessionRequest{SessionId: id})
		return err
	}
	end := func(c *client) error {
		_, err := c.sessions().EndSession(t.Context(), &palyrav1.SessionServiceEndSessionRequest{SessionId: id, Reason: "looked"})
		return err
	}
	for name, row := range map[string]struct {
		do   error
		want reason.Code
	}{
		"the agent lists":   {second(w.coder.listed()), reason.PermissionDenied},
		"the agent looks":   {see(w.coder), reason.PermissionDenied},
		"the agent ends":    {end(w.coder), reason.PermissionDenied},
		"a developer looks": {see(w.dan), reason.NotFound},
		"a developer ends":  {end(w.dan), reason.NotFound},
		"an auditor ends":   {end(w.eve), reason.PermissionDenied},
		"an auditor looks":  {see(w.eve), ""},
		"an operator looks": {see(w.bob), ""},
		"the user looks":    {see(w.alice), ""},
	} {
		switch {
		case row.want != "":
			wantError(t, name, row.do, row.want)
		case row.do != nil:
			t.Errorf("%s: %v", name, row.do)
		}
	}
	if err := end(w.bob); err != nil {
		t.Fatalf("an operator ends: %v", err)
	}
	wantError(t, "ended twice", end(w.alice), reason.AlreadyExists)
	w.coder.call(reading())
	if list, err = w.alice.listed(); err != nil || len(list) != 2 || list[0].GetState() != palyrav1.SessionState_SESSION_STATE_OPEN ||
		list[1].GetState() != palyrav1.SessionState_SESSION_STATE_ENDED || list[1].GetEndedBy() != "user:bob" || list[0].GetCalls() != 1 {
		t.Errorf("%v, %v", list, err)
	}
	events, err := w.db.Events(t.Context(), journal.Filter{Code: string(event.SessionEnded)})
	if err != nil || len(events) != 1 || events[0].Actor != "user:bob" || events[0].Subject != id {
		t.Errorf("the journal has %+v, %v", events, err)
	}
	if list, err = w.dan.listed(); err != nil || len(list) != 0 {
		t.Errorf("a developer sees %v, %v", list, err)
	}
}

func second[A any](_ A, err error) error { return err }
