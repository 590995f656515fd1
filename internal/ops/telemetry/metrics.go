// Package telemetry derives Prometheus metrics from the journal.
package telemetry

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/oklog/ulid/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"palyra/internal/call/approval"
	"palyra/internal/core/event"
	"palyra/internal/core/limit"
	"palyra/internal/core/version"
	"palyra/internal/evidence/journal"
)

// Config holds the sources of metrics.
type Config struct {
	Commits *Commits
	// Problems returns why the gateway is not ready; none if it is.
	Problems func(ctx context.Context) []string
	Journal  *journal.Log
	// Load returns how many writes wait for a commit and how many reads are active.
	Load func() (queued, reading int)
	// Reserve returns the free bytes of the disk, and the current and intended size of the reserve
	// for operators, in bytes.
	Reserve  func() (free, held, size int64)
	Calls    interface{ UnderWay() int }
	Dispatch interface {
		Frozen() bool
		InFlight() int
	}
	Approvals interface{ Counts() approval.Counts }
	Runs      interface{ Active() int }
	Limits    interface {
		Refused() map[limit.Class]limit.Refusals
		// Len returns the number of buckets.
		Len() int
		// Locked returns the number of locked keys by class.
		Locked() map[limit.Class]int
	}
	// Turns is the queue of calls for sandboxed programs.
	Turns interface {
		Waiting() int
		Refused() int
	}
}

// Metrics are the Prometheus metrics. Counters and durations are derived from the journal, so that
// they cover exactly the durable events. docs/observability.md lists them, and a test compares the
// two.
type Metrics struct {
	problems    func(ctx context.Context) []string
	journal     *journal.Log
	registry    *prometheus.Registry
	events      *prometheus.CounterVec
	verdicts    *prometheus.CounterVec
	decisions   *prometheus.CounterVec
	waits       *prometheus.HistogramVec
	executions  *prometheus.HistogramVec
	runs        *prometheus.CounterVec
	tokens      *prometheus.CounterVec
	changes     *prometheus.CounterVec
	violations  *prometheus.CounterVec
	connections *prometheus.CounterVec

	mu sync.Mutex
	// at is the last counted event, -1 before Follow.
	at int64
}

// New returns the metrics; Follow counts.
func New(c Config) *Metrics {
	m := &Metrics{
		problems: c.Problems, journal: c.Journal, registry: prometheus.NewRegistry(), at: -1,
		events:    counter("palyra_journal_events_total", "Events journaled since the start, by code.", "code"),
		verdicts:  counter("palyra_verdicts_total", "Verdicts of policy since the start, by verdict and reason.", "verdict", "reason"),
		decisions: counter("palyra_decisions_total", "Decisions since the start, by decision and reason.", "decision", "reason"),
		waits: histogram("palyra_approval_wait_seconds", "Time from an ask to its end, by how it ended.",
			[]float64{1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600, 6 * 3600, 24 * 3600}, "state"),
		executions: histogram("palyra_execution_seconds", "Time that executors took, by executor and outcome.",
			[]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120}, "executor", "outcome"),
		runs:   counter("palyra_runs_finished_total", "Runs that ended since the start, by state and reason.", "state", "reason"),
		tokens: counter("palyra_model_tokens_total", "Tokens of the models' turns since the start, by direction.", "direction"),
		changes: counter("palyra_commits_total",
			"Change sets of copies of workspaces since the start, by what became of them.", "state"),
		violations: counter("palyra_sandbox_violations_total", "System calls that sandboxes denied since the start."),
		connections: counter("palyra_egress_connections_total",
			"Connections of tools since the start, by verdict and why they were denied, failed or were broken off.", "verdict", "reason"),
	}
	m.registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		m.events, m.verdicts, m.decisions, m.waits, m.executions, m.runs, m.tokens, m.changes, m.violations, m.connections, c.Commits.took, c.Commits.events,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "palyra_build_info", Help: "The version that runs.", ConstLabels: prometheus.Labels{"version": version.Get().Version},
		}, func() float64 { return 1 }),
		gauge("palyra_ready", "1 when the gateway is ready.", func() float64 { return truth(len(c.Problems(context.Background())) == 0) }),
		gauge("palyra_frozen", "1 when an operator has frozen the gateway.", func() float64 { return truth(c.Dispatch.Frozen()) }),
		gauge("palyra_calls_under_way", "Calls that have not ended, including calls that wait for people.", func() float64 { return float64(c.Calls.UnderWay()) }),
		gauge("palyra_calls_in_flight", "Calls that an executor runs now.", func() float64 { return float64(c.Dispatch.InFlight()) }),
		gauge("palyra_approvals_pending", "Approvals that wait for an answer.", func() float64 { return float64(c.Approvals.Counts().Pending) }),
		gauge("palyra_grants_live", "Grants that are in force.", func() float64 { return float64(c.Approvals.Counts().Grants) }),
		gauge("palyra_runs_active", "Runs that have not ended.", func() float64 { return float64(c.Runs.Active()) }),
		refusals{prometheus.NewDesc("palyra_rate_limit_refused_total", "Requests that rate limits refused since the start, by class.", []string{"class"}, nil), c},
		lockedKeys{prometheus.NewDesc("palyra_locked_keys", "Addresses and other keys that failures have locked out now, by class.", []string{"class"}, nil), c},
		gauge("palyra_rate_limit_keys", "Callers and addresses whose requests are counted.", func() float64 { return float64(c.Limits.Len()) }),
		gauge("palyra_sandbox_queue", "Calls that wait for a sandboxed program to end.", func() float64 { return float64(c.Turns.Waiting()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "palyra_sandbox_queue_refused_total", Help: "Calls that found no room in that queue since the start.",
		}, func() float64 { return float64(c.Turns.Refused()) }),
		gauge("palyra_journal_queue", "Writes that wait for a commit.", func() float64 { queued, _ := c.Load(); return float64(queued) }),
		gauge("palyra_store_readers", "Read connections in use.", func() float64 { _, reading := c.Load(); return float64(reading) }),
		gauge("palyra_disk_free_bytes", "Free space on the disk of the state directory at the last check.", func() float64 { free, _, _ := c.Reserve(); return float64(free) }),
		gauge("palyra_reserve_bytes", "Remaining part of the disk's reserve for operators.", func() float64 { _, held, _ := c.Reserve(); return float64(held) }),
		gauge("palyra_reserve_size_bytes", "The disk's reserve for operators as it should be.", func() float64 { _, _, size := c.Reserve(); return float64(size) }),
		gauge("palyra_journal_size", "Events in the journal.", func() float64 { return float64(c.Journal.Head().Seq) }),
	)
	return m
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}

func gauge(name, help string, read func() float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read)
}

// refusals exports the counters of the rate limiter. The journal does not have these numbers,
// because it combines refusals of one kind into one event.
type refusals struct {
	desc *prometheus.Desc
	from Config
}

// Describe implements prometheus.Collector.
func (r refusals) Describe(to chan<- *prometheus.Desc) { to <- r.desc }

// Collect implements prometheus.Collector.
func (r refusals) Collect(to chan<- prometheus.Metric) {
	for class, n := range r.from.Limits.Refused() {
		to <- prometheus.MustNewConstMetric(r.desc, prometheus.CounterValue, float64(n.Count), string(class))
	}
}

// lockedKeys exports how many keys are locked.
type lockedKeys struct {
	desc *prometheus.Desc
	from Config
}

// Describe implements prometheus.Collector.
func (l lockedKeys) Describe(to chan<- *prometheus.Desc) { to <- l.desc }

// Collect implements prometheus.Collector.
func (l lockedKeys) Collect(to chan<- prometheus.Metric) {
	for class, n := range l.from.Limits.Locked() {
		to <- prometheus.MustNewConstMetric(l.desc, prometheus.GaugeValue, float64(n), string(class))
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// countEvery is how many events are counted at a time, unless metrics are requested before.
const countEvery = 256

// Follow counts the journal's events from now on, once they are durable.
func (m *Metrics) Follow(ctx context.Context) error {
	m.mu.Lock()
	m.at = m.journal.Head().Seq
	m.mu.Unlock()
	var err error
	for at := int64(0); err == nil; {
		if at, err = m.catchUp(ctx); err == nil {
			err = m.journal.Wait(ctx, at+countEvery-1)
		}
	}
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// catchUp counts all durable events, and returns the position.
func (m *Metrics) catchUp(ctx context.Context) (at int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at < 0 {
		return m.at, nil
	}
	m.at, err = m.journal.CatchUp(ctx, m.at, func(e journal.Event) error {
		m.count(e)
		return nil
	})
	return m.at, err
}

func (m *Metrics) count(e journal.Event) {
	m.events.WithLabelValues(string(e.Code)).Inc()
	switch e.Code {
	case event.Evaluated:
		m.countVerdict(e)
	case event.Decided:
		m.countDecision(e)
	case event.Answered, event.Expired, event.Cancelled:
		m.timeWait(e)
	case event.Attested:
		m.timeExecution(e)
	case event.Violated:
		m.countViolations(e)
	case event.ModelTurn:
		m.countTokens(e)
	case event.RunFinished:
		m.countRun(e)
	}
}

// read decodes the fields of v from a payload and ignores the rest.
func read(payload []byte, v any) bool {
	return jsonv2.Unmarshal(payload, v, jsontext.AllowDuplicateNames(true)) == nil
}

func (m *Metrics) countVerdict(e journal.Event) {
	var effect, why string
	if within(e.Payload, "verdict", func(name, value []byte) {
		switch string(name) {
		case "effect":
			effect = text(value)
		case "reason":
			why = text(value)
		}
	}) {
		m.verdicts.WithLabelValues(effect, why).Inc()
	}
}

func (m *Metrics) countDecision(e journal.Event) {
	word, why := "deny", ""
	if each(e.Payload, func(name, value []byte) {
		switch {
		case string(name) == "allowed" && string(value) == "true":
			word = "allow"
		case string(name) == "reason":
			why = text(value)
		}
	}) {
		m.decisions.WithLabelValues(word, why).Inc()
	}
}

// timeWait derives the time of the request from the approval's id, a ULID. An unused approval has a
// second end; only the end of the wait counts.
func (m *Metrics) timeWait(e journal.Event) {
	var p struct {
		State string `json:"state"`
		Was   string `json:"was"`
	}
	id, err := ulid.ParseStrict(e.Subject)
	if err != nil || !read(e.Payload, &p) || p.Was != string(approval.Pending) {
		return
	}
	m.waits.WithLabelValues(p.State).Observe(e.At.Sub(id.Timestamp()).Seconds())
}

func (m *Metrics) timeExecution(e journal.Event) {
	var executor, outcome string
	var changes, egress []byte
	var startedAt, finishedAt time.Time
	if !within(e.Payload, "report", func(name, value []byte) {
		switch string(name) {
		case "executor":
			executor = textOf(value, "name")
		case "outcome":
			outcome = text(value)
		case "started_at":
			startedAt, _ = time.Parse(time.RFC3339Nano, text(value))
		case "finished_at":
			finishedAt, _ = time.Parse(time.RFC3339Nano, text(value))
		case "changes":
			changes = value
		case "egress":
			egress = value
		}
	}) {
		return
	}
	if changes != nil {
		m.changes.WithLabelValues(textOf(changes, "state")).Inc()
	}
	m.countConnections(egress)
	m.executions.WithLabelValues(executor, outcome).Observe(finishedAt.Sub(startedAt).Seconds())
}

func (m *Metrics) countConnections(egress []byte) {
	var e struct {
		Observed []struct {
			Verdict string `json:"verdict"`
			Reason  string `json:"reason"`
			Count   int    `json:"count"`
		} `json:"observed"`
	}
	if len(egress) == 0 || !read(egress, &e) {
		return
	}
	for _, c := range e.Observed {
		m.connections.WithLabelValues(c.Verdict, c.Reason).Add(float64(max(1, c.Count)))
	}
}

func (m *Metrics) countViolations(e journal.Event) {
	var v struct {
		Violations []struct{} `json:"violations"`
		Missed     int64      `json:"missed"`
	}
	if read(e.Payload, &v) {
		m.violations.WithLabelValues().Add(float64(len(v.Violations)) + max(0, float64(v.Missed)))
	}
}

func (m *Metrics) countTokens(e journal.Event) {
	var t struct {
		InputTokens  int64 `json:"input_tokens"`
		OutputTokens int64 `json:"output_tokens"`
	}
	if read(e.Payload, &t) {
		// A counter panics on a negative value.
		m.tokens.WithLabelValues("input").Add(max(0, float64(t.InputTokens)))
		m.tokens.WithLabelValues("output").Add(max(0, float64(t.OutputTokens)))
	}
}

func (m *Metrics) countRun(e journal.Event) {
	var end struct {
		State  string `json:"state"`
		Reason string `json:"reason"`
	}
	if read(e.Payload, &end) {
		m.runs.WithLabelValues(end.State, end.Reason).Inc()
	}
}

// Handlers returns the handlers of metrics, liveness and readiness on the loopback listener, by
// their patterns.
func (m *Metrics) Handlers() map[string]http.Handler {
	return map[string]http.Handler{
		"GET /metrics": m.caughtUp(promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})),
		"GET /healthz": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) }),
		"GET /readyz":  http.HandlerFunc(m.ready),
	}
}

// caughtUp serves the metrics of all durable events. If the journal cannot be read, it still serves
// the previous counts and palyra_ready, because that state must be observable.
func (m *Metrics) caughtUp(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = m.catchUp(r.Context()) // Follow has the same error, and reports it
		next.ServeHTTP(w, r)
	})
}

func (m *Metrics) ready(w http.ResponseWriter, r *http.Request) {
	if problems := m.problems(r.Context()); len(problems) > 0 {
		http.Error(w, strings.Join(problems, "\n"), http.StatusServiceUnavailable)
		return
	}
	_, _ = w.Write([]byte("ready\n"))
}
