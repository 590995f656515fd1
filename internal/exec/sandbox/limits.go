package sandbox

import (
	"time"

	"palyra/internal/core/reason"
)

// Limits limit one run. A zero field selects the default.
type Limits struct {
	Wall time.Duration
	// CPU is the processor time of all processes of the run.
	CPU time.Duration
	// Memory is the memory of all processes in bytes, including temporary files.
	Memory int64
	// Output is the number of kept bytes per stream, half from the start and half from the end.
	// The run ends if both streams together exceed OutputFactor times as much.
	Output    int64
	Processes int
	OpenFiles int
	// FileSize is the maximum size of a file that a process may write, in bytes.
	FileSize int64
	// Tmp is the size of each temporary file system, in bytes.
	Tmp int64
	// Disk is the maximum amount of data that a run may write to its copy of the workspace, in
	// bytes. Files is the maximum number of files and directories that it may create there.
	Disk  int64
	Files int64
	// AddressSpace is in bytes for each process. Zero leaves it to the backend: most programs
	// reserve far more than they use, and memory is limited in other ways.
	AddressSpace int64
}

// OutputFactor times Limits.Output is the amount of output at which a run is stopped.
const OutputFactor = 64

// OrDefault returns l with the defaults in place of zero fields.
func (l Limits) OrDefault() Limits {
	const mib = 1 << 20
	fill(&l.Wall, 120*time.Second)
	fill(&l.CPU, 60*time.Second)
	fill(&l.Memory, 2048*mib)
	fill(&l.Output, 1*mib)
	fill(&l.Processes, 1024)
	fill(&l.OpenFiles, 1024)
	fill(&l.FileSize, 256*mib)
	fill(&l.Tmp, 256*mib)
	fill(&l.Disk, 1024*mib)
	fill(&l.Files, 200_000)
	return l
}

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Check refuses limits that are negative or too small to start a program.
func (l Limits) Check() error {
	l = l.OrDefault()
	for _, f := range []struct {
		name        string
		value, need int64
	}{
		{"wall", int64(l.Wall), int64(time.Millisecond)},
		{"cpu", int64(l.CPU), int64(time.Millisecond)},
		{"memory", l.Memory, 8 << 20},
		{"output", l.Output, 1},
		{"processes", int64(l.Processes), 4},
		{"open files", int64(l.OpenFiles), 16},
		{"file size", l.FileSize, 1},
		{"tmp", l.Tmp, 4096},
		{"disk", l.Disk, 4096},
		{"files", l.Files, 16},
	} {
		if f.value < f.need {
			return reason.Errorf(reason.InvalidInput, "the %s limit of a run must be at least %d", f.name, f.need)
		}
	}
	return nil
}
