package sandbox_test

import (
	"testing"

	"palyra/internal/egress"
	"palyra/internal/exec/sandbox"
)

func TestLevel(t *testing.T) {
	t.Parallel()
	all := []string{"network_namespace", "seccomp", "landlock", sandbox.ControlGroup}
	for name, c := range map[string]struct {
		requested, applied []string
		want               string
		mode               egress.Mode
	}{
		"everything":            {all, all, sandbox.LevelStrict, egress.Strict},
		"limits per process":    {all, all[:3], sandbox.LevelStrict, egress.Strict},
		"no Landlock":           {all, []string{"network_namespace", "seccomp", sandbox.ControlGroup}, sandbox.LevelNone, egress.Strict},
		"no network namespace":  {all, all[1:], sandbox.LevelNone, egress.Strict},
		"nothing was read back": {all, nil, sandbox.LevelNone, egress.Strict},
		"nothing was asked for": {nil, all, sandbox.LevelNone, egress.Strict},
		"none was asked for":    {all[1:], all[1:], sandbox.LevelNone, egress.Strict},
		"checked before":        {all[1:], all[1:], sandbox.LevelPreflight, egress.Preflight},
		"checked, no Landlock":  {all[1:], all[1:2], sandbox.LevelNone, egress.Preflight},
		"unrestricted":          {all[1:], all[1:], sandbox.LevelNone, egress.Unrestricted},
		"macOS, offline":        {[]string{sandbox.SeatbeltNetwork}, []string{sandbox.SeatbeltNetwork}, sandbox.LevelStrict, egress.Strict},
		"macOS, open network":   {[]string{sandbox.SeatbeltNetwork}, []string{sandbox.SeatbeltNetwork}, sandbox.LevelNone, egress.Unrestricted},
		"limits alone":          {all[3:], all[3:], sandbox.LevelNone, egress.Strict},
	} {
		if got := sandbox.Level(c.mode, c.requested, c.applied); got != c.want {
			t.Errorf("%s: level %s, want %s", name, got, c.want)
		}
	}
}
