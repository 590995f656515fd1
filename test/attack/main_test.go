//go:build linux

package attack

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"palyra/internal/core/needs"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox/bubblewrap"
)

// setting holds the paths of the tests and the capabilities of palyrad on this machine.
type setting struct {
	// base is the directory of all other paths; every user can traverse it.
	base string
	// scenes is the directory of the workspaces.
	scenes string
	// probe is the program that attacks; talker attacks over the network.
	probe, talker program
	root          bool
	// whole is true if each wall is tried alone, and rows are also run as an ordinary user: in
	// `make attack` and `make test-all`.
	whole bool
	// groups is true if control groups can be created.
	groups bool
}

// program is a program that scenes run, with its digest.
type program struct {
	name    string
	content []byte
	sha256  string
}

// places is set once, by TestMain.
var places setting

// applies reports whether a row applies to this palyrad and this kernel.
func (s setting) applies(r row) bool {
	return (s.root || !r.root) && (s.groups || !r.groups) && (r.arch == "" || r.arch == runtime.GOARCH) && (r.entry == "" || exists(r.entry))
}

// These variables give the ordinary user's process its working directory and the file for its
// outcomes.
const (
	userBase    = "TEST_PALYRA_ATTACK_BASE"
	userHome    = "TEST_PALYRA_ATTACK_HOME"
	userResults = "TEST_PALYRA_ATTACK_RESULTS"
)

// matrixFile names the variable with a file to which the matrix is also written.
const matrixFile = "TEST_PALYRA_ATTACK_MATRIX"

func TestMain(m *testing.M) {
	if text := os.Getenv(childOrder); text != "" {
		if err := obey(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if text := os.Getenv(flightOrder); text != "" {
		if err := fly(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	flag.Parse()
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "attack:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	asUser := os.Getenv(userBase) != ""
	defer func() {
		os.RemoveAll(places.scenes)
		if !asUser {
			os.RemoveAll(places.base)
		}
	}()
	if err := prepare(asUser); err != nil {
		return 1, err
	}
	if err := ready(); err != nil {
		return 1, err
	}
	if err := setDaemonEnvironment(); err != nil {
		return 1, err
	}
	// Rows spend much of their time waiting for a deadline, or for an answer that must not come.
	if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0)+2)); err != nil {
		return 1, err
	}
	code = m.Run()
	if file := os.Getenv(userResults); asUser && file != "" {
		return code, results.save(file)
	} else if asUser {
		return code, nil
	}
	partial := flag.Lookup("test.run").Value.String() != "" || flag.Lookup("test.skip").Value.String() != "" || flag.Lookup("test.list").Value.String() != ""
	var text bytes.Buffer
	if !results.print(&text, catalogue(), partial) {
		code = max(code, 1)
	}
	fmt.Print(text.String())
	if file := os.Getenv(matrixFile); file != "" && !partial {
		return code, os.WriteFile(file, text.Bytes(), 0o600)
	}
	return code, nil
}

// setDaemonEnvironment sets an environment for this process, which is the daemon. No program
// may inherit it.
func setDaemonEnvironment() error {
	failed := os.Setenv("PATH", os.Getenv("PATH")+":"+command.WorkspaceMount+"/node_modules/.bin")
	for _, name := range steering() {
		value := canary
		if name == "LD_PRELOAD" {
			value = "libc.so.6" // a library that every program loads anyway
		}
		failed = errors.Join(failed, os.Setenv(name, value))
	}
	return failed
}

// prepare creates the directories and builds the probe.
func prepare(asUser bool) (err error) {
	if asUser {
		places.base = os.Getenv(userBase)
	} else if places.base, err = os.MkdirTemp("", "palyra-attack-"); err != nil {
		return err
	}
	below := places.base
	if asUser {
		below = os.Getenv(userHome)
	}
	if !asUser {
		cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", places.base+"/", "palyra/test/attack/probe", "palyra/test/attack/talker")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if text, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("building the attackers: %w\n%s", err, text)
		}
		if err := os.Chmod(places.base, 0o755); err != nil {
			return err
		}
	}
	if places.scenes, err = os.MkdirTemp(below, "scenes-"); err != nil {
		return err
	}
	for name, p := range map[string]*program{"probe": &places.probe, "talker": &places.talker} {
		if err := p.load(name); err != nil {
			return err
		}
	}
	return errors.Join(os.Chmod(places.scenes, 0o755),
		os.Mkdir(filepath.Join(places.scenes, "layers"), 0o700), os.Mkdir(filepath.Join(places.scenes, "quarantine"), 0o700))
}

// load reads a built program and its digest.
func (p *program) load(name string) (err error) {
	p.name = name
	if p.content, err = os.ReadFile(filepath.Join(places.base, name)); err != nil {
		return err
	}
	sum := sha256.Sum256(p.content)
	p.sha256 = "sha256:" + hex.EncodeToString(sum[:])
	return nil
}

// ready fails if no sandbox can be built. Otherwise attacks that were not tried would look as
// if they had failed.
func ready() error {
	r, err := bubblewrap.New(configOf(nil, ""))
	if err != nil {
		return err
	}
	defer r.Close()
	status := r.Probe(context.Background())
	if status.Problem != "" {
		return fmt.Errorf("the attacks need a sandbox to attack: %s. %s (`make attack` builds and installs what the tests need)", status.Problem, status.Remedy)
	}
	places.root, places.groups = os.Geteuid() == 0, status.Limits != "rlimit"
	places.whole = needs.Long(4 * time.Minute)
	return nil
}
