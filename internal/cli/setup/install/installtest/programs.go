// Package installtest has well-behaved substitutes for agents and for palyra-hook in tests.
package installtest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"palyra/internal/agent/files"
	"palyra/internal/agent/watch"
	"palyra/internal/core/canonical"
)

// Codex acts as Codex: its app-server lists the hooks of its directory with its own hashes, and
// trusts those whose hash is in its configuration. LANG, one of the few variables that it
// receives, selects a misbehaviour: "fake-distrusts" or "fake-ends".
func Codex() {
	mode := strings.TrimPrefix(os.Getenv("LANG"), "fake-")
	if len(os.Args) != 2 || os.Args[1] != "app-server" {
		fmt.Fprintln(os.Stderr, "usage: codex app-server")
		os.Exit(2)
	}
	// Like the real program, it creates files in its directory.
	_ = os.WriteFile(filepath.Join(os.Getenv("CODEX_HOME"), "logs.sqlite"), []byte("log"), 0o600)
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var m struct {
			ID     int
			Method string
		}
		_ = json.Unmarshal(in.Bytes(), &m)
		switch m.Method {
		case "initialize":
			fmt.Println(`{"method":"status/changed","params":{}}`)
			fmt.Printf("{\"id\":%d,\"result\":{}}\n", m.ID)
		case "hooks/list":
			text, _ := json.Marshal(codexHooks(mode))
			fmt.Printf("{\"id\":%d,\"result\":{\"data\":[{\"hooks\":%s,\"errors\":[]}]}}\n", m.ID, text)
		}
		if mode == "ends" {
			return
		}
	}
}

func codexHooks(mode string) []map[string]any {
	home := os.Getenv("CODEX_HOME")
	path := filepath.Join(home, "hooks.json")
	var file struct {
		Hooks map[string][]struct{ Hooks []struct{ Command string } }
	}
	text, _ := os.ReadFile(path)
	_ = json.Unmarshal(text, &file)
	config, _ := os.ReadFile(filepath.Join(home, "config.toml"))
	var list []map[string]any
	for event, groups := range file.Hooks {
		for i, g := range groups {
			for j, h := range g.Hooks {
				key := fmt.Sprintf("%s:%s:%d:%d", path, strings.ToLower(event), i, j)
				hash, trust := canonical.Digest([]byte(h.Command)), "untrusted"
				if has, _ := watch.Lookup(files.TOML, config, []string{"hooks", "state", key, "trusted_hash"}); string(has) == fmt.Sprintf("%q", hash) && mode != "distrusts" {
					trust = "trusted"
				}
				list = append(list, map[string]any{"key": key, "command": h.Command, "sourcePath": path, "enabled": true, "currentHash": hash, "trustStatus": trust})
			}
		}
	}
	return list
}

// Hook is a palyra-hook that denies writes to settings of agents and allows all other calls.
func Hook() {
	text, _ := io.ReadAll(os.Stdin)
	if strings.Contains(string(text), ".claude/settings.json") || strings.Contains(string(text), ".codex/config.toml") {
		fmt.Println(`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"no tool writes settings of agents"}}`)
		os.Exit(2)
	}
}
