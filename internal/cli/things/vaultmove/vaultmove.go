// Package vaultmove moves the secrets of a configuration file to the vault: the values of [[secrets]]
// and the key files of models. It keeps a record next to the file, so that an interruption loses
// nothing, another run continues, and everything can be undone.
package vaultmove

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/agent/edit"
	"palyra/internal/core/canonical"
	"palyra/internal/core/config"
	"palyra/internal/core/reason"
)

// Vault is the gateway's vault API: each action is subject to policy and journaled.
type Vault interface {
	// Get returns the metadata of a secret; nil if it does not exist.
	Get(ctx context.Context, ref string) (*palyrav1.Secret, error)
	Put(ctx context.Context, req *palyrav1.PutSecretRequest) error
	// Reveal returns the newest value, which the caller must clear.
	Reveal(ctx context.Context, ref string) ([]byte, error)
	Remove(ctx context.Context, ref string) error
}

// Mover moves the secrets of one configuration file. All fields but Reached are
// required.
type Mover struct {
	// Path is the file, which must not be a link.
	Path string
	// Load reads the file as palyrad would.
	Load  func() (*config.Config, error)
	Vault Vault
	// Started is when palyrad began to run.
	Started time.Time
	// Reached is set by tests.
	Reached edit.Steps
}

// Moved is one secret of the configuration and its place in the vault.
type Moved struct {
	Ref string `json:"ref"`
	// From names the tables, such as "secrets.github" and "models.claude".
	From []string `json:"from"`
	// File is the file with the value.
	File string `json:"file"`
	// Model is true for the API key of a model, which is sent nowhere else.
	Model  bool     `json:"model,omitempty"`
	Hosts  []string `json:"hosts,omitempty"`
	Header string   `json:"header,omitempty"`
	Env    string   `json:"env,omitempty"`
	// State describes the result for display.
	State string `json:"-"`
}

// Name returns the name in [[secrets]].
func (m Moved) Name() string { return m.Ref[strings.LastIndex(m.Ref, "/")+1:] }

// Report lists the completed or planned actions.
type Report struct {
	// Copy is the original configuration, Record the record of the import; "" if removed.
	Copy, Record string
	Secrets      []Moved
}

// The states of secrets in reports.
const (
	StateNew     = "to be put"
	StatePut     = "put"
	StateThere   = "there already"
	StateRemoved = "removed from the vault"
	StateKept    = "kept in the vault"
	StateGone    = "not in the vault"
	StateDeleted = "file removed"
)

// scope is the prefix of the references of moved secrets.
const scope = "vault://global/"

// plan returns the secrets to move, and which model refers to which secret.
func plan(c *config.Config) (list []Moved, refs map[int]string, err error) {
	refs = make(map[int]string)
	taken := make(map[string]string)
	add := func(m Moved) error {
		if other, ok := taken[m.Ref]; ok {
			return reason.Errorf(reason.InvalidInput, "%s and %s would both be %s", other, m.From[0], m.Ref).WithRemedy("Give one of them another name.")
		}
		taken[m.Ref] = m.From[0]
		list = append(list, m)
		return nil
	}
	for _, s := range c.Secrets {
		if err := add(Moved{Ref: scope + s.Name, From: []string{"secrets." + s.Name}, File: s.File, Hosts: s.Hosts, Header: s.Header, Env: s.Env}); err != nil {
			return nil, nil, err
		}
	}
	for i, m := range c.Models {
		if m.APIKeyFile == "" {
			continue
		}
		// Models with one key file have one secret.
		at := slices.IndexFunc(list, func(one Moved) bool { return one.Model && one.File == m.APIKeyFile })
		if at < 0 {
			if err := add(Moved{Ref: scope + "model-" + m.Name, From: []string{"models." + m.Name}, File: m.APIKeyFile, Model: true}); err != nil {
				return nil, nil, err
			}
			at = len(list) - 1
		} else {
			list[at].From = append(list[at].From, "models."+m.Name)
		}
		refs[i] = list[at].Ref
	}
	return list, refs, nil
}

// value reads the file of a secret, with palyrad's rules.
func (m Moved) value() ([]byte, error) {
	if m.Model {
		key, err := config.Model{APIKeyFile: m.File}.APIKey()
		return []byte(key), err
	}
	return config.Secret{File: m.File}.Value()
}

func (m *Mover) file() configFile { return configFile{m.Path} }

// Preview returns the actions of Import without changing anything.
func (m *Mover) Preview(ctx context.Context) (Report, error) {
	text, rec, err := m.file().look()
	if err != nil {
		return Report{}, err
	}
	if rec != nil && rec.swapped(text) {
		return m.report(rec.Secrets), nil
	}
	list, _, _, err := m.prepare(ctx, text)
	return Report{Secrets: list}, err
}

// Import puts the secrets into the vault and rewrites the configuration. After an interruption
// another run continues it; after completion another run changes nothing.
func (m *Mover) Import(ctx context.Context) (Report, error) {
	text, rec, err := m.file().look()
	if err != nil {
		return Report{}, err
	}
	if rec != nil && rec.swapped(text) {
		for i := range rec.Secrets {
			rec.Secrets[i].State = StateThere
		}
		return m.report(rec.Secrets), nil
	}
	list, edited, fresh, err := m.prepare(ctx, text)
	if err != nil || len(list) == 0 {
		return Report{Secrets: list}, err
	}
	first := rec == nil
	if first {
		rec = &record{Format: recordFormat, ID: ulid.Make().String()}
	}
	rec.Was, rec.Is, rec.Secrets = canonical.Digest(text), canonical.Digest(edited), list
	if err := m.begin(rec, text, edited); err != nil {
		if first && reason.Of(err) == reason.ConfigInvalid {
			err = errors.Join(err, m.file().forget(m.Reached))
		}
		return Report{}, err
	}
	for _, i := range fresh {
		if err := m.put(ctx, rec, list[i]); err != nil {
			return Report{}, err
		}
		list[i].State = StatePut
	}
	return m.report(list), m.swap(rec.Was)
}

// prepare reads all values and queries the vault, so that conflicts are found before any change.
// fresh are the secrets to put.
func (m *Mover) prepare(ctx context.Context, text []byte) (list []Moved, edited []byte, fresh []int, err error) {
	c, err := m.Load()
	if err != nil {
		return nil, nil, nil, err
	}
	list, refs, err := plan(c)
	if err != nil {
		return nil, nil, nil, err
	}
	if edited, err = config.MoveSecrets(text, refs); err != nil {
		return nil, nil, nil, reason.Errorf(reason.ConfigInvalid, "rewriting %s: %w", m.Path, err).
			WithRemedy("Write each secret and model as a table of its own, [[secrets]] and [[models]], then import again.")
	}
	var wrong []error
	for i := range list {
		there, err := m.compare(ctx, list[i])
		switch {
		case err != nil:
			wrong = append(wrong, err)
		case there:
			list[i].State = StateThere
		default:
			list[i].State, fresh = StateNew, append(fresh, i)
		}
	}
	return list, edited, fresh, together(wrong)
}

// together combines errors into one, with the code and remedy of the first.
func together(list []error) error {
	if len(list) < 2 {
		return errors.Join(list...)
	}
	texts := make([]string, len(list))
	for i, err := range list {
		texts[i] = err.Error()
	}
	out := reason.Errorf(reason.Of(list[0]), "%s", strings.Join(texts, "; "))
	if first := (&reason.Error{}); errors.As(list[0], &first) {
		out.Remedy = first.Remedy
	}
	return out
}

// compare reports whether the vault has a secret with the value and metadata of the
// configuration. A secret of the same name that differs is an error.
func (m *Mover) compare(ctx context.Context, one Moved) (bool, error) {
	value, err := one.value()
	if err != nil {
		return false, err
	}
	defer clear(value)
	there, err := m.Vault.Get(ctx, one.Ref)
	if err != nil || there == nil {
		return false, err
	}
	same, err := m.keeps(ctx, one.Ref, value)
	switch {
	case err != nil:
		return false, err
	case !same:
		return false, other(one, "another value than "+one.File)
	case !one.Model && (!slices.Equal(there.GetHosts(), one.Hosts) || there.GetHeader() != one.Header || there.GetEnv() != one.Env):
		return false, other(one, "other hosts, another header or another variable than "+one.From[0])
	}
	return true, nil
}

// keeps reports whether the newest value of a secret is this one.
func (m *Mover) keeps(ctx context.Context, ref string, value []byte) (bool, error) {
	kept, err := m.Vault.Reveal(ctx, ref)
	defer clear(kept)
	return bytes.Equal(value, kept), err
}

func other(one Moved, has string) error {
	return reason.Errorf(reason.AlreadyExists, "the vault has %s with %s", one.Ref, has).
		WithRemedy("Make them equal, remove the secret (`palyra vault rm %s`), or give %s another name.", one.Ref, one.From[0])
}

// begin writes the record, the new configuration next to the old one, and a copy of the old one. If
// one of these fails, nothing else is changed.
func (m *Mover) begin(rec *record, text, edited []byte) error {
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"recorded", func() error { return m.file().writeRecord(rec) }},
		{"written", func() error { return m.file().make(edited) }},
		{"copied", func() error { return m.file().writeCopy(text) }},
	} {
		if err := step.do(); err != nil {
			return m.file().cannotWrite(err)
		}
		if err := m.Reached.At(step.name); err != nil {
			return err
		}
	}
	return nil
}

// put puts a secret, with a note that identifies it as part of this import.
func (m *Mover) put(ctx context.Context, rec *record, one Moved) error {
	value, err := one.value()
	if err != nil {
		return err
	}
	defer clear(value)
	note := rec.note()
	req := &palyrav1.PutSecretRequest{Ref: one.Ref, Value: value, Note: &note}
	if !one.Model {
		req.Hosts, req.Header, req.Env = &palyrav1.HostList{Hosts: one.Hosts}, &one.Header, &one.Env
	}
	if err := m.Vault.Put(ctx, req); err != nil {
		return err
	}
	return m.Reached.At("put " + one.Name())
}

// swap replaces the configuration, whose digest must be was, with the new one.
func (m *Mover) swap(was string) error {
	now, err := m.file().read()
	if err != nil {
		return err
	}
	if canonical.Digest(now) != was {
		return reason.Errorf(reason.FactsChanged, "%s was edited meanwhile", m.Path).WithRemedy("Run the command again when the file is not being edited.")
	}
	if err := m.file().replace(); err != nil {
		return err
	}
	return m.Reached.At("swapped")
}

// Undo restores the original configuration, and removes unchanged secrets of the import from the
// vault.
func (m *Mover) Undo(ctx context.Context) (Report, error) {
	text, rec, err := m.file().look()
	if err != nil {
		return Report{}, err
	}
	if rec == nil {
		return Report{}, m.file().noImport()
	}
	for _, one := range rec.Secrets {
		value, err := one.value()
		clear(value)
		if err != nil {
			return Report{}, err
		}
	}
	if rec.swapped(text) {
		before, err := m.file().readCopy(rec)
		if err != nil {
			return Report{}, err
		}
		if err := m.file().make(before); err != nil {
			return Report{}, m.file().cannotWrite(err)
		}
		if err := m.Reached.At("written"); err != nil {
			return Report{}, err
		}
		if err := m.swap(rec.Is); err != nil {
			return Report{}, err
		}
	}
	for i := range rec.Secrets {
		if rec.Secrets[i].State, err = m.takeBack(ctx, rec, rec.Secrets[i]); err != nil {
			return Report{}, err
		}
	}
	return Report{Secrets: rec.Secrets}, m.file().forget(m.Reached)
}

// takeBack removes a secret that is unchanged since the import.
func (m *Mover) takeBack(ctx context.Context, rec *record, one Moved) (state string, err error) {
	there, err := m.Vault.Get(ctx, one.Ref)
	switch {
	case err != nil:
		return "", err
	case there == nil:
		return StateGone, nil
	case there.GetNote() != rec.note() || there.GetVersion() != 1 || !there.GetUpdatedAt().AsTime().Equal(there.GetCreatedAt().AsTime()):
		return StateKept, nil
	}
	if err := m.Vault.Remove(ctx, one.Ref); err != nil {
		return "", err
	}
	return StateRemoved, m.Reached.At("removed " + one.Name())
}

// Finish deletes the files after verifying that the vault has their contents and that nothing
// refers to them any more. Afterwards nothing can be undone.
func (m *Mover) Finish(ctx context.Context) (Report, error) {
	rec, err := m.file().readRecord()
	if err != nil {
		return Report{}, err
	}
	if rec == nil {
		return Report{}, m.file().noImport()
	}
	if !rec.Finishing {
		if err := m.mayFinish(ctx, rec); err != nil {
			return Report{}, err
		}
		rec.Finishing = true
		if err := m.file().writeRecord(rec); err != nil {
			return Report{}, err
		}
		if err := m.Reached.At("finishing"); err != nil {
			return Report{}, err
		}
	}
	for i, one := range rec.Secrets {
		if err := edit.RemoveFile(one.File); err != nil {
			return Report{}, err
		}
		rec.Secrets[i].State = StateDeleted
		if err := m.Reached.At("deleted " + one.Name()); err != nil {
			return Report{}, err
		}
	}
	return Report{Secrets: rec.Secrets}, m.file().forget(m.Reached)
}

// mayFinish returns why the files must not be deleted.
func (m *Mover) mayFinish(ctx context.Context, rec *record) error {
	c, err := m.Load()
	if err != nil {
		return err
	}
	for _, one := range rec.Secrets {
		if by := uses(c, one.File); by != "" {
			return reason.Errorf(reason.ConfigInvalid, "%s still names %s in %s", m.Path, one.File, by).
				WithRemedy("Complete `palyra vault import` first, or remove it from the configuration.")
		}
	}
	info, err := os.Stat(m.Path)
	if err != nil {
		return err
	}
	if m.Started.Before(info.ModTime()) {
		return reason.Errorf(reason.ConfigInvalid, "palyrad runs since %s, and the configuration is of %s: it may still read the files", moment(m.Started), moment(info.ModTime())).
			WithRemedy("Restart palyrad, check that everything works, and run this again.")
	}
	var wrong []error
	for _, one := range rec.Secrets {
		if err := m.mayDelete(ctx, one); err != nil {
			wrong = append(wrong, err)
		}
	}
	return together(wrong)
}

// mayDelete verifies that the vault has the content of a file.
func (m *Mover) mayDelete(ctx context.Context, one Moved) error {
	value, err := one.value()
	if err != nil {
		return err
	}
	defer clear(value)
	there, err := m.Vault.Get(ctx, one.Ref)
	if err != nil {
		return err
	}
	if there == nil {
		return reason.Errorf(reason.NotFound, "the vault has no %s", one.Ref).
			WithRemedy("Undo the import with `palyra vault import --undo`, and import again.")
	}
	same, err := m.keeps(ctx, one.Ref, value)
	if err == nil && !same {
		return reason.Errorf(reason.FactsChanged, "%s has another value than %s", one.Ref, one.File).
			WithRemedy("If the vault has the right value, write the same value to %s, and run this again.", one.File)
	}
	return err
}

func moment(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// uses returns the configuration key that refers to a file; "" for none.
func uses(c *config.Config, file string) string {
	for _, s := range c.Secrets {
		if s.File == file {
			return "secrets." + s.Name
		}
	}
	for _, model := range c.Models {
		if model.APIKeyFile == file {
			return "models." + model.Name
		}
	}
	switch file {
	case c.OIDC.ClientSecretFile:
		return "oidc.client_secret_file"
	case c.Vault.PassphraseFile:
		return "vault.passphrase_file"
	}
	return ""
}

func (m *Mover) report(list []Moved) Report {
	return Report{Copy: m.file().copyPath(), Record: m.file().recordPath(), Secrets: list}
}
