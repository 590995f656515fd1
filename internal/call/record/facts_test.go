package record_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"palyra/internal/call/decision"
	"palyra/internal/call/record"
	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/journal"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// about returns an event of a call.
func about(t *testing.T, code event.Code, call string, payload any) journal.Event {
	t.Helper()
	text := must.Get(canonical.Marshal(payload))(t)
	return journal.Event{Code: code, Subject: call, Payload: text, Salt: []byte("salt"), At: start.Add(time.Minute)}
}

// judged returns the events of a call up to its decision.
func judged(t *testing.T, id string, allowed bool, p record.Proposed, facts tool.Facts, maySend int64) []journal.Event {
	t.Helper()
	evaluated := map[string]any{"request": map[string]any{"facts": facts}, "may_send": maySend}
	return []journal.Event{
		about(t, event.Proposed, id, p), about(t, event.Evaluated, id, evaluated),
		about(t, event.Evaluated, id, evaluated), about(t, event.Decided, id, decision.Record{ProposalID: id, Allowed: allowed}),
	}
}

func TestSessionsAreFolded(t *testing.T) {
	t.Parallel()
	read, fetch, run := record.Proposed{Tool: "fs.read"}, record.Proposed{Tool: "http.fetch", OpenWorld: true}, record.Proposed{Tool: "process.run"}
	gate := func(id string) journal.Event {
		return about(t, event.Evaluated, id, map[string]any{"may_send": 5, "request": map[string]any{
			"commit": map[string]any{}, "facts": tool.Facts{Secrets: []string{"g"}, EgressMode: "none"},
		}})
	}
	ended := func(id, mode string, seen ...tool.Connection) journal.Event {
		return about(t, event.Attested, id, record.Attested{Report: tool.Report{Egress: tool.Egress{Mode: mode, Observed: seen}}, Envelope: json.RawMessage("{}")})
	}
	for name, c := range map[string]struct {
		events [][]journal.Event
		want   tool.SessionFacts
	}{
		"a call let through": {[][]journal.Event{judged(t, "p1", true, read, tool.Facts{}, 0)}, tool.SessionFacts{CallsInRun: 1, ToolsUsed: []string{"fs.read"}}},
		"a denied call":      {[][]journal.Event{judged(t, "p1", false, fetch, tool.Facts{Secrets: []string{"s"}}, 9)}, tool.SessionFacts{CallsInRun: 1}},
		"a refused call":     {[][]journal.Event{{about(t, event.Refused, "p1", record.Refused{Tool: "made.up"})}}, tool.SessionFacts{CallsInRun: 1}},
		"open world":         {[][]journal.Event{judged(t, "p1", true, fetch, tool.Facts{}, 0)}, tool.SessionFacts{CallsInRun: 1, ToolsUsed: []string{"http.fetch"}, Tainted: true}},
		"open network":       {[][]journal.Event{judged(t, "p1", true, run, tool.Facts{EgressMode: "none"}, 0)}, tool.SessionFacts{CallsInRun: 1, ToolsUsed: []string{"process.run"}, Tainted: true}},
		"no end":             {[][]journal.Event{judged(t, "p1", true, run, tool.Facts{EgressMode: "strict"}, 7)}, tool.SessionFacts{CallsInRun: 1, ToolsUsed: []string{"process.run"}, BytesOut: 7}},
		"an end": {[][]journal.Event{append(judged(t, "p1", true, run, tool.Facts{EgressMode: "strict"}, 9), gate("p1"), ended("p1", "strict", tool.Connection{BytesOut: 3}, tool.Connection{BytesOut: 1}))},
			tool.SessionFacts{CallsInRun: 1, ToolsUsed: []string{"process.run"}, BytesOut: 4}},
		"something came in": {[][]journal.Event{append(judged(t, "p1", true, run, tool.Facts{EgressMode: "strict"}, 9), ended("p1", "strict", tool.Connection{}, tool.Connection{BytesIn: 1}))},
			tool.SessionFacts{CallsInRun: 1, ToolsUsed: []string{"process.run"}, Tainted: true}},
		"unobserved": {[][]journal.Event{append(judged(t, "p1", true, run, tool.Facts{EgressMode: "preflight"}, 9), ended("p1", "preflight"))},
			tool.SessionFacts{CallsInRun: 1, ToolsUsed: []string{"process.run"}, Tainted: true, BytesOut: 9}},
		"secrets": {[][]journal.Event{judged(t, "p1", true, read, tool.Facts{Secrets: []string{"b", "a"}}, 0), judged(t, "p2", true, read, tool.Facts{Secrets: []string{"b"}}, 0)},
			tool.SessionFacts{CallsInRun: 2, ToolsUsed: []string{"fs.read"}, SecretsRead: []string{"a", "b"}}},
	} {
		t.Run(name, func(t *testing.T) {
			var f record.Facts
			for _, events := range c.events {
				for i := range events {
					must.Do(t, f.Add(&events[i], false))
				}
			}
			got := f.Did(start)
			if !reflect.DeepEqual(got.Facts, c.want) {
				t.Errorf("%+v, want %+v", got.Facts, c.want)
			}
			if !got.LastAt.Equal(start.Add(time.Minute)) {
				t.Errorf("last at %s", got.LastAt)
			}
		})
	}
}
