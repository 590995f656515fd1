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
		Long: "Let the gateway read its policy directory again. A set that does not load\nchanges nothing and is an error.",
		RunE: func(cmd *cobra.Command, _ []string) error { return a.reloadPolicy(cmd.Context()) }}
	snapshot := &cobra.Command{Use: "snapshot DIGEST", Short: "Show the exact configuration behind a snapshot digest", Args: args(1, 1),
		RunE: func(cmd *cobra.Command, given []string) error { return a.showSnapshot(cmd.Context(), given[0]) }}
	return newGroup("policy", "Check, show and reload the policy", a.policyCheck(), a.policyShow(), reload, snapshot)
}

func (a *app) policyShow() *cobra.Command {
	var schema bool
	c := &cobra.Command{Use: "show [FILE]", Short: "Show the policy set in force, or one of its files", Args: args(0, 1),
		ValidArgsFunction: a.completePolicyFiles,
		RunE: func(cmd *cobra.Command, given []string) error {
			return a.showPolicy(cmd.Context(), given, schema)
		}}
	c.Flags().BoolVar(&schema, "schema", false, "print the Cedar schema instead")
	return c
}

func (a *app) showPolicy(ctx context.Context, given []string, schema bool) error {
	g, err := a.connect(ctx)
	if err != nil {
		return err
	}
	v, err := g.policy.GetPolicy(ctx, &palyrav1.GetPolicyRequest{})
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
	return reason.Errorf(reason.NotFound, "the policy set in force has no file %q", name).
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
	for _, w := range v.GetWarnings() {
		if aboutTool(w) && a.format() == formatTable {
			continue
		}
		a.say("%s", findingText(w))
	}
	return a.printOne("PolicyReload", record{name: v.GetVersion(), body: protoObject(v)}, func(p *page) {
		p.field("version", v.GetVersion())
		p.field("snapshot", v.GetSnapshotDigest())
		p.field("changed", yes(v.GetChanged()))
	})
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
