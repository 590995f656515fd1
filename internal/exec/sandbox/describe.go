package sandbox

import (
	"cmp"

	"palyra/internal/core/tool"
	"palyra/internal/egress"
)

// DescribeIsolation adds the verified isolation of a run in this mode to the report of its call.
func (r Report) DescribeIsolation(to *tool.Report, mode egress.Mode) {
	isolation := r.Isolation // a pointer into r would keep the output of the run
	to.Isolation = &isolation
	to.Executor.Backend, to.Executor.Tier = r.Backend, cmp.Or(string(r.Tier), to.Executor.Tier)
	to.Enforcement = tool.Enforcement{
		Level:     Level(mode, r.Requested, r.Applied),
		Requested: append([]string{}, r.Requested...), Applied: append([]string{}, r.Applied...), Downgrades: append([]string{}, r.Downgrades...),
	}
}

// Describe adds a run in this mode to the report of its call. A run whose program was never
// started adds nothing.
func (r Report) Describe(to *tool.Report, mode egress.Mode) {
	if r.Started.IsZero() {
		return
	}
	r.DescribeIsolation(to, mode)
	if r.Connections != nil {
		to.Egress.Observed = r.Connections
	}
	to.Egress.Missed = r.ConnectionsMissed
	to.Violations, to.ViolationsMissed = r.Violations, r.ViolationsMissed
	to.Refusals, to.RefusalsMissed = r.Refused()
	to.ExitCode, to.Signal, to.Usage, to.Limits = r.ExitCode, r.Signal, r.Usage, r.Reached()
	to.StartedAt, to.FinishedAt = r.Started.UTC(), r.Finished.UTC()
	to.Outputs = tool.Outputs{
		StdoutSHA256: r.Stdout.SHA256, StderrSHA256: r.Stderr.SHA256, StdoutBytes: r.Stdout.Total, StderrBytes: r.Stderr.Total,
		StdoutKeptSHA256: r.Stdout.truncatedSHA256(), StderrKeptSHA256: r.Stderr.truncatedSHA256(),
		Truncated: r.Stdout.Truncated || r.Stderr.Truncated,
	}
}

// truncatedSHA256 returns the digest of the kept part, "" if the stream is complete.
func (s Stream) truncatedSHA256() string {
	if !s.Truncated {
		return ""
	}
	return s.KeptSHA256
}
