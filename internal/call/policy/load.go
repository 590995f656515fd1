package policy

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
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
	s.rules.forgetTokens()
	return s, nil
}

// forgetTokens drops the data that only findings need.
func (r *rules) forgetTokens() {
	for _, p := range r.policies {
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
	findings = append(findings, s.rules.parseAll(cfg, defaults, order)...)
	findings = append(findings, check.Policies(check.Set{
		Vocabulary: vocab, Entities: s.rules.dir, Tools: cfg.Tools, Texts: factTexts(roles), NoApproval: s.voting.noApproval,
	}, candidates(s.rules.policies).parsed())...)
	for _, o := range vocab.Opaque {
		findings = append(findings, finding.Finding{Severity: finding.SeverityWarning, Code: finding.CodeOpaque,
			Message: "tool " + o.Tool + ", argument " + o.Path + ": " + o.Why})
	}
	s.rules.index = buildIndex(s.rules.policies)
	s.past = pastReads(s.rules.policies)
	if !finding.HasErrors(findings) {
		s.voting.findSole()
		findings = append(findings, samples{s.evaluator}.check()...)
	}
	if err := s.seal(cfg); err != nil {
		findings = append(findings, configError("creating the snapshot: %s", err))
	}
	finding.Sort(findings, order)
	return s, findings
}

// newSet creates a set without policies.
func newSet(cfg Config, vocab *vocabulary.Vocabulary, tally *tally) *Set {
	r := &rules{vocab: vocab, dir: directoryOf(cfg, vocab), byID: make(map[cedar.PolicyID]*compiled)}
	a := &AccessRules{rules: r}
	v := &voting{access: a, tally: tally, independence: cfg.Controllers.Independence(), offers: reachOf(cfg)}
	v.noApproval = v.facts(access.Principal{}, nil, false)
	v.ideal = sync.OnceValue(func() types.Record { return v.strongest(everywhere()) })
	return &Set{
		config: cfg, rules: r, access: a, voting: v, evaluator: &evaluator{rules: r, voting: v}, catalog: &Catalog{rules: r, voting: v},
	}
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
func (r *rules) parseAll(cfg Config, defaults []Source, order map[string]int) []finding.Finding {
	var findings []finding.Finding
	add := func(src Source, builtin bool) {
		order[src.Name] = len(order) + 1
		policies, found := expr.Parse(src.Name, src.Text, builtin)
		findings = append(findings, found...)
		for _, p := range policies {
			findings = append(findings, r.addPolicy(compile(p))...)
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

func (r *rules) addPolicy(p *compiled) []finding.Finding {
	id := cedar.PolicyID(p.ID)
	if other, taken := r.byID[id]; taken {
		f := p.At(p.AnnotationToken("id"), finding.SeverityError, finding.CodeDuplicateID,
			"the id %s is taken by the policy at %s:%d", p.ID, other.Source.Name, other.Line)
		f.Help = "give each policy a unique @id"
		return []finding.Finding{f}
	}
	r.byID[id] = p
	r.policies = append(r.policies, p)
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

// reachOf returns the reach that the configuration declares for this gateway.
func reachOf(cfg Config) reach {
	r := everywhere()
	r.present = !cfg.NoPresence
	if cfg.Surfaces == nil {
		return r
	}
	r.on = 0
	for i, surface := range surfaces {
		if slices.Contains(cfg.Surfaces, surface) {
			r.on |= 1 << i
		}
	}
	return r
}

// findSole marks the user who is the only approver and may therefore answer their own calls.
// access.Member.Decides defines approvers. If at most one user satisfies it, users who may
// decide by the operator's policies count as well. A user with another possible approver is
// therefore never sole.
func (v *voting) findSole() {
	for _, m := range v.access.rules.dir.Voters {
		if m.Decides() {
			v.deciders = append(v.deciders, m)
		}
	}
	for _, m := range v.access.rules.dir.Voters {
		if len(v.deciders) < 2 && !m.Decides() && v.decidesByPolicy(m.Principal) {
			v.deciders = append(v.deciders, m)
		}
	}
	if len(v.deciders) != 1 {
		return
	}
	v.access.rules.dir.MarkSole(v.deciders[0].Principal)
}

func (v *voting) decidesByPolicy(user access.Principal) bool {
	return slices.ContainsFunc(v.offers.list(), func(surface access.Surface) bool {
		return v.mayDecide(decider(user, surface, v.offers.present), access.Principal{}, "")
	})
}

func newTally(roles []access.Role) *tally {
	t := &tally{roles: roles, votes: make(map[voteKey]types.Value)}
	for _, role := range append([]access.Role{names.AnyRole}, roles...) {
		for _, surface := range surfaces {
			for _, proof := range proofs {
				t.votes[voteKey{role, surface, proof[0], proof[1]}] = types.NewRecord(types.RecordMap{
					"role": types.String(role), "surface": types.String(surface),
					"paired": types.Boolean(proof[0]), "present": types.Boolean(proof[1]),
				})
			}
		}
	}
	return t
}
