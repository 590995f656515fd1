package sandbox

import (
	"cmp"
	"slices"

	"palyra/internal/core/tool"
	"palyra/internal/egress"
)

// The levels of enforcement, the one-word summary of a run. LevelPreflight is the level of runs
// whose hosts were checked only before the start.
const (
	LevelNone      = "none"
	LevelPreflight = "preflight"
	LevelStrict    = "strict"
)

// Layers with a special meaning for the level.
const (
	// ControlGroup limits a whole process tree.
	ControlGroup = "control_group"
	// NetworkNamespace is a separate network of the run. It leads only to the listeners of
	// palyrad's proxy; without allowed hosts it has no listeners.
	NetworkNamespace = "network_namespace"
	// SeatbeltNetwork is the refusal of every connection by macOS.
	SeatbeltNetwork = "seatbelt_network"
)

// Level returns the isolation level of a run. It is none unless layers were requested and all of
// them were proved. Then it is strict in mode egress.Strict with NetworkNamespace or
// SeatbeltNetwork among the layers, preflight in mode egress.Preflight, and none in all other
// cases.
//
// ControlGroup does not count: it limits resources, not access. Without it the same limits apply
// per process, and a report lists that under downgrades.
func Level(mode egress.Mode, requested, applied []string) string {
	isolating := 0
	for _, layer := range requested {
		if layer == ControlGroup {
			continue
		}
		if !slices.Contains(applied, layer) {
			return LevelNone
		}
		isolating++
	}
	switch {
	case isolating == 0:
		return LevelNone
	case mode == egress.Strict && (slices.Contains(applied, NetworkNamespace) || slices.Contains(applied, SeatbeltNetwork)):
		return LevelStrict
	case mode == egress.Preflight:
		return LevelPreflight
	}
	return LevelNone
}

// DescribeIsolation adds the verified isolation of a run in this mode to the report of its call.
func (r Report) DescribeIsolation(to *tool.Report, mode egress.Mode) {
	to.Isolation = &r.Isolation
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
	to.ExitCode, to.Signal, to.Usage = r.ExitCode, r.Signal, r.Usage
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
