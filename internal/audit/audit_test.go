package audit

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"palyra/internal/event"
	"palyra/internal/journal"
	"palyra/internal/must"
	"palyra/internal/reason"
)

// journalFake keeps what it is given.
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
		a.Refused(t.Context(), "192.0.2.1:"+strings.Repeat("x", n%7)+string(rune(n)), "/", reason.Unauthenticated)
	}
	if len(a.refused) > mostKinds+1 {
		t.Errorf("%d kinds of refusals are remembered, at most %d should be", len(a.refused), mostKinds+1)
	}
}
