package daemon

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"palyra/internal/decision"
	"palyra/internal/event"
	"palyra/internal/journal"
	"palyra/internal/toolcall"
	"palyra/internal/version"
)

// metrics are the Prometheus metrics. Counters are read off the journal, so
// that they count what is durable and nothing else.
type metrics struct {
	g         *gateway
	registry  *prometheus.Registry
	events    *prometheus.CounterVec
	decisions *prometheus.CounterVec
	outcomes  *prometheus.CounterVec
}

func newMetrics(g *gateway) *metrics {
	m := &metrics{
		g: g, registry: prometheus.NewRegistry(),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "palyra_journal_events_total", Help: "Events journaled since the start, by code.",
		}, []string{"code"}),
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "palyra_decisions_total", Help: "Decisions since the start, by decision and reason.",
		}, []string{"decision", "reason"}),
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "palyra_executions_total", Help: "Executed calls since the start, by executor and outcome.",
		}, []string{"executor", "outcome"}),
	}
	m.registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		m.events, m.decisions, m.outcomes,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "palyra_build_info", Help: "The version that runs.", ConstLabels: prometheus.Labels{"version": version.Get().Version},
		}, func() float64 { return 1 }),
		gauge("palyra_ready", "1 when the gateway is ready.", func() float64 { return truth(len(g.Problems(context.Background())) == 0) }),
		gauge("palyra_frozen", "1 when an operator has frozen the gateway.", func() float64 { return truth(g.router.Frozen()) }),
		gauge("palyra_calls_in_flight", "Calls that run now.", func() float64 { return float64(g.router.InFlight()) }),
		gauge("palyra_journal_size", "Events in the journal.", func() float64 { return float64(g.journal.Head().Seq) }),
	)
	return m
}

func gauge(name, help string, read func() float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read)
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// follow counts the journal's events as they become durable.
func (m *metrics) follow(ctx context.Context, log *journal.Log) error {
	err := log.Follow(ctx, log.Head().Seq, func(e journal.Event) error {
		m.count(e)
		return nil
	})
	if ctx.Err() == nil {
		return err
	}
	return nil
}

func (m *metrics) count(e journal.Event) {
	m.events.WithLabelValues(string(e.Code)).Inc()
	switch e.Code {
	case event.Decided:
		var d decision.Record
		if json.Unmarshal(e.Payload, &d) == nil {
			word := "deny"
			if d.Allowed {
				word = "allow"
			}
			m.decisions.WithLabelValues(word, string(d.Reason)).Inc()
		}
	case event.Attested:
		var a toolcall.AttestedPayload
		if json.Unmarshal(e.Payload, &a) == nil {
			m.outcomes.WithLabelValues(string(a.Report.Executor.Name), string(a.Report.Outcome)).Inc()
		}
	}
}

// handler serves metrics, liveness and readiness on the loopback listener.
func (m *metrics) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("ok\n"))
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if problems := m.g.Problems(r.Context()); len(problems) > 0 {
			http.Error(w, strings.Join(problems, "\n"), http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ready\n"))
	})
	return mux
}
