package config

import "time"

// WASMRuntime limits WebAssembly guests (Tier A). Each runs with fuel, in a worker inside of a Tier
// C sandbox (docs/wasm.md).
type WASMRuntime struct {
	// Enabled permits guests to run. Without the worker or Tier C, palyrad works and Tier A is
	// unavailable.
	Enabled bool `toml:"enabled" json:"-"`
	// Worker is the path of the program `palyra-wasm`. `""` is the one in palyrad's directory.
	Worker string `toml:"worker" json:"-" path:"true"`
	// AllowInlineModules offers the tool `wasm.run`, whose calls include their module (256 KiB). It
	// is sensitive: calls need approval unless a policy waives it.
	AllowInlineModules bool `toml:"allow_inline_modules" json:"allow_inline_modules"`
	// FuelBudget is the fuel of a call whose tool does not state it; an instruction uses about 1.
	// Range: 1 to 1000000000000.
	FuelBudget int64 `toml:"fuel_budget" json:"fuel_budget"`
	// FuelCeiling is the most fuel that a tool may state. Range: 1 to 1000000000000.
	FuelCeiling int64 `toml:"fuel_ceiling" json:"fuel_ceiling"`
	// MaxMemoryBytes is the memory of a guest, 64 MiB by default. Range: 64 KiB to 4 GiB.
	MaxMemoryBytes int64 `toml:"max_memory_bytes" json:"max_memory_bytes"`
	// MaxTableElements is the number of elements of each table of a guest. Range: 1 to 10000000.
	MaxTableElements int64 `toml:"max_table_elements" json:"max_table_elements"`
	// MaxModuleBytes is the size of the largest module, 8 MiB by default. Range: 1 KiB to 16 MiB,
	// which is what a worker can compile within its memory of 1 GiB.
	MaxModuleBytes int64 `toml:"max_module_bytes" json:"max_module_bytes"`
	// MaxOutputBytes limits a guest's result and its standard error, 1 MiB each by default. Range:
	// 1 KiB to 5 MiB.
	MaxOutputBytes int64 `toml:"max_output_bytes" json:"max_output_bytes"`
	// TimeLimitMS is the wall clock limit of a guest in milliseconds. It is needed in addition to
	// fuel, because operations on whole memories use little fuel and much time. Range: 10 to
	// 3600000.
	TimeLimitMS int64 `toml:"time_limit_ms" json:"time_limit_ms"`
	// MaxConcurrent limits the guests that run at once; other calls wait. Range: 1 to 256.
	MaxConcurrent int `toml:"max_concurrent" json:"max_concurrent"`
}

// TimeLimit returns TimeLimitMS as a duration.
func (w WASMRuntime) TimeLimit() time.Duration { return millis(w.TimeLimitMS) }

// Skills limits the tools of installed skills. A tool gets what its manifest requests, within these
// keys and those of `http`, and as policy decides (docs/skills.md).
type Skills struct {
	// Enabled permits tools of skills to run. Installed skills stay installed if it is false.
	Enabled bool `toml:"enabled" json:"-"`
	// AllowWildcards permits tools to reach more than single hosts, such as `*.example.org`.
	// Otherwise such a skill cannot be installed, and an installed one reaches none of these hosts.
	AllowWildcards bool `toml:"allow_wildcards" json:"allow_wildcards"`
	// MaxStorageBytes limits the storage of one skill for one user, 16 MiB by default; a manifest
	// can ask for less. Range: 0 (no storage) to 64 MiB.
	MaxStorageBytes int64 `toml:"max_storage_bytes" json:"max_storage_bytes"`
}

func (s Skills) check(k *checker) {
	between(k, "skills.max_storage_bytes", s.MaxStorageBytes, 0, 64*mib)
}

func (w WASMRuntime) check(k *checker) {
	between(k, "wasm_runtime.fuel_budget", w.FuelBudget, 1, 1_000_000_000_000)
	between(k, "wasm_runtime.fuel_ceiling", w.FuelCeiling, 1, 1_000_000_000_000)
	between(k, "wasm_runtime.max_memory_bytes", w.MaxMemoryBytes, 64<<10, 4*gib)
	between(k, "wasm_runtime.max_table_elements", w.MaxTableElements, 1, 10_000_000)
	between(k, "wasm_runtime.max_module_bytes", w.MaxModuleBytes, 1024, 16*mib) // limited by the memory of a compiling worker
	k.storable("wasm_runtime.max_output_bytes", w.MaxOutputBytes, 2)            // the result and the log
	between(k, "wasm_runtime.time_limit_ms", w.TimeLimitMS, 10, hourMS)
	between(k, "wasm_runtime.max_concurrent", w.MaxConcurrent, 1, 256)
	if w.FuelBudget > w.FuelCeiling {
		k.find("wasm_runtime.fuel_budget", "is more than wasm_runtime.fuel_ceiling", "lower the one or raise the other")
	}
}
