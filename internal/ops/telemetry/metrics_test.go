package telemetry

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/evidence/journal"
)

// TestMetricsAreWritten: the table in docs/observability.md has all metrics. A metric with
// labels is exposed only after its first count, so the test reads the names from the source.
func TestMetricsAreWritten(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile("../../../docs/observability.md"))(t)
	written := make(map[string]bool)
	for _, row := range regexp.MustCompile("(?m)^\\| `(palyra_[a-z_]+)` \\|").FindAllSubmatch(text, -1) {
		written[string(row[1])] = true
	}
	registered := make(map[string]bool)
	for _, file := range []string{"metrics.go", "commits.go"} {
		source := must.Get(os.ReadFile(file))(t)
		for _, name := range regexp.MustCompile(`"(palyra_[a-z_]+)"`).FindAllSubmatch(source, -1) {
			registered[string(name[1])] = true
		}
	}
	if got, want := slices.Sorted(maps.Keys(written)), slices.Sorted(maps.Keys(registered)); !slices.Equal(got, want) {
		t.Errorf("docs/observability.md lists %v\nthe source has %v", got, want)
	}
}

func TestApprovalWaitIsTimed(t *testing.T) {
	t.Parallel()
	m := New(Config{Commits: NewCommits(slog.New(slog.DiscardHandler))})
	asked := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	id := ulid.MustNew(ulid.Timestamp(asked), rand.Reader).String()
	for _, payload := range []string{`{"state":"allowed","was":"pending"}`, `{"state":"expired","was":"allowed"}`, `not json`} {
		m.count(journal.Event{Code: event.Answered, Subject: id, At: asked.Add(42 * time.Second), Payload: []byte(payload)})
	}
	m.count(journal.Event{Code: event.Answered, Subject: "no ULID", At: asked, Payload: []byte(`{"state":"denied","was":"pending"}`)})
	want := `palyra_approval_wait_seconds_sum{state="allowed"} 42
palyra_approval_wait_seconds_count{state="allowed"} 1`
	got := exposition(t, m.waits)
	if !strings.Contains(got, want) || strings.Count(got, "_count{") != 1 {
		t.Errorf("want nothing but %s in\n%s", want, got)
	}
}

// TestNoEventEndsTheMetrics: the counted events contain data of other programs, and a panic
// would end the daemon.
func TestNoEventEndsTheMetrics(t *testing.T) {
	t.Parallel()
	m := New(Config{Commits: NewCommits(slog.New(slog.DiscardHandler))})
	for _, payload := range []string{`{"input_tokens":-1,"output_tokens":-5}`, `{"input_tokens":1e300}`, `not json`} {
		m.count(journal.Event{Code: event.ModelTurn, Payload: []byte(payload)})
	}
}

// TestChangesAndViolationsAreCounted: the outcomes of change sets are counted, and every denied
// system call, including those that were not recorded.
func TestChangesAndViolationsAreCounted(t *testing.T) {
	t.Parallel()
	m := New(Config{Commits: NewCommits(slog.New(slog.DiscardHandler))})
	for _, payload := range []string{
		`{"report":{"outcome":"succeeded","changes":{"state":"committed"}}}`, `{"report":{"outcome":"failed","changes":{"state":"discarded"}}}`,
		`{"report":{"outcome":"succeeded","changes":{"state":"committed"}}}`, `{"report":{"outcome":"succeeded"}}`, `not json`,
	} {
		m.count(journal.Event{Code: event.Attested, Payload: []byte(payload)})
	}
	for _, payload := range []string{`{"violations":[{"syscall":"bpf"},{"syscall":"mount"}],"missed":3}`, `{"missed":-9}`, `not json`} {
		m.count(journal.Event{Code: event.Violated, Payload: []byte(payload)})
	}
	got := exposition(t, m.changes, m.violations)
	for _, want := range []string{`palyra_commits_total{state="committed"} 2`, `palyra_commits_total{state="discarded"} 1`, `palyra_sandbox_violations_total 5`} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("want %s in\n%s", want, got)
		}
	}
}

// TestConnectionsAreCounted: every connection is counted by its outcome, including those that
// were only counted in total.
func TestConnectionsAreCounted(t *testing.T) {
	t.Parallel()
	m := New(Config{Commits: NewCommits(slog.New(slog.DiscardHandler))})
	m.count(journal.Event{Code: event.Attested, Payload: []byte(`{"report":{"outcome":"succeeded","egress":{"observed":[
		{"host":"a.org","verdict":"allowed"},{"host":"a.org","verdict":"allowed"},{"host":"x.org","verdict":"denied","reason":"unlisted"},
		{"host":"y.org","verdict":"denied","reason":"unlisted","count":40},{"host":"","verdict":"allowed","count":7},{"verdict":"allowed","count":-7}],"missed":47}}}`)})
	got := exposition(t, m.connections)
	for _, want := range []string{`palyra_egress_connections_total{reason="",verdict="allowed"} 10`, `palyra_egress_connections_total{reason="unlisted",verdict="denied"} 41`} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("want %s in\n%s", want, got)
		}
	}
}

func exposition(t *testing.T, counted ...prometheus.Collector) string {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(counted...)
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	t.Cleanup(server.Close)
	res := must.Get(http.Get(server.URL))(t)
	defer func() { _ = res.Body.Close() }()
	text := must.Get(io.ReadAll(res.Body))(t)
	return string(text)
}

// followed is a store with events in memory only.
type followed struct {
	journal.Store
	*journal.Feed
}

func (f followed) Head() journal.Head { return f.Feed.Head() }

func (f followed) Wait(ctx context.Context, after int64) error { return f.Feed.Wait(ctx, after) }

func (f followed) Recent(after int64) ([]journal.Event, bool) { return f.Feed.Recent(after) }

var errUnreadable = errors.New("the disk is gone")

// Events fails: only recent events are available.
func (followed) Events(context.Context, journal.Filter) ([]journal.Event, error) {
	return nil, errUnreadable
}

func (f followed) happen(from, to int64) {
	var list []journal.Event
	for seq := from; seq <= to; seq++ {
		list = append(list, journal.Event{Seq: seq, Code: event.Evaluated, Payload: []byte(`{"request":{"effect":"ask"},"verdict":{"effect":"allow"}}`)})
	}
	f.Publish(journal.Head{Seq: to}, list)
}

// TestReadCountsEveryDurableEvent: events are counted in batches, and all at once when the metrics
// are read. Events from before the start are not counted.
func TestReadCountsEveryDurableEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := followed{Feed: journal.NewFeed()}
		key := must.Get(journal.NewKey("palyra.example", ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))))(t)
		m := New(Config{
			Commits: NewCommits(slog.New(slog.DiscardHandler)), Journal: must.Get(journal.New(store, journal.Options{Key: key}))(t),
		})
		registry := prometheus.NewRegistry()
		registry.MustRegister(m.verdicts)
		shown := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
		wantCounted := func(from http.Handler, n int) {
			t.Helper()
			answer := httptest.NewRecorder()
			from.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
			want := fmt.Sprintf("palyra_verdicts_total{reason=\"\",verdict=\"allow\"} %d\n", n)
			if got := answer.Body.String(); strings.Contains(got, "palyra_verdicts_total{") != (n > 0) || n > 0 && !strings.Contains(got, want) {
				t.Errorf("%d should be counted:\n%s", n, got)
			}
		}
		store.happen(1, 5)
		_ = must.Get(m.catchUp(t.Context()))(t)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- m.Follow(ctx) }()
		synctest.Wait()
		store.happen(6, 8)
		synctest.Wait()
		wantCounted(shown, 0)
		wantCounted(m.caughtUp(shown), 3)
		store.happen(9, 5+countEvery)
		synctest.Wait()
		wantCounted(shown, countEvery)
		// While the journal cannot be read, the metrics have the previous counts.
		store.Publish(journal.Head{Seq: 9 + countEvery}, []journal.Event{{Seq: 9 + countEvery}})
		wantCounted(m.caughtUp(shown), countEvery)
		stop()
		if err := <-ended; err != nil && !errors.Is(err, errUnreadable) {
			t.Error(err)
		}
	})
}
