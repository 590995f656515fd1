package daemon

import (
	"palyra/internal/config"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/jobobject"
)

// ladder is the one backend of Windows.
func ladder(cfg *config.Config, at places) []step {
	return []step{{sandbox.JobObject, func() (backend, error) {
		r, err := jobobject.New(jobobject.Config{Enabled: cfg.ProcessRunner.Enabled, RunDir: at.layers})
		return held{r}, err
	}}}
}
