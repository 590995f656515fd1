package journal_test

import (
	"testing"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/core/progress"
)

// TestVerificationCountsEvents: progress reports have the total number of events and, at the
// end, the same number of verified events.
func TestVerificationCountsEvents(t *testing.T) {
	t.Parallel()
	s := newMemStore(time.Now)
	log := newLog(t, s, 1)
	fill(t, log, 5000) // more than one batch
	m := &progress.Meter{}
	sum := must.Get(log.VerifyFull(progress.With(t.Context(), m)))(t)
	if got := m.Count(); got.Done != sum.Events || got.Total != sum.Events || sum.Events < 5000 {
		t.Errorf("counted %+v of %d events", got, sum.Events)
	}
	must.Do(t, log.Verify(progress.With(t.Context(), m), 4001))
	if got := m.Count(); got.Done != 1000 || got.Total != 1000 {
		t.Errorf("the last 1000 events were counted as %+v", got)
	}
}
