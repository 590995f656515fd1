// Package injecting gives secrets to programs as they are: it places their values, has
// what a program writes scrubbed of them, and keeps them out of reports and out of
// workspaces. Tools that run programs share it.
package injecting

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
	"palyra/internal/exec/program/committing"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/workspace/overlay"
)

// Inside has the path of a file in the place of its name.
func Inside(i tool.Injection) tool.Injection {
	if i.File != "" {
		i.File = sandbox.SecretFile(i.File)
	}
	return i
}

// Place adds a secret to those that a program gets, with the path of its file in the
// place of its name, unless something else has its place: another of the list, a variable
// of env, or the placeholder of a secret.
func Place(list []tool.Injection, i tool.Injection, env []string, placeholders []egress.Secret) ([]tool.Injection, *reason.Error) {
	i = Inside(i)
	other := slices.IndexFunc(list, func(o tool.Injection) bool {
		return o.Secret == i.Secret || o.Env != "" && o.Env == i.Env || o.File != "" && o.File == i.File
	})
	if other >= 0 {
		return list, reason.Errorf(reason.InvalidInput, "the secrets %s and %s are one, or would have the same variable or file", list[other].Secret, i.Secret).
			WithRemedy("Name one of them, or have the owner give the other another place with `palyra vault put`.")
	}
	if i.Env != "" {
		placeholder := slices.ContainsFunc(placeholders, func(s egress.Secret) bool { return s.Env == i.Env })
		if err := sandbox.CheckEnv(append(slices.Clone(env), i.Env+"=")); err != nil || placeholder {
			return list, reason.Errorf(reason.InvalidInput, "the secret %s cannot have the variable %s: %w", i.Secret, i.Env, cmp.Or(err, errPlaceholder)).
				WithRemedy("Leave the variable out of env, or have the owner name another: `palyra vault put %s --env NAME`.", i.Secret)
		}
	}
	return append(list, i), nil
}

var errPlaceholder = errors.New("it holds the placeholder of another secret")

// Bound are the variables and files with secrets, as a binding names them.
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

// Given are the secrets of a program. Its zero value has none.
type Given struct {
	secrets []sandbox.Injected
	// values finds them in texts.
	values *secret.Values
}

// Give places the values of secrets, which are in the order of the list. They stay the
// caller's to clear.
func Give(list []tool.Injection, values [][]byte) (Given, error) {
	var given Given
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
		return given, reason.Errorf(reason.InvalidInput, "a secret of the call cannot be told from other text in what the program writes: %w", err).
			WithRemedy("Put a value that has a line of 8 bytes or more: `palyra vault put REF`.")
	}
	return given, nil
}

// Into has the sandbox give the secrets to a program, and scrub what it writes.
func (g Given) Into(s *sandbox.Spec) {
	if s.Injected = g.secrets; g.values != nil {
		s.Scrub = func(r io.Reader) io.Reader { return g.values.Scrub(r) }
	}
}

// Wipe forgets the values. Nothing is scrubbed any more.
func (g Given) Wipe() { g.values.Wipe() }

// Judge refuses changes that hold a secret, in a name or in a file: nobody gave it
// to the workspace, where every later call could read it.
func (g Given) Judge(set overlay.Set) error {
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
				return fmt.Errorf("looking for secrets in %s: %w", overlay.Display(values.Text(c.Path)), err)
			}
		}
		if has {
			found = append(found, values.Text(c.Path))
		}
	}
	if len(found) == 0 {
		return nil
	}
	return reason.Errorf(reason.CommitRefused, "the program wrote a secret of the call to the workspace, so that nothing of what it changed is committed: %s", committing.Displayed(found)).
		WithRemedy("Have the program leave the secret out of files of the workspace, or keep it in /tmp, which ends with the run.")
}
