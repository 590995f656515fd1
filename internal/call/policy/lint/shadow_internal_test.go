package lint

import (
	"fmt"
	"strings"
	"testing"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/policytest"
)

// TestShadowedPoliciesAreFoundInLinearTime: the number of compared pairs is linear in the
// number of policies. Control: of equally many identical policies, every shadowed one is found.
func TestShadowedPoliciesAreFoundInLinearTime(t *testing.T) {
	t.Parallel()
	const n = 300
	distinct, same := &strings.Builder{}, &strings.Builder{}
	for i := range n {
		fmt.Fprintf(distinct, "@id(\"own.%d\")\nforbid(principal, action == Action::\"tool.execute/fs.read\", resource) when { context has path_folded && context.path_folded like \"d%d/*\" };\n", i, i)
		fmt.Fprintf(same, "@id(\"own.%d\")\nforbid(principal, action == Action::\"tool.execute/fs.read\", resource) when { context has path_folded && context.path_folded like \"d/*\" };\n", i)
	}
	for name, c := range map[string]struct {
		text     string
		shadowed int
	}{"distinct": {distinct.String(), 0}, "same": {same.String(), n - 1}} {
		view, _ := policy.Examine(policytest.Config(policytest.Options{Policies: c.text}))
		search, found := newShadows(view), 0
		for _, p := range view.Policies() {
			if !p.Builtin && search.of(p) != nil {
				found++
			}
		}
		if found != c.shadowed {
			t.Errorf("%s: %d policies have no effect, want %d", name, found, c.shadowed)
		}
		if search.compared > 10*n {
			t.Errorf("%s: %d pairs were looked at for %d policies", name, search.compared, n)
		}
	}
}
