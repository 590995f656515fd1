// Package jobobject runs programs on Windows in a job object, which limits a whole process tree
// and ends it reliably. It does not isolate files or the network. Every report states this
// limitation, and calls that require isolation of files or the network are refused.
package jobobject

// Config configures the runner. The zero value runs no programs.
type Config struct {
	// Enabled is process_runner.enabled.
	Enabled bool
	// RunDir contains a directory for each run, which is removed after it; "" is the system's
	// directory for temporary files.
	RunDir string
}

// The layers, as attestations name them.
const (
	// layerJob is proved by reading back the job's limits, and by the process being in the job
	// before its first instruction.
	layerJob = "job_object"
	// layerUI is proved by reading back the job's restrictions.
	layerUI = "ui_restrictions"
	// layerRate is proved by reading back the job's rate of processor time.
	layerRate = "cpu_rate"
	// layerToken is proved by the privileges in the process's token.
	layerToken = "restricted_token"
	// layerIntegrity is proved by the label in the process's token. A process of low integrity can
	// write only to objects with such a label, which are very few. The layer makes a workspace
	// read-only.
	layerIntegrity = "low_integrity"
	// layerFiles and layerNetwork are never in force here. They are requested nevertheless, so
	// that the reported level is not too high.
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

// essential lists the layers without which no program runs.
func essential(readOnly bool) []string {
	list := []string{layerJob, layerToken}
	if readOnly {
		list = append(list, layerIntegrity)
	}
	return list
}

// limitations lists the isolation that a job object cannot provide; every report contains them.
func limitations(readOnly bool) []string {
	files := "a program can read and write all files of its user"
	if readOnly {
		files = "a program can read all files of its user"
	}
	return []string{
		layerFiles + ": " + files,
		layerNetwork + ": the host's network is open",
		"file_size: a job object does not limit files, including temporary ones",
		"open_files: a job object does not limit handles",
	}
}
