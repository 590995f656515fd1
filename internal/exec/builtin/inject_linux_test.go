package builtin

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/exec/sandbox"
)

const injectedValue = "s3cr3t-Value/of+the=key"

// newSecretLender lends two secrets that programs can receive as plain values.
func newSecretLender() *pawnshop {
	return &pawnshop{value: injectedValue, injections: []tool.Injection{
		{Secret: "global/aws", Version: 3, Env: "AWS_KEY", Note: "for deployments"},
		{Secret: "user:alice/deploy", Version: 1, Env: "DEPLOY_FILE", File: "deploy.json"},
	}}
}

func lendsFrom(shop *pawnshop) func(*Config) {
	return func(c *Config) { c.Lender = shop }
}

// TestSecretsForAProgram: the plan contains the place of each secret and no value. The sandbox
// receives the values, and their leases end.
func TestSecretsForAProgram(t *testing.T) {
	t.Parallel()
	shop := newSecretLender()
	b, r, bin := processBench(t, lendsFrom(shop))
	in := object{"argv": []string{"git"}, "secrets": []string{"vault://user:alice/deploy", "global/aws"}}
	plan := must.Get(b.plan("process.run", in))(t)
	want := []string{"/home/tool/.secrets/deploy.json=injected:secret:user:alice/deploy@1", "AWS_KEY=injected:secret:global/aws@3", "DEPLOY_FILE=injected:secret:user:alice/deploy@1"}
	if !slices.Equal(plan.Binding.Environment, want) || !slices.Equal(plan.Facts.Secrets, []string{"global/aws", "user:alice/deploy"}) ||
		len(plan.Injections) != 2 || plan.Injections[0].Within == "" || len(shop.given) != 0 {
		t.Errorf("environment %q, secrets %q, %+v", plan.Binding.Environment, plan.Facts.Secrets, plan.Injections)
	}
	r.during = func() {
		s := r.specs[len(r.specs)-1]
		if shop.out != 2 || s.Injected[0].Env != "AWS_KEY" || string(s.Injected[0].Value) != injectedValue || s.Injected[1].File != "deploy.json" || s.Env != nil {
			t.Errorf("%d values are out, the sandbox gets %+v", shop.out, s.Injected)
		}
		wrote := base64.StdEncoding.EncodeToString([]byte("=" + injectedValue))
		if text := string(must.Get(io.ReadAll(s.Scrub(strings.NewReader(wrote))))(t)); strings.Contains(text, wrote) || !strings.Contains(text, "[secret global/aws]") {
			t.Errorf("the output shows %s", text)
		}
	}
	if report, _ := b.call(t.Context(), "process.run", in); report.Outcome != tool.Succeeded || shop.out != 0 || !slices.Equal(shop.given, []string{"global/aws for " + bin + "/git", "user:alice/deploy for " + bin + "/git"}) {
		t.Errorf("%+v, given %q, out %d", report, shop.given, shop.out)
	}
}

// TestSecretsInReports: no text of a report contains a value, in any part of the run.
func TestSecretsInReports(t *testing.T) {
	t.Parallel()
	b, r, _ := processBench(t, lendsFrom(newSecretLender()))
	r.report.Connections = []tool.Connection{{Host: injectedValue + ".example.org"}}
	r.report.Quarantined = []string{injectedValue}
	r.report.Downgrades = []string{"operand " + injectedValue}
	report, _ := b.call(t.Context(), "process.run", object{"argv": []string{"git"}, "secrets": []string{"global/aws"}, "read_only": true})
	if text := string(must.Get(json.Marshal(report))(t)) + string(report.Result); strings.Contains(text, injectedValue) || strings.Count(text, "[secret global/aws]") < 4 {
		t.Errorf("the report tells\n%s", text)
	}
	r.err = errors.New("cannot start " + injectedValue)
	report, _ = b.call(t.Context(), "process.run", object{"argv": []string{"git"}, "secrets": []string{"global/aws"}, "read_only": true})
	if text := string(must.Get(json.Marshal(report))(t)) + string(report.Result) + report.Cause.Error(); strings.Contains(text, injectedValue) {
		t.Errorf("the failure tells\n%s", text)
	}
}

// TestSecretsRefused: invalid requests are refused before an approval.
func TestSecretsRefused(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		in     object
		change func(*Config, *pawnshop)
		want   reason.Code
	}{
		"no vault":        {object{}, func(c *Config, _ *pawnshop) { c.Lender = nil }, reason.InvalidInput},
		"no such secret":  {object{"secrets": []string{"global/none"}}, nil, reason.NotFound},
		"twice":           {object{"secrets": []string{"global/aws", "vault://global/aws"}}, nil, reason.InvalidInput},
		"steers":          {object{}, func(_ *Config, s *pawnshop) { s.injections[0].Env = "LD_PRELOAD" }, reason.InvalidInput},
		"set by the call": {object{"env": object{"AWS_KEY": "x"}}, nil, reason.InvalidInput},
		"one variable":    {object{"secrets": []string{"global/aws", "user:alice/deploy"}}, func(_ *Config, s *pawnshop) { s.injections[1].Env = "AWS_KEY" }, reason.InvalidInput},
		"a direct workspace": {object{}, func(c *Config, _ *pawnshop) {
			c.Process.Workspaces = map[string]WorkspacePolicy{"default": {Direct: true}}
		}, reason.InvalidInput},
		"a file in Tier B": {object{"secrets": []string{"user:alice/deploy"}}, func(c *Config, _ *pawnshop) { c.Sandbox.Tier = sandbox.TierB }, reason.SandboxUnavailable},
	} {
		shop := newSecretLender()
		b, _, _ := processBench(t, func(c *Config) {
			c.Lender = shop
			if row.change != nil {
				row.change(c, shop)
			}
		})
		in := object{"argv": []string{"git"}, "secrets": []string{"global/aws"}}
		for k, v := range row.in {
			in[k] = v
		}
		if _, err := b.plan("process.run", in); reason.Of(err) != row.want {
			t.Errorf("%s: %v, want %s", name, err, row.want)
		}
	}
	shop := newSecretLender()
	shop.value = "a\nb\nshort\n"
	b, r, _ := processBench(t, lendsFrom(shop))
	if report, _ := b.call(t.Context(), "process.run", object{"argv": []string{"git"}, "secrets": []string{"global/aws"}}); report.Reason != string(reason.InvalidInput) || len(r.specs) != 0 || shop.out != 0 {
		t.Errorf("a value that cannot be found: %+v", report)
	}
}

// TestSecretsAreNotCommitted: a copy of the workspace is discarded if it contains a value,
// plain or encoded, in a file, a name or a link.
func TestSecretsAreNotCommitted(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ file, content string }{
		"plain":   {"out.txt", "key=" + injectedValue + "\n"},
		"base64":  {"sub/out.txt", base64.StdEncoding.EncodeToString([]byte(injectedValue))},
		"a name":  {"s3cr3t-Value/of+the=key", "x"},
		"control": {"out.txt", "nothing"},
	} {
		c := newCopies(t, lendsFrom(newSecretLender()))
		c.writes = func(upper string) { put(t, upper, row.file, row.content) }
		report, _ := c.run(t.Context(), object{"secrets": []string{"global/aws"}})
		if name == "control" {
			if report.Outcome != tool.Succeeded || c.read("out.txt") != "nothing" {
				t.Errorf("%s: %+v", name, report)
			}
			continue
		}
		text := string(must.Get(json.Marshal(report))(t)) + string(report.Result)
		if report.Reason != string(reason.CommitRefused) || report.Changes.State != tool.Discarded || len(c.gate.asked) != 0 || strings.Contains(text, injectedValue) {
			t.Errorf("%s: %+v, asked %v\n%s", name, report, c.gate.asked, text)
		}
	}
}

// TestNoCachesWithSecrets: a program with secrets has no caches, because later programs could
// read the secrets there.
func TestNoCachesWithSecrets(t *testing.T) {
	t.Parallel()
	opened := 0
	b, r, _ := processBench(t, func(c *Config) {
		c.Lender, c.Process.Caches = newSecretLender(), []string{"go"}
		c.Process.OpenCaches = func(string) ([]sandbox.Cache, func(), error) {
			opened++
			return []sandbox.Cache{{Name: "go"}}, func() {}, nil
		}
	})
	b.call(t.Context(), "process.run", object{"argv": []string{"git"}, "secrets": []string{"global/aws"}})
	b.call(t.Context(), "process.run", object{"argv": []string{"git"}})
	if opened != 1 || len(r.specs) != 2 || r.specs[0].Caches != nil || r.specs[1].Caches == nil {
		t.Errorf("caches were opened %d times: %+v", opened, r.specs)
	}
}

// TestListInjectable: secrets.list returns the secrets that a program can receive, and their
// places.
func TestListInjectable(t *testing.T) {
	t.Parallel()
	b, _, _ := processBench(t, lendsFrom(newSecretLender()))
	report := b.run(context.Background(), tool.Call{Proposal: must.Get(b.propose(listSecretsName, object{}))(t)})
	for _, want := range []string{`"secret":"global/aws"`, `"env":"AWS_KEY"`, `"file":"/home/tool/.secrets/deploy.json"`, `"note":"for deployments"`} {
		if !strings.Contains(string(report.Result), want) {
			t.Errorf("%s is not in %s", want, report.Result)
		}
	}
}
