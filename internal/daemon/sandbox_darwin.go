package daemon

import (
	"palyra/internal/config"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/seatbelt"
)

// ladder is the one backend of macOS.
func ladder(cfg *config.Config, at places) []step {
	return []step{{sandbox.Seatbelt, func() (backend, error) {
		r, err := seatbelt.New(seatbelt.Config{Enabled: cfg.ProcessRunner.Enabled, RunDir: at.layers})
		return held{r}, err
	}}}
}
