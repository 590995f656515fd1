package sandbox_test

import (
	"testing"

	"palyra/internal/sandbox"
)

func TestLevel(t *testing.T) {
	all := []string{"network_namespace", "seccomp", "landlock", sandbox.ControlGroup}
	for name, c := range map[string]struct {
		requested, applied []string
		want               string
	}{
		"everything":            {all, all, sandbox.LevelStrict},
		"limits per process":    {all, all[:3], sandbox.LevelStrict},
		"no Landlock":           {all, []string{"network_namespace", "seccomp", sandbox.ControlGroup}, sandbox.LevelNone},
		"no network namespace":  {all, all[1:], sandbox.LevelNone},
		"nothing was read back": {all, nil, sandbox.LevelNone},
		"nothing was asked for": {nil, all, sandbox.LevelNone},
		"limits alone":          {all[3:], all[3:], sandbox.LevelNone},
	} {
		if got := sandbox.Level(c.requested, c.applied); got != c.want {
			t.Errorf("%s: level %s, want %s", name, got, c.want)
		}
	}
}
