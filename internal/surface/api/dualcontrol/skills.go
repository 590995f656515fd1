package dualcontrol

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"palyra/internal/call/dualcontrol"
	"palyra/internal/core/access"
	"palyra/internal/core/change"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/dsse"
	"palyra/internal/exec/skill"
	"palyra/internal/exec/skill/registry"
	"palyra/internal/surface/api/things"
)

// Skills are packages of tools. A change that allows new code, publishers or capabilities requires
// a second person. A change that removes them does not.
type Skills struct {
	things.SkillManager
	Gate *dualcontrol.Gate

	// changing is held from the last check of the installed versions until the change is made. An
	// update that gained no capabilities when it was planned therefore gains none when it is made.
	changing sync.Mutex
}

// installation is the change that a second person approves.
type installation struct {
	Skill   string `json:"skill"`
	Version string `json:"version"`
	// Package is the digest of the package file.
	Package      string `json:"package"`
	Publisher    string `json:"publisher"`
	Key          string `json:"key"`
	NewPublisher bool   `json:"new_publisher"`
	// Replaces is the current version and WhichIs its status, both "" if none is installed.
	Replaces string   `json:"replaces,omitempty"`
	WhichIs  string   `json:"which_is,omitempty"`
	Gains    []string `json:"gains"`
}

// isNoop reports whether the installation updates an active version without new capabilities.
func (i installation) isNoop() bool {
	return i.WhichIs == string(registry.Active) && !i.NewPublisher && len(i.Gains) == 0
}

func (i installation) equal(o installation) bool {
	return slices.Equal(i.Gains, o.Gains) && i.Skill == o.Skill && i.Version == o.Version && i.Package == o.Package && i.Publisher == o.Publisher &&
		i.Key == o.Key && i.NewPublisher == o.NewPublisher && i.Replaces == o.Replaces && i.WhichIs == o.WhichIs
}

// Install installs a staged package. An update without new capabilities over an active version
// requires no approval.
func (s *Skills) Install(ctx context.Context, by access.Caller, digest string) (registry.Installed, error) {
	return propose[registry.Installed](ctx, s.Gate, by, func(ctx context.Context) (*dualcontrol.Plan, error) {
		planned, found, err := s.installation(ctx, digest)
		if err != nil {
			return nil, err
		}
		// A package that cannot be compiled is refused before the question. Compilation happens
		// outside the lock, so that a quarantine does not wait for it.
		if err := s.Prepare(ctx, digest); err != nil {
			return nil, err
		}
		return &dualcontrol.Plan{
			Kind: change.InstallSkill, Needs: access.PermSkillWrite, Nothing: planned.isNoop(), Question: planned.question(found),
			Make: func(ctx context.Context) (any, error) {
				s.changing.Lock()
				defer s.changing.Unlock()
				now, _, err := s.installation(ctx, digest)
				if err != nil {
					return nil, err
				}
				if !now.equal(planned) {
					return nil, reason.Errorf(reason.BindingMismatch, "the installed versions changed since the question, so the effect of this package changed").
						WithRemedy("Try again: the package is compared with the versions that are installed now.")
				}
				return s.SkillManager.Install(ctx, by, digest)
			},
		}, nil
	})
}

// installation returns the change that installing a package would make now, and the findings of its
// audit.
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

// question returns the question about an installation.
func (i installation) question(found []skill.Finding) dualcontrol.Question {
	name, does, more := i.Skill+"@"+i.Version, "Install", ""
	var notes []string
	if i.NewPublisher {
		notes = append(notes, fmt.Sprintf("The publisher %s is new to this gateway: the key %s is pinned. Compare it with the key that the publisher states over another channel.", i.Publisher, i.Key))
	}
	if i.Replaces != "" {
		does, more = "Update", " more"
		notes = append(notes, fmt.Sprintf("It replaces %s (%s).", i.Replaces, i.WhichIs))
	}
	notes = append(notes, capabilityNotes(i.Gains, more)...)
	for _, f := range found {
		notes = append(notes, fmt.Sprintf("Audit finding on %s: %s.", f.About, f.What))
	}
	return dualcontrol.Question{
		ID: "skill:" + name, Title: does + " the skill " + name,
		Summary: fmt.Sprintf("%s the skill %s, which %s signed with the key %s.", does, name, i.Publisher, i.Key), Details: i, Notes: notes,
	}
}

// mostNotes is the highest number of capabilities in the notes; the details list all.
const mostNotes = 20

// capabilityNotes returns notes on the capabilities that the tools request.
func capabilityNotes(list []string, more string) (notes []string) {
	if len(list) == 0 {
		return []string{"Its tools request no capabilities" + more + "."}
	}
	for n, what := range list {
		if n == mostNotes {
			return append(notes, fmt.Sprintf("The details list %d other capabilities.", len(list)-mostNotes))
		}
		notes = append(notes, fmt.Sprintf("It asks for%s: %s.", more, what))
	}
	return notes
}

// standing returns the status as text, "damaged" for a version with a problem.
func standing(i registry.Installed) string {
	if i.Problem != nil {
		return "damaged"
	}
	return string(i.Status)
}

// SetStatus sets the status of a version. Enabling a version requires a second person; disabling it
// does not.
func (s *Skills) SetStatus(ctx context.Context, by access.Caller, name, version string, status registry.Status, why string) (registry.Installed, error) {
	if status != registry.Active {
		return s.setStatus(ctx, by, name, version, status, why)
	}
	return propose[registry.Installed](ctx, s.Gate, by, func(context.Context) (*dualcontrol.Plan, error) {
		one, err := s.Get(name, version)
		if err != nil {
			return nil, err
		}
		// The current version may change before the question is answered.
		version := one.Version
		asks := registry.Asks(one.Manifest)
		return &dualcontrol.Plan{
			Kind: change.EnableSkill, Needs: access.PermSkillWrite, Nothing: one.Current && one.Status == registry.Active && one.Problem == nil,
			Question: dualcontrol.Question{
				ID: "skill:" + one.Name(), Title: "Enable the skill " + one.Name(),
				Summary: fmt.Sprintf("Enable %s of %s (status: %s), and make it the current version of the skill.", one.Name(), one.Publisher, standing(one)),
				Details: map[string]any{
					"skill": one.Skill, "version": one.Version, "package": one.Digest, "publisher": one.Publisher, "key": one.KeyID,
					"was": standing(one), "was_because": one.Why, "asks_for": asks,
				},
				Notes: capabilityNotes(asks, ""),
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

// Trust adds the key of a publisher to the trust store.
func (s *Skills) Trust(ctx context.Context, by access.Caller, p registry.Publisher) error {
	_, err := propose[struct{}](ctx, s.Gate, by, func(context.Context) (*dualcontrol.Plan, error) {
		key := dsse.KeyID(p.PublicKey)
		if err := skill.CheckPublisher(p.Name); err != nil {
			return nil, err
		}
		was := s.publisher(p.Name)
		same := was.KeyID == key && was.Problem == nil
		plan := &dualcontrol.Plan{
			Kind: change.TrustPublisher, Needs: access.PermSkillWrite,
			// The registry refuses to replace a key, so the question is skipped.
			Nothing: same && !was.FirstUse && !was.Distrusted || was.Name != "" && !same && !was.Distrusted && was.Problem == nil,
			Question: dualcontrol.Question{
				ID: "publisher:" + p.Name, Title: "Trust the publisher " + p.Name,
				Summary: fmt.Sprintf("Allow the key %s to sign skills of the publisher %s.", key, p.Name),
				Details: map[string]any{"publisher": p.Name, "key": key, "was_key": was.KeyID, "was_distrusted": was.Distrusted},
				Notes:   []string{"Compare the key with the key that the publisher states over another channel."},
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

// publisher returns a publisher of the registry, or the zero value if the name is unknown.
func (s *Skills) publisher(name string) registry.Publisher {
	for _, p := range s.Publishers() {
		if p.Name == name {
			return p
		}
	}
	return registry.Publisher{}
}
