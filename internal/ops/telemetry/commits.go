package telemetry

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// slowCommit is the duration of a commit that is logged as slow, at most once in slowPause.
const (
	slowCommit = time.Second
	slowPause  = time.Minute
)

// Commits measures the journal's commits.
type Commits struct {
	log    *slog.Logger
	took   prometheus.Histogram
	events prometheus.Histogram
	// warned is the time of the last warning.
	warned time.Time
}

// NewCommits returns Commits that warn in the log.
func NewCommits(log *slog.Logger) *Commits {
	return &Commits{
		log: log,
		took: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "palyra_journal_commit_seconds", Help: "Time that the disk took for a commit of the journal.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}),
		events: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "palyra_journal_commit_events", Help: "Events that one commit of the journal made durable.",
			Buckets: []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024},
		}),
	}
}

// Note records a commit: its duration on disk, and the number of its events. It must not be called
// concurrently.
func (c *Commits) Note(took time.Duration, events int) {
	c.took.Observe(took.Seconds())
	c.events.Observe(float64(events))
	if took < slowCommit || !c.warned.IsZero() && time.Since(c.warned) < slowPause {
		return
	}
	c.warned = time.Now()
	c.log.Warn("the disk is slow, which delays every call; check other users of the disk of state_dir",
		slog.Duration("commit", took.Round(time.Millisecond)), slog.Duration("slow_from", slowCommit))
}
