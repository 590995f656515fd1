package catalog

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/egress/secret"
	"palyra/internal/exec/skill"
)

// Kinds of grants, as guests and attestations name them. The worker counts the kinds clock and
// random.
const (
	kindHTTP    = "http"
	kindSecret  = "secret"
	kindStorage = "storage"
	kindChannel = "channel"
)

// kinds maps the numbers of the handle interface to kinds.
var kinds = map[int32]string{1: kindHTTP, 2: kindSecret, 3: kindStorage, 4: kindChannel}

// storageName is the name of the only storage grant.
const storageName = "storage"

// Lender provides the secrets that a caller may use (lend.Desk).
type Lender interface {
	Offers(ctx context.Context, p tool.Proposal, limit int, wanted func(egress.Secret) bool) (list []egress.Secret, more bool, err error)
	Injectable(ctx context.Context, p tool.Proposal, name string) (tool.Injection, error)
	Inject(ctx context.Context, c tool.Call, list []tool.Injection, program string) (values [][]byte, end func(), err error)
}

// grant is one resource that the guest may open.
type grant struct {
	kind, name string
	// rule is the reach of an http grant, nil for everything that the gateway's rules allow.
	rule *egress.Rule
	// read is the secret that the guest receives as a plain value, nil for other grants.
	read *tool.Injection
}

// grants are the resources of a call: the requests of the manifest within the operator's limits.
type grants struct {
	list []grant
	// placeholders are the secrets that requests may carry.
	placeholders []egress.Secret
	storage      int64
}

// grants determines the resources that a call may use. If the guest requests to read a secret
// that is not available, the call is refused, as for programs. Policy and approvers decide on
// this exact secret before the guest runs.
func (t Tool) grants(ctx context.Context, p tool.Proposal, wall string) (grants, error) {
	asked := t.is.Capabilities
	var g grants
	wild := asked.Wildcards()
	for _, name := range asked.HTTP {
		if !t.use.Wildcards && slices.Contains(wild, name) {
			continue
		}
		one := grant{kind: kindHTTP, name: name}
		if name != skill.AnyHost {
			rule, err := egress.ParseRule(name)
			if err != nil {
				return g, err
			}
			one.rule = &rule
		}
		g.list = append(g.list, one)
	}
	if err := t.secrets(ctx, p, &g, wall); err != nil {
		return g, err
	}
	if asked.StorageBytes > 0 && t.use.Storage != nil && t.use.StorageBytes > 0 {
		g.storage = min(asked.StorageBytes, t.use.StorageBytes)
		g.list = append(g.list, grant{kind: kindStorage, name: storageName})
	}
	for _, name := range asked.Channels {
		g.list = append(g.list, grant{kind: kindChannel, name: name})
	}
	return g, nil
}

func (t Tool) secrets(ctx context.Context, p tool.Proposal, g *grants, wall string) error {
	asked := t.is.Capabilities.Secrets
	if len(asked) == 0 {
		return nil
	}
	var carried []string
	for _, s := range asked {
		if s.Use == skill.Placeholder {
			carried = append(carried, reference(s.Name))
		}
	}
	offers, err := t.offers(ctx, p, carried)
	if err != nil {
		return err
	}
	g.placeholders = offers
	for _, s := range asked {
		name := reference(s.Name)
		if s.Use == skill.Placeholder {
			if slices.ContainsFunc(offers, func(o egress.Secret) bool { return o.Name == name }) {
				g.list = append(g.list, grant{kind: kindSecret, name: s.Name})
			}
			continue
		}
		i, err := t.use.Lender.Injectable(ctx, p, name)
		if err != nil {
			return err
		}
		i.Env, i.File, i.Within, i.Skill = "", "", wall, t.skill.ID
		g.list = append(g.list, grant{kind: kindSecret, name: s.Name, read: &i})
	}
	return nil
}

// offers returns the named secrets that the caller may use by placeholder.
func (t Tool) offers(ctx context.Context, p tool.Proposal, names []string) ([]egress.Secret, error) {
	if len(names) == 0 {
		return nil, nil
	}
	list, _, err := t.use.Lender.Offers(ctx, p, len(names), func(s egress.Secret) bool { return slices.Contains(names, s.Name) })
	slices.SortFunc(list, func(a, b egress.Secret) int { return strings.Compare(a.Name, b.Name) })
	return list, err
}

// reference is the name of a secret in the vault: SCOPE/KEY.
func reference(name string) string {
	if strings.Contains(name, "/") {
		return name
	}
	return "global/" + name
}

// hosts returns the names of the grants for hosts, sorted.
func (g grants) hosts() (names []string) {
	for _, one := range g.list {
		if one.kind == kindHTTP {
			names = append(names, one.name)
		}
	}
	slices.Sort(names)
	return names
}

// injections returns the secrets that the guest receives as plain values, by name.
func (g grants) injections() (list []tool.Injection) {
	for _, one := range g.list {
		if one.read != nil {
			list = append(list, *one.read)
		}
	}
	slices.SortFunc(list, func(a, b tool.Injection) int { return cmp.Compare(a.Secret, b.Secret) })
	return list
}

// secretNames returns the names of all secrets of the call, sorted.
func (g grants) secretNames() (names []string) {
	for _, s := range g.placeholders {
		names = append(names, s.Name)
	}
	for _, i := range g.injections() {
		names = append(names, i.Secret)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// environment returns the part of an approval's binding that describes the secrets.
func (g grants) environment() (pairs []string) {
	for _, s := range g.placeholders {
		pairs = append(pairs, "placeholder="+s.Bound())
	}
	for _, i := range g.injections() {
		pairs = append(pairs, fmt.Sprintf("read=secret:%s@%d", i.Secret, i.Version))
	}
	slices.Sort(pairs)
	return pairs
}

// profile returns the part of an approval's binding that describes the other grants.
func (g grants) profile(asked skill.Capabilities) string {
	var words []string
	if g.storage > 0 {
		words = append(words, fmt.Sprintf("storage of %d bytes", g.storage))
	}
	for _, one := range g.list {
		if one.kind == kindChannel {
			words = append(words, "channel "+one.name)
		}
	}
	if asked.Clock {
		words = append(words, "the real time")
	}
	if asked.Random {
		words = append(words, "real randomness")
	}
	return strings.Join(words, ", ")
}

// notes describe the guest's resources to the approver.
func (g grants) notes(asked skill.Capabilities) []string {
	var notes []string
	if hosts := g.hosts(); len(hosts) > 0 {
		notes = append(notes, "It may send requests to "+strings.Join(hosts, ", ")+".")
	}
	if len(g.placeholders) > 0 {
		var names []string
		for _, s := range g.placeholders {
			names = append(names, fmt.Sprintf("%s (to %s)", s.Called(), egress.Named(s.Reach())))
		}
		notes = append(notes, "Its requests may carry secrets by placeholder: "+strings.Join(names, ", ")+".")
	}
	for _, i := range g.injections() {
		notes = append(notes, fmt.Sprintf("It receives the secret vault://%s as a plain value, which is asked separately.", i.Secret))
	}
	if words := g.profile(asked); words != "" {
		notes = append(notes, "It has "+words+".")
	}
	if len(notes) == 0 {
		notes = []string{"It can compute, but has no access to any resource."}
	}
	return notes
}

// seen returns the secrets that a guest has read, for scrubbing its output.
func seen(values map[string][]byte) (*secret.Values, error) {
	var list []secret.Value
	for name, value := range values {
		list = append(list, secret.Value{Secret: value, Shown: "[secret " + name + "]"})
	}
	v, err := secret.NewValues(list...)
	if err != nil {
		return nil, reason.Errorf(reason.ToolFailed, "searching the output of the guest for the secrets that it read: %w", err)
	}
	return v, nil
}
