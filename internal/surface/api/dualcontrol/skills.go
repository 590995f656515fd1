package dualcontrol

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"palyra/internal/call/dualcontrol"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/dsse"
	"palyra/internal/exec/skill"
	"palyra/internal/exec/skill/registry"
	"palyra/internal/surface/api/things"
)

// Skills are packages of tools: what runs for calls, by whose signature, and what it may
// reach takes a second person. What takes power away takes nobody else.
type Skills struct {
	things.SkillManager
	Gate *dualcontrol.Gate

	// changing is held from the last look at what there is until the change is made, so
	// that an update that gained nothing when it was looked at gains nothing when it is made.
	changing sync.Mutex
}

// installation is what a second person says yes to.
type installation struct {
	Skill   string `json:"skill"`
	Version string `json:"version"`
	// Package is the digest of the file.
	Package      string `json:"package"`
	Publisher    string `json:"publisher"`
	Key          string `json:"key"`
	NewPublisher bool   `json:"new_publisher"`
	// Replaces is the current version, and WhichIs what it is, "" for none.
	Replaces string   `json:"replaces,omitempty"`
	WhichIs  string   `json:"which_is,omitempty"`
	Gains    []string `json:"gains"`
}

// nothing reports whether it is an update that gains nothing over a version that runs.
func (i installation) nothing() bool {
	return i.WhichIs == string(registry.Active) && !i.NewPublisher && len(i.Gains) == 0
}

func (i installation) equal(o installation) bool {
	return slices.Equal(i.Gains, o.Gains) && i.Skill == o.Skill && i.Version == o.Version && i.Package == o.Package && i.Publisher == o.Publisher &&
		i.Key == o.Key && i.NewPublisher == o.NewPublisher && i.Replaces == o.Replaces && i.WhichIs == o.WhichIs
}

// Install installs a staged package. An update that gains nothing over the version that
// runs asks nobody.
func (s *Skills) Install(ctx context.Context, by access.Caller, digest string) (registry.Installed, error) {
	return change[registry.Installed](ctx, s.Gate, by, func(ctx context.Context) (*dualcontrol.Plan, error) {
		planned, found, err := s.installation(ctx, digest)
		if err != nil {
			return nil, err
		}
		// What cannot be compiled is no question, and nobody who quarantines waits for it.
		if err := s.Prepare(ctx, digest); err != nil {
			return nil, err
		}
		return &dualcontrol.Plan{
			Kind: dualcontrol.InstallSkill, Needs: access.PermSkillWrite, Nothing: planned.nothing(), Question: planned.question(found),
			Make: func(ctx context.Context) (any, error) {
				s.changing.Lock()
				defer s.changing.Unlock()
				now, _, err := s.installation(ctx, digest)
				if err != nil {
					return nil, err
				}
				if !now.equal(planned) {
					return nil, reason.Errorf(reason.BindingMismatch, "what is installed changed meanwhile, and with it what this package would change").
						WithRemedy("Try again: it is looked at as it is now.")
				}
				return s.SkillManager.Install(ctx, by, digest)
			},
		}, nil
	})
}

// installation is what installing a package is now, with what its audit found.
func (s *Skills) installation(ctx context.Context, digest string) (i installation, found []skill.Finding, err error) {
	in, err := s.Inspect(ctx, digest)
	if err == nil {
		err = in.Installable
	}
	if err != nil {
		return i, nil, err
	}
	i = installation{
		Skill: in.Manifest.ID, Version: in.Manifest.Version, Package: in.Digest, Publisher: in.Signer.Publisher, Key: in.Signer.KeyID,
		NewPublisher: in.NewPublisher, Gains: in.Gains,
	}
	if in.Replaces != nil {
		i.Replaces, i.WhichIs = in.Replaces.Version, standing(*in.Replaces)
	}
	return i, in.Findings, nil
}

// question is what a second person is asked about an installation.
func (i installation) question(found []skill.Finding) dualcontrol.Question {
	name, does, more := i.Skill+"@"+i.Version, "Install", ""
	var notes []string
	if i.NewPublisher {
		notes = append(notes, fmt.Sprintf("The publisher %s is new here: the key %s is pinned. Compare it with what the publisher says over another way.", i.Publisher, i.Key))
	}
	if i.Replaces != "" {
		does, more = "Update", " more"
		notes = append(notes, fmt.Sprintf("It replaces %s, which is %s.", i.Replaces, i.WhichIs))
	}
	notes = append(notes, asksFor(i.Gains, more)...)
	for _, f := range found {
		notes = append(notes, fmt.Sprintf("The audit says of %s: %s.", f.About, f.What))
	}
	return dualcontrol.Question{
		ID: "skill:" + name, Title: does + " the skill " + name,
		Summary: fmt.Sprintf("%s the skill %s, which %s signed with the key %s.", does, name, i.Publisher, i.Key), Details: i, Notes: notes,
	}
}

// mostNotes is how many of the things that tools ask for are notes; the details have all.
const mostNotes = 20

// asksFor are notes of what tools ask for.
func asksFor(list []string, more string) (notes []string) {
	if len(list) == 0 {
		return []string{"Its tools ask for nothing" + more + "."}
	}
	for n, what := range list {
		if n == mostNotes {
			return append(notes, fmt.Sprintf("They ask for %d things besides; the details have them.", len(list)-mostNotes))
		}
		notes = append(notes, fmt.Sprintf("It asks for%s: %s.", more, what))
	}
	return notes
}

// standing is a status in words, also where there is none.
func standing(i registry.Installed) string {
	if i.Problem != nil {
		return "damaged"
	}
	return string(i.Status)
}

// SetStatus gives a version a status. To enable one takes a second person; to keep one from
// running takes nobody else.
func (s *Skills) SetStatus(ctx context.Context, by access.Caller, name, version string, status registry.Status, why string) (registry.Installed, error) {
	if status != registry.Active {
		return s.setStatus(ctx, by, name, version, status, why)
	}
	return change[registry.Installed](ctx, s.Gate, by, func(context.Context) (*dualcontrol.Plan, error) {
		one, err := s.Get(name, version)
		if err != nil {
			return nil, err
		}
		// The current version may be another one when people have answered.
		version := one.Version
		asks := registry.Asks(one.Manifest)
		return &dualcontrol.Plan{
			Kind: dualcontrol.EnableSkill, Needs: access.PermSkillWrite, Nothing: one.Current && one.Status == registry.Active && one.Problem == nil,
			Question: dualcontrol.Question{
				ID: "skill:" + one.Name(), Title: "Enable the skill " + one.Name(),
				Summary: fmt.Sprintf("Enable %s of %s, which is %s, and make it the current version of the skill.", one.Name(), one.Publisher, standing(one)),
				Details: map[string]any{
					"skill": one.Skill, "version": one.Version, "package": one.Digest, "publisher": one.Publisher, "key": one.KeyID,
					"was": standing(one), "was_because": one.Why, "asks_for": asks,
				},
				Notes: asksFor(asks, ""),
			},
			Make: func(ctx context.Context) (any, error) { return s.setStatus(ctx, by, name, version, status, why) },
		}, nil
	})
}

func (s *Skills) setStatus(ctx context.Context, by access.Caller, name, version string, status registry.Status, why string) (registry.Installed, error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	return s.SkillManager.SetStatus(ctx, by, name, version, status, why)
}

// Remove removes a version.
func (s *Skills) Remove(ctx context.Context, by access.Caller, name, version string) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	return s.SkillManager.Remove(ctx, by, name, version)
}

// Trust trusts a publisher's key.
func (s *Skills) Trust(ctx context.Context, by access.Caller, p registry.Publisher) error {
	_, err := change[struct{}](ctx, s.Gate, by, func(context.Context) (*dualcontrol.Plan, error) {
		key := dsse.KeyID(p.PublicKey)
		if err := skill.CheckPublisher(p.Name); err != nil {
			return nil, err
		}
		was := s.publisher(p.Name)
		same := was.KeyID == key && was.Problem == nil
		plan := &dualcontrol.Plan{
			Kind: dualcontrol.TrustPublisher, Needs: access.PermSkillWrite,
			// The registry refuses to replace a key, and nobody has to be asked about that.
			Nothing: same && !was.FirstUse && !was.Distrusted || was.Name != "" && !same && !was.Distrusted && was.Problem == nil,
			Question: dualcontrol.Question{
				ID: "publisher:" + p.Name, Title: "Trust the publisher " + p.Name,
				Summary: fmt.Sprintf("Let the key %s sign skills of the publisher %s.", key, p.Name),
				Details: map[string]any{"publisher": p.Name, "key": key, "was_key": was.KeyID, "was_distrusted": was.Distrusted},
				Notes:   []string{"Compare the key with what the publisher says over another way."},
			},
			Make: func(ctx context.Context) (any, error) {
				s.changing.Lock()
				defer s.changing.Unlock()
				return nil, s.SkillManager.Trust(ctx, by, p)
			},
		}
		if was.Distrusted {
			plan.Question.Notes = append(plan.Question.Notes, fmt.Sprintf("The publisher was distrusted by %s. Their skills stay quarantined until each is enabled.", was.By))
		}
		return plan, nil
	})
	return err
}

// publisher is what is known of a publisher, the zero value for nothing.
func (s *Skills) publisher(name string) registry.Publisher {
	for _, p := range s.Publishers() {
		if p.Name == name {
			return p
		}
	}
	return registry.Publisher{}
}
