package exec

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"palyra/internal/core/canonical"
	"palyra/internal/core/tool"
	"palyra/internal/exec/sandbox"
)

// Report is the machine-readable output. Fields are never removed or changed.
type Report struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	ExitCode   *int   `json:"exit_code"`
	Signal     string `json:"signal,omitempty"`
	TimedOut   bool   `json:"timed_out"`
	Quota      string `json:"quota,omitempty"`

	Tier        string         `json:"tier"`
	Rung        string         `json:"rung"`
	Backend     string         `json:"backend"`
	Level       string         `json:"level"`
	Enforcement Enforcement    `json:"enforcement"`
	Isolation   tool.Isolation `json:"isolation"`

	Egress           tool.Egress      `json:"egress"`
	Violations       []tool.Violation `json:"violations"`
	ViolationsMissed int              `json:"violations_missed"`
	Refusals         []tool.Refusal   `json:"refusals"`
	RefusalsMissed   int              `json:"refusals_missed"`
	Changes          *Changes         `json:"changes,omitempty"`
	Quarantined      []string         `json:"quarantined,omitempty"`
	Stdout           Stream           `json:"stdout"`
	Stderr           Stream           `json:"stderr"`
	Usage            tool.Usage       `json:"usage"`
	Limits           []tool.LimitUse  `json:"limits"`
	DurationMS       float64          `json:"duration_ms"`
}

// Enforcement lists the requested layers, the applied layers and the downgrades.
type Enforcement struct {
	Requested  []string `json:"requested"`
	Applied    []string `json:"applied"`
	Downgrades []string `json:"downgrades"`
}

// Stream is the program's standard output or standard error.
type Stream struct {
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// Changes is the result of settling the program's changes in its copy.
type Changes struct {
	State     tool.ChangeState `json:"state"`
	Root      string           `json:"root"`
	Added     int              `json:"added"`
	Modified  int              `json:"modified"`
	Deleted   int              `json:"deleted"`
	Protected []string         `json:"protected"`
	// Committed counts the committed changes.
	Committed int `json:"committed"`
}

// write writes the report to the destination of --report.
func (e execution) write(ran sandbox.Report, changes *Changes) error {
	if e.report == "" {
		return nil
	}
	refusals, missed := ran.Refused()
	text, err := json.Marshal(Report{
		APIVersion: "palyra.dev/v1", Kind: "SandboxRun",
		ExitCode: ran.ExitCode, Signal: ran.Signal, TimedOut: ran.TimedOut, Quota: ran.Quota,
		Tier: string(ran.Tier), Rung: string(ran.Rung), Backend: ran.Backend, Level: sandbox.Level(e.spec.Egress, ran.Requested, ran.Applied),
		Enforcement: Enforcement{canonical.List(ran.Requested), canonical.List(ran.Applied), canonical.List(ran.Downgrades)}, Isolation: ran.Isolation,
		Egress:     tool.Egress{Mode: e.spec.Egress.String(), Allowed: canonical.List(e.hosts()), Observed: canonical.List(ran.Connections), Missed: ran.ConnectionsMissed},
		Violations: canonical.List(ran.Violations), ViolationsMissed: ran.ViolationsMissed, Refusals: canonical.List(refusals), RefusalsMissed: missed, Changes: changes, Quarantined: ran.Quarantined,
		Stdout: Stream{ran.Stdout.Total, ran.Stdout.SHA256}, Stderr: Stream{ran.Stderr.Total, ran.Stderr.SHA256},
		Usage: ran.Usage, Limits: canonical.List(ran.Limits), DurationMS: float64(ran.Finished.Sub(ran.Started).Microseconds()) / 1000,
	})
	if err != nil {
		return fmt.Errorf("encoding the report: %w", err)
	}
	if e.report == "json" {
		_, err = fmt.Fprintf(e.stderr, "%s\n", text)
	} else {
		err = os.WriteFile(e.report, append(text, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// summary describes a change set in a line.
func (c Changes) summary() string {
	text := fmt.Sprintf("%d added, %d modified, %d deleted", c.Added, c.Modified, c.Deleted)
	if len(c.Protected) > 0 {
		text += "; protected: " + strings.Join(c.Protected, ", ")
	}
	return text
}
