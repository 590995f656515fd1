package config

import (
	"runtime"
	"time"

	"palyra/internal/core/access"
)

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
)

// Default returns the configuration without a file, variables or flags. It lacks the paths that
// depend on the machine, which Load sets.
func Default() *Config {
	return &Config{
		Keys:    KeyStore{Store: KeysInFiles, TPMDevice: "/dev/tpmrm0"},
		Vault:   Vault{Backend: "auto"},
		Listen:  Listen{API: "127.0.0.1:7443", Metrics: "127.0.0.1:7144", Console: "127.0.0.1:7145", SocketOperator: true, MaxConnections: 1024, MaxConnectionsPerAddress: 128},
		Console: Console{Idle: 2 * time.Hour, Session: 12 * time.Hour},
		Log:     Log{Level: "info", Format: "text"},
		Roles:   []access.Role{"security"},

		DualControl:        true,
		AllowedTools:       []string{"*"},
		AllowedPrincipals:  []string{"*"},
		MaxCallsPerRun:     200,
		MaxCallsPerSession: 1000,
		ExecutionTimeoutMS: 120_000,
		StopTimeout:        10 * time.Second,

		ProcessRunner: ProcessRunner{
			Enabled:               true,
			Tier:                  defaultTier(runtime.GOOS),
			Fallback:              FallbackNone,
			EgressEnforcementMode: EgressStrict,
			EgressBudget: EgressBudget{
				Connections: 10_000, Concurrent: 128, BytesOut: 64 * mib, BytesIn: 4 * gib, Requests: 100_000, ConnectionTimeMS: hourMS,
			},
			CPUTimeLimitMS:   60_000,
			MemoryLimitBytes: 2 * gib,
			MaxOutputBytes:   mib,
			MaxProcesses:     1024,
			MaxWaiting:       1024,
			DiskLimitBytes:   gib,
			MaxFiles:         200_000,
			TmpLimitBytes:    256 * mib,
			CacheLimitBytes:  4 * gib,
			Prepared:         2,
		},
		HTTP: HTTP{MaxBytes: 4 * mib, TimeoutMS: 30_000},
		WASM: WASMRuntime{
			Enabled: true, FuelBudget: 10_000_000, FuelCeiling: 1_000_000_000, MaxMemoryBytes: 64 * mib, MaxTableElements: 100_000,
			MaxModuleBytes: 8 * mib, MaxOutputBytes: mib, TimeLimitMS: 30_000, MaxConcurrent: 16,
		},
		Skills: Skills{Enabled: true, MaxStorageBytes: 16 * mib},
		Approvals: Approvals{
			DefaultTimeout:            10 * time.Minute,
			MaxPendingPerRun:          50,
			MaxPendingPerPrincipal:    200,
			MaxCreatedPerMinutePerRun: 20, MaxCreatedPerMinutePerPrincipal: 60,
			Cooldown: time.Minute,
		},
		Runs: Runs{
			MaxTokens:             2_000_000,
			MaxDuration:           2 * time.Hour,
			MaxActivePerPrincipal: 64,
			ParallelCalls:         8,
			AbandonedAfter:        30 * time.Minute,
		},
		Sessions: Sessions{Idle: 30 * time.Minute},
		RateLimits: RateLimits{
			Read:         RateLimit{PerSecond: 100, Burst: 200},
			Mutate:       RateLimit{PerSecond: 20, Burst: 40},
			Decide:       RateLimit{PerSecond: 10, Burst: 30},
			ToolCall:     RateLimit{PerSecond: 50, Burst: 100},
			Run:          RateLimit{PerSecond: 10, Burst: 50},
			Secret:       RateLimit{PerSecond: 10, Burst: 50},
			Pairing:      RateLimit{PerSecond: 1, Burst: 20},
			Login:        RateLimit{PerSecond: 1, Burst: 30},
			GlobalFactor: 20,
		},
		OIDC: OIDC{
			Scopes: []string{"openid", "profile"}, UsernameClaim: "preferred_username", GroupsClaim: "groups", Algorithms: []string{"RS256", "ES256"},
			Session: 12 * time.Hour,
		},
		Quotas: Quotas{
			BytesPerSecond: 8 * mib, BurstBytes: 256 * mib, DayBytes: 4 * gib, InFlightBytes: 64 * mib, InFlightTotalBytes: 512 * mib,
		},
		Storage: Storage{ReserveBytes: 64 * mib},
		Results: Results{Retention: 90 * 24 * time.Hour},
		Client:  Client{Address: "127.0.0.1:7443", Notify: true},
	}
}

// defaultTier returns Tier C where it is available. Windows has only job objects, which isolate
// neither files nor the network.
func defaultTier(system string) string {
	if system == "windows" {
		return TierB
	}
	return TierC
}
