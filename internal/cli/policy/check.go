package policy

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/call/policy"
	"palyra/internal/call/policy/finding"
	"palyra/internal/call/policy/lint"
	"palyra/internal/call/policy/policytests"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/core/config"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/surface/api/export"
)

// draftCommands provides the commands that work on policy files.
type draftCommands struct{ *client.App }

// maxSource is the API's limit on one policy file in bytes.
const maxSource = 1 << 20

func (a *draftCommands) policyCheck() *cobra.Command {
	var offline bool
	c := &cobra.Command{Use: "check [FILE|DIR ...]", Short: "Check policy files; nothing is loaded", Args: command.Args(0, -1),
		Long: "Check policy files: syntax, schema, types, duplicate ids and lints, and whether the\n" +
			"tests next to them (*.test.yaml) can be read; `palyra policy test` runs them. Nothing\n" +
			"is loaded. The running gateway checks them against its own schema, tools and\n" +
			"members; without one they are checked here, against the built-in tools and the\n" +
			"configuration. Without an argument it checks policy.dir of the configuration.\n" +
			"Exits 1 when there is an error.",
		Example: "palyra policy check policies/\npalyra policy check 20-exec.cedar -o json",
		RunE: func(cmd *cobra.Command, given []string) error {
			return a.checkPolicy(cmd.Context(), given, offline)
		}}
	c.Flags().BoolVar(&offline, "offline", false, "do not ask the gateway")
	return c
}

func (a *draftCommands) checkPolicy(ctx context.Context, paths []string, offline bool) error {
	if len(paths) == 0 {
		dir, err := a.ownDir("Name .cedar files, or directories that hold them.")
		if err != nil {
			return err
		}
		paths = []string{dir}
	}
	policies, tests, err := testsBeside(paths)
	if err != nil {
		return err
	}
	sources, err := readPolicies(policies)
	if err != nil {
		return err
	}
	findings, where, stands, err := a.findingsOf(ctx, sources, offline)
	if err != nil {
		return err
	}
	findings = append(findings, export.Findings(policytests.Check(tests))...)
	var records []printer.Record
	failed, warned, left := 0, 0, 0
	for _, f := range findings {
		switch {
		case f.GetSeverity() == string(finding.SeverityError):
			failed++
		case aboutTool(f) && a.Format() == printer.FormatTable:
			left++
			continue
		default:
			warned++
		}
		records = append(records, printer.Record{Name: f.GetPolicyId(), Body: printer.ProtoObject(f), Cells: []string{findingText(f)}})
	}
	if err := a.PrintFindings("PolicyFinding", records); err != nil {
		return err
	}
	a.Say("%s, %s, %s; checked %s", text.Plural(len(sources)+len(tests), "file"), text.Plural(failed, "error"), text.Plural(warned, "warning"), where)
	if left > 0 {
		a.Say("left out: %s about tools that no policy file can change; -o wide shows them", text.Plural(left, "warning"))
	}
	a.Say("%s", stands.text)
	if failed > 0 {
		return command.Exit(reason.Lookup(reason.PolicyInvalid).Exit)
	}
	return nil
}

// aboutTool reports whether a finding concerns the schema of a tool instead of a policy file: the
// files cannot fix it.
func aboutTool(f *palyrav1.PolicyFinding) bool {
	return f.GetFile() == "" && f.GetCode() == finding.CodeOpaque
}

// findingsOf returns the findings of the gateway, or checks locally if no gateway is reachable.
func (a *draftCommands) findingsOf(ctx context.Context, sources []policy.Source, offline bool) (findings []*palyrav1.PolicyFinding, where string, stands standing, err error) {
	if !offline {
		findings, where, stands, err = a.checkAtGateway(ctx, sources)
		if err == nil || reason.Lookup(client.Explain(nil, err).Code).Exit != reason.ExitNotConnected {
			return findings, where, stands, err
		}
	}
	cfg, err := a.policyConfig(sources)
	if err != nil {
		return nil, "", standing{}, err
	}
	return export.Findings(lint.Check(cfg)), "here, against the built-in tools", a.standingHere(), nil
}

func (a *draftCommands) checkAtGateway(ctx context.Context, sources []policy.Source) ([]*palyrav1.PolicyFinding, string, standing, error) {
	g, err := a.Connect(ctx)
	if err != nil {
		return nil, "", standing{}, err
	}
	reply, err := g.Policy.ValidatePolicy(ctx, &palyrav1.ValidatePolicyRequest{Sources: export.SourceMessages(sources)})
	if err != nil {
		return nil, "", standing{}, err
	}
	return reply.GetFindings(), "by the gateway at " + g.Address, standingOf(ctx, g, sources), nil
}

// ownDir returns policy.dir of the configuration for a command without paths; otherwise describes
// the accepted arguments.
func (a *draftCommands) ownDir(otherwise string) (string, error) {
	c, _, err := config.Load(a.LoadOptions())
	if err != nil {
		return "", err
	}
	if c.Policy.Dir == "" {
		return "", command.Usage("policy.dir is empty: palyrad reads no policy directory").WithRemedy("%s", otherwise)
	}
	if _, err := os.Stat(c.Policy.Dir); err != nil {
		return "", command.Usage("the policy directory %s is not there: no policies but the built-in ones are in force", c.Policy.Dir).
			WithRemedy("`palyra policy init --profile laptop` makes it. %s", otherwise)
	}
	return c.Policy.Dir, nil
}

// policyConfig returns the configuration for checks without a gateway.
func (a *draftCommands) policyConfig(sources []policy.Source) (policy.Config, error) {
	c, _, err := config.Load(a.LoadOptions())
	if err != nil {
		return policy.Config{}, err
	}
	tools, err := builtinTools()
	if err != nil {
		return policy.Config{}, err
	}
	cfg := policy.Config{Sources: sources, Tools: tools, Roles: c.Roles}
	for _, w := range c.Workspaces {
		cfg.Workspaces = append(cfg.Workspaces, w.Name)
	}
	cfg.Snapshot.AllowSensitiveTools = c.AllowSensitiveTools
	cfg.Snapshot.AllowedTools = []string{}
	for _, t := range tools {
		if c.ToolAllowed(t.Name) {
			cfg.Snapshot.AllowedTools = append(cfg.Snapshot.AllowedTools, t.Name)
		}
	}
	return cfg, nil
}

// testsBeside reads the test files among paths and in their directories, and returns the other
// paths.
func testsBeside(paths []string) (policies []string, tests []policy.Source, err error) {
	for _, path := range paths {
		files := []string{path}
		if !strings.HasSuffix(path, testSuffix) {
			policies, files = append(policies, path), nil
		}
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			if files, err = testsIn(path); err != nil {
				return nil, nil, err
			}
		}
		for _, file := range files {
			source, err := readSource("tests", file)
			if err != nil {
				return nil, nil, err
			}
			tests = append(tests, source)
		}
	}
	return policies, tests, nil
}

// readPolicies reads files, and the *.cedar files of directories by name.
func readPolicies(paths []string) ([]policy.Source, error) {
	var files []string
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, command.Usage("reading policies: %w", err).WithRemedy("Name .cedar files, or directories that hold them.")
		}
		if !info.IsDir() {
			files = append(files, path)
			continue
		}
		found, err := filepath.Glob(filepath.Join(escapeGlob(path), "*.cedar"))
		if err != nil || len(found) == 0 {
			return nil, command.Usage("%s holds no .cedar files", path)
		}
		slices.Sort(found)
		files = append(files, found...)
	}
	var sources []policy.Source
	for _, path := range files {
		source, err := readSource("policies", path)
		if err != nil {
			return nil, err
		}
		sources = append(sources, source)
	}
	return sources, nil
}

// readSource reads one file; what describes it in errors.
func readSource(what, path string) (policy.Source, error) {
	text, err := command.ReadAtMost(path, maxSource+1)
	if err != nil {
		return policy.Source{}, command.Usage("reading %s: %w", what, err).WithRemedy("Correct the file or link %s, or remove it.", path)
	}
	if len(text) > maxSource {
		return policy.Source{}, reason.Errorf(reason.InputTooLarge, "%s is larger than %d bytes", path, maxSource)
	}
	return policy.Source{Name: filepath.ToSlash(path), Text: string(text)}, nil
}

// escapeGlob escapes pattern characters in a directory's name.
func escapeGlob(path string) string {
	return strings.NewReplacer(`*`, `[*]`, `?`, `[?]`, `[`, `[[]`).Replace(path)
}

// findingText is file:line:column, the message, the source line with a caret,
// and help.
func findingText(f *palyrav1.PolicyFinding) string {
	return finding.Finding{
		Severity: finding.Severity(f.GetSeverity()), Code: f.GetCode(), File: f.GetFile(), Line: int(f.GetLine()),
		Column: int(f.GetColumn()), Message: f.GetMessage(), SourceLine: f.GetSourceLine(), Help: f.GetHelp(),
	}.String()
}

func completePolicyFiles(a *client.App) cobra.CompletionFunc {
	return client.Suggest(a, func(ctx context.Context, g *client.Gateway) ([]*palyrav1.PolicySource, error) {
		v, err := g.Policy.GetPolicy(ctx, &palyrav1.GetPolicyRequest{})
		return v.GetSources(), err
	}, func(s *palyrav1.PolicySource) (string, string) {
		return s.GetName(), fmt.Sprintf("%d bytes", len(s.GetText()))
	})
}
