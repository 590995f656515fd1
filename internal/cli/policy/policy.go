// Package policy has the commands that check, test, explain, simulate, show and
// change the policies.
package policy

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
)

// app is one run of the program, with the commands of this family.
type policyCommands struct{ *client.App }

// Command is `palyra policy`.
func Command(program *client.App) *cobra.Command {
	a, d := &policyCommands{program}, &draftCommands{program}
	reload := &cobra.Command{Use: "reload", Short: "Let the gateway read its policy directory again", Args: command.Args(0, 0),
		Long: "Let the gateway read its policy directory again, run its tests, and end an\n" +
			"activation. A set that does not load, or whose tests fail, changes nothing and\nis an error.",
		RunE: a.Connected(a.reloadPolicy)}
	snapshot := &cobra.Command{Use: "snapshot DIGEST", Short: "Show the exact configuration behind a snapshot digest", Args: command.Args(1, 1),
		RunE: func(cmd *cobra.Command, given []string) error { return a.showSnapshot(cmd.Context(), given[0]) }}
	return command.NewGroup("policy", "Check, test, explain, show and change the policy",
		d.policyCheck(), d.policyTest(), a.policyExplain(), a.policySimulate(), a.policyShow(), a.policyDiff(),
		a.policyVersions(), a.Waits(a.policyActivate()), a.Waits(reload), snapshot, a.Waits(d.policyInit()))
}

func (a *policyCommands) policyShow() *cobra.Command {
	var schema bool
	c := &cobra.Command{Use: "show [VERSION] [FILE]", Short: "Show the policy set in force or an older one, or one of its files", Args: command.Args(0, 2),
		ValidArgsFunction: completePolicyFiles(a.App),
		Example:           "palyra policy show\npalyra policy show 20-exec.cedar\npalyra policy show sha256:1f3a9c02 20-exec.cedar",
		RunE: func(cmd *cobra.Command, given []string) error {
			return a.showPolicy(cmd.Context(), given, schema)
		}}
	c.Flags().BoolVar(&schema, "schema", false, "print the Cedar schema instead")
	return c
}

func (a *policyCommands) showPolicy(ctx context.Context, given []string, schema bool) error {
	version := ""
	if len(given) > 0 && isVersion(given[0]) {
		version, given = given[0], given[1:]
	}
	if len(given) > 1 {
		return command.Usage("%q is not a policy version", given[0]).WithRemedy("`palyra policy versions` lists them.")
	}
	if schema && version != "" {
		return command.Usage("--schema is of the set in force, and not of a version")
	}
	g, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	v, err := g.Policy.GetPolicy(ctx, &palyrav1.GetPolicyRequest{Version: version})
	if err != nil {
		return err
	}
	if schema {
		return a.WriteOut(printer.VisibleText(v.GetSchema()) + "\n")
	}
	if len(given) == 1 {
		return a.showSource(v, given[0])
	}
	return a.PrintOne("Policy", printer.Record{Name: v.GetVersion(), Body: printer.ProtoObject(v)}, func(p *printer.Page) {
		p.Field("version", v.GetVersion())
		p.Field("snapshot", v.GetSnapshotDigest())
		p.Field("schema", v.GetSchemaDigest())
		p.Field("loaded", a.Moment(v.GetLoadedAt()))
		if v.GetActivated() {
			p.Field("activated", "yes, in place of the policy directory; `palyra policy reload` returns to it")
		}
		policiesField(p, v.GetDirectory())
		p.List("files", sourceNames(v))
	})
}

func (a *policyCommands) showSource(v *palyrav1.GetPolicyResponse, name string) error {
	for _, s := range v.GetSources() {
		if s.GetName() == name {
			return a.PrintOne("PolicySource", printer.Record{Name: name, Body: printer.ProtoObject(s)}, func(p *printer.Page) {
				p.Text(s.GetText())
			})
		}
	}
	return reason.Errorf(reason.NotFound, "policy version %s has no file %q", v.GetVersion(), name).
		WithRemedy("%s", text.NearestHelp(name, sourceNames(v)))
}

func sourceNames(v *palyrav1.GetPolicyResponse) []string {
	var names []string
	for _, s := range v.GetSources() {
		names = append(names, s.GetName())
	}
	return names
}

func (a *policyCommands) reloadPolicy(ctx context.Context, g *client.Gateway, _ []string) error {
	v, err := g.Policy.ReloadPolicy(ctx, &palyrav1.ReloadPolicyRequest{})
	if err != nil {
		return err
	}
	a.sayWarnings(v.GetWarnings())
	return a.PrintOne("PolicyReload", printer.Record{Name: v.GetVersion(), Body: printer.ProtoObject(v)}, func(p *printer.Page) {
		p.Field("version", v.GetVersion())
		p.Field("snapshot", v.GetSnapshotDigest())
		p.Field("changed", printer.Yes(v.GetChanged()))
		policiesField(p, v.GetDirectory())
	})
}

func policiesField(p *printer.Page, d *palyrav1.PolicyDirectory) {
	if d == nil {
		return // an older version or gateway
	}
	p.Wrapped("policies", client.PolicyDirectory(d))
}

func (a *policyCommands) sayWarnings(list []*palyrav1.PolicyFinding) {
	for _, w := range list {
		if aboutTool(w) && a.Format() == printer.FormatTable {
			continue
		}
		a.Say("%s", findingText(w))
	}
}

func (a *policyCommands) showSnapshot(ctx context.Context, digest string) error {
	if err := command.CheckDigest(digest); err != nil {
		return err
	}
	g, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	v, err := g.Policy.GetSnapshot(ctx, &palyrav1.GetSnapshotRequest{SnapshotDigest: digest})
	if err != nil {
		return err
	}
	body := append(printer.Object{{"snapshot_digest", digest}}, printer.ProtoObject(v)...)
	return a.PrintOne("PolicySnapshot", printer.Record{Name: digest, Body: body}, func(p *printer.Page) {
		p.JSON(fmt.Sprintf("snapshot %s", printer.VisibleLine(digest)), v.GetSnapshotJson())
	})
}
