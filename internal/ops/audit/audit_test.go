package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"testing"

	"palyra/internal/call"
	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/journal"
)

// journalFake records the appended drafts.
type journalFake struct {
	Journal
	drafts []event.Draft
}

func (j *journalFake) Append(_ context.Context, drafts ...event.Draft) ([]journal.Event, error) {
	j.drafts = append(j.drafts, drafts...)
	return nil, nil
}

func TestRefusalsAreCoalesced(t *testing.T) {
	t.Parallel()
	log := &journalFake{}
	a := New(log, slog.New(slog.DiscardHandler))
	for range 1000 {
		a.Refused(t.Context(), "192.0.2.1", "/palyra.v1.StatusService/GetStatus", reason.Unauthenticated)
	}
	for range 3 {
		a.Refused(t.Context(), "user:eve", "/palyra.v1.StatusService/Freeze", reason.PermissionDenied)
	}
	a.flush(t.Context())
	counts := make(map[event.Code]int)
	for _, e := range log.drafts {
		var p callersRefused
		must.Do(t, json.Unmarshal(e.Payload, &p))
		counts[e.Code] += p.Count
	}
	if len(log.drafts) != 2 || counts[event.CallersRefused] != 1000 || counts[event.PermissionDenied] != 3 {
		t.Errorf("1003 refusals of two kinds became %d events with counts %v", len(log.drafts), counts)
	}
}

func TestRefusalsAreBoundedInMemory(t *testing.T) {
	t.Parallel()
	a := New(nil, slog.New(slog.DiscardHandler))
	for n := range 10 * mostKinds {
		a.Refused(t.Context(), fmt.Sprintf("user:u%d", n), "/", reason.PermissionDenied)
		a.Refused(t.Context(), fmt.Sprintf("2001:db8:%x:%x::1", n/256, n%256), fmt.Sprintf("/%d", n), reason.Unauthenticated)
		a.Refused(t.Context(), "192.0.2.1", fmt.Sprintf("/%d", n), reason.Unauthenticated)
	}
	if len(a.refused) > mostKinds+1 || len(a.strangers.sources) > mostSources {
		t.Errorf("%d kinds of refusals are remembered, at most %d should be; %d sources", len(a.refused), mostKinds+1, len(a.strangers.sources))
	}
	if n := len(a.strangers.sources["192.0.2.1"].kinds); n > mostPerSource {
		t.Errorf("%d kinds of one source are remembered", n)
	}
}

// TestUnauthenticatedEventsAreBounded: regardless of the number of sources, at most 20 events a
// minute are about unauthenticated callers. The largest sources are named, and the counts include
// every refusal.
func TestUnauthenticatedEventsAreBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		refuse                 func(a *Auditor)
		named                  []string
		events, count, sources int
	}{
		"none":       {func(*Auditor) {}, nil, 0, 0, 0},
		"one source": {func(a *Auditor) { refuse(a, "192.0.2.1", 3) }, []string{"192.0.2.1"}, 1, 3, 0},
		"loopback": {func(a *Auditor) {
			refuse(a, "127.0.0.1", 2)
			refuse(a, "127.0.0.2", 2)
			refuse(a, "::1", 1)
			refuse(a, "::ffff:127.3.0.1", 1)
		},
			[]string{"loopback"}, 1, 6, 0},
		"a network": {func(a *Auditor) { refuse(a, "2001:db8::1", 1); refuse(a, "2001:db8::ffff:2", 1) }, []string{"2001:db8::/64"}, 1, 2, 0},
		"twenty":    {func(a *Auditor) { flood(a, 20) }, nil, 20, 20, 1},
		"nineteen":  {func(a *Auditor) { flood(a, 19) }, nil, 19, 19, 0},
		"a flood with two large sources": {func(a *Auditor) {
			flood(a, 50_000)
			refuse(a, "198.51.100.7", 500)
			flood(a, 50_000)
			refuse(a, "198.51.100.8", 400)
		}, []string{"198.51.100.7", "198.51.100.8"}, 20, 100_900, 99_981},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := &journalFake{}
			a := New(log, slog.New(slog.DiscardHandler))
			c.refuse(a)
			a.flush(t.Context())
			count, sources, named := 0, 0, []string{}
			for _, e := range log.drafts {
				var p callersRefused
				must.Do(t, json.Unmarshal(e.Payload, &p))
				count, sources, named = count+p.Count, sources+p.Sources, append(named, p.Source)
				if e.Code != event.CallersRefused || (p.Source == "") == (p.Sources == 0) || p.First.IsZero() || p.Last.Before(p.First) {
					t.Errorf("%s %s", e.Code, e.Payload)
				}
			}
			if len(log.drafts) != c.events || count != c.count || sources < c.sources || c.sources == 0 && sources != 0 {
				t.Errorf("%d events of %d refusals, %d sources without one", len(log.drafts), count, sources)
			}
			for _, want := range c.named {
				if !slices.Contains(named, want) {
					t.Errorf("%v lacks %s", named, want)
				}
			}
		})
	}
}

func refuse(a *Auditor, source string, n int) {
	for range n {
		a.Refused(context.Background(), source, "/palyra.v1.StatusService/GetStatus", reason.Unauthenticated)
	}
}

func flood(a *Auditor, sources int) {
	for n := range sources {
		refuse(a, netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}).String(), 1)
	}
}

// TestReadsAreCoalesced: reads are counted by reader, by principal of the read calls, and by
// tool. The files of each count are named up to a bound.
func TestReadsAreCoalesced(t *testing.T) {
	t.Parallel()
	log := &journalFake{}
	a := New(log, slog.New(slog.DiscardHandler))
	eve, bob := access.User("eve"), access.User("bob")
	for n := range 100 {
		a.Looked(call.Look{By: eve, As: eve, Tool: "fs.patch", Files: []string{"default:a", fmt.Sprintf("default:%d", n)}})
	}
	a.Looked(call.Look{By: eve, As: bob, Tool: "fs.patch"})
	for n := range 2 * mostKinds {
		a.Looked(call.Look{By: eve, As: eve, Tool: fmt.Sprintf("t%d", n)})
	}
	a.flush(t.Context())
	count := 0
	for _, e := range log.drafts {
		var p looked
		must.Do(t, json.Unmarshal(e.Payload, &p))
		count += p.Count
		if e.Code != event.Looked || e.Actor != "user:eve" || p.By != "user:eve" {
			t.Errorf("%s %s %s", e.Code, e.Actor, e.Payload)
		}
		if p.Tool == "fs.patch" && p.As == "" && (p.Count != 100 || len(p.Files) != mostFiles || p.Files[0] != "default:a" || p.FilesOmitted != 81) {
			t.Errorf("%s", e.Payload)
		}
		if p.Tool == "fs.patch" && p.As != "" && (p.As != "user:bob" || p.Count != 1) {
			t.Errorf("%s", e.Payload)
		}
	}
	if len(log.drafts) > mostKinds+1 || count != 101+2*mostKinds {
		t.Errorf("%d events of %d looks", len(log.drafts), count)
	}
	if a.flush(t.Context()); len(log.drafts) > mostKinds+1 {
		t.Error("they are journaled twice")
	}
}
