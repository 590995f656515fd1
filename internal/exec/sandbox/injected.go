package sandbox

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/exec/program/command"
)

// SecretDir is the directory of secret files inside the sandbox. Like the rest of Home it is in
// memory and removed after the run.
const SecretDir = command.Home + "/.secrets"

// SecretFile returns the path of a secret file inside the sandbox.
func SecretFile(name string) string { return path.Join(SecretDir, name) }

// Injected is a secret that a program receives as a plain value.
type Injected struct {
	// Env is the variable with the value, or with the path of the file if File is set.
	Env string
	// File is the name of the file in SecretDir with the value, "" for none.
	File  string
	Value []byte
}

// Format prevents the value from being disclosed when a Spec is printed.
func (i Injected) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "{secret in variable %q, file %q}", i.Env, i.File)
}

// Pairs returns the variables of a run including the injected ones, as name=value.
func (s Spec) Pairs() []string {
	pairs := slices.Clone(s.Env)
	for _, i := range s.Injected {
		switch {
		case i.Env == "":
		case i.File != "":
			pairs = append(pairs, i.Env+"="+SecretFile(i.File))
		default:
			pairs = append(pairs, i.Env+"="+string(i.Value))
		}
	}
	return pairs
}

// HasSecretFiles reports whether the program receives secrets as files.
func (s Spec) HasSecretFiles() bool {
	return slices.ContainsFunc(s.Injected, func(i Injected) bool { return i.File != "" })
}

// NoSecretFiles returns the error of a sandbox that cannot keep secret files in memory.
func NoSecretFiles() error {
	return reason.Errorf(reason.SandboxUnavailable, "a secret in a file requires a sandbox of Tier C, which keeps it in memory; here it would be written to the machine's disk").
		WithRemedy("Give the program the secret in a variable (`palyra vault put REF --env NAME --as-file ''`), or see with `palyrad doctor` what Tier C lacks.")
}

// NoInjection returns the error of a sandbox that does not support injected secrets, if s has
// any.
func NoInjection(s Spec) error {
	if len(s.Injected) == 0 {
		return nil
	}
	return reason.Errorf(reason.SandboxUnavailable, "programs cannot receive secrets on this platform").
		WithRemedy("Add hosts to the secret, so that programs use it by a placeholder: `palyra vault put REF --host HOST:PORT`.")
}

// CheckInjected refuses invalid injections. The output of a program with a secret must be
// scrubbed.
func CheckInjected(s Spec) error {
	if len(s.Injected) > 0 && s.Scrub == nil {
		return reason.Errorf(reason.InvalidInput, "the output of a program with a secret must be scrubbed")
	}
	files := map[string]bool{}
	for _, i := range s.Injected {
		switch {
		case i.Env == "" && i.File == "":
			return reason.Errorf(reason.InvalidInput, "a secret has neither a variable nor a file")
		case i.File != "" && (i.File == "." || i.File == ".." || strings.ContainsAny(i.File, "/\x00")):
			return reason.Errorf(reason.InvalidInput, "%q is not a valid file name for a secret", text.Ellipsis(i.File, 64))
		case i.File != "" && files[i.File]:
			return reason.Errorf(reason.InvalidInput, "two secrets use the file %s", i.File)
		}
		files[i.File] = true
	}
	return command.CheckEnv(s.Pairs())
}
