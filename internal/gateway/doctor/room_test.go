package doctor

import (
	"context"
	"errors"
	"strings"
	"testing"

	"palyra/internal/exec/sandbox"
)

func TestRoomFinding(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status       sandbox.Status
		result, says string
	}{
		{sandbox.Status{}, Skipped, "no sandbox"},
		{sandbox.Status{Available: true, Limits: "cgroup_v2"}, OK, "limits by cgroup_v2"},
		{sandbox.Status{Available: true, Limits: "rlimit", AtOnce: 3}, OK, "3 programs can run at once"},
		{sandbox.Status{Available: true, Limits: "rlimit", AtOnce: 3, Tight: "2 programs want more"}, Warning, "2 programs want more"},
	} {
		f := roomFinding(c.status)
		if f.result != c.result || !strings.Contains(f.detail, c.says) || (f.result == Warning) != (f.remedy != "") {
			t.Errorf("%+v: %+v", c.status, f)
		}
	}
}

// TestGroupsFinding: the doctor reports the control groups of this process, without moving
// itself to another group, and those that a palyrad started here would use. With a running
// palyrad it refers to `palyra status`.
func TestGroupsFinding(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status       sandbox.Status
		how          string
		err          error
		result, says string
	}{
		{sandbox.Status{}, "", nil, Skipped, "no sandbox"},
		{sandbox.Status{Available: true, Limits: "cgroup_v2"}, "", nil, OK, "limits by cgroup_v2: a control group is delegated"},
		{sandbox.Status{Available: true, Limits: "job_object"}, "", nil, Skipped, "limits by job_object"},
		{sandbox.Status{Available: true, Limits: "rlimit", Rung: sandbox.Seatbelt}, "", nil, Skipped, "limits by rlimit"},
		{sandbox.Status{Available: true, Limits: "rlimit"}, "systemd makes it", nil, OK, "limits by rlimit in this process; a palyrad started here would use cgroup_v2: systemd makes it"},
		{sandbox.Status{Available: true, Limits: "cgroup_v1"}, "systemd makes it", nil, OK, "would use cgroup_v2"},
		{sandbox.Status{Available: true, Limits: "cgroup_v1"}, "", errors.New("no bus"), OK, "limits by cgroup_v1"},
		{sandbox.Status{Available: true, Limits: "rlimit"}, "", errors.New("no bus"), Warning, "limits by rlimit, which apply to each process separately; palyrad adds up the memory of a program's processes and stops the program above its limit: no bus"},
		{sandbox.Status{Available: true, Limits: "rlimit"}, "", nil, Warning, "no writable controllers"},
	} {
		asked := false
		p := sandboxes{Config: Config{Groups: func(context.Context) (string, error) {
			asked = true
			return c.how, c.err
		}}, chosen: sandbox.Choice{Status: c.status}}
		f := p.groups(t.Context())
		if f.result != c.result || !strings.Contains(f.detail, c.says) || (f.result == Warning) != (f.remedy != "") {
			t.Errorf("%+v with %q, %v: %+v", c.status, c.how, c.err, f)
		}
		if want := c.status.Rung == "" && (c.status.Limits == "rlimit" || c.status.Limits == "cgroup_v1"); asked != want {
			t.Errorf("%+v: it was asked how to come by control groups: %t", c.status, asked)
		}
		p.running = true
		if f := p.groups(t.Context()); asked != strings.Contains(f.detail, "palyra status") {
			t.Errorf("beside a palyrad: %+v", f)
		}
	}
}
