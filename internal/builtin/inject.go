package builtin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"slices"
	"strings"

	"palyra/internal/canonical"
	"palyra/internal/committing"
	"palyra/internal/egress"
	"palyra/internal/egress/secret"
	"palyra/internal/reason"
	"palyra/internal/sandbox"
	"palyra/internal/tool"
	"palyra/internal/workspace/overlay"
)

// checkSecrets finds the secrets that the call names, and refuses what would let the
// value of one out of the run without anybody looking.
func (t process) checkSecrets(ctx context.Context, p tool.Proposal, c *command) error {
	if len(c.in.Secrets) == 0 {
		return nil
	}
	switch {
	case t.lender == nil:
		return reason.Errorf(reason.InvalidInput, "this gateway has no secrets for programs").WithField("pointer", "/secrets").WithRemedy("Leave secrets out.")
	case runtime.GOOS != "linux":
		return reason.Errorf(reason.SandboxUnavailable, "programs get no secrets on this platform").
			WithRemedy("Leave secrets out. Secrets with hosts are used by their placeholders.")
	case c.mode == sandbox.Direct:
		return reason.Errorf(reason.InvalidInput, "a program that writes to the workspace itself gets no secrets: nobody could look whether it leaves one there").
			WithField("pointer", "/secrets").WithRemedy("Ask for read_only or dry_run, or use a workspace in which programs work on a copy.")
	}
	for _, name := range c.in.Secrets {
		i, err := t.lender.Injectable(ctx, p, name)
		if err != nil {
			return err
		}
		if i.File != "" && t.tier() != string(sandbox.TierC) {
			return sandbox.NoSecretFiles()
		}
		i = inSandbox(i)
		i.Within = c.limits.Wall.String()
		if err := c.takes(i); err != nil {
			return err
		}
	}
	slices.SortFunc(c.injections, func(a, b tool.Injection) int { return strings.Compare(a.Secret, b.Secret) })
	// What is written to a cache is seen by later programs, and nobody looks at it.
	c.caches = nil
	return nil
}

// inSandbox has the path of a file in the place of its name.
func inSandbox(i tool.Injection) tool.Injection {
	if i.File != "" {
		i.File = sandbox.SecretFile(i.File)
	}
	return i
}

// takes adds an injection, unless something else has its place.
func (c *command) takes(i tool.Injection) error {
	other := slices.IndexFunc(c.injections, func(o tool.Injection) bool {
		return o.Secret == i.Secret || o.Env != "" && o.Env == i.Env || o.File != "" && o.File == i.File
	})
	if other >= 0 {
		return reason.Errorf(reason.InvalidInput, "the secrets %s and %s are one, or would have the same variable or file", c.injections[other].Secret, i.Secret).
			WithField("pointer", "/secrets").WithRemedy("Name one of them, or have the owner give the other another place with `palyra vault put`.")
	}
	if i.Env != "" {
		placeholder := slices.ContainsFunc(c.grant.Secrets, func(s egress.Secret) bool { return s.Env == i.Env })
		if err := sandbox.CheckEnv(append(slices.Clone(c.env), i.Env+"=")); err != nil || placeholder {
			return reason.Errorf(reason.InvalidInput, "the secret %s cannot have the variable %s: %w", i.Secret, i.Env, cmp.Or(err, errPlaceholder)).WithField("pointer", "/secrets").
				WithRemedy("Leave the variable out of env, or have the owner name another: `palyra vault put %s --env NAME`.", i.Secret)
		}
	}
	c.injections = append(c.injections, i)
	return nil
}

var errPlaceholder = errors.New("it holds the placeholder of another secret")

// injected are the variables and files with secrets, as a binding names them.
func (c command) injected() []string {
	var env []string
	for _, i := range c.injections {
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

// injectionNotes are what the person who approves should know of them.
func (c command) injectionNotes() []string {
	var notes []string
	for _, i := range c.injections {
		notes = append(notes, fmt.Sprintf("The program gets the secret vault://%s as it is, which is asked separately. What it writes is scrubbed of it.", i.Secret))
	}
	return notes
}

// injected are the secrets of a run. Its zero value has none.
type injected struct {
	secrets []sandbox.Injected
	// values finds them in texts.
	values *secret.Values
	back   func()
}

// inject leases the secrets that were decided on. end has to be called in any case.
func (t process) inject(ctx context.Context, c tool.Call, cmd command) (injected, error) {
	if len(cmd.injections) == 0 {
		return injected{}, nil
	}
	values, back, err := t.lender.Inject(ctx, c, cmd.injections, cmd.program.Path)
	got := injected{back: back}
	if err != nil {
		return got, err
	}
	var known []secret.Value
	for n, i := range cmd.injections {
		got.secrets = append(got.secrets, sandbox.Injected{Env: i.Env, File: strings.TrimPrefix(i.File, sandbox.SecretFile("")+"/"), Value: values[n]})
		known = append(known, secret.Value{Secret: values[n], Shown: "[secret " + i.Secret + "]"})
	}
	if got.values, err = secret.NewValues(known...); err != nil {
		return got, reason.Errorf(reason.InvalidInput, "a secret of the call cannot be told from other text in what the program writes: %w", err).
			WithRemedy("Put a value that has a line of 8 bytes or more: `palyra vault put REF`.")
	}
	return got, nil
}

func (g injected) scrub() func(io.Reader) io.Reader {
	if g.values == nil {
		return nil
	}
	return g.values.Scrub
}

// end gives the secrets back and forgets them.
func (g injected) end() {
	g.values.Wipe()
	if g.back != nil {
		g.back()
	}
}

// clean takes the secrets out of every text of a report: file names, hosts and
// messages may have them, too.
func (g injected) clean(r tool.Report) tool.Report {
	if g.values == nil {
		return r
	}
	cleanTexts(reflect.ValueOf(&r), g.values.Text)
	if r.Cause != nil {
		r.Cause = errors.New(g.values.Text(r.Cause.Error()))
	}
	var result any
	if err := json.Unmarshal(r.Result, &result); err != nil {
		r.Result = nil
		return r
	}
	text, err := canonical.Marshal(cleaned(result, g.values.Text))
	if err != nil {
		text = nil
	}
	r.Result = text
	return r
}

// cleanTexts cleans all texts in what a pointer leads to.
func cleanTexts(v reflect.Value, clean func(string) string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			cleanTexts(v.Elem(), clean)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				cleanTexts(v.Field(i), clean)
			}
		}
	case reflect.Slice:
		own := reflect.MakeSlice(v.Type(), v.Len(), v.Len()) // what others have stays as it is
		reflect.Copy(own, v)
		if !v.IsNil() {
			v.Set(own)
		}
		for i := range v.Len() {
			cleanTexts(v.Index(i), clean)
		}
	case reflect.String:
		v.SetString(clean(v.String()))
	default: // no text
	}
}

// cleaned is a JSON value without what clean takes out.
func cleaned(v any, clean func(string) string) any {
	switch v := v.(type) {
	case string:
		return clean(v)
	case []any:
		for i := range v {
			v[i] = cleaned(v[i], clean)
		}
	case map[string]any:
		for name := range v {
			v[name] = cleaned(v[name], clean)
		}
	}
	return v
}

// unsecret refuses changes that hold a secret, in a name or in a file: nobody gave it
// to the workspace, where every later call could read it.
func unsecret(set overlay.Set, values *secret.Values) error {
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
