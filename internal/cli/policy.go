package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/reason"
)

func (a *app) policyCommand() *cobra.Command {
	reload := &cobra.Command{Use: "reload", Short: "Let the gateway read its policy directory again", Args: args(0, 0),
		Long: "Let the gateway read its policy directory again, run its tests, and end an\n" +
			"activation. A set that does not load, or whose tests fail, changes nothing and\nis an error.",
		RunE: func(cmd *cobra.Command, _ []string) error { return a.reloadPolicy(cmd.Context()) }}
	snapshot := &cobra.Command{Use: "snapshot DIGEST", Short: "Show the exact configuration behind a snapshot digest", Args: args(1, 1),
		RunE: func(cmd *cobra.Command, given []string) error { return a.showSnapshot(cmd.Context(), given[0]) }}
	return newGroup("policy", "Check, test, explain, show and change the policy",
		a.policyCheck(), a.policyTest(), a.policyExplain(), a.policySimulate(), a.policyShow(), a.policyDiff(),
		a.policyVersions(), a.policyActivate(), reload, snapshot, a.policyInit())
}

func (a *app) policyShow() *cobra.Command {
	var schema bool
	c := &cobra.Command{Use: "show [VERSION] [FILE]", Short: "Show the policy set in force or an older one, or one of its files", Args: args(0, 2),
		ValidArgsFunction: a.completePolicyFiles,
		Example:           "palyra policy show\npalyra policy show 20-exec.cedar\npalyra policy show sha256:1f3a9c02 20-exec.cedar",
		RunE: func(cmd *cobra.Command, given []string) error {
			return a.showPolicy(cmd.Context(), given, schema)
		}}
	c.Flags().BoolVar(&schema, "schema", false, "print the Cedar schema instead")
	return c
}

func (a *app) showPolicy(ctx context.Context, given []string, schema bool) error {
	version := ""
	if len(given) > 0 && isVersion(given[0]) {
		version, given = given[0], given[1:]
	}
	if len(given) > 1 {
		return usage("%q is no policy version", given[0]).WithRemedy("`palyra policy versions` lists them.")
	}
	if schema && version != "" {
		return usage("--schema is of the set in force, and not of a version")
	}
	g, err := a.connect(ctx)
	if err != nil {
		return err
	}
	v, err := g.policy.GetPolicy(ctx, &palyrav1.GetPolicyRequest{Version: version})
	if err != nil {
		return err
	}
	if schema {
		return a.writeOut(visibleText(v.GetSchema()) + "\n")
	}
	if len(given) == 1 {
		return a.showSource(v, given[0])
	}
	return a.printOne("Policy", record{name: v.GetVersion(), body: protoObject(v)}, func(p *page) {
		p.field("version", v.GetVersion())
		p.field("snapshot", v.GetSnapshotDigest())
		p.field("schema", v.GetSchemaDigest())
		p.field("loaded", a.moment(v.GetLoadedAt()))
		if v.GetActivated() {
			p.field("activated", "yes, in place of the policy directory; `palyra policy reload` returns to it")
		}
		p.list("files", sourceNames(v))
	})
}

func (a *app) showSource(v *palyrav1.GetPolicyResponse, name string) error {
	for _, s := range v.GetSources() {
		if s.GetName() == name {
			return a.printOne("PolicySource", record{name: name, body: protoObject(s)}, func(p *page) {
				p.b.WriteString(withNewline(visibleText(s.GetText())))
			})
		}
	}
	return reason.Errorf(reason.NotFound, "policy version %s has no file %q", v.GetVersion(), name).
		WithRemedy("%s", nearestOf(name, sourceNames(v)))
}

func sourceNames(v *palyrav1.GetPolicyResponse) []string {
	var names []string
	for _, s := range v.GetSources() {
		names = append(names, s.GetName())
	}
	return names
}

func (a *app) reloadPolicy(ctx context.Context) error {
	g, err := a.connect(ctx)
	if err != nil {
		return err
	}
	v, err := g.policy.ReloadPolicy(ctx, &palyrav1.ReloadPolicyRequest{})
	if err != nil {
		return err
	}
	a.sayWarnings(v.GetWarnings())
	return a.printOne("PolicyReload", record{name: v.GetVersion(), body: protoObject(v)}, func(p *page) {
		p.field("version", v.GetVersion())
		p.field("snapshot", v.GetSnapshotDigest())
		p.field("changed", yes(v.GetChanged()))
	})
}

func (a *app) sayWarnings(list []*palyrav1.PolicyFinding) {
	for _, w := range list {
		if aboutTool(w) && a.format() == formatTable {
			continue
		}
		a.say("%s", findingText(w))
	}
}

func (a *app) showSnapshot(ctx context.Context, digest string) error {
	if err := checkDigest(digest); err != nil {
		return err
	}
	g, err := a.connect(ctx)
	if err != nil {
		return err
	}
	v, err := g.policy.GetSnapshot(ctx, &palyrav1.GetSnapshotRequest{SnapshotDigest: digest})
	if err != nil {
		return err
	}
	body := append(object{{"snapshot_digest", digest}}, protoObject(v)...)
	return a.printOne("PolicySnapshot", record{name: digest, body: body}, func(p *page) {
		p.json(fmt.Sprintf("snapshot %s", visibleLine(digest)), v.GetSnapshotJson())
	})
}
