package policy

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy/finding"
	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/provenance"
	"palyra/internal/core/tool"
)

// Version returns the digest of the policies: "sha256:<hex>" over their ids and texts in order,
// including the embedded defaults.
func (s *Set) Version() string { return s.version }

// SchemaDigest returns the digest of the Cedar schema.
func (s *Set) SchemaDigest() string { return s.rules.vocab.Digest }

// Schema returns the Cedar schema that policies are validated against.
func (s *Set) Schema() string { return string(s.rules.vocab.Text) }

// SnapshotJSON returns the content of the snapshot digest as canonical JSON: settings,
// policies, schema and entities. Store it once by its digest.
func (s *Set) SnapshotJSON() []byte { return slices.Clone(s.snapshotJSON) }

// MadeOf reports whether a set built from cfg would equal this one.
func (s *Set) MadeOf(cfg Config) bool { return reflect.DeepEqual(s.config, cfg) }

// Policies lists the policies in order, the embedded defaults first.
func (s *Set) Policies() []Determining { return describe(s.rules.policies) }

// Findings returns the warnings of the load.
func (s *Set) Findings() []finding.Finding { return slices.Clone(s.findings) }

// seal computes version and snapshot.
func (s *Set) seal(cfg Config) error {
	s.version = versionOf(s.rules.policies)
	entities, err := canonical.Marshal(ordered(s.rules.dir.Entities))
	if err != nil {
		return err
	}
	doc := snapshotDocument{
		Format: snapshotFormat, Settings: cfg.Snapshot, PolicyVersion: s.version,
		SchemaDigest: s.rules.vocab.Digest, Schema: string(s.rules.vocab.Text),
		Policies: make([]snapshotPolicy, 0, len(s.rules.policies)),
		Tools:    make([]snapshotTool, 0, len(cfg.Tools)), Entities: entities,
		Surfaces: cfg.Surfaces, NoPresence: cfg.NoPresence, Controllers: cfg.Controllers,
	}
	for _, m := range cfg.Members {
		if m.NoDevice {
			doc.NoDevice = append(doc.NoDevice, m.Principal)
		}
	}
	slices.SortFunc(doc.NoDevice, func(a, b access.Principal) int { return strings.Compare(a.String(), b.String()) })
	for _, p := range s.rules.policies {
		doc.Policies = append(doc.Policies, snapshotPolicy{ID: p.ID, File: p.Source.Name, Text: p.Text})
	}
	for _, t := range cfg.Tools {
		digest, err := t.Digest()
		if err != nil {
			return err
		}
		doc.Tools = append(doc.Tools, snapshotTool{t.Name, digest, canonical.List(t.Capabilities), t.Executor})
	}
	slices.SortFunc(doc.Tools, func(a, b snapshotTool) int { return strings.Compare(a.Name, b.Name) })
	s.snapshotJSON, err = canonical.Marshal(doc)
	if err != nil {
		return err
	}
	s.snapshotDigest = canonical.Digest(s.snapshotJSON)
	return nil
}

// ordered lists entities by their escaped names, as EntityMap.MarshalJSON does. MarshalJSON
// would escape the names again for each comparison.
func ordered(entities types.EntityMap) []types.Entity {
	names := make(map[string]types.Entity, len(entities))
	for uid, entity := range entities {
		names[uid.String()] = entity
	}
	list := make([]types.Entity, 0, len(entities))
	for _, name := range keysOf(names) {
		list = append(list, names[name])
	}
	return list
}

// versionOf is SHA-256 over the (id, text) pairs in order. Each string is prefixed with its
// length in eight bytes, big endian, so that different lists have different encodings.
func versionOf(policies []*compiled) string {
	h := sha256.New()
	write := func(text string) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(text)))
		h.Write(n[:])
		h.Write([]byte(text))
	}
	for _, p := range policies {
		write(p.ID)
		write(p.Text)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// snapshotDocument is the content of a snapshot digest, in canonical form.
type snapshotDocument struct {
	Format        string           `json:"format"`
	Settings      Snapshot         `json:"settings"`
	PolicyVersion string           `json:"policy_version"`
	SchemaDigest  string           `json:"cedar_schema_digest"`
	Schema        string           `json:"cedar_schema"`
	Policies      []snapshotPolicy `json:"policies"`
	Tools         []snapshotTool   `json:"tools"`
	Entities      json.RawMessage  `json:"entities"`
	// NoDevice are the members that cannot vote because they have no device.
	NoDevice []access.Principal `json:"no_device,omitempty"`
	// Surfaces is nil for all surfaces.
	Surfaces   []access.Surface `json:"surfaces,omitempty"`
	NoPresence bool             `json:"no_presence,omitempty"`
	// Controllers records which members one person could act as.
	Controllers provenance.Controllers `json:"hands,omitempty"`
}

type snapshotPolicy struct {
	ID   string `json:"id"`
	File string `json:"file"`
	Text string `json:"text"`
}

type snapshotTool struct {
	Name             string            `json:"name"`
	DefinitionDigest string            `json:"definition_digest"`
	Capabilities     []tool.Capability `json:"capabilities"`
	Executor         tool.Executor     `json:"executor"`
}

// snapshotFormat names the layout of snapshotDocument.
const snapshotFormat = "palyra.policy-snapshot/v1"
