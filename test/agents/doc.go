// Package agents runs Claude Code and Codex, as people install them, under the hooks
// that `palyra up` writes, against a model that a test plays. `make agents` does it: it
// installs the pinned versions of the agents, and no network is there but loopback.
// Each row of the table that it prints is one fault with each agent: did the tool run,
// or was it blocked? `make test` leaves it out, for the agents are hundreds of
// megabytes.
package agents
