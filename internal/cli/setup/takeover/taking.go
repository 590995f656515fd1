// Package takeover moves MCP servers from the configuration of agents to the gateway. It keeps
// a record with the original files, so that everything can be undone. A server that the gateway
// cannot start or reach stays in its file.
//
// It adds each server to the gateway before it removes the entry from the file.
package takeover

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/agent/edit"
	"palyra/internal/agent/edit/jsonc"
	"palyra/internal/agent/files"
	"palyra/internal/core/reason"
	"palyra/internal/core/tomledit"
)

// Gateway is the gateway's API: each action is subject to policy and journaled.
type Gateway interface {
	Servers(ctx context.Context) ([]string, error)
	Add(ctx context.Context, s *palyrav1.UpstreamServer) (*palyrav1.Upstream, error)
	Remove(ctx context.Context, name string) error
	// Install resolves a package for a server and installs it after approval.
	Install(ctx context.Context, server string, f Fetched) (Installed, error)
	// Has reports whether the vault has a secret.
	Has(ctx context.Context, ref string) (bool, error)
	Put(ctx context.Context, req *palyrav1.PutSecretRequest) error
	Forget(ctx context.Context, ref string) error
}

// Taker moves servers from files to the gateway. All fields except Hosts, Inject and Reached are
// required.
type Taker struct {
	Machine files.Machine
	// Record is the file of the record.
	Record  string
	Gateway Gateway
	// Hosts are the hosts that a server's program may connect to, by the server's name.
	Hosts map[string][]string
	// Inject lists the servers whose programs receive their secrets by value.
	Inject []string
	// Reached is set by tests.
	Reached edit.Steps
}

// secret is a value that moves to the vault.
type secret struct {
	Ref         string
	Hosts       []string
	Header, Env string

	value string
}

// Server is an entry of a file, and the action for it.
type Server struct {
	Agent string `json:"agent"`
	// Entry is the server's name in the file, "" if the file or a part of it cannot be read. Name
	// is the server's name at the gateway. Project is the directory in which the entry applies, ""
	// if it applies everywhere.
	Entry   string `json:"entry"`
	Project string `json:"project,omitempty"`
	Name    string `json:"name"`
	File    string `json:"file"`
	// Why is the reason the entry stays in its file, "" if it is moved.
	Why string `json:"why,omitempty"`
	// Secrets are vault references for secrets in the file.
	Secrets []string `json:"secrets,omitempty"`
	// Package is the package to install for it, "" for a local program.
	Package string `json:"package,omitempty"`
	// Login is true if a user must log in there (palyra mcp login).
	Login bool `json:"login,omitempty"`

	declared *palyrav1.UpstreamServer
	secrets  []secret
	fetched  *Fetched
	file     files.File
	// at is the location in the file, and entry the content. same is true if an earlier entry of
	// the plan is equal: the server is then added once for both.
	at    []string
	entry entry
	same  bool
}

// record lists the changes of an import. It is kept until the import is undone or finished.
type record struct {
	Format  int             `json:"format"`
	Servers []string        `json:"servers"`
	Secrets []string        `json:"secrets"`
	Files   []edit.Original `json:"files"`
}

// Plan reads the files of agents and plans the actions for their servers. It changes nothing. An
// unreadable file, or part of a file, becomes a row with the reason and does not hide other rows.
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

// root returns the directory that an edit of the file must not leave.
func (t *Taker) root(file files.File, project string) string {
	if file.Scope != files.User && project != "" {
		return project
	}
	if edit.Within(filepath.Clean(file.Path), t.Machine.Home) {
		return t.Machine.Home
	}
	return filepath.Dir(file.Path)
}

// Take declares the planned servers, and removes the reachable ones from their files. It returns
// the plan with the results.
func (t *Taker) Take(ctx context.Context, plan []Server, project string) ([]Server, error) {
	rec, err := t.load()
	if err != nil {
		return plan, err
	}
	if rec != nil {
		return plan, reason.Errorf(reason.AlreadyExists, "an earlier import of servers can still be undone").
			WithRemedy("Undo that with `palyra mcp import --undo`, or keep it with `palyra mcp import --finish`, and import again.")
	}
	rec = &record{Format: recordFormat}
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

// otherwise returns why an equal server earlier in the plan stays in its file, "" if it was
// moved.
func (t *Taker) otherwise(before []Server, s Server) string {
	for _, o := range before {
		if o.Name == s.Name && reflect.DeepEqual(o.entry, s.entry) {
			return o.Why
		}
	}
	return "it was not added"
}

// declare adds one server with its secrets. An unreachable server is removed again.
func (t *Taker) declare(ctx context.Context, rec *record, s *Server) error {
	for _, ref := range s.Secrets {
		has, err := t.Gateway.Has(ctx, ref)
		if err != nil {
			return err
		}
		if has { // it belongs to another user, and an undo would remove it
			s.Why = "the vault has a secret " + ref + " already"
			return nil
		}
	}
	had := *rec
	rec.Servers, rec.Secrets = append(rec.Servers, s.Name), append(rec.Secrets, s.Secrets...)
	// The record comes first, so that an interruption leaves no unrecorded changes.
	if err := t.save(rec); err != nil {
		return err
	}
	if err := t.Reached.At("recorded " + s.Name); err != nil {
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

// add stores the secrets of a server, installs its package and adds it to the gateway. It returns
// the reason if the server cannot be moved.
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

// install installs the package of a server, if it has one. It returns the reason if that fails.
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

// wantsLogin reports whether a server requires a login.
func wantsLogin(problem string) bool {
	return strings.Contains(problem, "Unauthorized") || strings.Contains(problem, "401")
}

// refusal returns the gateway's reason for refusing a server; an unreachable gateway is an error.
func refusal(err error) (string, error) {
	switch reason.Of(err) {
	case reason.InvalidInput, reason.HostInvalid, reason.AlreadyExists, reason.EgressDenied, reason.ToolFailed, reason.TimedOut, reason.QuotaExceeded, reason.NotFound,
		reason.PolicyDenied, reason.ApprovalDenied, reason.ApprovalExpired, reason.ApprovalCancelled, reason.UpstreamUnavailable, reason.SandboxUnavailable, reason.SandboxDisabled:
		return err.Error(), nil
	}
	return "", err
}

// edit removes the entries from their files.
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
		f, err := edit.Read(path, t.root(byFile[path][0].file, project))
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
				return reason.Errorf(reason.ConfigInvalid, "%s: %w", path, err).WithRemedy("Run `palyra mcp import --undo` to remove the declared servers.")
			}
		}
		list[path], after[path] = f, text
		rec.Files = append(rec.Files, f.Original(text))
	}
	if err := t.save(rec); err != nil {
		return err
	}
	for _, path := range sorted(list) {
		if err := t.Reached.At("editing " + path); err != nil {
			return err
		}
		if err := list[path].Write(after[path], 0); err != nil {
			return err
		}
	}
	return nil
}

// Undo restores the files, and removes the servers and secrets.
func (t *Taker) Undo(ctx context.Context) (files []string, err error) {
	rec, err := t.load()
	if err != nil {
		return nil, err
	}
	if rec == nil {
		return nil, reason.Errorf(reason.NotFound, "no import of MCP servers can be undone").WithRemedy("`palyra mcp import` makes one.")
	}
	// All files are checked before the first is written.
	open := make([]*edit.File, len(rec.Files))
	for i, s := range rec.Files {
		f, err := s.Read()
		if err != nil {
			return nil, err
		}
		if s.Edited(f) {
			return nil, reason.Errorf(reason.FactsChanged, "%s was edited since the import", s.Path).
				WithRemedy("Merge it manually with the original, which is in %s; then run `palyra mcp import --finish`.", t.Record)
		}
		open[i] = f
	}
	for i, s := range rec.Files {
		if err := t.Reached.At("putting back " + s.Path); err != nil {
			return nil, err
		}
		if err := s.Restore(open[i]); err != nil {
			return nil, err
		}
		files = append(files, s.Path)
	}
	if err := t.back(ctx, rec.Servers, rec.Secrets); err != nil {
		return nil, err
	}
	return files, t.forget()
}

// Finish deletes the original files from the record, which contain secrets that are now in the
// vault.
func (t *Taker) Finish() error {
	rec, err := t.load()
	if err == nil && rec == nil {
		err = reason.Errorf(reason.NotFound, "no import of MCP servers can be finished")
	}
	if err != nil {
		return err
	}
	return t.forget()
}

// back removes servers and secrets that exist.
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

// recordFormat is the version of record.
const recordFormat = 2

// load returns the record, nil if none exists.
func (t *Taker) load() (*record, error) {
	rec := &record{}
	exists, err := edit.ReadRecord(t.Record, recordFormat, rec)
	if err != nil {
		return nil, reason.Errorf(reason.ConfigInvalid, "the record of the import, %s, cannot be read", t.Record).WithRemedy("Restore it from a backup, or remove it to keep the current configuration.")
	}
	if !exists {
		return nil, nil
	}
	return rec, nil
}

func (t *Taker) save(rec *record) error { return edit.WriteRecord(t.Record, rec) }

func (t *Taker) forget() error { return edit.RemoveFile(t.Record) }

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
