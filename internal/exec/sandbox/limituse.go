package sandbox

import (
	"fmt"
	"math"
	"strings"
	"time"

	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// limitRow describes one limit of a run. The table below is the only list of limits: results,
// reports and attestations are derived from it.
type limitRow struct {
	name Quota
	unit string
	// noun completes "the program reached its limit of ...".
	noun    string
	allowed func(Limits) int64
	used    func(Report, Measured) int64
	// setting raises the limit; it is "" for a fixed limit.
	setting string
	// messages are the texts by which programs report that the kernel refused something at the
	// limit, in lower case. They are used only for limits whose refusals the kernel does not count.
	messages []string
}

// The units of limits.
const (
	unitMS    = "ms"
	unitBytes = "bytes"
	unitCount = "count"
)

var limitTable = []limitRow{
	{
		name: QuotaWall, unit: unitMS, noun: "running time", setting: "execution_timeout_ms or the call's timeout_ms",
		allowed: func(l Limits) int64 { return milliseconds(l.Wall) },
		used:    func(r Report, _ Measured) int64 { return milliseconds(r.Usage.Wall) },
	},
	{
		name: QuotaCPU, unit: unitMS, noun: "processor time", setting: "process_runner.cpu_time_limit_ms",
		allowed:  func(l Limits) int64 { return milliseconds(l.CPU) },
		used:     func(r Report, _ Measured) int64 { return milliseconds(r.Usage.CPU) },
		messages: []string{"cpu time limit exceeded"},
	},
	{
		name: QuotaMemory, unit: unitBytes, noun: "memory", setting: "process_runner.memory_limit_bytes",
		allowed:  func(l Limits) int64 { return l.Memory },
		used:     func(r Report, _ Measured) int64 { return r.Usage.PeakMemory },
		messages: []string{"cannot allocate memory", "memoryerror", "out of memory", "memory exhausted"},
	},
	{
		name: QuotaProcesses, unit: unitCount, noun: "processes and threads", setting: "process_runner.max_processes",
		allowed:  func(l Limits) int64 { return int64(l.Processes) },
		used:     func(r Report, _ Measured) int64 { return int64(r.Usage.Processes) },
		messages: []string{"resource temporarily unavailable", "can't start new thread", "failed to create new os thread"},
	},
	{
		name: QuotaOutput, unit: unitBytes, noun: "output", setting: "process_runner.max_output_bytes",
		allowed: func(l Limits) int64 { return l.Output * OutputFactor },
		used:    func(r Report, _ Measured) int64 { return r.Stdout.Total + r.Stderr.Total },
	},
	{
		name: QuotaFileSize, unit: unitBytes, noun: "one file",
		allowed:  func(l Limits) int64 { return l.FileSize },
		used:     func(Report, Measured) int64 { return 0 },
		messages: []string{"file too large", "file size limit exceeded"},
	},
	{
		name: QuotaDisk, unit: unitBytes, noun: "changes in the copy of the workspace", setting: "process_runner.disk_limit_bytes",
		allowed: func(l Limits) int64 { return l.Disk },
		used:    func(_ Report, m Measured) int64 { return m.Disk },
	},
	{
		name: QuotaFiles, unit: unitCount, noun: "new files in the copy of the workspace", setting: "process_runner.max_files",
		allowed: func(l Limits) int64 { return l.Files },
		used:    func(_ Report, m Measured) int64 { return m.Files },
	},
	{
		name: QuotaOpenFiles, unit: unitCount, noun: "open files of a process",
		allowed:  func(l Limits) int64 { return int64(l.OpenFiles) },
		used:     func(Report, Measured) int64 { return 0 },
		messages: []string{"too many open files"},
	},
	{
		name: QuotaTmp, unit: unitBytes, noun: "a temporary file system", setting: "process_runner.tmp_limit_bytes",
		allowed:  func(l Limits) int64 { return l.Tmp },
		used:     func(Report, Measured) int64 { return 0 },
		messages: []string{"no space left on device"},
	},
}

// milliseconds returns 0, no limit, for the running time of a session.
func milliseconds(d time.Duration) int64 {
	if d == math.MaxInt64 {
		return 0
	}
	return d.Milliseconds()
}

// Measured contains the measurements of a run that its report does not have otherwise. A zero field
// was not measured.
type Measured struct {
	// Grouped is true if control groups count the memory and the processes of the run.
	Grouped bool
	// RefusedProcesses is the number of processes and threads that the kernel refused.
	RefusedProcesses int64
	// Disk and Files are the size of the run's changes.
	Disk, Files int64
}

// LimitUses returns the use of every limit of a run that has ended. l are the limits in force.
func (r Report) LimitUses(l Limits, m Measured) []tool.LimitUse {
	l = l.OrDefault()
	uses := make([]tool.LimitUse, 0, len(limitTable))
	for _, row := range limitTable {
		u := tool.LimitUse{Limit: row.name, Unit: row.unit, Allowed: row.allowed(l), Used: row.used(r, m)}
		switch {
		case row.name == r.stoppedBy(l, m):
			u.Effect = tool.LimitEnded
			if u.Used == 0 || row.name == QuotaCPU { // the kernel may count more than was measured
				u.Used = max(u.Used, u.Allowed)
			}
		case row.name == QuotaProcesses && m.RefusedProcesses > 0:
			u.Effect, u.Refused = tool.LimitRefused, m.RefusedProcesses
		case r.reports(row, m):
			u.Effect = tool.LimitReported
		}
		uses = append(uses, u)
	}
	return uses
}

// stoppedBy returns the name of the limit that ended the run, "" for none. It distinguishes the
// two limits of QuotaDisk.
func (r Report) stoppedBy(l Limits, m Measured) Quota {
	switch {
	case r.TimedOut:
		return QuotaWall
	case r.Quota == QuotaDisk && m.Files > l.Files && m.Disk <= l.Disk:
		return QuotaFiles
	}
	return r.Quota
}

// mostReported is the part at the end of each stream in which the message of a program is searched.
const mostReported = 4 << 10

// reports reports whether a failed program ended with a message about a limit. The kernel does not
// count the refusals of a limit per process, so the message is the only sign of them.
func (r Report) reports(row limitRow, m Measured) bool {
	counted := m.Grouped && (row.name == QuotaMemory || row.name == QuotaProcesses)
	if counted || r.TimedOut || r.Quota != "" || r.ExitCode == nil || *r.ExitCode == 0 {
		return false
	}
	for _, s := range []Stream{r.Stderr, r.Stdout} {
		end := s.Head
		if s.Truncated {
			end = s.Tail
		}
		end = end[max(0, len(end)-mostReported):]
		text := strings.ToLower(string(end))
		for _, message := range row.messages {
			if strings.Contains(text, message) {
				return true
			}
		}
	}
	return false
}

// Reached returns the limits that ended the run or refused something.
func (r Report) Reached() []tool.LimitUse {
	var list []tool.LimitUse
	for _, u := range r.Limits {
		if u.Effect != "" {
			list = append(list, u)
		}
	}
	return list
}

// Stopped returns the error of a program that was stopped at a limit, nil for others.
func (r Report) Stopped() *reason.Error {
	code, use := reason.QuotaExceeded, tool.LimitUse{Limit: r.Quota, Effect: tool.LimitEnded}
	switch {
	case r.TimedOut:
		code, use.Limit = reason.TimedOut, QuotaWall
	case r.Quota == "":
		return nil
	}
	for _, u := range r.Limits {
		if u.Effect == tool.LimitEnded {
			use = u
		}
	}
	sentence, remedy := DescribeLimit(use)
	refused := reason.Errorf(code, "%s", strings.TrimSuffix("the"+strings.TrimPrefix(sentence, "The"), ".")).WithRemedy("%s", remedy)
	if r.Quota != "" {
		refused = refused.WithField("quota", r.Quota)
	}
	return refused
}

// DescribeLimit returns a sentence about a reached limit, and the next step.
func DescribeLimit(u tool.LimitUse) (sentence, remedy string) {
	row := rowOf(u.Limit)
	allowed, used := amount(u.Allowed, u.Unit), amount(u.Used, u.Unit)
	remedy = "Use less, or split the work into several calls: this limit is fixed."
	if row.setting != "" {
		remedy = "Use less, or raise the limit (" + row.setting + ")."
	}
	switch {
	case u.Effect == tool.LimitRefused:
		return fmt.Sprintf("The kernel refused %d new processes or threads at the limit of %s.", u.Refused, allowed), remedy
	case u.Effect == tool.LimitReported:
		return fmt.Sprintf("The program reports that it reached a limit, which is %s for %s.", allowed, row.noun), remedy
	case u.Allowed == 0:
		return fmt.Sprintf("The program was stopped with all its processes at its limit of %s.", row.noun), remedy
	case u.Shared():
		return fmt.Sprintf("The program was stopped with all its processes: all programs together left too little %s. It used %s of the %s that it may use.", row.noun, used, allowed),
			"Make the call again when other programs have ended, or lower process_runner.max_concurrent."
	}
	return fmt.Sprintf("The program was stopped with all its processes at its limit of %s: it used %s, and %s are allowed.", row.noun, used, allowed), remedy
}

func rowOf(name string) limitRow {
	for _, row := range limitTable {
		if row.name == name {
			return row
		}
	}
	return limitRow{noun: name}
}

// amount formats a number of a unit.
func amount(n int64, unit string) string {
	switch unit {
	case unitMS:
		return (time.Duration(n) * time.Millisecond).String()
	case unitBytes:
		return bytesOf(n)
	}
	return fmt.Sprint(n)
}

// bytesOf formats a number of bytes, rounded to a tenth of the largest unit that fits.
func bytesOf(n int64) string {
	for _, u := range []struct {
		size int64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= u.size {
			return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/float64(u.size)), ".0") + " " + u.name
		}
	}
	return fmt.Sprintf("%d bytes", n)
}
