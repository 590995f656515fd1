package wasm

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/wasm/guest"
	"palyra/internal/exec/wasm/module"
)

// InlineName is the tool whose calls contain their module.
const InlineName = "wasm.run"

// inlineBytes is the maximum size of a module in a call.
const inlineBytes = 256 << 10

// inlineRisk is the risk of unreviewed code that can only compute.
const inlineRisk = 30

// Inline is the tool wasm.run. Its guests have no grants.
type Inline struct {
	Guests guest.Runner
	// Ready returns the reason why no guest can run, nil if guests can run.
	Ready func() error
	// Limits are the limits of a call. A call may request other fuel, up to FuelCeiling.
	Limits      guest.Limits
	FuelCeiling uint64
	// ModuleBytes is the maximum size of a module; modules in calls are also limited to 256 KiB.
	ModuleBytes int64
	Version     string
	// Modules caches the modules of calls.
	Modules *module.Known
}

// inline is the input of a call.
type inline struct {
	Module string         `json:"module"`
	Input  jsontext.Value `json:"input"`
	Fuel   uint64         `json:"fuel"`
}

// Descriptor implements tool.Runnable.
func (Inline) Descriptor() tool.Descriptor {
	return tool.Descriptor{
		Name: InlineName, Title: "Run a WebAssembly module",
		Description: "Run a WebAssembly module that comes with the call: a command of WASI preview 1, which reads its input from standard input and writes its result to standard output, or a module of the palyra ABI. " +
			"It computes and has no files, network, secrets or storage. The clock and the randomness that it sees are not real, so that the same call gives the same result.",
		InputSchema: json.RawMessage(`{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "additionalProperties": false,
  "required": ["module"],
  "properties": {
    "module": {"type": "string", "minLength": 12, "maxLength": 349528, "description": "The module, in base64; at most 256 KiB."},
    "input": {"description": "Any JSON value; the guest reads it as text. Without it the guest reads nothing."},
    "fuel": {"type": "integer", "minimum": 1, "maximum": 1000000000000, "description": "What it may use, about 1 for each instruction; at most wasm_runtime.fuel_ceiling."}
  }
}`),
		Capabilities: []tool.Capability{}, Executor: tool.TierAWasmtime, ReadOnly: true, AlwaysSensitive: true,
	}
}

// Unusable returns the reason why no call can run, nil if calls can run.
func (t Inline) Unusable() error { return t.Ready() }

// Plan implements tool.Runnable.
func (t Inline) Plan(_ context.Context, p tool.Proposal) (tool.Plan, error) {
	_, plan, err := t.prepare(p)
	return plan, err
}

// Prepare implements tool.Runnable.
func (t Inline) Prepare(_ context.Context, p tool.Proposal) (tool.Prepared, error) {
	call, plan, err := t.prepare(p)
	return tool.Prepared{Plan: plan, Run: func(ctx context.Context, c tool.Call) tool.Report { return t.run(ctx, c, call) }}, err
}

func (t Inline) prepare(p tool.Proposal) (guest.Call, tool.Plan, error) {
	if err := t.Ready(); err != nil {
		return guest.Call{}, tool.Plan{}, err
	}
	var in inline
	if err := jsonv2.Unmarshal(p.Input, &in); err != nil {
		return guest.Call{}, tool.Plan{}, reason.Errorf(reason.InvalidInput, "reading input: %w", err)
	}
	text, err := base64.StdEncoding.DecodeString(in.Module)
	if err != nil {
		return guest.Call{}, tool.Plan{}, reason.Errorf(reason.InvalidInput, "module is not in base64: %w", err).
			WithRemedy("Encode the bytes of the module as RFC 4648 section 4 says, with padding and without line breaks.")
	}
	limits := module.DefaultLimits()
	limits.ModuleBytes, limits.MemoryPages, limits.TableElements = int(min(t.ModuleBytes, inlineBytes)), uint64(t.Limits.MemoryBytes)>>16, uint64(t.Limits.TableElements)
	m, digest, err := t.Modules.Check(text, limits)
	if err != nil {
		return guest.Call{}, tool.Plan{}, err
	}
	call := guest.Call{
		Caller: guest.CallerOf(p.Caller), Module: guest.Module{Bytes: text, Digest: digest, Kind: m.Kind},
		Tool: InlineName, Input: in.Input, Limits: t.Limits,
	}
	if in.Fuel > t.FuelCeiling {
		return guest.Call{}, tool.Plan{}, reason.Errorf(reason.InvalidInput, "fuel is %d, but wasm_runtime.fuel_ceiling is %d", in.Fuel, t.FuelCeiling).
			WithRemedy("Ask for less, or have an operator raise wasm_runtime.fuel_ceiling.")
	}
	if in.Fuel > 0 {
		call.Limits.Fuel = in.Fuel
	}
	return call, t.plan(call, m), nil
}

func (t Inline) plan(c guest.Call, m *module.Module) tool.Plan {
	digest := "sha256:" + hex.EncodeToString(c.Module.Digest[:])
	fuel, memory := strconv.FormatUint(c.Limits.Fuel, 10), strconv.FormatInt(c.Limits.MemoryBytes, 10)
	return tool.Plan{
		Binding: tool.Binding{
			SandboxProfile: "WebAssembly guest " + digest + ": fuel " + fuel + ", memory " + memory + " bytes, " + c.Limits.Wall.String(),
			Egress:         []string{egress.Strict.String()},
		},
		Facts: tool.Facts{Risk: inlineRisk, EgressMode: egress.Strict.String(), SandboxTier: string(sandbox.TierA), SandboxLevel: sandbox.LevelStrict},
		Preview: tool.Preview{
			Summary: "Run a WebAssembly module of " + strconv.Itoa(len(c.Module.Bytes)) + " bytes (" + digest + ") with fuel " + fuel + ". It can compute, but has no access to any resource.",
			Notes:   []string{strconv.Itoa(m.Functions+len(m.Imports)) + " functions, " + strconv.Itoa(len(m.Imports)) + " of them imported: " + imported(m) + "."},
		},
		Subject: InlineName + ":" + digest, SubjectCovers: "the same module with any input",
	}
}

func imported(m *module.Module) string {
	var list []string
	for _, i := range m.Imports {
		if !slices.Contains(list, i.Name) {
			list = append(list, i.Name)
		}
	}
	if len(list) == 0 {
		return "none"
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// run executes a call that was permitted.
func (t Inline) run(ctx context.Context, c tool.Call, call guest.Call) tool.Report {
	report := tool.Begin(tool.ExecutorInfo{Name: tool.TierAWasmtime, Version: t.Version, Tier: string(sandbox.TierA)})
	digest, err := c.Plan.Binding.Digest()
	if err != nil {
		return report.Fail(ctx, err)
	}
	call.Seed = sha256.Sum256([]byte(digest))
	ran, err := t.Guests.Run(ctx, call)
	ran.Describe(&report, egress.Strict)
	if err != nil {
		return report.Fail(ctx, guest.WithLog(err, ran.Stderr.Head))
	}
	return report.Succeed(result(ran))
}

// outcome is the result of a call: the guest's result, as JSON if it is valid JSON, and its
// standard error.
type outcome struct {
	Output any    `json:"output"`
	Log    string `json:"log,omitempty"`
	Fuel   int64  `json:"fuel"`
}

func result(ran sandbox.Report) outcome {
	o := outcome{Output: strings.ToValidUTF8(string(ran.Stdout.Head), "\uFFFD"), Log: strings.ToValidUTF8(string(ran.Stderr.Head), "\uFFFD"), Fuel: ran.Usage.Fuel}
	if text, err := canonical.JSON(ran.Stdout.Head); err == nil {
		o.Output = json.RawMessage(text)
	}
	return o
}
