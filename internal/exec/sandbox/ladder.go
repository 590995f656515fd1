package sandbox

import (
	"context"
	"fmt"
	"slices"
)

// Backend is a Runner with the additional methods that the daemon needs.
type Backend interface {
	Runner
	// Sweep removes the remains of a killed daemon.
	Sweep(context.Context) error
	Close() error
}

// Pooled is a backend that prepares sandboxes before calls.
type Pooled interface {
	// Invalidate ends the prepared sandboxes, because their settings or policies may have
	// changed.
	Invalidate()
}

// Step is one backend of the ladder.
type Step struct {
	Rung Isolation
	Open func() (Backend, error)
}

// Choice is the selected backend. If no backend works, it is the best one, and Status contains
// the reason.
type Choice struct {
	Backend Backend
	Status  Status
	// Wanted is the requested rung. Lack is the reason why the machine does not provide it, "" if
	// it does.
	Wanted Isolation
	Lack   string
	// low is the lowest allowed rung.
	low Isolation
}

// Invalidate ends prepared sandboxes.
func (c Choice) Invalidate() {
	if p, ok := c.Backend.(Pooled); ok {
		p.Invalidate()
	}
}

// Lowered returns a sentence with the reason why programs get a lower rung than requested; "" if
// they do not.
func (c Choice) Lowered() string {
	if c.Lack == "" || !c.Status.Available {
		return ""
	}
	return fmt.Sprintf("programs run in Tier %s on the rung %s instead of %s: %s", c.Status.Tier, c.Status.Rung, c.Wanted, c.Lack)
}

// rungs are the rungs of Linux and Windows, best first.
var rungs = []Isolation{Full, UserNamespaces, Landlocked, JobObject}

// reaches reports whether a rung is at or above another. The rung of macOS is the only one on
// that system.
func reaches(rung, low Isolation) bool {
	at := slices.Index(rungs, rung)
	return at < 0 || at <= slices.Index(rungs, low)
}

// within restricts a status to the allowed rungs: a rung below the lowest counts as unavailable.
func (s Status) within(low Isolation) Status {
	if !s.Available || reaches(s.Rung, low) {
		return s
	}
	return tooLow(s)
}

// Choose opens the backends of the ladder until one works and reaches the lowest rung. A backend
// that does not work for a passing reason is chosen as well: programs must not run on a lower
// rung for the rest of palyrad's life because of a shortage at its start. If no backend works,
// Choose returns the first one, whose status contains the reason, and no program runs.
func Choose(ctx context.Context, steps []Step, low Isolation) (Choice, error) {
	chosen := Choice{Wanted: steps[0].Rung, low: low}
	for i, s := range steps {
		b, err := s.Open()
		if err != nil {
			return Choice{}, fmt.Errorf("opening the sandbox: %w", err)
		}
		status := b.Probe(ctx).within(low)
		if status.Available || status.Passing {
			if status.Rung == chosen.Wanted {
				chosen.Lack = ""
			} else if chosen.Lack == "" {
				chosen.Lack = lack(status.Rung)
			}
			if chosen.Backend != nil {
				err = chosen.Backend.Close()
			}
			chosen.Backend, chosen.Status = b, status
			return chosen, err
		}
		if i == 0 {
			chosen.Backend, chosen.Status, chosen.Lack = b, status, status.Problem
			continue
		}
		if err := b.Close(); err != nil {
			return Choice{}, fmt.Errorf("closing the sandbox: %w", err)
		}
	}
	return chosen, nil
}

// tooLow returns the status of a working rung that is not allowed.
func tooLow(s Status) Status {
	low := Status{
		Backend: s.Backend, Tier: s.Tier, Rung: s.Rung, Limits: s.Limits,
		Problem: fmt.Sprintf("this machine provides only the rung %s, and process_runner.fallback does not allow it", s.Rung),
		Remedy:  "Allow user namespaces for the user of palyrad, or set process_runner.fallback = \"landlock\".",
	}
	if s.Rung == JobObject {
		low.Problem = "Windows has no Tier C: a job object is Tier B, isolates neither files nor the network, and process_runner.fallback does not allow it"
		low.Remedy = "Set process_runner.tier = \"b\", or process_runner.fallback = \"job_object\"."
	}
	return low
}

// lack returns the reason why a machine provides only this rung.
func lack(rung Isolation) string {
	if rung == JobObject {
		return "Windows provides only job objects"
	}
	return "user namespaces are not available"
}

// Lacking returns the layers of a list that are not in force.
func (s Status) Lacking(layers []string) []string {
	var missing []string
	for _, layer := range layers {
		if !slices.Contains(s.Layers, layer) {
			missing = append(missing, layer)
		}
	}
	return missing
}
