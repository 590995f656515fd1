package config

import (
	"strings"
	"testing"
)

// TestUnknownVariables: an unknown variable with Palyra's prefix is an error that suggests the
// right name, for both programs.
func TestUnknownVariables(t *testing.T) {
	t.Parallel()
	for name, says := range map[string]string{
		"PALYRA_ADRESS":           "did you mean PALYRA_ADDRESS?",
		"PALYRA_LOG_LEVLE":        "did you mean PALYRA_LOG_LEVEL?",
		"PALYRA_CONFGI":           "did you mean PALYRA_CONFIG?",
		"PALYRA_TIER":             "did you mean PALYRA_PROCESS_RUNNER_TIER?",
		"PALYRA_WORKSPACES":       "workspaces is a list of tables; set it in the file",
		"PALYRA_NOTHING_OF_OURS":  "unset it",
		"PALYRA_LOG_LEVEL":        "",
		"PALYRA_CONFIG_DIRECTORY": "unset it",
		"PALYRA_TOKEN":            "",
		"PALYRA_HOOK_TOKEN":       "",
		"PALYRA_HOOK_SOCKET":      "",
		"TEST_PALYRA_ANYTHING":    "",
		"palyra_address":          "",
	} {
		w := newWorld(t)
		w.env[name] = "debug"
		opts := w.options()
		opts.Environ = func() []string { return []string{"HOME=" + w.home, name + "=debug", "PALYRA_EMPTY="} }
		_, _, err := Load(opts)
		_, _, _, ofClient := LoadClient(opts)
		for program, err := range map[string]error{"palyrad": err, "palyra": ofClient} {
			switch {
			case says == "" && err != nil:
				t.Errorf("%s with %s: %v", program, name, err)
			case says != "" && (err == nil || !strings.Contains(err.Error(), "env "+name+": ") || !strings.Contains(err.Error(), says)):
				t.Errorf("%s with %s: %v, want %q", program, name, err, says)
			}
		}
	}
}
