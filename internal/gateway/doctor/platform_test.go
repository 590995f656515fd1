package doctor

import (
	"strings"
	"testing"
)

// TestPlatformFinding: doctor warns on the systems on which palyrad was never tested, and names the
// tier of their isolation. Linux is the control.
func TestPlatformFinding(t *testing.T) {
	t.Parallel()
	for system, want := range map[string]string{"darwin": "Tier C under a Seatbelt", "windows": "Tier B in a job object", "linux": ""} {
		got := platformFinding(system, "arm64")
		if want == "" {
			if got.result != OK || got.detail != "linux/arm64" {
				t.Errorf("%s: %+v", system, got)
			}
			continue
		}
		if got.result != Warning || got.remedy == "" || !strings.Contains(got.detail, "not tested on hardware") || !strings.Contains(got.detail, want) {
			t.Errorf("%s: %+v", system, got)
		}
	}
}
