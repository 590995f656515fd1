package policy

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy/finding"
	"palyra/internal/call/policy/internal/expr"
	"palyra/internal/call/policy/internal/names"
	"palyra/internal/core/access"
	"palyra/internal/core/tool"
)

// typedTools are tools whose inputs have every typed construct.
func typedTools() []tool.Descriptor {
	schemas := []string{
		`{"type":"object"}`,
		`{"type":"object","required":["s"],"properties":{"s":{"type":"string"},"n":{"type":"integer"},"b":{"type":"boolean"}}}`,
		`{"type":"object","required":["l","m"],"properties":{"l":{"type":"array","items":{"type":"integer"}},"m":{"enum":["x","y"]}}}`,
		`{"type":"object","properties":{"o":{"type":"object","required":["s"],"properties":{"s":{"type":"string"},` +
			`"i":{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}}},"f":{"type":"number"}}}`,
		`{"type":"object","required":["o","missing"],"properties":{"o":{"type":"object","required":["s","b"],"properties":{` +
			`"s":{"type":"string"},"b":{"type":"boolean"}}}}}`,
	}
	var out []tool.Descriptor
	for i, text := range schemas {
		out = append(out, tool.Descriptor{Name: fmt.Sprintf("t%d", i), InputSchema: json.RawMessage(text)})
	}
	return out
}

func randomArgs(r *rand.Rand, depth int) string {
	values := []string{`"x"`, "1", "true", "[1,2]", "[]", `["a"]`, "1.5", "null", "9007199254740993"}
	var members []string
	for _, name := range []string{"s", "n", "b", "l", "m", "o", "i", "f", "other"} {
		switch k := r.IntN(4); {
		case k == 0 && depth > 0:
			members = append(members, fmt.Sprintf("%q:%s", name, randomArgs(r, depth-1)))
		case k == 1:
			members = append(members, fmt.Sprintf("%q:%s", name, values[r.IntN(len(values))]))
		case k == 2:
			fits := map[string]string{"s": `"x"`, "n": "3", "b": "true", "l": "[1]", "m": `"x"`, "o": `{"s":"x","b":false}`}
			if fits[name] != "" {
				members = append(members, fmt.Sprintf("%q:%s", name, fits[name]))
			}
		}
	}
	return "{" + strings.Join(members, ",") + "}"
}

func randomCommit(r *rand.Rand) *tool.CommitFacts {
	f := &tool.CommitFacts{
		Workspace: []string{"main", "undeclared", ""}[r.IntN(3)], Root: "sha256:ab", Added: r.IntN(9), Deleted: r.IntN(9),
		Bytes: r.Int64N(1 << 40), ExitCode: r.IntN(300) - 1,
	}
	for _, path := range []string{".git/config", "Makefile"} {
		if r.IntN(2) == 0 {
			f.Protected = append(f.Protected, path)
		}
	}
	return f
}

// FuzzMisfit compares the gateway's check of a request with Cedar's validator, over every kind
// of caller, tool and fact.
func FuzzMisfit(f *testing.F) {
	cfg := world()
	cfg.Tools = append(cfg.Tools, typedTools()[1:]...)
	cfg.Members = append(cfg.Members, access.Member{Principal: access.Principal{Kind: access.KindService, Name: "ci"}})
	s, _ := build(cfg, Defaults())
	for seed := range uint64(300) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 3))
		req := randomRequest(r, cfg)
		req.Args = json.RawMessage(randomArgs(r, 2))
		if r.IntN(4) == 0 {
			req.Commit = randomCommit(r)
		}
		c, refused := s.evaluator.prepare(&req)
		if refused != nil {
			return
		}
		whole := c.contextOf(allAttributes)
		whole["approval"] = s.voting.noApproval
		cedarRequest := c.req
		cedarRequest.Context = types.NewRecord(whole)
		err := s.rules.vocab.Check.Request(cedarRequest)
		if (err == nil) != (c.misfit == "") {
			t.Errorf("the validator says %v, the call %q: %s", err, c.misfit, req.Args)
		}
		if out := c.under(s.voting.noApproval); c.misfit != "" && (out.allowed || len(out.errors) == 0) {
			t.Errorf("a call that does not fit the schema is decided: %+v", out)
		}
	})
}

// TestAttributesAreThoseOfTheVocabulary compares the constants with the schema.
func TestAttributesAreThoseOfTheVocabulary(t *testing.T) {
	t.Parallel()
	if len(contextFacts) > 64 {
		t.Fatalf("there are %d facts for 64 bits", len(contextFacts))
	}
	s, _ := build(world(), nil)
	if callAttributes|commitAttributes|injectAttributes != allAttributes {
		t.Error("an attribute is of neither context")
	}
	for name, known := range map[types.String]attributes{names.ToolPrefix + "t0": callAttributes, names.CommitAction: commitAttributes, names.InjectAction: injectAttributes} {
		declared := s.rules.vocab.Schema.Actions[types.NewEntityUID(names.TypeAction, name)].AppliesTo.Context
		if len(declared) != known.size() {
			t.Errorf("%s: the schema declares %d attributes, of %d we know", name, len(declared), known.size())
		}
		for a, attribute := range known.all() {
			if _, ok := declared[attribute]; !ok || attributeOfName(attribute) != a {
				t.Errorf("%s: the schema has no attribute %s, or it is another", name, attribute)
			}
		}
	}
}

func TestContextReads(t *testing.T) {
	t.Parallel()
	cases := []struct {
		condition string
		want      attributes
	}{
		{`principal in Role::"owner"`, 0},
		{`context.risk > 1 && context["host"] == "a"`, attributeOfName("risk") | attributeOfName("host")},
		{`context has exec && context.exec.inline_code`, attributeOfName("exec")},
		{`context has exec.path`, attributeOfName("exec")},
		{`context.approval.votes.isEmpty()`, attrApproval},
		{`[context.args.a, "x"].contains(context.tool_name)`, attrArgs | attributeOfName("tool_name")},
		{`if context.protected then context == context else false`, allAttributes},
		{`[context].isEmpty()`, allAttributes},
		{`(if true then context else context) has host`, allAttributes},
		{`context.no_such == 1`, 0},
	}
	for _, c := range cases {
		policies, found := expr.Parse("f", "permit(principal, action, resource) when { "+c.condition+" };", false)
		if finding.HasErrors(found) {
			t.Fatal(found)
		}
		if got := contextReads(policies[0]); got != c.want {
			t.Errorf("%s reads %b, want %b", c.condition, got, c.want)
		}
	}
}
