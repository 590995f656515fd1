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

// inputsDocument has all inputs of a set.
type inputsDocument struct {
	Format      string                 `json:"format"`
	Defaults    []inputSource          `json:"defaults"`
	Sources     []inputSource          `json:"sources"`
	Tools       []tool.Descriptor      `json:"tools"`
	Members     []access.Member        `json:"members"`
	Roles       []access.Role          `json:"roles"`
	Workspaces  []string               `json:"workspaces"`
	Settings    Snapshot               `json:"settings"`
	Surfaces    []access.Surface       `json:"surfaces"`
	NoPresence  bool                   `json:"no_presence"`
	Controllers provenance.Controllers `json:"hands,omitempty"`
}

type inputSource struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// inputsFormat names the layout of inputsDocument.
const inputsFormat = "palyra.policy-inputs/v1"

// Inputs returns the inputs of the set, including the embedded defaults, as canonical JSON.
// Store it by the snapshot digest: Restore rebuilds the same set from it, even after the
// defaults or the tools have changed.
func (s *Set) Inputs() ([]byte, error) {
	cfg := s.config
	return canonical.Marshal(inputsDocument{
		Format: inputsFormat, Defaults: inputSources(Defaults()), Sources: inputSources(cfg.Sources), Tools: cfg.Tools,
		Members: cfg.Members, Roles: cfg.Roles, Workspaces: cfg.Workspaces, Settings: cfg.Snapshot,
		Surfaces: cfg.Surfaces, NoPresence: cfg.NoPresence, Controllers: cfg.Controllers,
	})
}

// Restore rebuilds a set from its Inputs. It fails unless the result has the snapshot digest:
// another set would explain a decision that it did not make.
func Restore(inputs []byte, snapshotDigest string) (*Set, error) {
	var doc inputsDocument
	if err := json.Unmarshal(inputs, &doc); err != nil {
		return nil, fmt.Errorf("reading the inputs of policy set %s: %w", snapshotDigest, err)
	}
	if doc.Format != inputsFormat {
		return nil, notRestored(snapshotDigest, "it was stored in the format "+doc.Format)
	}
	s, findings := build(Config{
		Sources: sourcesOf(doc.Sources), Tools: doc.Tools, Members: doc.Members, Roles: doc.Roles,
		Workspaces: doc.Workspaces, Snapshot: doc.Settings, Surfaces: doc.Surfaces, NoPresence: doc.NoPresence, Controllers: doc.Controllers,
	}, sourcesOf(doc.Defaults))
	switch {
	case s == nil:
		return nil, notRestored(snapshotDigest, findings[0].Message)
	case s.snapshotDigest != snapshotDigest:
		return nil, notRestored(snapshotDigest, "its stored parts produce "+s.snapshotDigest+" in this version of palyrad")
	}
	s.rules.forgetTokens()
	return s, nil
}

func notRestored(snapshotDigest, why string) error {
	return reason.Errorf(reason.VerificationFailed, "rebuilding the policy set with the snapshot %s: %s", snapshotDigest, why).
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
