package policy

import (
	"encoding/json"
	"fmt"

	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/provenance"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// inputsDocument is everything that a set was built from.
type inputsDocument struct {
	Format     string            `json:"format"`
	Defaults   []inputSource     `json:"defaults"`
	Sources    []inputSource     `json:"sources"`
	Tools      []tool.Descriptor `json:"tools"`
	Members    []access.Member   `json:"members"`
	Roles      []access.Role     `json:"roles"`
	Workspaces []string          `json:"workspaces"`
	Settings   Snapshot          `json:"settings"`
	Surfaces   []access.Surface  `json:"surfaces"`
	NoPresence bool              `json:"no_presence"`
	Hands      provenance.Hands  `json:"hands,omitempty"`
}

type inputSource struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// inputsFormat names the layout of inputsDocument.
const inputsFormat = "palyra.policy-inputs/v1"

// Inputs returns what Load made the set of, the embedded defaults included, as
// canonical JSON. Keep it by the snapshot digest: with it, Restore makes the
// same set again, also after the defaults or the tools have changed.
func (s *Set) Inputs() ([]byte, error) {
	cfg := s.config
	return canonical.Marshal(inputsDocument{
		Format: inputsFormat, Defaults: inputSources(Defaults()), Sources: inputSources(cfg.Sources), Tools: cfg.Tools,
		Members: cfg.Members, Roles: cfg.Roles, Workspaces: cfg.Workspaces, Settings: cfg.Snapshot,
		Surfaces: cfg.Surfaces, NoPresence: cfg.NoPresence, Hands: cfg.Hands,
	})
}

// Restore makes a set again from its Inputs. The set is the one that had the
// snapshot digest, or there is none: another one would explain a decision that
// it did not make.
func Restore(inputs []byte, snapshotDigest string) (*Set, error) {
	var doc inputsDocument
	if err := json.Unmarshal(inputs, &doc); err != nil {
		return nil, fmt.Errorf("reading what policy set %s was made of: %w", snapshotDigest, err)
	}
	if doc.Format != inputsFormat {
		return nil, notRestored(snapshotDigest, "it was kept in the form "+doc.Format)
	}
	s, findings := build(Config{
		Sources: sourcesOf(doc.Sources), Tools: doc.Tools, Members: doc.Members, Roles: doc.Roles,
		Workspaces: doc.Workspaces, Snapshot: doc.Settings, Surfaces: doc.Surfaces, NoPresence: doc.NoPresence, Hands: doc.Hands,
	}, sourcesOf(doc.Defaults))
	switch {
	case s == nil:
		return nil, notRestored(snapshotDigest, findings[0].Message)
	case s.snapshotDigest != snapshotDigest:
		return nil, notRestored(snapshotDigest, "what is kept of it makes "+s.snapshotDigest+" in this version of palyrad")
	}
	s.forgetTokens()
	return s, nil
}

func notRestored(snapshotDigest, why string) error {
	return reason.Errorf(reason.VerificationFailed, "the policy set with the snapshot %s cannot be made again: %s", snapshotDigest, why).
		WithRemedy("`palyra policy snapshot %s` shows the policies, the settings and the entities that decided.", snapshotDigest)
}

func inputSources(list []Source) []inputSource {
	out := make([]inputSource, len(list))
	for i, s := range list {
		out[i] = inputSource(s)
	}
	return out
}

func sourcesOf(list []inputSource) []Source {
	out := make([]Source, len(list))
	for i, s := range list {
		out[i] = Source(s)
	}
	return out
}
