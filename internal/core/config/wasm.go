package config

import "time"

// WASMRuntime bounds WebAssembly guests (Tier A).
type WASMRuntime struct {
	Enabled bool `toml:"enabled"`
	// Worker is the program palyra-wasm; "" is the one beside palyrad.
	Worker string `toml:"worker" path:"true"`
	// AllowInlineModules offers the tool wasm.run, whose calls bring their module along.
	AllowInlineModules bool `toml:"allow_inline_modules"`
	// FuelBudget is what a call may use whose tool states nothing, FuelCeiling the most
	// that a tool may state.
	FuelBudget  int64 `toml:"fuel_budget"`
	FuelCeiling int64 `toml:"fuel_ceiling"`
	// MaxMemoryBytes is the memory of a guest, MaxTableElements the size of a table.
	MaxMemoryBytes   int64 `toml:"max_memory_bytes"`
	MaxTableElements int64 `toml:"max_table_elements"`
	MaxModuleBytes   int64 `toml:"max_module_bytes"`
	// MaxOutputBytes bounds a guest's result, and what it writes to standard error.
	MaxOutputBytes int64 `toml:"max_output_bytes"`
	// TimeLimitMS is the wall clock limit of a guest, in milliseconds.
	TimeLimitMS int64 `toml:"time_limit_ms"`
	// MaxConcurrent is how many guests run at once; calls beyond it wait.
	MaxConcurrent int `toml:"max_concurrent"`
}

// TimeLimit is TimeLimitMS as a duration.
func (w WASMRuntime) TimeLimit() time.Duration { return millis(w.TimeLimitMS) }

// Skills bounds what installed skills may do.
type Skills struct {
	Enabled bool `toml:"enabled"`
	// AllowWildcards lets tools of skills have more than single hosts.
	AllowWildcards bool `toml:"allow_wildcards"`
	// MaxStorageBytes is what one skill may keep for one user; 0 is nothing.
	MaxStorageBytes int64 `toml:"max_storage_bytes"`
}

func (k *checker) skills(s Skills) {
	between(k, "skills.max_storage_bytes", s.MaxStorageBytes, 0, 64*mib)
}

func (k *checker) wasm(w WASMRuntime) {
	between(k, "wasm_runtime.fuel_budget", w.FuelBudget, 1, 1_000_000_000_000)
	between(k, "wasm_runtime.fuel_ceiling", w.FuelCeiling, 1, 1_000_000_000_000)
	between(k, "wasm_runtime.max_memory_bytes", w.MaxMemoryBytes, 64<<10, 4*gib)
	between(k, "wasm_runtime.max_table_elements", w.MaxTableElements, 1, 10_000_000)
	between(k, "wasm_runtime.max_module_bytes", w.MaxModuleBytes, 1024, 16*mib) // what its memory lets a worker compile
	k.storable("wasm_runtime.max_output_bytes", w.MaxOutputBytes, 2)            // the result and the log
	between(k, "wasm_runtime.time_limit_ms", w.TimeLimitMS, 10, hourMS)
	between(k, "wasm_runtime.max_concurrent", w.MaxConcurrent, 1, 256)
	if w.FuelBudget > w.FuelCeiling {
		k.find("wasm_runtime.fuel_budget", "is more than wasm_runtime.fuel_ceiling", "lower the one or raise the other")
	}
}
