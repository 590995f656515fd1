package config

import (
	"strings"
	"testing"
)

// A limit that would permit results larger than the store accepts is refused, with the reason.
func TestResultLimitsFitTheStore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*Config)
		key    string
	}{
		"the defaults": {func(*Config) {}, ""},
		"the most": {func(c *Config) {
			c.HTTP.MaxBytes, c.ProcessRunner.MaxOutputBytes = 11*mib, 5*mib
		}, ""},
		"a response too large":  {func(c *Config) { c.HTTP.MaxBytes = 11*mib + 1 }, "http.max_bytes"},
		"an output too large":   {func(c *Config) { c.ProcessRunner.MaxOutputBytes = 5*mib + 1 }, "process_runner.max_output_bytes"},
		"a response too little": {func(c *Config) { c.HTTP.MaxBytes = 1 }, "http.max_bytes"},
	} {
		cfg := Default()
		c.change(cfg)
		var found []Finding
		for _, f := range check(cfg, nil) {
			if f.Key == "http.max_bytes" || f.Key == "process_runner.max_output_bytes" {
				found = append(found, f)
			}
		}
		switch {
		case c.key == "" && len(found) > 0:
			t.Errorf("%s: %+v", name, found)
		case c.key != "" && (len(found) != 1 || found[0].Key != c.key):
			t.Errorf("%s: %+v", name, found)
		case strings.Contains(name, "too large") && !strings.Contains(found[0].Message, "could not be stored"):
			t.Errorf("%s: does not say why: %+v", name, found[0])
		}
	}
	// A result of the maximum size fits: both streams as base64.
	if most := 2 * (5 * mib) * 4 / 3; most >= MaxResult {
		t.Errorf("%d bytes of output do not fit into %d", most, MaxResult)
	}
}
