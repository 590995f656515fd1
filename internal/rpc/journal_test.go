package rpc_test

import (
	"encoding/json"
	"strings"
	"testing"

	"connectrpc.com/connect"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/event"
	"palyra/internal/must"
	"palyra/internal/rpc"
)

// TestPagesOfLargeEvents: a page with large events, such as those of calls with
// many connections, ends early and goes on where it ended.
func TestPagesOfLargeEvents(t *testing.T) {
	w := newWorld(t)
	const large = 6
	first := w.db.Head().Seq
	payload := json.RawMessage(`{"x":"` + strings.Repeat("x", rpc.MaxMessage/5) + `"}`)
	for range large {
		must.Get(w.journal.Append(t.Context(), event.Draft{Code: event.Proposed, Actor: "user:ada", Subject: "s", Payload: payload}))(t)
	}
	journal := w.eve.journal(connect.WithReadMaxBytes(rpc.MaxMessage))
	after, pages, seen := first, 0, 0
	for {
		res := must.Get(journal.ListEvents(t.Context(), &palyrav1.ListEventsRequest{After: after, PageSize: 100, Filter: &palyrav1.EventFilter{Subject: "s"}}))(t)
		pages++
		seen += len(res.GetEvents())
		if after = res.GetNextAfter(); after == 0 {
			break
		}
	}
	if seen != large || pages != 3 {
		t.Errorf("%d events in %d pages, want %d in 3", seen, pages, large)
	}
}

// A page of which no size is asked for has a hundred events.
func TestPageWithoutASize(t *testing.T) {
	w := newWorld(t)
	for range 120 {
		must.Get(w.journal.Append(t.Context(), event.Draft{Code: event.Proposed, Actor: "user:ada", Subject: "s", Payload: json.RawMessage(`{}`)}))(t)
	}
	res := must.Get(w.eve.journal().ListEvents(t.Context(), &palyrav1.ListEventsRequest{Filter: &palyrav1.EventFilter{Subject: "s"}}))(t)
	if n := len(res.GetEvents()); n != 100 || res.GetNextAfter() == 0 {
		t.Errorf("%d events, and the next page is after %d", n, res.GetNextAfter())
	}
}
