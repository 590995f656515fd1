package packages

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/upstream/declared"
	"palyra/internal/exec/workspace/overlay"
)

// ToolName is the tool that installs a package.
const ToolName = "package.install"

// risk of an installation: foreign code is stored on this machine and later runs in the sandbox
// of one server.
const risk = 60

// Install is the tool package.install.
type Install struct{ Service *Service }

// input repeats fields of the resolution so that they are visible to policies, approvers and the
// journal. A field that differs from the resolution is refused.
type input struct {
	Server     string             `json:"server"`
	Resolution string             `json:"resolution"`
	Ecosystem  declared.Ecosystem `json:"ecosystem"`
	Package    string             `json:"package"`
	Version    string             `json:"version"`
	Integrity  string             `json:"integrity"`
	Registry   string             `json:"registry"`
}

// Descriptor implements tool.Runnable.
func (Install) Descriptor() tool.Descriptor {
	return tool.Descriptor{
		Name: ToolName, Title: "Install a package for an upstream server",
		Description: "Install a package that was resolved for an upstream MCP server, with everything that it needs, from its registry into a directory that only the sandbox of that server sees, read-only. " +
			"Each part has to have the digest of the resolution, and no script of a package runs. `palyra mcp add`, `palyra mcp update` and `palyra mcp import` call it.",
		InputSchema: json.RawMessage(`{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "additionalProperties": false,
  "required": ["server", "resolution", "ecosystem", "package", "version", "integrity", "registry"],
  "properties": {
    "server": {"type": "string", "minLength": 1, "maxLength": 32, "description": "The upstream server."},
    "resolution": {"type": "string", "minLength": 71, "maxLength": 71, "description": "Digest of the resolution."},
    "ecosystem": {"type": "string", "enum": ["npm", "pypi"], "description": "Where the package comes from."},
    "package": {"type": "string", "minLength": 1, "maxLength": 400, "description": "Name of the package."},
    "version": {"type": "string", "minLength": 1, "maxLength": 200, "description": "Its version."},
    "integrity": {"type": "string", "minLength": 1, "maxLength": 1000, "description": "Its digest, as the registry has it."},
    "registry": {"type": "string", "minLength": 1, "maxLength": 2048, "description": "URL of the registry."}
  }
}`),
		Capabilities: []tool.Capability{tool.ProcessExec, tool.Network}, Executor: tool.TierCBubblewrap, OpenWorld: true, AlwaysSensitive: true,
	}
}

// Unusable returns the reason why no call can run, nil if calls can run.
func (t Install) Unusable() error { return t.Service.use.Ready() }

// Plan implements tool.Runnable.
func (t Install) Plan(ctx context.Context, p tool.Proposal) (tool.Plan, error) {
	_, _, plan, err := t.prepare(ctx, p)
	return plan, err
}

// Prepare implements tool.Runnable.
func (t Install) Prepare(ctx context.Context, p tool.Proposal) (tool.Prepared, error) {
	r, c, plan, err := t.prepare(ctx, p)
	return tool.Prepared{Plan: plan, Run: func(ctx context.Context, call tool.Call) tool.Report { return t.Service.install(ctx, call, r, c) }}, err
}

func (t Install) prepare(ctx context.Context, p tool.Proposal) (declared.Resolution, preparedProgram, tool.Plan, error) {
	refused := func(err error) (declared.Resolution, preparedProgram, tool.Plan, error) {
		return declared.Resolution{}, preparedProgram{}, tool.Plan{}, err
	}
	if err := t.Unusable(); err != nil {
		return refused(err)
	}
	var in input
	if err := json.Unmarshal(p.Input, &in); err != nil {
		return refused(reason.Errorf(reason.InvalidInput, "reading input: %w", err))
	}
	if err := (declared.PackageRequest{Server: in.Server, Ecosystem: in.Ecosystem, Name: in.Package}).Check(); err != nil {
		return refused(err)
	}
	if !strings.HasPrefix(in.Resolution, "sha256:") || strings.Trim(hexOf(in.Resolution), "0123456789abcdef") != "" {
		return refused(reason.Errorf(reason.InvalidInput, "%q is not a valid digest", in.Resolution))
	}
	r, err := t.Service.Resolution(in.Server, in.Resolution)
	if err != nil {
		return refused(err)
	}
	if says := (input{in.Server, in.Resolution, r.Ecosystem, r.Name, r.Version, r.Integrity, r.Registry}); says != in || r.Server != in.Server {
		return refused(reason.Errorf(reason.DigestMismatch, "the resolution is of %s %s (%s) from %s, but the call names another package", r.Name, r.Version, r.Integrity, r.Registry))
	}
	c, err := t.Service.command(ctx, p, ecosystems[r.Ecosystem].install(r), r)
	if err != nil {
		return refused(err)
	}
	return r, c, t.plan(r, c, in.Resolution), nil
}

func (t Install) plan(r declared.Resolution, c preparedProgram, digest string) tool.Plan {
	status := t.Service.use.Runner.Status()
	var environment, secrets []string
	for _, s := range c.reach.Secrets {
		environment, secrets = append(environment, s.Env+"="+s.Bound()), append(secrets, s.Name)
	}
	return tool.Plan{
		Binding: tool.Binding{
			Argv: c.argv, Environment: environment, Executable: c.program, SandboxProfile: "package for the upstream server " + r.Server + ", resolved as " + digest,
			Egress: append([]string{egress.Strict.String()}, c.reach.Lines()...),
		},
		Facts: tool.Facts{
			Risk: risk, EgressMode: egress.Strict.String(), EgressHosts: c.reach.Hosts(), Secrets: secrets,
			SandboxTier: string(status.Tier), SandboxLevel: sandbox.Level(egress.Strict, status.Requested, status.Layers), SandboxRung: string(status.Rung),
			SandboxLayers: slices.Sorted(slices.Values(status.Layers)), SandboxLimits: status.Limits, LandlockABI: status.LandlockABI,
			WorkspaceMode: string(sandbox.CopyOnWrite),
		},
		Preview: tool.Preview{
			Summary: fmt.Sprintf("Install %s %s (%s) from %s for the upstream server %s, with %s in all.", r.Name, r.Version, r.Integrity, r.Registry, r.Server, text.Plural(len(r.Parts), "package")),
			Notes:   notes(r),
		},
		Subject: ToolName + ":" + digest, SubjectCovers: fmt.Sprintf("the installation of %s %s for the upstream server %s", r.Name, r.Version, r.Server),
		ExactOnly: "an installation is of exactly what was resolved", MaySend: c.reach.Budget.OrDefault().BytesOut,
	}
}

// mostNoted is the maximum number of packages that a note names.
const mostNoted = 20

// notes are displayed to the approver.
func notes(r declared.Resolution) []string {
	list := []string{
		"It goes into a directory of this server alone, which its sandbox sees read-only; the server runs offline unless hosts are allowed.",
		fmt.Sprintf("Reached: %s, and nothing else. No script of a package runs.", strings.Join(r.Hosts, ", ")),
	}
	if r.Login.Secret != "" {
		list = append(list, fmt.Sprintf("The registry is shown the secret vault://%s, of which the sandbox has a placeholder.", r.Login.Secret))
	}
	if n := len(r.Scripts); n > 0 {
		list = append(list, fmt.Sprintf("Scripts for the installation, without which it may not work, are left out of %s: %s.", text.Plural(n, "package"), shortened(r.Scripts)))
	}
	var parts []string
	for _, p := range r.Parts {
		if p.Name != r.Name {
			parts = append(parts, p.Name+" "+p.Version)
		}
	}
	if len(parts) > 0 {
		list = append(list, "It needs: "+shortened(parts)+".")
	}
	return list
}

func shortened(names []string) string {
	if more := len(names) - mostNoted; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:mostNoted], ", "), more)
	}
	return strings.Join(names, ", ")
}

// install runs an allowed call.
func (s *Service) install(ctx context.Context, call tool.Call, r declared.Resolution, c preparedProgram) tool.Report {
	report := tool.Begin(tool.ExecutorInfo{Name: tool.TierCBubblewrap, Version: s.use.Version, Tier: string(sandbox.TierC)})
	report.Egress.Allowed = c.reach.Hosts()
	s.installing.Lock()
	defer s.installing.Unlock()
	dir, remove, err := s.scratch(r.Files)
	if err != nil {
		return report.Fail(ctx, err)
	}
	defer remove()
	defer s.lend(call, &c)()
	ran, err := s.run(ctx, c, dir, call.Proposal.Caller.Principal.String(), call.Output)
	defer func() { _ = ran.Layer.Close() }() // the next start removes the rest
	ran.Describe(&report, egress.Strict)
	if err != nil {
		return report.Fail(ctx, err)
	}
	made, err := s.keep(ctx, r, ran.Layer, dir)
	if err != nil {
		return report.Fail(ctx, err)
	}
	return report.Succeed(made)
}

// keep moves the output of npm or pip from its copy into the prefix.
func (s *Service) keep(ctx context.Context, r declared.Resolution, layer *overlay.Layer, dir string) (Installed, error) {
	set, err := layer.Changes(ctx)
	if err != nil {
		return Installed{}, err
	}
	undo := filepath.Join(filepath.Dir(dir), "undo") // removed with the directory
	if err := os.Mkdir(undo, 0o700); err != nil {
		return Installed{}, err
	}
	if _, err := layer.Commit(ctx, set, overlay.Options{History: overlay.History{Dir: undo}, ID: "package", At: time.Now()}); err != nil {
		return Installed{}, err
	}
	if err := settle(dir); err != nil {
		return Installed{}, err
	}
	now, err := digestOf(dir)
	if err != nil {
		return Installed{}, err
	}
	resolution, err := r.Digest()
	if err != nil {
		return Installed{}, err
	}
	made := Installed{
		Package:    declared.Package{Ecosystem: r.Ecosystem, Name: r.Name, Version: r.Version, Integrity: r.Integrity, Registry: r.Registry, Login: r.Login, Prefix: now.Digest},
		Resolution: resolution, Files: now.Files, Bytes: now.Bytes, Programs: []string{},
	}
	programs, err := ecosystems[r.Ecosystem].programs(r, dir)
	if err != nil {
		return Installed{}, err
	}
	made.Programs, made.Program = append(made.Programs, programs...), chosen(r, programs)
	return made, s.place(r.Server, made, dir)
}

// chosen returns the program that npx and uvx start by default.
func chosen(r declared.Resolution, programs []string) string {
	own, _, _ := strings.Cut(r.Name[strings.LastIndex(r.Name, "/")+1:], "[")
	switch {
	case slices.Contains(programs, own):
		return own
	case slices.Contains(programs, strings.ReplaceAll(own, "_", "-")):
		return strings.ReplaceAll(own, "_", "-")
	case len(programs) == 1:
		return programs[0]
	}
	return ""
}

// place moves a tree to its final path. An existing tree there is identical or was tampered with,
// so it is replaced.
func (s *Service) place(server string, made Installed, dir string) error {
	at := s.prefix(server, made.Package.Prefix)
	if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // the sandbox's user passes it
		return err
	}
	if there, err := digestOf(at); err != nil || there.Digest != made.Package.Prefix {
		if err := os.RemoveAll(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.Rename(dir, at); err != nil {
			return fmt.Errorf("storing the installation: %w", err)
		}
	}
	return write(at+".json", made)
}
