//go:build unix

package builtin

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/call/policy/profile"
	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/tool"
)

// judged is a bench that evaluates its calls by policy with the facts of their plans.
type judged struct {
	*bench
	set *policy.Set
}

// under loads policies in addition to the defaults, for the tools of the bench.
func (b *bench) under(sources ...policy.Source) judged {
	b.t.Helper()
	var tools []tool.Descriptor
	for _, one := range b.tools {
		tools = append(tools, one.Descriptor())
	}
	set := must.Get(policy.Load(policy.Config{
		Sources: sources, Tools: tools, Workspaces: []string{"default"}, Members: []access.Member{
			{Principal: policytest.Alice, Roles: []access.Role{access.RoleOwner}},
			{Principal: policytest.Agent, Owner: policytest.Alice, Roles: []access.Role{access.RoleAgent}},
		},
	}))(b.t)
	return judged{b, set}
}

// laptop returns the policies of the profile laptop, except the given ones.
func laptop(t *testing.T, without ...string) policy.Source {
	t.Helper()
	text := profile.All()[0].Files()[0].Text
	for _, id := range without {
		begin := strings.Index(text, `@id("`+id+`")`)
		if begin < 0 {
			t.Fatalf("the profile has no %s", id)
		}
		_, rest, _ := strings.Cut(text[begin:], ";\n")
		text = text[:begin] + rest
	}
	return policy.Source{Name: "laptop.cedar", Text: text}
}

// verdict returns the decision of policy on a call.
func (j judged) verdict(name string, in object) policy.Effect {
	j.t.Helper()
	p := must.Get(j.propose(name, in))(j.t)
	plan := must.Get(j.plan(name, in))(j.t)
	r := policytest.Request(name, string(p.Input))
	r.Facts = plan.Facts
	return j.set.Evaluate(r, nil).Effect()
}

// tree creates files in a store outside the workspace and links them below some of its
// directories, like a package manager.
func (b *bench) tree(n int, dirs ...string) []string {
	b.t.Helper()
	store := filepath.Join(filepath.Dir(b.dir), "store")
	must.Do(b.t, os.MkdirAll(store, 0o755))
	var names []string
	for i := range n {
		name := fmt.Sprintf("package%d/index.js", i)
		if i%10 == 0 {
			name = fmt.Sprintf("package%d/test/key.pem", i)
		}
		stored := filepath.Join(store, fmt.Sprint(i))
		must.Do(b.t, os.WriteFile(stored, []byte("code\n"), 0o644))
		for _, dir := range dirs {
			full := filepath.Join(b.dir, dir, name)
			must.Do(b.t, os.MkdirAll(filepath.Dir(full), 0o755))
			must.Do(b.t, os.Link(stored, full))
		}
		names = append(names, name)
	}
	return names
}

// TestLinkedPackagesNeedNoApproval: reading 100 files of a tree that pnpm linked requires no
// approval. Reading the same files elsewhere requires one each time.
func TestLinkedPackagesNeedNoApproval(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	const packages, elsewhere = "node_modules/.pnpm/all@1.0.0/node_modules", "src"
	names := b.tree(100, packages, elsewhere)
	asks := func(j judged, dir string) int {
		n := 0
		for _, file := range names {
			for name, in := range map[string]object{
				"fs.read":   {"path": dir + "/" + file},
				"fs.search": {"path": dir + "/" + file, "pattern": "code"},
			} {
				switch j.verdict(name, in) {
				case policy.Ask:
					n++
				case policy.Deny:
					t.Errorf("%s of %s in %s is denied", name, file, dir)
				}
			}
		}
		return n
	}
	guarded := b.under(laptop(t))
	if got := asks(guarded, packages); got != 0 {
		t.Errorf("reading and searching 100 files of packages asks %d times", got)
	}
	// Control: links elsewhere require an approval, and only because they are links.
	if got := asks(guarded, elsewhere); got != 200 {
		t.Errorf("reading and searching 100 files elsewhere asks %d times, want 200", got)
	}
	if got := asks(b.under(laptop(t, "laptop.linked-files")), elsewhere); got != 20 {
		t.Errorf("without the rule about links %d calls ask, want those about keys", got)
	}
}
