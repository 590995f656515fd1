// Package skill is the format of skills: packages of WASM tools with a manifest, a bill of
// materials, a provenance and their publisher's signature. It reads, signs, verifies and
// audits packages; it runs nothing and trusts nobody.
//
// docs/format/skill.md is the format.
package skill

import (
	"encoding/json"
)

// Format is the version of the format that skill.toml names.
const Format = "palyra-skill/v1"

// What tools get when their manifest says nothing.
const (
	// DefaultFuel is the fuel of one call.
	DefaultFuel = 10_000_000
	// DefaultRisk is the risk that policy sees, of 100.
	DefaultRisk = 50
)

// Manifest is skill.toml. Whatever it asks for is asked for: what is granted is decided
// by configuration and policy.
type Manifest struct {
	// Format is the constant of that name.
	Format string `toml:"format"`
	// ID names the skill: its tools are ID/TOOL.
	ID string `toml:"id"`
	// Name and Description are for people.
	Name        string `toml:"name"`
	Description string `toml:"description"`
	// Version is a semantic version without "v".
	Version string `toml:"version"`
	// Publisher is who signs. The trust store says by which key.
	Publisher string `toml:"publisher"`
	// License is an SPDX expression; Homepage is a URL of https. Both may be "".
	License  string `toml:"license"`
	Homepage string `toml:"homepage"`

	Compatibility Compatibility `toml:"compatibility"`
	Quotas        Quotas        `toml:"quotas"`
	Tools         []Tool        `toml:"tools"`
}

// Compatibility is what the skill was made for.
type Compatibility struct {
	// Interface is the version of the interface of handles, "" for a skill that uses
	// none of it.
	Interface string `toml:"interface"`
	// Palyra is the oldest version of palyrad that runs it, "" for any.
	Palyra string `toml:"palyra"`
}

// Quotas bound each call below what the operator allows. 0 is the operator's.
type Quotas struct {
	// MemoryBytes is the size of the guest's memory.
	MemoryBytes int64 `toml:"memory_bytes"`
	// WallMillis is how long it runs.
	WallMillis int64 `toml:"wall_ms"`
	// OutputBytes is the size of its result.
	OutputBytes int64 `toml:"output_bytes"`
	// Uses is how often it uses grants.
	Uses int64 `toml:"uses"`
}

// Tool is one tool of a skill.
type Tool struct {
	ID          string `toml:"id"`
	Description string `toml:"description"`
	// Module is the entry of the package that the tool is, such as modules/notes.wasm.
	// Several tools may be one module, which sees their ids as its program's name.
	Module string `toml:"module"`
	// Input and Output are JSON Schemas, as text. Without one of the output a result is
	// any JSON object.
	Input  string `toml:"input_schema"`
	Output string `toml:"output_schema"`
	// Fuel is what one call needs at most. 0 is DefaultFuel.
	Fuel uint64 `toml:"fuel"`
	// Risk is from 1 to 100. 0 is DefaultRisk.
	Risk         int          `toml:"risk"`
	Features     Features     `toml:"features"`
	Capabilities Capabilities `toml:"capabilities"`
}

// Features are parts of WebAssembly that are off unless a tool asks.
type Features struct {
	SIMD       bool `toml:"simd"`
	MultiValue bool `toml:"multi_value"`
}

// SecretScope is the scope of the vault whose secrets guests of one skill alone use.
func SecretScope(id string) string { return "skill:" + id }

// Capabilities are what a tool asks for. Each is a grant that its guest opens by name.
type Capabilities struct {
	// HTTP are host rules in the form of http.allowed_hosts.
	HTTP []string `toml:"http"`
	// Secrets are names of secrets of the vault.
	Secrets []Secret `toml:"secrets"`
	// StorageBytes is how much the skill keeps. 0 is no storage.
	StorageBytes int64 `toml:"storage_bytes"`
	// Channels are names of messaging channels.
	Channels []string `toml:"channels"`
	// Clock and Random are the real ones.
	Clock  bool `toml:"clock"`
	Random bool `toml:"random"`
}

// Secret is a secret that a tool asks for.
type Secret struct {
	// Name is SCOPE/KEY, or KEY of the scope global.
	Name string `toml:"name"`
	// Use is how.
	Use Use `toml:"use"`
}

// Use is how a guest uses a secret.
type Use string

// The uses.
const (
	// Placeholder has palyrad put the value into requests: the guest never sees it.
	Placeholder Use = "placeholder"
	// Read gives the guest the value.
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

// FuelOf is what a call of the tool may use.
func (t Tool) FuelOf() uint64 {
	if t.Fuel == 0 {
		return DefaultFuel
	}
	return t.Fuel
}

// InputSchema is the schema of the tool's input.
func (t Tool) InputSchema() json.RawMessage { return json.RawMessage(t.Input) }

// OutputSchema is the schema of the tool's result, nil without one.
func (t Tool) OutputSchema() json.RawMessage {
	if t.Output == "" {
		return nil
	}
	return json.RawMessage(t.Output)
}

// RiskOf is the risk that policy sees.
func (t Tool) RiskOf() int {
	if t.Risk == 0 {
		return DefaultRisk
	}
	return t.Risk
}

// Asks reports whether any capability is asked for.
func (c Capabilities) Asks() bool {
	return len(c.HTTP)+len(c.Secrets)+len(c.Channels) > 0 || c.StorageBytes > 0 || c.Clock || c.Random
}
