// Package agents runs Claude Code and Codex under the hooks that `palyra up` writes. The agents
// are installed as users install them, and a test plays their model. `make agents` installs the
// pinned versions of the agents, and runs the tests without any network except loopback. It
// prints a table with one row for each fault and agent, which shows whether the tool ran or was
// blocked. `make test` omits these tests, because the agents are hundreds of megabytes.
package agents
