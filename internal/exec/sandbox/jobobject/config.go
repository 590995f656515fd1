// Package jobobject runs programs on Windows in a job object: limits on a whole
// process tree, and its certain end. It does not isolate files or the network,
// says so in every report, and refuses calls that need either.
package jobobject

// Config says how programs are run. Its zero value runs nothing.
type Config struct {
	// Enabled is process_runner.enabled.
	Enabled bool
	// RunDir is where each run gets a directory of its own, which is removed
	// after it; "" is the system's directory for temporary files.
	RunDir string
}

// The layers, as attestations name them.
const (
	// layerJob is proved by the job's limits, read back, and by the process
	// being in the job before its first instruction.
	layerJob = "job_object"
	// layerUI is proved by the job's restrictions, read back.
	layerUI = "ui_restrictions"
	// layerRate is proved by the job's rate of processor time, read back.
	layerRate = "cpu_rate"
	// layerToken is proved by the privileges in the process's token.
	layerToken = "restricted_token"
	// layerIntegrity is proved by the label in the process's token: a process
	// of low integrity cannot write to what has no such label, which is almost
	// everything. It is what makes a workspace read-only.
	layerIntegrity = "low_integrity"
	// layerFiles and layerNetwork are never in force here. They are asked for
	// all the same, so that no level says more than there is.
	layerFiles   = "file_isolation"
	layerNetwork = "network_isolation"
)

// requested lists the layers of every run in a mode.
func requested(readOnly bool) []string {
	list := []string{layerJob, layerUI, layerRate, layerToken}
	if readOnly {
		list = append(list, layerIntegrity)
	}
	return append(list, layerFiles, layerNetwork)
}

// essential lists the layers without which nothing runs.
func essential(readOnly bool) []string {
	list := []string{layerJob, layerToken}
	if readOnly {
		list = append(list, layerIntegrity)
	}
	return list
}

// limitations are what a job object has no means for; every report lists them.
func limitations(readOnly bool) []string {
	files := "a program reads and writes what its user may"
	if readOnly {
		files = "a program reads what its user may"
	}
	return []string{
		layerFiles + ": " + files,
		layerNetwork + ": the host's network is open",
		"file_size: a job object does not bound files, temporary ones included",
		"open_files: a job object does not bound handles",
	}
}
