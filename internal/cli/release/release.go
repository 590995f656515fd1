// Package release verifies installed programs against the signed list of a release. The list is
// SHA256SUMS.programs, and its signature is what `cosign sign-blob --key` writes.
package release

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"palyra/internal/core/reason"
)

// Suffix ends the name of a signature file; the rest is the name of the list.
const Suffix = ".sig"

// companions are the programs that a package installs next to palyra.
var companions = []string{"palyrad", "palyra-hook", "palyra-wasm"}

// Result is the outcome of one program.
type Result string

// The outcomes. A program that is not installed is no failure.
const (
	Verified     Result = "verified"
	Different    Result = "different"
	NotListed    Result = "not listed"
	NotInstalled Result = "not installed"
	Unreadable   Result = "unreadable"
)

// Program is a program with the outcome of its verification.
type Program struct {
	// Name is without the suffix .exe.
	Name   string
	Path   string
	Result Result
	// Digest is that of the file, Listed is that of the list; both are "sha256:" and hex, or "".
	Digest, Listed string
}

// Report is the outcome of Verify.
type Report struct {
	// List is the path of the list; Digest is its SHA-256 as "sha256:" and hex.
	List   string
	Digest string
	// Key is the SHA-256 of the public key in DER form, as "sha256:" and hex.
	Key string
	// Platform is such as linux_amd64.
	Platform string
	// Programs has the running program first.
	Programs []Program
}

// Running is the program that the caller runs in.
type Running struct {
	// Path is its file, with symbolic links resolved.
	Path string
	// Image is a path that opens the running program, even if the file was replaced.
	Image string
}

// Self returns the running program.
func Self() (Running, error) {
	path, err := os.Executable()
	if err != nil {
		return Running{}, reason.Errorf(reason.VerificationFailed, "finding the running program: %w", err)
	}
	if runtime.GOOS == "linux" {
		return Running{Path: path, Image: "/proc/self/exe"}, nil
	}
	// Homebrew links each program into another directory.
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return Running{}, reason.Errorf(reason.VerificationFailed, "finding the running program: %w", err)
	}
	return Running{Path: path, Image: path}, nil
}

// Verify checks the signature of a list, and then the running program and the programs next to it
// against the list. The list is not parsed before its signature is verified. On an error after the
// signature was verified, the report has the outcome of each program.
func Verify(signatureFile, keyFile string, running Running) (Report, error) {
	listFile, ok := strings.CutSuffix(signatureFile, Suffix)
	if !ok || filepath.Base(signatureFile) == Suffix {
		return Report{}, reason.Errorf(reason.InvalidInput, "the name of the signature file %s does not end with %s", signatureFile, Suffix).
			WithRemedy("Specify the signature, such as SHA256SUMS.programs%s; the list is the file next to it without %[1]s.", Suffix)
	}
	key, err := readKey(keyFile)
	if err != nil {
		return Report{}, err
	}
	text, err := readRegular(listFile, maxList)
	if err != nil {
		return Report{}, reason.Errorf(reason.InvalidInput, "reading the list of programs: %w", err).
			WithRemedy("Put SHA256SUMS.programs and SHA256SUMS.programs%s of the release into one directory.", Suffix)
	}
	report := Report{List: listFile, Digest: digestOf(text), Key: key.fingerprint(), Platform: runtime.GOOS + "_" + runtime.GOARCH}
	if err := key.verify(signatureFile, text); err != nil {
		return Report{}, reason.Errorf(reason.VerificationFailed, "%s (%s): %w", listFile, report.Digest, err).
			WithRemedy("Do not use these programs. Download the list and its signature again, and compare the key over another channel.")
	}
	programs, err := parseList(text)
	if err != nil {
		return Report{}, reason.Errorf(reason.VerificationFailed, "%s (%s): %w", listFile, report.Digest, err).
			WithRemedy("Specify SHA256SUMS.programs%s of the release; other lists do not have the digests of programs.", Suffix)
	}
	report.Programs = append(report.Programs, check(programs, report.Platform, "palyra", running.Path, running.Image))
	for _, name := range companions {
		path := filepath.Join(filepath.Dir(running.Path), executable(name))
		if program := check(programs, report.Platform, name, path, path); program.Result != NotInstalled || program.Listed != "" {
			report.Programs = append(report.Programs, program)
		}
	}
	return report, report.failure()
}

// failure returns an error that names the first program that was not verified.
func (r Report) failure() error {
	for i, p := range r.Programs {
		switch {
		case p.Result == Different:
			return reason.Errorf(reason.VerificationFailed, "%s (%s) is not the %s/%s of the list %s (%s)", p.Path, p.Digest, r.Platform, p.Name, r.List, p.Listed).
				WithRemedy("The file was changed, or the list belongs to another release. Compare it with the list of the release that `palyra version` names, or install that release again.")
		case p.Result == NotListed:
			return reason.Errorf(reason.VerificationFailed, "%s (%s): the list %s has no line for %s/%s", p.Path, p.Digest, r.List, r.Platform, executable(p.Name)).
				WithRemedy("Use SHA256SUMS.programs of the release that `palyra version` names. A program that was built from source is in no list.")
		case p.Result == Unreadable || p.Result == NotInstalled && i == 0:
			return reason.Errorf(reason.VerificationFailed, "%s could not be read, so it is not verified", p.Path).
				WithRemedy("Run the command as a user who can read the file.")
		}
	}
	return nil
}

// check compares one installed program with the list. It reads the file at image.
func check(list map[string]string, platform, name, path, image string) Program {
	p := Program{Name: name, Path: path, Listed: list[platform+"/"+executable(name)]}
	digest, err := digestOfFile(image)
	p.Digest = digest
	_, missing := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && missing != nil: // a link to nothing is not a missing program
		p.Result = NotInstalled
	case err != nil:
		p.Result = Unreadable
	case p.Listed == "":
		p.Result = NotListed
	case p.Listed != digest:
		p.Result = Different
	default:
		p.Result = Verified
	}
	return p
}

// executable returns the file name of a program.
func executable(name string) string {
	if runtime.GOOS == "windows" {
		return name + ".exe"
	}
	return name
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}
