package spec

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// script is one file of tests, in the form of wast2json.
type script struct {
	name     string
	dir      string
	Commands []command `json:"commands"`
}

// command is one line of a script.
type command struct {
	Type       string  `json:"type"`
	Line       int     `json:"line"`
	Name       string  `json:"name"`
	Filename   string  `json:"filename"`
	ModuleType string  `json:"module_type"`
	Text       string  `json:"text"`
	Action     action  `json:"action"`
	Expected   []value `json:"expected"`
}

type action struct {
	Type   string  `json:"type"`
	Module string  `json:"module"`
	Field  string  `json:"field"`
	Args   []value `json:"args"`
}

// value is an argument or a result: the bits of a number in decimal, a kind of NaN, or a list of
// them for a vector.
type value struct {
	Type string          `json:"type"`
	Lane string          `json:"lane_type"`
	Text json.RawMessage `json:"value"`
}

// word returns a value of one part.
func (v value) word() string {
	var s string
	if json.Unmarshal(v.Text, &s) != nil {
		return ""
	}
	return s
}

// lanes returns the parts of a vector.
func (v value) lanes() []string {
	var list []string
	if json.Unmarshal(v.Text, &list) != nil {
		return nil
	}
	return list
}

// data returns the directory of the tests of a specification version. It is in a module that
// testdata/go.mod and go.sum pin.
func data(version string) (string, error) {
	cmd := exec.Command("go", "mod", "download", "-json", "github.com/tetratelabs/wazero")
	cmd.Dir = "testdata"
	text, err := cmd.Output()
	var module struct{ Dir, Error string }
	if jsonErr := json.Unmarshal(text, &module); jsonErr != nil || module.Dir == "" {
		return "", fmt.Errorf("the tests of the specification cannot be had: %w %s; `go mod download` in test/wasm/spec/testdata fetches them", err, module.Error)
	}
	return filepath.Join(module.Dir, "internal/integration_test/spectest", version, "testdata"), nil
}

// scripts reads all scripts of a version.
func scripts(version string) ([]*script, error) {
	dir, err := data(version)
	if err != nil {
		return nil, err
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	list := make([]*script, 0, len(names))
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		s := &script{name: strings.TrimSuffix(filepath.Base(name), ".json"), dir: dir}
		if err := json.Unmarshal(text, s); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		list = append(list, s)
	}
	return list, nil
}

func (s *script) read(file string) ([]byte, error) { return os.ReadFile(filepath.Join(s.dir, file)) }

// subject is a module and the assertions on its instance, in order.
type subject struct {
	script   *script
	file     string
	line     int
	asserted []command
	// traps is true if its instantiation must fail, and shared if other modules use its instance.
	traps, shared bool
}

// subjects returns the valid modules of a script, each with its assertions.
func (s *script) subjects() []*subject {
	var list []*subject
	var last *subject
	named := map[string]*subject{}
	for _, c := range s.Commands {
		switch c.Type {
		case "module", "assert_uninstantiable":
			m := &subject{script: s, file: c.Filename, line: c.Line, traps: c.Type != "module"}
			list = append(list, m)
			if !m.traps {
				last = m
				named[c.Name] = m
			}
		case "register":
			on := last
			if c.Name != "" {
				on = named[c.Name]
			}
			on.shared = true
		case "assert_return", "assert_trap", "assert_exhaustion", "action":
			on := last
			if c.Action.Module != "" {
				on = named[c.Action.Module]
			}
			if on != nil {
				on.asserted = append(on.asserted, c)
			}
		}
	}
	return list
}
