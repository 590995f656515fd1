// Package envsecret passes secrets to programs as plain values: it places the values, scrubs
// them from the programs' output, and keeps them out of reports and workspaces. Tools that run
// programs share it.
//
// Secrets as files are in the home directory of the sandbox, which exists in every sandbox of Tier
// C and is in memory. A mount for them would make prepared sandboxes specific to a call. A commit
// that contains a value is refused without an approval: the prompt would display the value, and
// later calls and the undo history would keep it.
package envsecret

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/egress/secret"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/program/commitgate"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/workspace/overlay"
)

// Inside replaces the file name of an injection by its path inside the sandbox.
func Inside(i tool.Injection) tool.Injection {
	if i.File != "" {
		i.File = sandbox.SecretFile(i.File)
	}
	return i
}

// Place adds a secret to a program's list, with the path of its file inside the sandbox. It
// fails if another secret of the list, a variable of env, or the placeholder of a secret uses
// the same place.
func Place(list []tool.Injection, i tool.Injection, env []string, placeholders []egress.Secret) ([]tool.Injection, *reason.Error) {
	i = Inside(i)
	other := slices.IndexFunc(list, func(o tool.Injection) bool {
		return o.Secret == i.Secret || o.Env != "" && o.Env == i.Env || o.File != "" && o.File == i.File
	})
	if other >= 0 {
		return list, reason.Errorf(reason.InvalidInput, "the secrets %s and %s are the same, or use the same variable or file", list[other].Secret, i.Secret).
			WithRemedy("Name only one of them, or have the owner change the variable or file of the other with `palyra vault put`.")
	}
	if i.Env != "" {
		placeholder := slices.ContainsFunc(placeholders, func(s egress.Secret) bool { return s.Env == i.Env })
		if err := command.CheckEnv(append(slices.Clone(env), i.Env+"=")); err != nil || placeholder {
			return list, reason.Errorf(reason.InvalidInput, "the secret %s cannot use the variable %s: %w", i.Secret, i.Env, cmp.Or(err, errPlaceholder)).
				WithRemedy("Remove the variable from env, or have the owner choose another: `palyra vault put %s --env NAME`.", i.Secret)
		}
	}
	return append(list, i), nil
}

var errPlaceholder = errors.New("it holds the placeholder of another secret")

// Bound returns the variables and files with secrets, as a binding names them.
func Bound(list []tool.Injection) []string {
	var env []string
	for _, i := range list {
		bound := "injected:" + egress.Secret{Name: i.Secret, Version: i.Version}.Bound()
		for _, place := range []string{i.Env, i.File} {
			if place != "" {
				env = append(env, place+"="+bound)
			}
		}
	}
	slices.Sort(env)
	return env
}

// Secrets holds the secrets of a program. Its zero value has none.
type Secrets struct {
	secrets []sandbox.Injected
	// values finds the secrets in texts.
	values *secret.Values
}

// New places the values of secrets, which are in the order of the list. The caller must clear
// the values.
func New(list []tool.Injection, values [][]byte) (Secrets, error) {
	var given Secrets
	var known []secret.Value
	for n, i := range list {
		given.secrets = append(given.secrets, sandbox.Injected{Env: i.Env, File: strings.TrimPrefix(i.File, sandbox.SecretFile("")+"/"), Value: values[n]})
		known = append(known, secret.Value{Secret: values[n], Shown: "[secret " + i.Secret + "]"})
	}
	if len(known) == 0 {
		return given, nil
	}
	var err error
	if given.values, err = secret.NewValues(known...); err != nil {
		return given, reason.Errorf(reason.InvalidInput, "a secret of the call cannot be recognized in the output of the program: %w", err).
			WithRemedy("Store a value with a line of 8 bytes or more: `palyra vault put REF`.")
	}
	return given, nil
}

// Into adds the secrets to a sandbox specification, which also scrubs the program's output.
func (g Secrets) Into(s *sandbox.Spec) {
	if s.Injected = g.secrets; g.values != nil {
		s.Scrub = func(r io.Reader) io.Reader { return g.values.Scrub(r) }
	}
}

// Wipe clears the values. Output is not scrubbed after that.
func (g Secrets) Wipe() { g.values.Wipe() }

// Judge refuses changes that contain a secret in a name or in a file, because every later call
// could read it in the workspace.
func (g Secrets) Judge(set overlay.Set) error {
	values := g.values
	if values == nil {
		return nil
	}
	var found []string
	for _, c := range set.Changes {
		has := values.Text(c.Path) != c.Path || values.Text(c.Is.Target) != c.Is.Target
		if !has {
			err := set.Look(c, func(r io.Reader) (err error) {
				has, err = values.In(r)
				return err
			})
			if err != nil {
				return fmt.Errorf("searching for secrets in %s: %w", overlay.Display(values.Text(c.Path)), err)
			}
		}
		if has {
			found = append(found, values.Text(c.Path))
		}
	}
	if len(found) == 0 {
		return nil
	}
	return reason.Errorf(reason.CommitRefused, "the program wrote a secret of the call to the workspace, so none of its changes is committed: %s", commitgate.FormatPaths(found)).
		WithRemedy("Change the program so that it does not write the secret to the workspace, or writes it to /tmp, which is removed after the run.")
}
