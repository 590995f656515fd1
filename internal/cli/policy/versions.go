package policy

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/core/lazyregexp"
)

// versionForm is a version or the beginning of one.
var versionForm = lazyregexp.New(`^(sha256:[0-9a-f]{1,64}|[0-9a-f]{8,64})$`)

func isVersion(s string) bool { return versionForm.MatchString(s) }

// shortVersion is enough of a version to name it.
func shortVersion(v string) string {
	const enough = len("sha256:") + 12
	return v[:min(len(v), enough)]
}

var versionListing = printer.Listing{
	Kind:    "PolicyVersion",
	Columns: []string{"VERSION", "STATE", "LOADED", "BY", "POLICIES", "FILES"},
	Wide:    []string{"DIGEST"},
	Empty:   "no policy versions",
	Drop:    []string{"POLICIES", "BY"},
}

func (a *policyCommands) policyVersions() *cobra.Command {
	var limit int
	c := &cobra.Command{Use: "versions", Short: "List the policy versions that were in force, newest first", Args: command.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.listVersions(cmd.Context(), limit) }}
	c.Flags().IntVar(&limit, "limit", 50, "the most to list; 0 means all")
	return c
}

func (a *policyCommands) listVersions(ctx context.Context, limit int) error {
	if limit < 0 {
		return command.Usage("--limit %d: want 0 or more", limit)
	}
	g, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	token := ""
	records, more, err := client.Collect(limit, func(size int32) ([]printer.Record, bool, error) {
		reply, err := g.Policy.ListPolicyVersions(ctx, &palyrav1.ListPolicyVersionsRequest{PageSize: size, PageToken: token})
		if err != nil {
			return nil, false, err
		}
		token = reply.GetNextPageToken()
		return printer.Records(reply.GetVersions(), versionRecord), token != "", nil
	})
	if err != nil {
		return err
	}
	if err := a.PrintList(versionListing, records); err != nil {
		return err
	}
	if more {
		a.Say("there are more; --limit 0 lists all")
	}
	return nil
}

func versionRecord(v *palyrav1.PolicyVersion) printer.Record {
	state := ""
	switch {
	case v.GetActivated():
		state = "activated"
	case v.GetInForce():
		state = "in force"
	}
	policies := ""
	if v.GetPolicies() > 0 {
		policies = strconv.Itoa(int(v.GetPolicies()))
	}
	return printer.Record{
		Name: v.GetVersion(), Body: printer.ProtoObject(v),
		Cells: []string{shortVersion(v.GetVersion()), state, printer.Clock(v.GetFirstLoadedAt()), v.GetLoadedBy(), policies, strings.Join(v.GetFiles(), ",")},
		Wide:  []string{v.GetVersion()},
	}
}

func (a *policyCommands) policyActivate() *cobra.Command {
	return &cobra.Command{Use: "activate VERSION", Short: "Put an older policy version in force", Args: command.Args(1, 1),
		Long: "Put a version that was in force before in force again, at once. VERSION is its\n" +
			"digest or the beginning of it. It stays, also over a restart and regardless of\n" +
			"changes in the policy directory, until `palyra policy reload` returns there.\n" +
			"It has to load with the tools and members of today; its tests are not run.",
		ValidArgsFunction: a.completeVersions(),
		RunE:              func(cmd *cobra.Command, given []string) error { return a.activatePolicy(cmd.Context(), given[0]) }}
}

func (a *policyCommands) activatePolicy(ctx context.Context, version string) error {
	if !isVersion(version) {
		return command.Usage("%q is not a policy version", version).WithRemedy("`palyra policy versions` lists them; at least 8 digits of one are needed.")
	}
	g, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	v, err := g.Policy.ActivatePolicy(ctx, &palyrav1.ActivatePolicyRequest{Version: version})
	if err != nil {
		return err
	}
	a.sayWarnings(v.GetWarnings())
	digits := strings.TrimPrefix(version, "sha256:")
	if !strings.HasPrefix(strings.TrimPrefix(v.GetVersion(), "sha256:"), digits) {
		a.Say("the built-in policies or the settings changed since %s: its files are now in force with the current ones, as %s", version, shortVersion(v.GetVersion()))
	}
	return a.PrintOne("PolicyActivation", printer.Record{Name: v.GetVersion(), Body: printer.ProtoObject(v)}, func(p *printer.Page) {
		p.Field("version", v.GetVersion())
		p.Field("was", v.GetWasVersion())
		p.Field("snapshot", v.GetSnapshotDigest())
		p.Field("changed", printer.Yes(v.GetChanged()))
		p.Field("end with", "palyra policy reload")
	})
}

func (a *policyCommands) policyDiff() *cobra.Command {
	return &cobra.Command{Use: "diff VERSION [VERSION]", Short: "Compare the files of two policy versions, or of one with those in force", Args: command.Args(1, 2),
		ValidArgsFunction: a.completeVersions(),
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, given []string) error {
			return a.diffPolicies(ctx, g, append(given, "")[:2])
		})}
}

func (a *policyCommands) diffPolicies(ctx context.Context, g *client.Gateway, versions []string) error {
	var sides []*palyrav1.GetPolicyResponse
	for _, version := range versions {
		if version != "" && !isVersion(version) {
			return command.Usage("%q is not a policy version", version).WithRemedy("`palyra policy versions` lists them.")
		}
		side, err := g.Policy.GetPolicy(ctx, &palyrav1.GetPolicyRequest{Version: version})
		if err != nil {
			return err
		}
		sides = append(sides, side)
	}
	text := diffSources(sides[0], sides[1])
	body := printer.Object{{"from", sides[0].GetVersion()}, {"to", sides[1].GetVersion()}, {"diff", text}}
	return a.PrintOne("PolicyDiff", printer.Record{Name: sides[1].GetVersion(), Body: body}, func(p *printer.Page) {
		if text == "" {
			a.Say("the files are the same")
			return
		}
		p.Diff(shortVersion(sides[0].GetVersion())+" -> "+shortVersion(sides[1].GetVersion()), text)
	})
}

// diffSources returns a unified diff, file by file, of the operator's policies.
func diffSources(from, to *palyrav1.GetPolicyResponse) string {
	before, after := ownSources(from), ownSources(to)
	names := append(sourceNames(from), sourceNames(to)...)
	slices.Sort(names)
	var b strings.Builder
	for _, name := range slices.Compact(names) {
		if strings.HasPrefix(name, defaultsPrefix) {
			continue
		}
		text := diff.Diff("a/"+name, []byte(before[name]), "b/"+name, []byte(after[name]))
		_, hunks, _ := bytes.Cut(text, []byte("\n")) // the first line repeats the names
		b.Write(hunks)
	}
	return b.String()
}

// defaultsPrefix begins the names of the embedded policies.
const defaultsPrefix = "defaults/"

func ownSources(v *palyrav1.GetPolicyResponse) map[string]string {
	texts := make(map[string]string)
	for _, s := range v.GetSources() {
		texts[s.GetName()] = s.GetText()
	}
	return texts
}

func (a *policyCommands) completeVersions() cobra.CompletionFunc {
	return client.Suggest(a.App, func(ctx context.Context, g *client.Gateway) ([]*palyrav1.PolicyVersion, error) {
		reply, err := g.Policy.ListPolicyVersions(ctx, &palyrav1.ListPolicyVersionsRequest{PageSize: 50})
		return reply.GetVersions(), err
	}, func(v *palyrav1.PolicyVersion) (string, string) {
		return v.GetVersion(), printer.Clock(v.GetFirstLoadedAt()) + " " + v.GetLoadedBy()
	})
}
