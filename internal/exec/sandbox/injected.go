package sandbox

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"palyra/internal/core/reason"
)

// SecretDir is where the secrets are inside that a program gets as files. It is in
// memory like the rest of Home, and ends with the run.
const SecretDir = Home + "/.secrets"

// SecretFile is the path inside of a secret that is a file.
func SecretFile(name string) string { return path.Join(SecretDir, name) }

// Injected is a secret that a program gets as it is.
type Injected struct {
	// Env is the variable with the value, or with the path of the file if there is one.
	Env string
	// File is the name of the file in SecretDir that holds the value, "" for none.
	File  string
	Value []byte
}

// Format keeps the value out of whatever prints a Spec.
func (i Injected) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "{secret in variable %q, file %q}", i.Env, i.File)
}

// Pairs are the variables of a run with what is injected, as name=value.
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

// HasSecretFiles reports whether the program gets secrets as files.
func (s Spec) HasSecretFiles() bool {
	return slices.ContainsFunc(s.Injected, func(i Injected) bool { return i.File != "" })
}

// NoSecretFiles is the error of a sandbox that has no memory to put secrets in.
func NoSecretFiles() error {
	return reason.Errorf(reason.SandboxUnavailable, "a secret that is a file needs a sandbox of Tier C, which keeps it in memory; here it would lie on the machine's disk").
		WithRemedy("Give the program the secret in a variable (`palyra vault put REF --env NAME --as-file ''`), or see with `palyrad doctor` what Tier C lacks.")
}

// NoInjection is the error of a sandbox that injects no secrets.
func NoInjection(s Spec) error {
	if len(s.Injected) == 0 {
		return nil
	}
	return reason.Errorf(reason.SandboxUnavailable, "programs get no secrets on this platform").
		WithRemedy("Give the secret hosts, and programs use it by a placeholder: `palyra vault put REF --host HOST:PORT`.")
}

// CheckInjected refuses what cannot be injected. What a program writes that has a
// secret has to be scrubbed.
func CheckInjected(s Spec) error {
	if len(s.Injected) > 0 && s.Scrub == nil {
		return reason.Errorf(reason.InvalidInput, "a program that gets a secret has to have its output scrubbed")
	}
	files := map[string]bool{}
	for _, i := range s.Injected {
		switch {
		case i.Env == "" && i.File == "":
			return reason.Errorf(reason.InvalidInput, "a secret has neither a variable nor a file")
		case i.File != "" && (i.File == "." || i.File == ".." || strings.ContainsAny(i.File, "/\x00")):
			return reason.Errorf(reason.InvalidInput, "%q is not the name of a file for a secret", shorten(i.File))
		case i.File != "" && files[i.File]:
			return reason.Errorf(reason.InvalidInput, "two secrets would be the file %s", i.File)
		}
		files[i.File] = true
	}
	return CheckEnv(s.Pairs())
}
