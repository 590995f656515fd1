package api_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/surface/api"
)

// TestPagesOfLargeEvents: a page with large events, such as those of calls with many
// connections, ends early. The next page continues after its last event.
func TestPagesOfLargeEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const large = 6
	first := w.db.Head().Seq
	payload := json.RawMessage(`{"x":"` + strings.Repeat("x", api.MaxMessage/5) + `"}`)
	for range large {
		must.Get(w.journal.Append(t.Context(), event.Draft{Code: event.Proposed, Actor: "user:ada", Subject: "s", Payload: payload}))(t)
	}
	journal := w.eve.journal(connect.WithReadMaxBytes(api.MaxMessage))
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

// A page without a requested size has a hundred events.
func TestPageWithoutASize(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 120 {
		must.Get(w.journal.Append(t.Context(), event.Draft{Code: event.Proposed, Actor: "user:ada", Subject: "s", Payload: json.RawMessage(`{}`)}))(t)
	}
	res := must.Get(w.eve.journal().ListEvents(t.Context(), &palyrav1.ListEventsRequest{Filter: &palyrav1.EventFilter{Subject: "s"}}))(t)
	if n := len(res.GetEvents()); n != 100 || res.GetNextAfter() == 0 {
		t.Errorf("%d events, and the next page is after %d", n, res.GetNextAfter())
	}
}

// TestNewestFirst: events are listed newest first, page by page, each once, to the first one of
// the journal. This also applies if a page ends early because of large events.
func TestNewestFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	payload := json.RawMessage(`{"x":"` + strings.Repeat("x", api.MaxMessage/5) + `"}`)
	for n := range 40 {
		d := event.Draft{Code: event.Proposed, Actor: "user:ada", Subject: "s", Payload: json.RawMessage(`{}`)}
		if n%10 == 0 {
			d.Payload = payload
		}
		must.Get(w.journal.Append(t.Context(), d))(t)
	}
	journal := w.eve.journal(connect.WithReadMaxBytes(api.MaxMessage))
	for _, filter := range []*palyrav1.EventFilter{nil, {Code: "PAL-D100"}, {Actor: "user:ada"}, {Subject: "s"}} {
		all := must.Get(journal.ListEvents(t.Context(), &palyrav1.ListEventsRequest{Filter: filter, NewestFirst: true, PageSize: 1}))(t)
		from := all.GetEvents()[0].GetSeq() + 1
		var seen []int64
		for before := from; before != 0; {
			res := must.Get(journal.ListEvents(t.Context(), &palyrav1.ListEventsRequest{Filter: filter, NewestFirst: true, Before: before, PageSize: 7}))(t)
			for _, e := range res.GetEvents() {
				if e.GetSeq() >= before {
					t.Fatalf("event %d is on the page before %d", e.GetSeq(), before)
				}
				seen = append(seen, e.GetSeq())
			}
			if res.GetNextAfter() != 0 {
				t.Errorf("the next page is after %d", res.GetNextAfter())
			}
			before = res.GetNextBefore()
		}
		var want []int64
		for after := int64(0); ; {
			res := must.Get(journal.ListEvents(t.Context(), &palyrav1.ListEventsRequest{Filter: filter, After: after, Before: from, PageSize: 100}))(t)
			for _, e := range res.GetEvents() {
				want = append(want, e.GetSeq())
			}
			if after = res.GetNextAfter(); after == 0 {
				break
			}
		}
		slices.Reverse(want)
		if len(want) < 40 || !slices.Equal(seen, want) {
			t.Errorf("%v: the newest first are %v, want %v", filter, seen, want)
		}
	}
	if res := must.Get(journal.ListEvents(t.Context(), &palyrav1.ListEventsRequest{NewestFirst: true, Before: 1}))(t); len(res.GetEvents()) != 0 || res.GetNextBefore() != 0 {
		t.Errorf("before the first event there is %v", res)
	}
}
