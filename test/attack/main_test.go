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

// setting is where the tests find and put things, and what palyrad can here.
type setting struct {
	// base is passable for every user and holds all else.
	base string
	// scenes is where runs have their workspaces.
	scenes string
	// probe is the program that attacks, talker the one that does so by the
	// network.
	probe, talker program
	root          bool
	// whole is true where each wall is tried alone, and rows as an ordinary user as well:
	// `make attack` and `make test-all`.
	whole bool
	// groups is true where control groups can be made.
	groups bool
}

// program is one that scenes run, with its digest.
type program struct {
	name    string
	content []byte
	sha256  string
}

// places is set once, by TestMain.
var places setting

// applies reports whether a row is an attack on a palyrad of this kind, and on
// this kernel.
func (s setting) applies(r row) bool {
	return (s.root || !r.root) && (s.groups || !r.groups) && (r.arch == "" || r.arch == runtime.GOARCH) && (r.entry == "" || exists(r.entry))
}

// The ordinary user's process is told by its environment where it is to work
// and where to leave its outcomes.
const (
	userBase    = "TEST_PALYRA_ATTACK_BASE"
	userHome    = "TEST_PALYRA_ATTACK_HOME"
	userResults = "TEST_PALYRA_ATTACK_RESULTS"
)

// matrixFile names a file that gets the matrix as well.
const matrixFile = "TEST_PALYRA_ATTACK_MATRIX"

func TestMain(m *testing.M) {
	if text := os.Getenv(childOrder); text != "" {
		if err := obey(text); err != nil {
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
	// Much of the time rows wait, for a deadline or for an answer that must not
	// come.
	if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0)+2)); err != nil {
		return 1, err
	}
	code = m.Run()
	if asUser {
		return code, results.save(os.Getenv(userResults))
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

// setDaemonEnvironment gives this process, which is the daemon, an environment that no program must
// inherit.
func setDaemonEnvironment() error {
	failed := os.Setenv("PATH", os.Getenv("PATH")+":"+command.WorkspaceMount+"/node_modules/.bin")
	for _, name := range steering() {
		value := canary
		if name == "LD_PRELOAD" {
			value = "libc.so.6" // every program has it anyway
		}
		failed = errors.Join(failed, os.Setenv(name, value))
	}
	return failed
}

// prepare makes the directories and builds the probe.
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

// load reads a program that was built.
func (p *program) load(name string) (err error) {
	p.name = name
	if p.content, err = os.ReadFile(filepath.Join(places.base, name)); err != nil {
		return err
	}
	sum := sha256.Sum256(p.content)
	p.sha256 = "sha256:" + hex.EncodeToString(sum[:])
	return nil
}

// ready fails where no sandbox can be built: attacks that were not tried must
// not look as if they had failed.
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
