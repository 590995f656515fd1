package ladder

import (
	"context"
	"strings"
	"testing"

	"palyra/internal/core/config"
	"palyra/internal/core/must"
	"palyra/internal/exec/sandbox"
)

// fakeBackend is a backend that reports a given status.
type fakeBackend struct {
	status sandbox.Status
	closed *int
}

func (*fakeBackend) Run(context.Context, sandbox.Spec) (sandbox.Report, error) {
	return sandbox.Report{}, nil
}
func (f *fakeBackend) Probe(context.Context) sandbox.Status        { return f.status }
func (*fakeBackend) Examine(context.Context) []sandbox.Examination { return nil }
func (*fakeBackend) Sweep(context.Context) error                   { return nil }
func (f *fakeBackend) Close() error                                { *f.closed++; return nil }

func TestLadder(t *testing.T) {
	t.Parallel()
	works := func(tier sandbox.Tier, rung sandbox.Isolation) sandbox.Status {
		return sandbox.Status{Available: true, Tier: tier, Rung: rung}
	}
	lacks := sandbox.Status{Problem: "bubblewrap is not installed", Remedy: "Install it."}
	for _, row := range []struct {
		name    string
		runner  config.ProcessRunner
		steps   []sandbox.Status
		want    sandbox.Status
		lowered string
	}{
		{"Tier C", config.ProcessRunner{Tier: "c", Fallback: "none"}, []sandbox.Status{works("c", sandbox.Full)}, works("c", sandbox.Full), ""},
		{"nothing may stand in", config.ProcessRunner{Tier: "c", Fallback: "none"}, []sandbox.Status{lacks}, lacks, ""},
		{"Tier C although less would do", config.ProcessRunner{Tier: "c", Fallback: "landlock"}, []sandbox.Status{works("c", sandbox.Full), works("b", sandbox.UserNamespaces)}, works("c", sandbox.Full), ""},
		{
			"user namespaces stand in", config.ProcessRunner{Tier: "c", Fallback: "user_namespaces"}, []sandbox.Status{lacks, works("b", sandbox.UserNamespaces)},
			works("b", sandbox.UserNamespaces), "Tier b on the rung user_namespaces instead of full: bubblewrap is not installed",
		},
		{
			"Landlock stands in", config.ProcessRunner{Tier: "c", Fallback: "landlock"}, []sandbox.Status{lacks, works("b", sandbox.Landlocked)},
			works("b", sandbox.Landlocked), "on the rung landlock instead of full",
		},
		{
			"below what is allowed", config.ProcessRunner{Tier: "c", Fallback: "user_namespaces"}, []sandbox.Status{lacks, works("b", sandbox.Landlocked)},
			lacks, "",
		},
		{"Tier B", config.ProcessRunner{Tier: "b", Fallback: "none"}, []sandbox.Status{works("b", sandbox.UserNamespaces)}, works("b", sandbox.UserNamespaces), ""},
		{
			"Tier B with less", config.ProcessRunner{Tier: "b", Fallback: "landlock"}, []sandbox.Status{works("b", sandbox.Landlocked)},
			works("b", sandbox.Landlocked), "on the rung landlock instead of user_namespaces",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			opened, closed := 0, 0
			var steps []sandbox.Step
			rung := sandbox.Full
			if row.runner.Tier == config.TierB {
				rung = sandbox.UserNamespaces
			}
			for _, status := range row.steps {
				steps = append(steps, sandbox.Step{Rung: rung, Open: func() (sandbox.Backend, error) { opened++; return &fakeBackend{status: status, closed: &closed}, nil }})
				rung = sandbox.UserNamespaces
			}
			b := must.Get(sandbox.Choose(t.Context(), steps, Lowest(row.runner)))(t)
			if b.Status.Available != row.want.Available || b.Status.Rung != row.want.Rung || b.Status.Problem != row.want.Problem {
				t.Errorf("chose %+v, want %+v", b.Status, row.want)
			}
			if got := b.Lowered(); (got == "") != (row.lowered == "") || !strings.Contains(got, row.lowered) {
				t.Errorf("it says %q, want %q", got, row.lowered)
			}
			if closed != opened-1 {
				t.Errorf("%d backends were opened and %d closed", opened, closed)
			}
		})
	}
	// A rung below the lowest counts as unavailable, and the remedy names the setting.
	closed := 0
	alone := []sandbox.Step{{Rung: sandbox.UserNamespaces, Open: func() (sandbox.Backend, error) {
		return &fakeBackend{status: works("b", sandbox.Landlocked), closed: &closed}, nil
	}}}
	b, err := sandbox.Choose(t.Context(), alone, Lowest(config.ProcessRunner{Tier: "b", Fallback: "none"}))
	if err != nil || b.Status.Available || !strings.Contains(b.Status.Remedy, `fallback = "landlock"`) {
		t.Errorf("below the lowest rung: %+v, %v", b.Status, err)
	}
}

// TestWindowsIsTierB: the only backend of Windows does not count as Tier C. It is used as Tier
// B, or if a lower rung is allowed.
func TestWindowsIsTierB(t *testing.T) {
	t.Parallel()
	job := sandbox.Status{Available: true, Tier: sandbox.TierB, Rung: sandbox.JobObject}
	for _, row := range []struct {
		name, tier, fallback string
		refused              bool
		lowered              string
	}{
		{"Tier B", "b", "none", false, ""},
		{"Tier B, with a rung of Linux", "b", "landlock", false, ""},
		{"Tier C", "c", "none", true, ""},
		{"Tier C, where more than a job object is the least", "c", "landlock", true, ""},
		{"less may stand in", "c", "job_object", false, "Tier b on the rung job_object instead of full: Windows provides only job objects"},
	} {
		t.Run(row.name, func(t *testing.T) {
			closed := 0
			steps := []sandbox.Step{{Rung: asked(row.tier, "windows"), Open: func() (sandbox.Backend, error) {
				return &fakeBackend{status: job, closed: &closed}, nil
			}}}
			p := config.ProcessRunner{Tier: row.tier, Fallback: row.fallback}
			b := must.Get(sandbox.Choose(t.Context(), steps, lowest(p, "windows")))(t)
			if b.Status.Available == row.refused || b.Status.Tier != sandbox.TierB {
				t.Errorf("chose %+v", b.Status)
			}
			if row.refused && (!strings.Contains(b.Status.Problem, "no Tier C") || !strings.Contains(b.Status.Remedy, `tier = "b"`)) {
				t.Errorf("it is refused with %q, next %q", b.Status.Problem, b.Status.Remedy)
			}
			if got := b.Lowered(); (got == "") != (row.lowered == "") || !strings.Contains(got, row.lowered) {
				t.Errorf("it says %q, want %q", got, row.lowered)
			}
		})
	}
	if got := lowest(config.ProcessRunner{Tier: "c", Fallback: "job_object"}, "linux"); got != sandbox.Landlocked {
		t.Errorf("the lowest rung of Linux is %s", got)
	}
	// Control: the other settings have the same meaning as on Linux.
	for want, p := range map[sandbox.Isolation]config.ProcessRunner{
		sandbox.Full: {Tier: "c", Fallback: "none"}, sandbox.UserNamespaces: {Tier: "b", Fallback: "none"}, sandbox.Landlocked: {Tier: "b", Fallback: "landlock"},
	} {
		if got := lowest(p, "linux"); got != want {
			t.Errorf("%+v on Linux: %s, want %s", p, got, want)
		}
	}
}
