package doctor

import (
	"strings"
	"testing"

	"palyra/internal/sandbox"
)

func TestRoomFinding(t *testing.T) {
	for _, c := range []struct {
		status       sandbox.Status
		result, says string
	}{
		{sandbox.Status{}, Skipped, "no sandbox"},
		{sandbox.Status{Available: true, Limits: "cgroup_v2"}, OK, "limits by cgroup_v2"},
		{sandbox.Status{Available: true, Limits: "rlimit", AtOnce: 3}, OK, "3 programs at once"},
		{sandbox.Status{Available: true, Limits: "rlimit", AtOnce: 3, Tight: "2 programs want more"}, Warning, "2 programs want more"},
	} {
		f := roomFinding(c.status)
		if f.result != c.result || !strings.Contains(f.detail, c.says) || (f.result == Warning) != (f.remedy != "") {
			t.Errorf("%+v: %+v", c.status, f)
		}
	}
}
