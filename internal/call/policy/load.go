package policy

import (
	"crypto/sha256"
	"embed"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy/finding"
	"palyra/internal/call/policy/internal/check"
	"palyra/internal/call/policy/internal/entities"
	"palyra/internal/call/policy/internal/expr"
	"palyra/internal/call/policy/internal/names"
	"palyra/internal/call/policy/internal/vocabulary"
	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
)

//go:embed defaults/*.cedar
var defaultFiles embed.FS

// Defaults returns the embedded default policies in loading order.
func Defaults() []Source {
	entries, err := fs.ReadDir(defaultFiles, "defaults")
	if err != nil {
		panic("policy: embedded defaults: " + err.Error())
	}
	out := make([]Source, 0, len(entries))
	for _, e := range entries {
		name := "defaults/" + e.Name()
		text, err := defaultFiles.ReadFile(name)
		if err != nil {
			panic("policy: embedded defaults: " + err.Error())
		}
		out = append(out, Source{Name: name, Text: string(text)})
	}
	return out
}

// sensitiveTools is the policy that allow_sensitive_tools adds.
var sensitiveTools = Source{
	Name: "(allow_sensitive_tools)",
	Text: `@id("config.allow-sensitive-tools")
@reason("allow_sensitive_tools is set: sensitive tools run with no human")
@waives("approval: the operator set allow_sensitive_tools in the configuration")
permit(principal, action in Action::"tool.execute", resource)
when { context.egress.mode != "none" };
`,
}

// Load builds a set. It fails with a *LoadError, whose reason code is PolicyInvalid, if any
// finding is an error.
func Load(cfg Config) (*Set, error) {
	s, findings := build(cfg, Defaults())
	if finding.HasErrors(findings) || s == nil {
		return nil, &finding.LoadError{Findings: findings}
	}
	s.findings = findings
	s.forgetTokens()
	return s, nil
}

// forgetTokens drops the data that only findings need.
func (s *Set) forgetTokens() {
	for _, p := range s.policies {
		p.Tokens = nil
	}
}

// build creates a set with the given defaults, and all findings. The set is nil if it could not
// be created at all.
func build(cfg Config, defaults []Source) (*Set, []finding.Finding) {
	order := map[string]int{}
	findings := checkConfig(cfg)
	roles := allRoles(cfg.Roles)
	texts := make([]string, len(cfg.Sources))
	for i, s := range cfg.Sources {
		texts[i] = s.Text
	}
	vocab, err := vocabulary.Build(factTypes(), cfg.Tools, roles, check.WaitingTools(texts, cfg.Tools))
	if err != nil {
		return nil, append(findings, configError("%s", err))
	}
	s := newSet(cfg, vocab, newTally(roles))
	findings = append(findings, s.parseAll(cfg, defaults, order)...)
	findings = append(findings, check.Policies(check.Set{
		Vocabulary: vocab, Entities: s.dir, Tools: cfg.Tools, Texts: factTexts(roles), NoApproval: s.noApproval,
	}, candidates(s.policies).parsed())...)
	for _, o := range vocab.Opaque {
		findings = append(findings, finding.Finding{Severity: finding.SeverityWarning, Code: finding.CodeOpaque,
			Message: "tool " + o.Tool + ", argument " + o.Path + ": " + o.Why})
	}
	s.index = buildIndex(s.policies)
	s.past = pastReads(s.policies)
	if !finding.HasErrors(findings) {
		s.findSole()
		findings = append(findings, s.checkSamples()...)
	}
	if err := s.seal(cfg); err != nil {
		findings = append(findings, configError("creating the snapshot: %s", err))
	}
	finding.Sort(findings, order)
	return s, findings
}

// newSet creates a set without policies.
func newSet(cfg Config, vocab *vocabulary.Vocabulary, tally *tally) *Set {
	s := &Set{
		config: cfg, vocab: vocab, dir: directoryOf(cfg, vocab), settings: cfg.Snapshot, offers: reachOf(cfg),
		tally: tally, byID: make(map[cedar.PolicyID]*compiled),
	}
	s.independence = cfg.Controllers.Independence()
	s.noApproval = s.facts(access.Principal{}, nil, false)
	s.ideal = sync.OnceValue(func() types.Record { return s.everybody(everywhere()) })
	return s
}

// directoryOf hydrates the entities of a configuration.
func directoryOf(cfg Config, v *vocabulary.Vocabulary) *entities.Directory {
	s := cfg.Snapshot
	return entities.Build(entities.Source{
		Vocabulary: v, Tools: cfg.Tools, Members: cfg.Members, Workspaces: cfg.Workspaces,
		AllowedTools: s.AllowedTools, AllowedPrincipals: s.AllowedPrincipals, ForbiddenPrincipals: s.ForbiddenPrincipals,
		AllowedChannels: s.AllowedChannels, ActiveSkills: s.ActiveSkills,
	})
}

func configError(format string, args ...any) finding.Finding {
	return finding.Finding{Severity: finding.SeverityError, Code: finding.CodeConfig, Message: fmt.Sprintf(format, args...)}
}

// parseAll reads defaults and sources, in order, and finds duplicate ids.
func (s *Set) parseAll(cfg Config, defaults []Source, order map[string]int) []finding.Finding {
	var findings []finding.Finding
	add := func(src Source, builtin bool) {
		order[src.Name] = len(order) + 1
		policies, found := expr.Parse(src.Name, src.Text, builtin)
		findings = append(findings, found...)
		for _, p := range policies {
			findings = append(findings, s.addPolicy(compile(p))...)
		}
	}
	for _, src := range defaults {
		add(src, true)
	}
	if cfg.Snapshot.AllowSensitiveTools {
		add(sensitiveTools, true)
		findings = append(findings, finding.Finding{Severity: finding.SeverityWarning, Code: finding.CodeSensitiveTools,
			Message: "allow_sensitive_tools is set: every sensitive tool runs with no human",
			Help:    "remove allow_sensitive_tools and permit single tools with @waives instead"})
	}
	for _, src := range cfg.Sources {
		add(src, false)
	}
	return findings
}

func (s *Set) addPolicy(p *compiled) []finding.Finding {
	id := cedar.PolicyID(p.ID)
	if other, taken := s.byID[id]; taken {
		f := p.At(p.AnnotationToken("id"), finding.SeverityError, finding.CodeDuplicateID,
			"the id %s is taken by the policy at %s:%d", p.ID, other.Source.Name, other.Line)
		f.Help = "give each policy a unique @id"
		return []finding.Finding{f}
	}
	p.order = len(s.policies)
	s.byID[id] = p
	s.policies = append(s.policies, p)
	return nil
}

// checkConfig finds errors in the configuration outside of policies.
func checkConfig(cfg Config) []finding.Finding {
	var findings []finding.Finding
	pinned := map[string]bool{}
	for _, t := range cfg.Tools {
		if t.Name == "" || t.Name == names.UnknownTool || pinned[t.Name] {
			findings = append(findings, configError("tool %q: the name is empty, reserved or taken", t.Name))
		}
		pinned[t.Name] = true
	}
	for _, r := range cfg.Roles {
		if _, err := access.ParseRole(string(r)); err != nil {
			findings = append(findings, configError("%s", err))
		}
	}
	for _, surface := range cfg.Surfaces {
		if !slices.Contains(surfaces, surface) {
			findings = append(findings, configError("unknown surface %q", surface))
		}
	}
	roles := allRoles(cfg.Roles)
	known := map[access.Principal]bool{}
	for _, m := range cfg.Members {
		if m.Principal.Kind == "" || known[m.Principal] {
			findings = append(findings, configError("member %q: the name is invalid or listed twice", m.Principal))
		}
		known[m.Principal] = true
		for _, r := range m.Roles {
			if !slices.Contains(roles, r) {
				findings = append(findings, configError("member %s: role %q is not declared", m.Principal, r))
			}
		}
	}
	for _, name := range cfg.Snapshot.AllowedTools {
		if !pinned[name] {
			f := configError("allowed_tools: no pinned tool is named %q", name)
			f.Severity, f.Help = finding.SeverityWarning, finding.DidYouMean(name, keysOf(pinned))
			findings = append(findings, f)
		}
	}
	return findings
}

func keysOf[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// seal computes version and snapshot.
func (s *Set) seal(cfg Config) error {
	s.version = versionOf(s.policies)
	entities, err := canonical.Marshal(ordered(s.dir.Entities))
	if err != nil {
		return err
	}
	doc := snapshotDocument{
		Format: snapshotFormat, Settings: s.settings, PolicyVersion: s.version,
		SchemaDigest: s.vocab.Digest, Schema: string(s.vocab.Text),
		Policies: make([]snapshotPolicy, 0, len(s.policies)),
		Tools:    make([]snapshotTool, 0, len(cfg.Tools)), Entities: entities,
		Surfaces: cfg.Surfaces, NoPresence: cfg.NoPresence, Controllers: cfg.Controllers,
	}
	for _, m := range cfg.Members {
		if m.NoDevice {
			doc.NoDevice = append(doc.NoDevice, m.Principal)
		}
	}
	slices.SortFunc(doc.NoDevice, func(a, b access.Principal) int { return strings.Compare(a.String(), b.String()) })
	for _, p := range s.policies {
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

// allRoles returns the built-in roles and the declared ones, without duplicates.
func allRoles(declared []access.Role) []access.Role {
	roles := slices.Clone(access.BuiltinRoles)
	for _, r := range declared {
		if !slices.Contains(roles, r) {
			roles = append(roles, r)
		}
	}
	return roles
}
