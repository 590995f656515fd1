// Package skill implements the format of skills: packages of WASM tools with a manifest, a bill
// of materials, a provenance and their publisher's signature. It reads, signs, verifies and
// audits packages. It runs no code and makes no trust decision.
//
// docs/format/skill.md defines the format.
package skill

import (
	"encoding/json"
)

// Format is the version of the format that skill.toml names.
const Format = "palyra-skill/v1"

// Defaults for tools.
const (
	// DefaultFuel is the fuel of one call.
	DefaultFuel = 10_000_000
	// DefaultRisk is the risk for policies, on a scale from 1 to 100.
	DefaultRisk = 50
)

// Manifest is skill.toml. It only requests resources; configuration and policy decide about
// each request.
type Manifest struct {
	// Format must be the constant of that name.
	Format string `toml:"format"`
	// ID names the skill: its tools are ID/TOOL.
	ID string `toml:"id"`
	// Name and Description are for display.
	Name        string `toml:"name"`
	Description string `toml:"description"`
	// Version is a semantic version without "v".
	Version string `toml:"version"`
	// Publisher names the signer. The trust store has its key.
	Publisher string `toml:"publisher"`
	// License is an SPDX expression; Homepage is an https URL. Both may be "".
	License  string `toml:"license"`
	Homepage string `toml:"homepage"`

	Compatibility Compatibility `toml:"compatibility"`
	Quotas        Quotas        `toml:"quotas"`
	Tools         []Tool        `toml:"tools"`
}

// Compatibility lists the interfaces and versions that the skill requires.
type Compatibility struct {
	// Interface is the version of the handle interface, "" for a skill that does not use it.
	Interface string `toml:"interface"`
	// Palyra is the oldest supported version of palyrad, "" for any.
	Palyra string `toml:"palyra"`
}

// Quotas limit each call further than the operator's limits. 0 selects the operator's limit.
type Quotas struct {
	// MemoryBytes is the maximum size of the guest's memory.
	MemoryBytes int64 `toml:"memory_bytes"`
	// WallMillis is the maximum duration.
	WallMillis int64 `toml:"wall_ms"`
	// OutputBytes is the maximum size of the result.
	OutputBytes int64 `toml:"output_bytes"`
	// Uses is the maximum number of uses of grants.
	Uses int64 `toml:"uses"`
}

// Tool is one tool of a skill.
type Tool struct {
	ID          string `toml:"id"`
	Description string `toml:"description"`
	// Module is the package entry with the tool's code, such as modules/notes.wasm. Several tools
	// may share a module, which receives the tool id as its program name.
	Module string `toml:"module"`
	// Input and Output are JSON Schemas, as text. Without an output schema a result is any JSON
	// object.
	Input  string `toml:"input_schema"`
	Output string `toml:"output_schema"`
	// Fuel is the maximum fuel of one call. 0 selects DefaultFuel.
	Fuel uint64 `toml:"fuel"`
	// Risk is from 1 to 100. 0 selects DefaultRisk.
	Risk         int          `toml:"risk"`
	Features     Features     `toml:"features"`
	Capabilities Capabilities `toml:"capabilities"`
}

// Features are parts of WebAssembly that are disabled unless a tool requests them.
type Features struct {
	SIMD       bool `toml:"simd"`
	MultiValue bool `toml:"multi_value"`
}

// SecretScope returns the vault scope of secrets that only the guests of one skill may use.
func SecretScope(id string) string { return "skill:" + id }

// Capabilities are the requests of a tool. Each is a grant that its guest opens by name.
type Capabilities struct {
	// HTTP are host rules in the form of http.allowed_hosts.
	HTTP []string `toml:"http"`
	// Secrets are names of secrets of the vault.
	Secrets []Secret `toml:"secrets"`
	// StorageBytes is the size of the skill's storage. 0 requests no storage.
	StorageBytes int64 `toml:"storage_bytes"`
	// Channels are names of messaging channels.
	Channels []string `toml:"channels"`
	// Clock and Random request the real clock and randomness.
	Clock  bool `toml:"clock"`
	Random bool `toml:"random"`
}

// Secret is a secret that a tool requests.
type Secret struct {
	// Name is SCOPE/KEY, or KEY for the scope global.
	Name string `toml:"name"`
	// Use is the way of using it.
	Use Use `toml:"use"`
}

// Use is the way a guest uses a secret.
type Use string

// The uses.
const (
	// Placeholder makes palyrad insert the value into requests: the guest never receives it.
	Placeholder Use = "placeholder"
	// Read passes the value to the guest.
	Read Use = "read"
)

// Tool returns the tool with an id.
func (m *Manifest) Tool(id string) (Tool, bool) {
	for _, t := range m.Tools {
		if t.ID == id {
			return t, true
		}
	}
	return Tool{}, false
}

// FuelOf returns the maximum fuel of a call of the tool.
func (t Tool) FuelOf() uint64 {
	if t.Fuel == 0 {
		return DefaultFuel
	}
	return t.Fuel
}

// InputSchema returns the schema of the tool's input.
func (t Tool) InputSchema() json.RawMessage { return json.RawMessage(t.Input) }

// OutputSchema returns the schema of the tool's result, nil if it has no schema.
func (t Tool) OutputSchema() json.RawMessage {
	if t.Output == "" {
		return nil
	}
	return json.RawMessage(t.Output)
}

// RiskOf returns the risk for policies.
func (t Tool) RiskOf() int {
	if t.Risk == 0 {
		return DefaultRisk
	}
	return t.Risk
}

// Asks reports whether any capability is requested.
func (c Capabilities) Asks() bool {
	return len(c.HTTP)+len(c.Secrets)+len(c.Channels) > 0 || c.StorageBytes > 0 || c.Clock || c.Random
}
