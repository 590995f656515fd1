package archtest

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/must"
)

// rules are all checks, with a tree for each way to break one.
var rules = []struct {
	name  string
	check func(*Tree) []Finding
	// broken trees must give a finding that contains the key; "fine" trees
	// must give none.
	broken map[string]map[string]string
	fine   []map[string]string
}{
	{
		name:  "every package has a room",
		check: CheckRooms,
		broken: map[string]map[string]string{
			"add it to archtest.Rooms": {"internal/teapot/a.go": "package teapot"},
			"pkg/x: ":                  {"pkg/x/a.go": "package x"},
		},
		fine: []map[string]string{
			{"internal/call/policy/a.go": "package policy", "internal/call/policy/cedarschema/a.go": "package cedarschema"},
			{"internal/cli/a.go": "package cli", "internal/cli/runs/a.go": "package runs", "internal/cli/clitest/a.go": "package clitest"},
		},
	},
	{
		name:  "imports go one way",
		check: CheckDirections,
		broken: map[string]map[string]string{
			"in a higher layer":                   {"internal/exec/builtin/a.go": `package builtin; import _ "palyra/internal/run"`},
			"in the same layer":                   {"internal/exec/upstream/a.go": `package upstream; import _ "palyra/internal/call"`},
			"in the Never list":                   {"internal/call/dispatch/a.go": `package dispatch; import _ "palyra/internal/call/approval"`},
			"api: imports":                        {"internal/surface/api/a.go": `package api; import _ "palyra/internal/surface/hook"`},
			"not in the Only list":                {"internal/core/reason/a.go": `package reason; import _ "palyra/internal/core/event"`},
			"cmd/palyrad: ":                       {"cmd/palyrad/main.go": `package main; import _ "palyra/internal/call/policy"`},
			"not in a room":                       {"internal/surface/api/a.go": `package api; import _ "palyra/internal/teapot"`},
			"wire format":                         {"internal/call/a.go": `package call; import _ "palyra/gen/palyra/v1"`},
			"only tests may":                      {"internal/gateway/a.go": `package gateway; import _ "palyra/internal/call/approval/approvaltest"`},
			"internal/core/must, which only":      {"internal/call/policy/a.go": `package policy; import _ "palyra/internal/core/must"`},
			"internal/gateway/gatewaytest, which": {"internal/gateway/a.go": `package gateway; import _ "palyra/internal/gateway/gatewaytest"`},
			"attest: imports internal/":           {"internal/evidence/attest/a.go": `package attest; import _ "palyra/internal/evidence/journal"`},
			"a leaf":                              {"internal/core/limit/a.go": `package limit; import _ "palyra/internal/core/reason"`},
			// Families of commands import neither each other nor each other's subpackages.
			"internal/cli/calls, which is in the Never list": {"internal/cli/runs/a.go": `package runs; import _ "palyra/internal/cli/calls"`},
			"internal/cli/runs, which is in the Never list":  {"internal/cli/calls/ask/a.go": `package ask; import _ "palyra/internal/cli/runs"`},
			"ask: imports":                                     {"internal/cli/calls/ask/a.go": `package ask; import _ "palyra/internal/cli/calls"`},
			"cli/client: imports":                              {"internal/cli/client/a.go": `package client; import _ "palyra/internal/cli/people"`},
			"cli/printer: imports":                             {"internal/cli/printer/a.go": `package printer; import _ "palyra/internal/cli/client"`},
			"cli/command: imports":                             {"internal/cli/command/a.go": `package command; import _ "palyra/internal/cli/printer"`},
			"cli/policy: imports internal/cli/runs,":           {"internal/cli/policy/a.go": `package policy; import _ "palyra/internal/cli/runs"`},
			"policy: imports internal/call/policy/explain":     {"internal/call/policy/a.go": `package policy; import _ "palyra/internal/call/policy/explain"`},
			"expr: imports internal/call/policy/lint":          {"internal/call/policy/internal/expr/a.go": `package expr; import _ "palyra/internal/call/policy/lint"`},
			"policy: imports internal/call/policy/policytests": {"internal/call/policy/a.go": `package policy; import _ "palyra/internal/call/policy/policytests"`},
			"policy: imports internal/call/policy/profile":     {"internal/call/policy/a.go": `package policy; import _ "palyra/internal/call/policy/profile"`},
			"explain: imports internal/call/policy/lint":       {"internal/call/policy/explain/a.go": `package explain; import _ "palyra/internal/call/policy/lint"`},
			// A file of another platform is also checked.
			"journal: imports": {"internal/evidence/journal/a_windows.go": "//go:build windows\n\npackage journal\n\nimport _ \"palyra/internal/store/sqlite\""},
		},
		fine: []map[string]string{
			{"internal/call/a.go": `package call; import (_ "palyra/internal/call/decision"; _ "palyra/internal/core/reason")`},
			{"internal/exec/builtin/a.go": `package builtin; import _ "palyra/internal/exec/sandbox"`},
			{"internal/cli/a.go": `package cli; import (_ "palyra/internal/cli/calls"; _ "palyra/internal/cli/runs")`},
			{"internal/cli/runs/a.go": `package runs; import (_ "palyra/internal/cli/calls/ask"; _ "palyra/internal/cli/client"; _ "palyra/internal/cli/printer")`},
			{"internal/call/policy/a.go": `package policy; import _ "palyra/internal/call/policy/cedarschema"`},
			{"internal/call/policy/a_test.go": `package policy; import (_ "palyra/internal/call"; _ "palyra/internal/core/must")`},
			{"internal/gateway/gatewaytest/a.go": `package gatewaytest; import (_ "palyra/internal/call"; _ "palyra/internal/core/must")`},
			{"internal/call/policy/explain/a.go": `package explain; import (_ "palyra/internal/call/policy"; _ "palyra/internal/call/policy/internal/expr")`},
			{"internal/call/approval/approvaltest/a.go": `package approvaltest; import _ "palyra/internal/store/sqlite"`},
		},
	},
	{
		name:  "only gateway reaches an executor",
		check: CheckExecutors,
		broken: map[string]map[string]string{
			"internal/surface/api > internal/exec/builtin": {"internal/surface/api/a.go": `package api; import _ "palyra/internal/exec/builtin"`},
			"internal/call > internal/call/dispatch > internal/exec/sandbox/bubblewrap": {
				"internal/call/a.go":          `package call; import _ "palyra/internal/call/dispatch"`,
				"internal/call/dispatch/a.go": `package dispatch; import _ "palyra/internal/exec/sandbox/bubblewrap"`,
			},
			"cmd/palyra > internal/gateway > internal/exec/builtin": {
				"cmd/palyra/main.go":         `package main; import _ "palyra/internal/gateway"`,
				"internal/gateway/a.go":      `package gateway; import _ "palyra/internal/exec/builtin"`,
				"internal/exec/builtin/a.go": "package builtin",
			},
			"internal/call/dispatch > internal/exec/sandbox/jail": {"internal/call/dispatch/a.go": `package dispatch; import _ "palyra/internal/exec/sandbox/jail"`},
			"does not use another executor":                       {"internal/exec/builtin/a.go": `package builtin; import _ "palyra/internal/exec/sandbox/bubblewrap"`},
		},
		fine: []map[string]string{
			{
				"internal/gateway/a.go":              `package gateway; import _ "palyra/internal/exec/builtin"`,
				"cmd/palyrad/main.go":                `package main; import _ "palyra/internal/gateway"`,
				"internal/exec/builtin/a.go":         "package builtin",
				"internal/exec/sandbox/process/a.go": `package process; import _ "palyra/internal/exec/sandbox/jail"`,
				"internal/call/fake_test.go":         `package call; import _ "palyra/internal/exec/builtin"`,
			},
		},
	},
	{
		name:  "heavy dependencies have one home",
		check: CheckHomes,
		broken: map[string]map[string]string{
			"belongs to internal/call/policy":  {"internal/call/decision/a.go": `package decision; import _ "github.com/cedar-policy/cedar-go/types"`},
			"use the wire format":              {"internal/call/a.go": `package call; import _ "connectrpc.com/connect"`},
			"belongs to internal/store/sqlite": {"internal/evidence/journal/a.go": `package journal; import _ "database/sql"`},
			"Anthropic's SDK links 5 MB":       {"internal/run/model/anthropic/a.go": `package anthropic; import _ "github.com/anthropics/anthropic-sdk-go/option"`},
			"OpenAI's 20 MB":                   {"internal/run/model/openai/a.go": `package openai; import _ "github.com/openai/openai-go/v3"`},
			"belongs to no package":            {"internal/gateway/a.go": `package gateway; import _ "github.com/tetratelabs/wazero"`},
			"one message of grpc-go":           {"internal/surface/api/a.go": `package api; import _ "google.golang.org/grpc/health/grpc_health_v1"`},
			"links CEL":                        {"internal/surface/api/a.go": `package api; import _ "buf.build/go/protovalidate"`},
			"second way to run a tool":         {"internal/surface/api/a.go": `package api; import _ "os/exec"`},
			"restricts its program":            {"internal/exec/builtin/a.go": `package builtin; import _ "palyra/internal/egress/proxy"`},
			"only the proxy session":           {"internal/exec/sandbox/jail/a.go": `package jail; import _ "palyra/internal/egress/web"`},
			"pure Go":                          {"internal/vault/a.go": `package vault; import _ "C"`},
		},
		fine: []map[string]string{
			{"internal/call/policy/a.go": `package policy; import _ "github.com/cedar-policy/cedar-go"`},
			{"internal/surface/api/a.go": `package api; import _ "connectrpc.com/connect"`},
			{"internal/evidence/journal/a_test.go": `package journal; import _ "os/exec"`},
			{"internal/exec/sandbox/jail/a.go": `package jail; import _ "palyra/internal/egress/proxy"`},
			{"internal/egress/proxy/a.go": `package proxy; import _ "palyra/internal/egress/web"`},
			{"internal/exec/builtin/a.go": `package builtin; import _ "palyra/internal/egress/secret"`},
		},
	},
	{
		name:  "only a decided call describes a program to run",
		check: CheckRuns,
		broken: map[string]map[string]string{
			"api/a.go:2":     {"internal/surface/api/a.go": "package api; import \"palyra/internal/exec/sandbox\"\nvar s = sandbox.Spec{}"},
			"gateway/a.go:2": {"internal/gateway/a.go": "package gateway; import box \"palyra/internal/exec/sandbox\"\nvar s = &box.Spec{Argv: nil}"},
			"gateway/b.go:2": {"internal/gateway/b.go": "package gateway; import \"palyra/internal/exec/sandbox\"\nvar s sandbox.Spec"},
		},
		fine: []map[string]string{
			{"internal/exec/builtin/a.go": `package builtin; import "palyra/internal/exec/sandbox"; var s = sandbox.Spec{}`},
			{"internal/gateway/exec_command.go": `package gateway; import "palyra/internal/exec/sandbox"; var s = sandbox.Spec{}`},
			{"internal/exec/sandbox/bubblewrap/a.go": `package bubblewrap; import "palyra/internal/exec/sandbox"; var s = sandbox.Spec{}`},
			{"internal/gateway/a_test.go": `package gateway; import "palyra/internal/exec/sandbox"; var s = sandbox.Spec{}`},
			{"test/attack/a.go": `package attack; import "palyra/internal/exec/sandbox"; var s = sandbox.Spec{}`},
		},
	},
	{
		name:  "only tests leave layers out",
		check: CheckWithout,
		broken: map[string]map[string]string{
			"gateway/a.go:2": {"internal/gateway/a.go": "package gateway; import \"palyra/internal/exec/sandbox/bubblewrap\"\nvar c = bubblewrap.Config{Without: []string{\"seccomp\"}}"},
			"gateway/b.go:2": {"internal/gateway/b.go": "package gateway; import \"palyra/internal/exec/sandbox/process\"\nfunc f(c process.Config) { c.Without = nil }"},
		},
		fine: []map[string]string{
			{"internal/exec/sandbox/bubblewrap/a.go": "package bubblewrap; import \"palyra/internal/exec/sandbox/jail\"\nvar c = jail.Config{Without: nil}"},
			{"internal/gateway/a.go": "package gateway; import \"palyra/internal/exec/sandbox/bubblewrap\"\nvar c = bubblewrap.Config{Bwrap: \"\"}"},
			{"internal/gateway/a_test.go": "package gateway; import \"palyra/internal/exec/sandbox/bubblewrap\"\nvar c = bubblewrap.Config{Without: nil}"},
			{"test/attack/a.go": "package attack; import \"palyra/internal/exec/sandbox/bubblewrap\"\nvar c = bubblewrap.Config{Without: nil}"},
		},
	},
	{
		name:  "calls reach hosts by the dialer alone",
		check: CheckDials,
		broken: map[string]map[string]string{
			"builtin/a.go:2": {"internal/exec/builtin/a.go": "package builtin; import \"net\"\nvar d net.Dialer"},
			"disk/a.go:2":    {"internal/exec/sandbox/disk/a.go": "package disk; import \"github.com/godbus/dbus/v5\"\nvar c = dbus.SystemBus"},
			"web/a.go:2":     {"internal/egress/web/a.go": "package web; import inet \"net\"\nvar dial = inet.DialTimeout"},
			"egress/a.go:2":  {"internal/egress/a.go": "package egress; import \"crypto/tls\"\nvar dial = tls.Dial"},
			"mcp/a.go:2":     {"internal/surface/mcp/a.go": "package mcp; import \"net/http\"\nvar c = http.DefaultClient"},
			"mcp/b.go:2":     {"internal/surface/mcp/b.go": "package mcp; import \"net/http\"\nvar t = &http.Transport{Proxy: nil}"},
			"mcp/c.go:2":     {"internal/surface/mcp/c.go": "package mcp; import \"net/http\"\nvar c = http.Client{}"},
		},
		fine: []map[string]string{
			{"internal/egress/dialer.go": `package egress; import "net"; var d net.Dialer`},
			{"internal/run/model/openai/a.go": `package openai; import "net/http"; var c = http.DefaultClient`},
			{"internal/exec/builtin/a.go": `package builtin; import "net/http"; var t, c = &http.Transport{DialContext: nil}, http.Client{Transport: nil}`},
			{"internal/exec/builtin/b.go": `package builtin; import "net"; var l, _ = net.Listen("tcp", "127.0.0.1:0")`},
			{"internal/exec/builtin/a_test.go": `package builtin; import "net"; var d net.Dialer`},
			{"test/e2e/a.go": `package e2e; import "net"; var d net.Dialer`},
		},
	},
	{
		name:  "only decision makes permits",
		check: CheckPermits,
		broken: map[string]map[string]string{
			"dispatch/a.go:2": {"internal/call/dispatch/a.go": "package dispatch; import \"palyra/internal/call/decision\"\nvar p = &decision.Permit{}"},
			"dispatch/b.go:2": {"internal/call/dispatch/b.go": "package dispatch; import d \"palyra/internal/call/decision\"\nvar p = new(d.Permit)"},
			"dispatch/c.go:2": {"internal/call/dispatch/c.go": "package dispatch; import \"palyra/internal/call/decision\"\nvar p decision.Permit"},
			"in one place":    {"internal/call/decision/a.go": "package decision; type Permit struct{}; func Mint() *Permit { return &Permit{} }; func more() *Permit { return &Permit{} }"},
			"gateway/a.go:2":  {"internal/gateway/a.go": "package gateway; import \"palyra/internal/call/decision\"\nvar p = decision.Mint(decision.Input{})"},
			"call/a.go:2:":    {"internal/call/a.go": "package call; import \"palyra/internal/call/decision\"\nfunc f() { x := decision.Permit{}; _ = x }"},
		},
		fine: []map[string]string{
			{"internal/call/decision/a.go": "package decision; type Permit struct{}; func Mint() *Permit { return &Permit{} }"},
			{"internal/call/a.go": `package call; import "palyra/internal/call/decision"; var p = decision.Mint(decision.Input{})`},
			{"internal/call/dispatch/a.go": `package dispatch; import "palyra/internal/call/decision"; func Run(p *decision.Permit) { var q *decision.Permit; _ = q }`},
			{"internal/call/dispatch/a_test.go": `package dispatch; import "palyra/internal/call/decision"; var zero = &decision.Permit{}`},
		},
	},
	{
		name:  "changes of the gateway are guarded",
		check: CheckUnguarded,
		broken: map[string]map[string]string{
			"gateway/build.go:2": {"internal/gateway/build.go": "package gateway; import \"palyra/internal/core/change\"\nvar g change.Guard = change.Unguarded"},
			"surface/a.go:2":     {"internal/surface/a.go": "package surface; import c \"palyra/internal/core/change\"\nvar g = c.Unguarded"},
		},
		fine: []map[string]string{
			{"internal/gateway/offline.go": `package gateway; import "palyra/internal/core/change"; var g = change.Unguarded`},
			{"internal/gateway/a_test.go": `package gateway; import "palyra/internal/core/change"; var g = change.Unguarded`},
			{"internal/surface/notify/notifytest/a.go": `package notifytest; import "palyra/internal/core/change"; var g = change.Unguarded`},
			{"internal/gateway/build.go": `package gateway; import "palyra/internal/core/change"; var k = change.Thaw`},
		},
	},
	{
		name:  "only what cannot have an effect is pure",
		check: CheckPure,
		broken: map[string]map[string]string{
			"imports os;":              {"internal/exec/builtin/pure/a.go": `package pure; import "os"`},
			"imports net/http;":        {"internal/exec/builtin/pure/a.go": `package pure; import _ "net/http"`},
			"internal/exec/workspace;": {"internal/exec/builtin/pure/a.go": `package pure; import _ "palyra/internal/exec/workspace"`},
			"builtin/a.go:1":           {"internal/exec/builtin/a.go": "package builtin; type write struct{}; func (write) Pure() {}"},
			"builtin/b.go:2: embed":    {"internal/exec/builtin/b.go": "package builtin; import \"palyra/internal/exec/builtin/pure\"\ntype write struct { pure.Echo }"},
			"builtin/c.go:2: embed":    {"internal/exec/builtin/c.go": "package builtin; import p \"palyra/internal/exec/builtin/pure\"\ntype write struct { *p.Echo }"},
			"gateway/a.go:2: says":     {"internal/gateway/a.go": "package gateway; import \"palyra/internal/core/tool\"\ntype write struct { tool.Pure }"},
		},
		fine: []map[string]string{
			{"internal/exec/builtin/pure/a.go": `package pure; import (_ "context"; _ "palyra/internal/core/tool"); type Echo struct{}; func (Echo) Pure() {}`},
			{"internal/exec/builtin/a.go": `package builtin; import "palyra/internal/exec/builtin/pure"; var list = []any{pure.Echo{}}`},
			{"internal/call/dispatch/a.go": "package dispatch; type Pure interface { Pure() }"},
			{"internal/call/a_test.go": "package call; type probe struct{}; func (probe) Pure() {}"},
		},
	},
	{
		name:  "one package comment per package",
		check: CheckPackageComments,
		broken: map[string]map[string]string{
			"no file has":   {"internal/call/policy/a.go": "package policy"},
			"a.go, b.go":    {"internal/call/policy/a.go": "// Package policy is.\npackage policy", "internal/call/policy/b.go": "// Package policy is, too.\npackage policy"},
			"no file has a": {"test/e2e/a_test.go": "package e2e"},
		},
		fine: []map[string]string{
			{"internal/call/policy/a.go": "// Package policy is.\npackage policy", "internal/call/policy/b_test.go": "package policy_test"},
			{"gen/palyra/v1/a.pb.go": "// Code generated by protoc-gen-go. DO NOT EDIT.\n\npackage palyrav1"},
			{"internal/call/policy/a.go": "// Package policy is.\npackage policy", "internal/call/policy/b_linux.go": "//go:build linux\n\npackage policy"},
		},
	},
	{
		name:  "no init functions",
		check: CheckInits,
		broken: map[string]map[string]string{
			"a.go:1":      {"internal/call/policy/a.go": "package policy; func init() {}"},
			"a_test.go:1": {"internal/call/policy/a_test.go": "package policy; func init() {}"},
		},
		fine: []map[string]string{
			{"internal/call/policy/a.go": "package policy; type t struct{}; func (t) init() {}"},
			{"gen/a.pb.go": "// Code generated by protoc-gen-go. DO NOT EDIT.\n\npackage gen\n\nfunc init() {}"},
		},
	},
	{
		name:  "regular expressions compile when they are used",
		check: CheckRegexps,
		broken: map[string]map[string]string{
			"a.go:2: compiles": {"internal/run/a.go": "package run; import \"regexp\"\nvar form = regexp.MustCompile(`a`)"},
			"b.go:2: compiles": {"internal/run/b.go": "package run; import re \"regexp\"\nvar forms = []*re.Regexp{re.MustCompile(`a`)}"},
			"missing closing":  {"internal/run/a.go": "package run; import \"palyra/internal/core/lazyregexp\"\nvar form = lazyregexp.New(`(`)"},
			"takes a literal":  {"internal/run/a.go": "package run; import \"palyra/internal/core/lazyregexp\"\nfunc f(s string) { lazyregexp.New(s) }"},
		},
		fine: []map[string]string{
			{"internal/run/a.go": "package run; import \"regexp\"; func f() { regexp.MustCompile(`a`) }"},
			{"internal/run/a.go": "package run; import \"palyra/internal/core/lazyregexp\"; var form = lazyregexp.New(`a`)"},
			{"internal/run/a_test.go": "package run; import \"regexp\"; var form = regexp.MustCompile(`a`)"},
		},
	},
	{
		name:  "no context in a struct",
		check: CheckContextFields,
		broken: map[string]map[string]string{
			"a.go:1": {"internal/run/a.go": `package run; import "context"; type T struct { ctx context.Context }`},
			"b.go:1": {"internal/run/b.go": `package run; import c "context"; type T struct { inner struct { c.Context } }`},
		},
		fine: []map[string]string{
			{"internal/run/a.go": `package run; import "context"; type T struct { stop context.CancelFunc }; func f(ctx context.Context) {}`},
			{"internal/run/a_test.go": `package run; import "context"; type T struct { ctx context.Context }`},
			{"internal/run/runtest/a.go": `package runtest; import "context"; type T struct { ctx context.Context }`},
		},
	},
	{
		name:  "tests wait for conditions",
		check: CheckSleeps,
		broken: map[string]map[string]string{
			"a_test.go:2: a test waits": {"internal/run/a_test.go": "package run; import \"time\"\nfunc f() { time.Sleep(1) }"},
			"b_test.go:2: a test waits": {"internal/run/b_test.go": "package run; import clock \"time\"\nfunc f() { for ; ; clock.Sleep(1) {} }"},
			"c_test.go:2: a test waits": {"internal/run/c_test.go": "package run; import \"time\"\nfunc f() { <-time.After(1) }"},
			"d_test.go:2: a test waits": {"internal/run/d_test.go": "package run; import \"time\"\nfunc f() { select { case <-c: <-time.After(1) } }"},
			"e_test.go:2: a test waits": {"internal/run/e_test.go": "package run; import \"time\"\nvar f = func() { time.Sleep(1) }"},
			"x/a.go:2: a test waits":    {"test/x/a.go": "package x; import \"time\"\nfunc f() { time.Sleep(1) }"},
			"runtest/a.go:2: a test":    {"internal/run/runtest/a.go": "package runtest; import \"time\"\nfunc f() { time.Sleep(1) }"},
			// A function that opens a bubble may sleep only in the bubble.
			"g_test.go:2: a test waits": {"internal/run/g_test.go": "package run; import (\"testing/synctest\"; \"time\")\nfunc f() { time.Sleep(1); synctest.Test(t, func() {}) }"},
			"h_test.go:2: a test waits": {"internal/run/h_test.go": "package run; import (\"testing/synctest\"; \"time\")\nfunc f() { synctest.Test(t, func() {}); g(func() { time.Sleep(1) }) }; func g(do func()) {}"},
		},
		fine: []map[string]string{
			{"internal/run/a_test.go": "package run; import (\"testing/synctest\"; \"time\"); func f() { synctest.Test(t, func() { go func() { time.Sleep(1) }() }) }"},
			{"internal/run/a_test.go": "package run; import (\"testing/synctest\"; \"time\"); func bubble(do func()) { synctest.Test(t, do) }; func f() { bubble(func() { time.Sleep(1) }) }"},
			{"internal/run/a_test.go": "package run; import \"time\"; func f() { select { case <-c: case <-time.After(1): } }"},
			{"internal/run/a.go": "package run; import \"time\"; func f() { time.Sleep(1) }"},
		},
	},
	{
		name:  "packages have telling names",
		check: CheckNames,
		broken: map[string]map[string]string{
			`"util"`:    {"internal/util/a.go": "package util"},
			`"helpers"`: {"internal/call/policy/helpers/a.go": "package helpers"},
			`"shared"`:  {"internal/shared/words/a.go": "package words"},
			`"common"`:  {"internal/odd/a.go": "package common"},
		},
		fine: []map[string]string{{"internal/call/policy/a.go": "package policy"}},
	},
	{
		name:  "types and interfaces stay narrow",
		check: CheckBreadth,
		broken: map[string]map[string]string{
			"internal/run.Wide: 26 methods, at most 25": {"internal/run/a.go": manyMethods("run", "Wide", MaxMethods+1)},
			"internal/run.Store: 9 methods, at most 8":  {"internal/run/a.go": "package run; type Store interface { A(); B(); C(); D(); E(); F(); G(); H(); I() }"},
		},
		fine: []map[string]string{
			{"internal/run/a.go": manyMethods("run", "Wide", MaxMethods), "internal/run/a_test.go": manyMethods("run", "Test", MaxMethods+1)},
			{"internal/run/runtest/a.go": manyMethods("runtest", "Wide", MaxMethods+1)},
			{"internal/run/a.go": "package run; type Part interface { I() }; type Store interface { Part; A(); B(); C(); D(); E(); F(); G(); H() }"},
		},
	},
	{
		name:  "files stay short",
		check: CheckLengths,
		broken: map[string]map[string]string{
			"split it by subject": {"internal/call/policy/a.go": "package policy\n" + strings.Repeat("// line\n", MaxLines)},
		},
		fine: []map[string]string{
			{"internal/call/policy/a.go": "package policy\n" + strings.Repeat("// line\n", MaxLines-2)},
			{"gen/a.pb.go": "// Code generated by protoc-gen-go. DO NOT EDIT.\n\npackage gen\n" + strings.Repeat("// line\n", MaxLines)},
		},
	},
	{
		name:  "the part that decides has a small surface",
		check: CheckExports,
		broken: map[string]map[string]string{
			"exports 61 names": {"internal/call/policy/a.go": manyExports(30), "internal/call/policy/b.go": "package policy; func One() {}"},
		},
		fine: []map[string]string{
			{"internal/call/policy/a.go": manyExports(30) + "; func (T0) Method() {}; func lower() {}", "internal/call/policy/a_test.go": "package policy; func One() {}"},
			{"internal/run/a.go": strings.Replace(manyExports(40), "policy", "run", 1)},
		},
	},
	{
		name:  "who reads policies puts none into force",
		check: CheckPolicyReaders,
		broken: map[string]map[string]string{
			"explain/a.go:1": {"internal/call/policy/explain/a.go": `package explain; import "palyra/internal/call/policy"; var e = policy.NewEngine(nil)`},
			"lint/a.go:1":    {"internal/call/policy/lint/a.go": `package lint; import p "palyra/internal/call/policy"; func f(e *p.Engine) {}`},
		},
		fine: []map[string]string{
			{"internal/call/policy/explain/a.go": `package explain; import "palyra/internal/call/policy"; func f(v policy.View) {}`},
			{"internal/gateway/a.go": `package gateway; import "palyra/internal/call/policy"; var e = policy.NewEngine(nil)`},
		},
	},
	{
		name:  "imports name what they use",
		check: CheckImportForms,
		broken: map[string]map[string]string{
			"dot import": {"internal/call/policy/a.go": `package policy; import . "fmt"`},
			"for effect": {"internal/store/sqlite/a.go": `package sqlite; import _ "modernc.org/sqlite"`},
		},
		fine: []map[string]string{
			{"internal/call/policy/a.go": `package policy; import _ "embed"`},
		},
	},
	{
		name:  "a package has few files",
		check: CheckCrowding,
		broken: map[string]map[string]string{
			"internal/run: 31 files": files("internal/run", "", MaxFiles+1),
		},
		fine: []map[string]string{files("internal/run", "", MaxFiles), files("internal/run", "_test", MaxFiles+1)},
	},
	{
		name:  "a small package has several importers",
		check: CheckSmall,
		broken: map[string]map[string]string{
			"internal/core/text: has 1 lines and one importer": {
				"internal/core/text/a.go": "package text", "internal/run/a.go": `package run; import _ "palyra/internal/core/text"`,
			},
			"remove the exception": {"internal/ops/socket/a.go": "package socket"},
		},
		fine: []map[string]string{
			{"internal/core/text/a.go": "package text" + strings.Repeat("\n", 120), "internal/run/a.go": `package run; import _ "palyra/internal/core/text"`},
			{
				"internal/core/text/a.go": "package text", "internal/run/a.go": `package run; import _ "palyra/internal/core/text"`,
				"internal/call/a.go": `package call; import _ "palyra/internal/core/text"`,
			},
		},
	},
	{
		name:  "gateway builds and runs",
		check: CheckWiring,
		broken: map[string]map[string]string{
			"21 files, at most 20": files("internal/gateway", "", 21),
			"T has 6 methods":      {"internal/gateway/a.go": methods("(T)", "abc"), "internal/gateway/b_windows.go": methods("(t *T)", "def")},
			"I has 6 methods":      {"internal/gateway/a.go": "package gateway; type I interface { a(); b(); c(); d(); e(); f() }"},
			"not Cedar":            {"internal/gateway/a.go": `package gateway; import _ "github.com/cedar-policy/cedar-go/types"`},
			"message of the API":   {"internal/gateway/a.go": `package gateway; import _ "palyra/gen/palyra/v1"`},
			"not the API":          {"internal/gateway/a.go": `package gateway; import _ "connectrpc.com/connect"`},
			"not SQL":              {"internal/gateway/a.go": `package gateway; import _ "zombiezen.com/go/sqlite"`},
			"statedir.Take is called in several places": {
				"internal/gateway/a.go": `package gateway; import "palyra/internal/core/statedir"; var a, _ = statedir.Take("")`,
				"internal/gateway/b.go": `package gateway; import "palyra/internal/core/statedir"; var b, _ = statedir.Take("")`,
			},
			"name the store": {
				"internal/gateway/a.go": `package gateway; import _ "palyra/internal/store/sqlite"`,
				"internal/gateway/b.go": `package gateway; import _ "palyra/internal/store/sqlite"`,
			},
		},
		fine: []map[string]string{
			files("internal/gateway", "", 20),
			{"internal/gateway/a.go": methods("(T)", "abcde"), "internal/gateway/a_test.go": methods("(T)", "f")},
			{"internal/gateway/a.go": `package gateway; import _ "palyra/internal/store/sqlite"`, "internal/gateway/a_test.go": `package gateway; import (_ "palyra/gen/palyra/v1"; _ "palyra/internal/store/sqlite")`},
			{"internal/surface/api/a.go": methods("(T)", "abcdef")},
		},
	},
	{
		name:  "tests run in parallel or say why not",
		check: CheckParallel,
		broken: map[string]map[string]string{
			"a_test.go:2: TestA does not": {"internal/run/a_test.go": "package run; import \"testing\"\nfunc TestA(t *testing.T) {}"},
			"TestB does not":              {"internal/run/b_windows_test.go": "//go:build windows\n\npackage run\n\nimport \"testing\"\n\nfunc TestB(t *testing.T) { t.Run(`x`, func(t *testing.T) { t.Parallel() }) }"},
			"TestC does not":              {"test/e2e/a_test.go": "package e2e; import \"testing\"\nfunc TestC(t *testing.T) { if slow { t.Parallel() } }"},
			"TestD does not":              {"internal/run/a_test.go": "package run; import check \"testing\"\nfunc TestD(*check.T) {}"},
			"TestE does not":              {"internal/run/a_test.go": "package run; import \"testing\"\n// TestE is\n// not parallel: it sleeps.\nfunc TestE(t *testing.T) {}"},
			"remove one of the two":       {"internal/run/a_test.go": "package run; import \"testing\"\n// Not parallel: it sets TMPDIR.\nfunc TestF(t *testing.T) { t.Parallel() }"},
			"without a reason":            {"internal/run/a_test.go": "package run; import \"testing\"\n// TestG is.\n//\n// Not parallel: \nfunc TestG(t *testing.T) {}"},
		},
		fine: []map[string]string{
			{"internal/run/a_test.go": "package run; import \"testing\"\nfunc TestA(t *testing.T) { t.Parallel() }"},
			{"internal/run/a_test.go": "package run; import \"testing\"\nfunc TestA(x *testing.T) { x.Helper(); need(x); x.Parallel(); synctest.Test(x, f) }"},
			{"internal/run/a_test.go": "package run; import \"testing\"\n// TestA is.\n//\n// Not parallel: it sets TMPDIR.\nfunc TestA(t *testing.T) { t.Setenv(`TMPDIR`, ``) }"},
			{"internal/run/a_test.go": "package run; import \"testing\"\nfunc TestMain(m *testing.M) {}; func Testing(t testing.TB) {}; func BenchmarkA(b *testing.B) {}; func FuzzA(f *testing.F) {}; func (w) TestA(t *testing.T) {}"},
			{"internal/store/storetest/a.go": "package storetest; import \"testing\"\nfunc TestStore(t *testing.T) {}"},
		},
	},
	{
		name:  "no test has a victim on the machine",
		check: CheckVictims,
		broken: map[string]map[string]string{
			"Symlink is given /etc/passwd": {"internal/run/a_test.go": "package run; func f() { os.Symlink(`/etc/passwd`, name) }"},
			"Symlink is given /":           {"internal/run/a_test.go": "package run; func f() { os.Symlink(`/`, name) }"},
			"WriteFile is given /etc/x":    {"internal/run/a_test.go": "package run; func f() { os.WriteFile(`/etc/x`, nil, 0) }"},
			"OpenFile is given /etc/x":     {"test/e2e/a_test.go": "package e2e; func f() { os.OpenFile(`/etc/x`, os.O_RDONLY|os.O_CREATE, 0) }"},
			// This is the code of the test that overwrote the password file.
			"a_test.go:1: /etc/passwd of":      {"internal/run/a_test.go": "package run; func f() { _ = os.Symlink([]string{`a`, `/etc/passwd`}[i], name) }"},
			"a_test.go:2: /usr of":             {"internal/run/a_test.go": "package run\nfunc f() { for l, to := range map[string]string{`l`: `/usr`} { root.Symlink(to, l) } }"},
			"a_test.go:1: ../../etc/shadow of": {"internal/run/a_test.go": "package run; func f() { for l, to := range all(`../../etc/shadow`) { os.Link(to, l) } }"},
			"a_linux.go:1: /boot of":           {"test/attack/probe/a_linux.go": "package main; func f() { unix.Linkat(0, name(`/boot`), 0, x, 0) }"},
			"writes to /etc/passwd":            {"internal/run/a_test.go": "package run; var s = `true; echo x > /etc/passwd`"},
			"writes to /etc/hosts":             {"internal/run/a_test.go": "package run; var s = `echo x >>'/etc/hosts'`"},
			"writes to /etc/group":             {"internal/run/a_test.go": "package run; var s = `ln -sf /etc/group l`"},
			"writes to /usr/bin/true":          {"internal/run/a_test.go": "package run; var s = `cd x; rm -f a /usr/bin/true`"},
			"writes to /usr of":                {"internal/run/a_test.go": "package run; var s = `chmod 777 /usr`"},
			"writes to /proc/sysrq-trigger":    {"internal/run/a_test.go": "package run; var s = `echo c > /proc/sysrq-trigger`"},
			"writes to /etc/a":                 {"internal/run/a_test.go": "package run; var s = `cp mine /etc/a`"},
			"writes to /etc/b":                 {"internal/run/a_test.go": "package run; var s = `dd if=x of=/etc/b`"},
			"writes to /etc/c":                 {"internal/run/a_test.go": "package run; var s = `os.symlink('/etc/c', 'x')`"},
			"writes to /etc/d":                 {"internal/run/a_test.go": "package run; var s = `open('/etc/d', 'a').write('x')`"},
			"writes to /etc/e":                 {"internal/exec/sandbox/jail/jailtest/a.go": "package jailtest; var s = `os.remove('/etc/e')`"},
		},
		fine: []map[string]string{
			{"internal/run/a_test.go": "package run; func f() { os.Symlink(canary, name); os.Symlink(`../b`, name); os.WriteFile(dir+`/etc/x`, nil, 0) }"},
			{"internal/run/a_test.go": "package run; func f() { os.ReadFile(`/etc/passwd`); os.OpenFile(`/etc/passwd`, os.O_RDONLY, 0); os.OpenFile(`/dev/tty`, os.O_RDWR, 0) }"},
			{"internal/run/a_test.go": "package run; var s = `cat /etc/passwd >/dev/null 2>&1; cp /usr/bin/true .; echo x >/tmp/x; ln -s $CANARY l; rm -rf /var/tmp/x; open('/etc/x').read()`"},
			{"internal/run/a_test.go": "package run; var s = `! dd if=/dev/null conv=nocreat,notrunc of=/etc/passwd`"},
			{"internal/run/a.go": "package run; func f() { os.Symlink(`/etc/passwd`, name) }"},
		},
	},
}

// manyMethods returns a file of a package with a type that has n methods.
func manyMethods(pkg, name string, n int) string {
	var b strings.Builder
	b.WriteString("package " + pkg + "\ntype " + name + " struct{}\n")
	for i := range n {
		fmt.Fprintf(&b, "func (%s) m%d() {}\n", name, i)
	}
	return b.String()
}

// manyExports returns a package with n types and n constants.
func manyExports(n int) string {
	var b strings.Builder
	b.WriteString("package policy")
	for i := range n {
		fmt.Fprintf(&b, "; type T%d int; const C%d = 1", i, i)
	}
	return b.String()
}

// TestRepository runs every rule over the current sources.
func TestRepository(t *testing.T) {
	t.Parallel()
	tree := must.Get(Load("../.."))(t)
	if len(tree.Packages) < 5 || tree.Packages["internal/archtest"] == nil {
		t.Fatalf("only %d packages were read; the rules would pass on nothing", len(tree.Packages))
	}
	for _, rule := range rules {
		t.Run(strings.ReplaceAll(rule.name, " ", "_"), func(t *testing.T) {
			for _, f := range rule.check(tree) {
				t.Error(f)
			}
		})
	}
}

// TestRulesFindViolations breaks every rule in all known ways, to detect a rule that finds nothing.
func TestRulesFindViolations(t *testing.T) {
	t.Parallel()
	for _, rule := range rules {
		t.Run(strings.ReplaceAll(rule.name, " ", "_"), func(t *testing.T) {
			if len(rule.broken) == 0 {
				t.Fatal("the rule has no negative control")
			}
			for want, sources := range rule.broken {
				findings := rule.check(parse(t, sources))
				if !slices.ContainsFunc(findings, func(f Finding) bool { return strings.Contains(f.String(), want) }) {
					t.Errorf("%v\ngives %v, want one with %q", sources, findings, want)
				}
			}
			for _, sources := range rule.fine {
				if findings := rule.check(parse(t, sources)); len(findings) > 0 {
					t.Errorf("%v\ngives %v, want none", sources, findings)
				}
			}
		})
	}
}

func TestContextExceptions(t *testing.T) {
	t.Parallel()
	tree := parse(t, map[string]string{
		"internal/run/a.go": `package run; import "context"; type Held struct { ctx context.Context }`,
	})
	if got := contextFields(tree, map[string]string{"internal/run.Held": "the API of a library wants it"}); len(got) > 0 {
		t.Errorf("a listed exception is still found: %v", got)
	}
	stale := contextFields(tree, map[string]string{"internal/run.Held": "x", "internal/run.Gone": "y"})
	if len(stale) != 1 || !strings.Contains(stale[0].String(), "remove the exception") {
		t.Errorf("a stale exception gives %v", stale)
	}
}

func TestSleepExceptions(t *testing.T) {
	t.Parallel()
	tree := parse(t, map[string]string{"internal/run/a_test.go": `package run; import "time"; func f() { time.Sleep(1) }`})
	if got := sleeps(tree, map[string]string{"internal/run/a_test.go: f": "it runs in a bubble"}); len(got) > 0 {
		t.Errorf("a listed exception is still found: %v", got)
	}
	stale := sleeps(tree, map[string]string{"internal/run/a_test.go: f": "x", "internal/run/a_test.go: gone": "y"})
	if len(stale) != 1 || !strings.Contains(stale[0].String(), "remove the exception") {
		t.Errorf("a stale exception gives %v", stale)
	}
}

func TestVictimExceptions(t *testing.T) {
	t.Parallel()
	const source = "package run; func f() { os.Link(old(`/etc/passwd`), name) }"
	tree := parse(t, map[string]string{"internal/run/a_test.go": source})
	if got := victims(tree, map[string]string{"internal/run/a_test.go: f": "it is read"}); len(got) > 0 {
		t.Errorf("a listed exception is still found: %v", got)
	}
	stale := victims(tree, map[string]string{"internal/run/a_test.go: f": "x", "internal/run/a_test.go: gone": "y"})
	if len(stale) != 1 || !strings.Contains(stale[0].String(), "remove the exception") {
		t.Errorf("a stale exception gives %v", stale)
	}
}

// TestMap applies the tables' own rules to them.
func TestMap(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, r := range Rooms {
		if r.Why == "" {
			t.Errorf("room %s has no reason", r.Dir)
		}
		if seen[r.Dir] {
			t.Errorf("room %s is listed twice", r.Dir)
		}
		seen[r.Dir] = true
		for _, other := range append(slices.Clone(r.Only), r.Never...) {
			if _, ok := room(other); !ok {
				t.Errorf("room %s names %s, which is not a room", r.Dir, other)
			}
		}
	}
	for _, h := range Homes {
		if h.Why == "" || len(h.Modules) == 0 {
			t.Errorf("home of %v has no reason or no module", h.Modules)
		}
		for _, dir := range h.Rooms {
			if _, ok := room(dir); !ok {
				t.Errorf("home of %v names %s, which is not a room", h.Modules, dir)
			}
		}
	}
	for key, why := range Sleeps {
		if why == "" {
			t.Errorf("exception %s has no reason", key)
		}
	}
	for key, why := range ContextFields {
		if why == "" {
			t.Errorf("exception %s has no reason", key)
		}
	}
}

// files returns n files of a package, with names that have a suffix.
func files(dir, suffix string, n int) map[string]string {
	sources := make(map[string]string)
	for i := range n {
		sources[fmt.Sprintf("%s/f%d%s.go", dir, i, suffix)] = "package " + path.Base(dir)
	}
	return sources
}

// methods returns a file with one method for each letter.
func methods(receiver, letters string) string {
	text := "package gateway"
	for _, letter := range letters {
		text += fmt.Sprintf("; func %s %c() {}", receiver, letter)
	}
	return text
}

func parse(t *testing.T, sources map[string]string) *Tree {
	t.Helper()
	tree := must.Get(Parse(sources))(t)
	return tree
}

// A rule about a room that does not exist would have no effect.
func TestRuleDirectoriesExist(t *testing.T) {
	t.Parallel()
	tree := must.Get(Load("../.."))(t)
	exists := func(r Room) bool {
		return slices.ContainsFunc(tree.Sorted(), func(p *Package) bool { return within(p.Dir, r.Dir) })
	}
	for _, r := range Rooms {
		if !exists(r) {
			t.Errorf("%s is on the map and does not exist", r.Dir)
		}
	}
	if exists(Room{Dir: "internal/teapot"}) {
		t.Error("a room that does not exist was found")
	}
}
