// Package takeover takes MCP servers out of the configuration of agents and declares them
// at the gateway. It keeps a record with the files as they were, so that all of it can be
// undone; a server that the gateway cannot start or reach stays where it was.
package takeover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/agent/edit"
	"palyra/internal/agent/edit/jsonc"
	"palyra/internal/agent/files"
	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/core/statedir/keyfile"
	"palyra/internal/core/tomledit"
)

// Gateway is the gateway, by its API: policy and the journal see each act.
type Gateway interface {
	Servers(ctx context.Context) ([]string, error)
	Add(ctx context.Context, s *palyrav1.UpstreamServer) (*palyrav1.Upstream, error)
	Remove(ctx context.Context, name string) error
	// Install resolves a package for a server and installs it, when somebody approved
	// that.
	Install(ctx context.Context, server string, f Fetched) (Installed, error)
	// Has reports whether the vault has a secret.
	Has(ctx context.Context, ref string) (bool, error)
	Put(ctx context.Context, req *palyrav1.PutSecretRequest) error
	Forget(ctx context.Context, ref string) error
}

// Taker takes servers out of files. All fields but Hosts and Reached are required.
type Taker struct {
	Machine files.Machine
	// Record is the file that remembers what was taken.
	Record  string
	Gateway Gateway
	// Hosts are what programs of servers may reach, by the servers' names.
	Hosts map[string][]string
	// Inject are servers whose programs get their secrets as they are.
	Inject []string
	// Reached is told of each step; its error is a stop there.
	Reached func(step string) error
}

// secret is a value that moves to the vault.
type secret struct {
	Ref         string
	Hosts       []string
	Header, Env string

	value string
}

// Server is an entry of a file, and what becomes of it.
type Server struct {
	Agent string `json:"agent"`
	// Entry is its name in the file, "" for a file or a part of one that cannot be read;
	// Name is that at the gateway. Project is the directory
	// for which it counts, "" for one that always does.
	Entry   string `json:"entry"`
	Project string `json:"project,omitempty"`
	Name    string `json:"name"`
	File    string `json:"file"`
	// Why is why it stays where it is, "" for one that is taken.
	Why string `json:"why,omitempty"`
	// Secrets are references of the vault for what stood in the file.
	Secrets []string `json:"secrets,omitempty"`
	// Package is what is installed for it, "" for a program of the machine.
	Package string `json:"package,omitempty"`
	// Login is that somebody has to log in there (palyra mcp login).
	Login bool `json:"login,omitempty"`

	declared *palyrav1.UpstreamServer
	secrets  []secret
	fetched  *Fetched
	file     files.File
	// at is where it stands in the file, and entry what stands there. same is that of
	// another place which is the same, and is added once for both.
	at    []string
	entry entry
	same  bool
}

// saved is a file as it was.
type saved struct {
	Path string `json:"path"`
	Root string `json:"root"`
	// Was and Is are digests of the file before and after, Text what it held.
	Was  string `json:"was"`
	Is   string `json:"is"`
	Text []byte `json:"text"`
}

// record is what is remembered until it is undone.
type record struct {
	Format  int      `json:"format"`
	Servers []string `json:"servers"`
	Secrets []string `json:"secrets"`
	Files   []saved  `json:"files"`
}

// Plan reads the files of agents and judges their servers. It changes nothing. A file, or a
// part of one, that cannot be read is a row with the reason, and hides no other.
func (t *Taker) Plan(ctx context.Context, agents []files.Agent, project string) ([]Server, error) {
	there, err := t.Gateway.Servers(ctx)
	if err != nil {
		return nil, err
	}
	var list []Server
	for _, agent := range agents {
		for _, file := range t.Machine.Files(agent, project) {
			if !file.Has(files.Servers) || file.Scope == files.Managed {
				continue
			}
			for _, one := range t.read(file, project) {
				one.same = one.Why == "" && slices.ContainsFunc(list, func(o Server) bool {
					return o.Why == "" && o.Name == one.Name && reflect.DeepEqual(o.entry, one.entry)
				})
				if one.Why == "" && !one.same && slices.Contains(there, one.Name) {
					one.Why = "the gateway has a server of that name"
				}
				if one.Why == "" {
					there = append(there, one.Name)
				}
				list = append(list, one)
			}
		}
	}
	return list, nil
}

// root is where a file belongs.
func (t *Taker) root(file files.File, project string) string {
	if file.Scope != files.User && project != "" {
		return project
	}
	if edit.Within(filepath.Clean(file.Path), t.Machine.Home) {
		return t.Machine.Home
	}
	return filepath.Dir(file.Path)
}

// Take declares the servers of a plan that can be taken, and takes those out of their
// files that the gateway reached. It returns the plan with what became of each.
func (t *Taker) Take(ctx context.Context, plan []Server, project string) ([]Server, error) {
	rec, err := t.load()
	if err != nil {
		return plan, err
	}
	if rec != nil {
		return plan, reason.Errorf(reason.AlreadyExists, "servers were imported before, and can be put back still").
			WithRemedy("Undo that with `palyra mcp import --undo`, or keep it with `palyra mcp import --finish`, and import again.")
	}
	rec = &record{Format: 1}
	for i := range plan {
		if plan[i].Why != "" {
			continue
		}
		if plan[i].same {
			plan[i].Why = t.otherwise(plan[:i], plan[i])
			continue
		}
		if err := t.declare(ctx, rec, &plan[i]); err != nil {
			return plan, err
		}
	}
	if len(rec.Servers) == 0 {
		return plan, t.forget()
	}
	return plan, t.edit(rec, plan, project)
}

// otherwise is why the same server stays at another place, "" if it was taken.
func (t *Taker) otherwise(before []Server, s Server) string {
	for _, o := range before {
		if o.Name == s.Name && reflect.DeepEqual(o.entry, s.entry) {
			return o.Why
		}
	}
	return "it was not added"
}

// declare adds one server with its secrets. What cannot be reached is taken back.
func (t *Taker) declare(ctx context.Context, rec *record, s *Server) error {
	for _, ref := range s.Secrets {
		has, err := t.Gateway.Has(ctx, ref)
		if err != nil {
			return err
		}
		if has { // somebody else's, which an undo would remove
			s.Why = "the vault has a secret " + ref + " already"
			return nil
		}
	}
	had := *rec
	rec.Servers, rec.Secrets = append(rec.Servers, s.Name), append(rec.Secrets, s.Secrets...)
	// The record comes first: a stop leaves nothing that it does not know.
	if err := t.save(rec); err != nil {
		return err
	}
	if err := t.reached("recorded " + s.Name); err != nil {
		return err
	}
	why, err := t.add(ctx, s)
	if err != nil || why == "" {
		return err
	}
	s.Why = why
	err = t.back(ctx, []string{s.Name}, s.Secrets)
	*rec = had
	return errors.Join(err, t.save(rec))
}

// add returns why a server cannot be taken.
func (t *Taker) add(ctx context.Context, s *Server) (why string, err error) {
	for _, one := range s.secrets {
		req := &palyrav1.PutSecretRequest{Ref: one.Ref, Value: []byte(one.value), Hosts: &palyrav1.HostList{Hosts: one.Hosts}}
		note := "of the MCP server " + s.Entry + ", from " + s.Agent
		req.Note = &note
		if one.Header != "" {
			req.Header = &one.Header
		}
		if one.Env != "" {
			req.Env = &one.Env
		}
		if err := t.Gateway.Put(ctx, req); err != nil {
			return refusal(err)
		}
	}
	if why, err := t.install(ctx, s); why != "" || err != nil {
		return why, err
	}
	up, err := t.Gateway.Add(ctx, s.declared)
	if err != nil {
		return refusal(err)
	}
	if wantsLogin(up.GetProblem()) && s.declared.GetUrl() != "" && len(s.declared.GetHeaders()) == 0 {
		if err := t.Gateway.Remove(ctx, s.Name); err != nil {
			return "", err
		}
		s.declared.Oauth, s.Login = &palyrav1.UpstreamOAuth{}, true
		if _, err = t.Gateway.Add(ctx, s.declared); err != nil {
			return refusal(err)
		}
		return "", nil
	}
	return up.GetProblem(), nil
}

// install has a server come from its package, if it is of one. It returns why it cannot.
func (t *Taker) install(ctx context.Context, s *Server) (why string, err error) {
	if s.fetched == nil {
		return "", nil
	}
	made, err := t.Gateway.Install(ctx, s.Name, *s.fetched)
	if err != nil {
		return refusal(err)
	}
	s.declared.Package = made.Declared()
	s.declared.Command, why = s.fetched.Started(made.Program, made.Programs)
	return why, nil
}

// wantsLogin reports whether a server answered that it wants a login.
func wantsLogin(problem string) bool {
	return strings.Contains(problem, "Unauthorized") || strings.Contains(problem, "401")
}

// refusal is why the gateway does not take a server, where that is about the server; a
// gateway that is away is an error.
func refusal(err error) (string, error) {
	switch reason.Of(err) {
	case reason.InvalidInput, reason.HostInvalid, reason.AlreadyExists, reason.EgressDenied, reason.ToolFailed, reason.TimedOut, reason.QuotaExceeded, reason.NotFound,
		reason.PolicyDenied, reason.ApprovalDenied, reason.ApprovalExpired, reason.ApprovalCancelled, reason.UpstreamUnavailable, reason.SandboxUnavailable, reason.SandboxDisabled:
		return err.Error(), nil
	}
	return "", err
}

// edit takes the entries out of their files.
func (t *Taker) edit(rec *record, plan []Server, project string) error {
	byFile := map[string][]Server{}
	for _, s := range plan {
		if s.Why == "" {
			byFile[s.file.Path] = append(byFile[s.file.Path], s)
		}
	}
	list := map[string]*edit.File{}
	after := map[string][]byte{}
	for _, path := range sorted(byFile) {
		root := t.root(byFile[path][0].file, project)
		f, err := edit.Read(path, root)
		if err != nil {
			return err
		}
		text := f.Text
		for _, s := range byFile[path] {
			if s.file.Format == files.TOML {
				text, err = tomledit.Remove(text, s.at)
			} else {
				text, err = jsonc.Remove(text, jsonc.Keys(s.at...))
			}
			if err != nil {
				return reason.Errorf(reason.ConfigInvalid, "%s: %w", path, err).WithRemedy("`palyra mcp import --undo` takes back what was declared.")
			}
		}
		list[path], after[path] = f, text
		rec.Files = append(rec.Files, saved{Path: path, Root: root, Was: canonical.Digest(f.Text), Is: canonical.Digest(text), Text: f.Text})
	}
	if err := t.save(rec); err != nil {
		return err
	}
	for _, path := range sorted(list) {
		if err := t.reached("editing " + path); err != nil {
			return err
		}
		if err := list[path].Write(after[path], 0); err != nil {
			return err
		}
	}
	return nil
}

// Undo puts the files back as they were, and takes the servers and secrets back.
func (t *Taker) Undo(ctx context.Context) (files []string, err error) {
	rec, err := t.load()
	if err != nil {
		return nil, err
	}
	if rec == nil {
		return nil, reason.Errorf(reason.NotFound, "there is no import of MCP servers to undo").WithRemedy("`palyra mcp import` makes one.")
	}
	// All files are looked at before the first is written.
	open := make([]*edit.File, len(rec.Files))
	for i, s := range rec.Files {
		f, err := edit.Read(s.Path, s.Root)
		if err != nil {
			return nil, err
		}
		if now := canonical.Digest(f.Text); now != s.Is && now != s.Was {
			return nil, reason.Errorf(reason.FactsChanged, "%s was edited since the import", s.Path).
				WithRemedy("Bring it together by hand with what it was, which is in %s; then `palyra mcp import --finish`.", t.Record)
		}
		open[i] = f
	}
	for i, s := range rec.Files {
		if err := t.reached("putting back " + s.Path); err != nil {
			return nil, err
		}
		if canonical.Digest(open[i].Text) != s.Was {
			if err := open[i].Write(s.Text, 0); err != nil {
				return nil, err
			}
		}
		files = append(files, s.Path)
	}
	if err := t.back(ctx, rec.Servers, rec.Secrets); err != nil {
		return nil, err
	}
	return files, t.forget()
}

// Finish forgets how the files were: with their secrets, which are in the vault now.
func (t *Taker) Finish() error {
	rec, err := t.load()
	if err == nil && rec == nil {
		err = reason.Errorf(reason.NotFound, "there is no import of MCP servers to finish")
	}
	if err != nil {
		return err
	}
	return t.forget()
}

// back takes servers and secrets back, as far as they are there.
func (t *Taker) back(ctx context.Context, servers, secrets []string) error {
	for _, name := range servers {
		if err := t.Gateway.Remove(ctx, name); err != nil && reason.Of(err) != reason.NotFound {
			return err
		}
	}
	for _, ref := range secrets {
		if err := t.Gateway.Forget(ctx, ref); err != nil && reason.Of(err) != reason.NotFound {
			return err
		}
	}
	return nil
}

func (t *Taker) reached(step string) error {
	if t.Reached == nil {
		return nil
	}
	return t.Reached(step)
}

// maxRecord bounds what is read of a record.
const maxRecord = 64 << 20

func (t *Taker) load() (*record, error) {
	info, err := os.Stat(t.Record)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var text []byte
	if err == nil && info.Size() <= maxRecord {
		text, err = os.ReadFile(t.Record)
	}
	rec := &record{}
	if err == nil {
		err = json.Unmarshal(text, rec)
	}
	if err != nil || rec.Format != 1 {
		return nil, reason.Errorf(reason.ConfigInvalid, "the record of the import, %s, cannot be read", t.Record).WithRemedy("Restore it from a backup, or remove it to keep what there is.")
	}
	return rec, nil
}

func (t *Taker) save(rec *record) error {
	text, err := json.MarshalIndent(rec, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(t.Record), 0o700); err != nil {
		return fmt.Errorf("making a directory for the record of the import: %w", err)
	}
	return keyfile.Write(t.Record, append(text, '\n'))
}

func (t *Taker) forget() error {
	if err := os.Remove(t.Record); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
