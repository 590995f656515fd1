package main

import (
	"os/exec"
	"testing"
	"time"
)

func TestVersion(t *testing.T) {
	t.Parallel()
	commit := "0123456789abcdef0123456789abcdef01234567"
	date := time.Date(2026, 11, 30, 6, 0, 0, 0, time.UTC)
	for tag, want := range map[string]string{
		"v1.2.3":                       "1.2.3",
		"v1.2.3-rc.1":                  "1.2.3~rc.1",
		"v1.2.3-5-g0123456789ab":       "1.2.3+5.g0123456789ab",
		"v1.2.3-rc.1-5-g0123456789ab":  "1.2.3~rc.1+5.g0123456789ab",
		"v1.2.3-5-g0123456789ab-dirty": "1.2.3+5.g0123456789ab",
		"0123456789ab":                 "0.0.0~20261130060000.0123456789ab",
		"":                             "0.0.0~20261130060000.0123456789ab",
		"v1.2.3; rm":                   "0.0.0~20261130060000.0123456789ab",
	} {
		rel, err := newRelease(tag, commit, date)
		if err != nil || rel.version != want {
			t.Errorf("%q: %q, %v; want %q", tag, rel.version, err, want)
		}
	}
	for _, bad := range []string{"", "0123456789ab", commit[:39] + "X"} {
		if _, err := newRelease("v1.2.3", bad, date); err == nil {
			t.Errorf("the commit %q is accepted", bad)
		}
	}
}

// TestOrderOfVersions asks dpkg whether a later commit has a later version.
func TestOrderOfVersions(t *testing.T) {
	t.Parallel()
	dpkg, err := exec.LookPath("dpkg")
	if err != nil {
		t.Skip("dpkg is absent")
	}
	ordered := []string{"0.0.0~20261130055959.ffffffffffff", "0.0.0~20261130060000.000000000000", "1.2.3~rc.1", "1.2.3~rc.1+5.gffffffffffff", "1.2.3~rc.2", "1.2.3", "1.2.3+1.gffffffffffff", "1.2.3+10.g000000000000", "1.2.4~alpha.1", "1.10.0"}
	for i := 1; i < len(ordered); i++ {
		if err := exec.CommandContext(t.Context(), dpkg, "--compare-versions", ordered[i-1], "lt", ordered[i]).Run(); err != nil {
			t.Errorf("%s is not before %s", ordered[i-1], ordered[i])
		}
	}
}
