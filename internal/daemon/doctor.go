package daemon

import (
	"context"
	"errors"
	"time"

	"palyra/internal/config"
	"palyra/internal/reason"
)

// The results of an examination.
const (
	examOK      = "ok"
	examWarning = "warning"
	examFailed  = "failed"
	examSkipped = "skipped"
)

// Exam is one thing that the doctor looked at.
type Exam struct {
	Name string `json:"check"`
	// Result is ok, warning, failed or skipped. A gateway with a failed exam
	// does not start, or lacks something that it is configured for.
	Result string `json:"result"`
	Detail string `json:"detail"`
	Remedy string `json:"remedy,omitempty"`
	// TookMS is in milliseconds.
	TookMS int64 `json:"took_ms"`
}

// finding is what an exam found.
type finding struct{ result, detail, remedy string }

func fine(detail string) finding             { return finding{result: examOK, detail: detail} }
func doubtful(detail, remedy string) finding { return finding{examWarning, detail, remedy} }
func skipped(detail string) finding          { return finding{result: examSkipped, detail: detail} }

// broken is the finding of an error; a reason carries its next step along.
func broken(err error) finding {
	f := finding{result: examFailed, detail: err.Error()}
	var known *reason.Error
	if errors.As(err, &known) {
		f.remedy = known.NextStep()
	}
	return f
}

// patient is the gateway that is examined: its configuration and what the
// exams so far have found out. The state directory is only read, but for one
// file that measures the disk and is removed.
type patient struct {
	cfg *config.Config
	// running is true when a daemon holds the state directory.
	running bool
	// made is true when the state directory holds a gateway already.
	made bool
	// box is the sandbox of the exam "sandbox", for those of its layers.
	box box
}

// Examine looks at everything that a gateway of this configuration stands on,
// with no daemon or beside one. It changes nothing.
func Examine(ctx context.Context, cfg *config.Config) []Exam {
	p := &patient{cfg: cfg}
	var exams []Exam
	for _, exam := range []struct {
		name string
		look func(context.Context) finding
	}{
		{"state directory", p.stateDir},
		{"daemon", p.daemon},
		{"disk space", p.space},
		{"disk reserve", p.reserveLeft},
		{"disk writes", p.writes},
		{"keys", p.keys},
		{"journal", p.journal},
		{"clock", p.clock},
		{"listen.api", p.apiPort},
		{"listen.metrics", p.metricsPort},
		{"workspaces", p.workspaces},
		{"policy", p.policy},
		{"models", p.models},
		{"secrets", p.secrets},
	} {
		exams = append(exams, timed(ctx, exam.name, exam.look))
	}
	return append(exams, p.sandboxes(ctx)...)
}

func timed(ctx context.Context, name string, look func(context.Context) finding) Exam {
	began := time.Now()
	f := look(ctx)
	return Exam{name, f.result, f.detail, f.remedy, time.Since(began).Milliseconds()}
}
