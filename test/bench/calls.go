//go:build linux

package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/canonical"
	"palyra/internal/exec/skill"
)

// callFloor is the minimum of any governed call: one round trip and two durable writes.
type callFloor struct {
	trip *roundTrip
	file *growing
}

const callFloorName = "stream round trip + 2 durable appends"

func (b *bench) newCallFloor(ctx context.Context) (f callFloor, err error) {
	if f.trip, err = b.newRoundTrip(ctx); err != nil {
		return f, err
	}
	if f.file, err = b.newGrowing(); err != nil {
		return f, errors.Join(err, f.trip.close())
	}
	return f, nil
}

func (f callFloor) close() error { return errors.Join(f.file.close(), f.trip.close()) }

// governedCall is goal 1: a call without work, through all stages to its attestation.
func governedCall(ctx context.Context, b *bench) (_ []*line, err error) {
	g, c, err := b.runningModel()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.stop()) }()
	floor, err := b.newCallFloor(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, floor.close()) }()

	streamed := &line{goal: "1", what: "governed builtin call over RunStream, p50", floorName: callFloorName, unit: "us", limit: atMost(1.4)}
	single := &line{goal: "1", what: "governed builtin call by CallTool, p50", floorName: callFloorName, unit: "us"}
	call := func() error { return c.call(ctx, "echo", `{"text":"hello"}`) }
	if _, err := p50(b.size.calls, call); err != nil { // connections, pools, caches
		return nil, err
	}
	return []*line{streamed, single}, b.each(ctx, func() error {
		round, err := p50(b.size.calls, floor.trip.once)
		if err != nil {
			return err
		}
		durable, err := p50(b.size.calls, floor.file.append)
		if err != nil {
			return err
		}
		talk, err := newConversation(ctx, c)
		if err != nil {
			return err
		}
		governed, err := talk.p50(b.size.calls)
		if err := errors.Join(err, talk.close()); err != nil {
			return err
		}
		streamed.add(round+2*durable, governed)
		if governed, err = p50(b.size.calls, call); err != nil {
			return err
		}
		single.add(round+2*durable, governed)
		return nil
	})
}

// echoGuest is a WebAssembly module that copies its input to its output, in base64:
//
//	(module
//	  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
//	  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
//	  (memory (export "memory") 2)
//	  (func (export "_start")
//	    (i32.store (i32.const 0) (i32.const 1024))
//	    (i32.store (i32.const 4) (i32.const 60000))
//	    (drop (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
//	    (i32.store (i32.const 4) (i32.load (i32.const 8)))
//	    (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))
const echoGuest = "AGFzbQEAAAABDAJgBH9/f38Bf2AAAAJEAhZ3YXNpX3NuYXBzaG90X3ByZXZpZXcxB2ZkX3JlYWQAABZ3YXNpX3NuYXBzaG90X3ByZXZpZXcxCGZkX3dyaXRlAAADAgEBBQMBAAIHEwIGbWVtb3J5" +
	"AgAGX3N0YXJ0AAIKNQEzAEEAQYAINgIAQQRB4NQDNgIAQQBBAEEBQQgQABpBBEEIKAIANgIAQQFBAEEBQQgQARoLABUEbmFtZQEOAgAEcmVhZAEFd3JpdGU="

// guestInput is a call of echoGuest, and takesModules the setting of a daemon that accepts it.
const (
	guestInput   = `{"module":"` + echoGuest + `","input":{"text":"hello"}}`
	takesModules = "[wasm_runtime]\nallow_inline_modules = true\n"
)

// guests returns a daemon that accepts modules with calls, and a call of echoGuest.
func (b *bench) guests(ctx context.Context) (*gateway, func() error, error) {
	g, c, err := b.running(unasked, takesModules)
	if err != nil {
		return nil, nil, err
	}
	call := func() error { return c.call(ctx, "wasm.run", guestInput) }
	if _, err := p50(b.size.calls, call); err != nil { // a worker, connections, caches
		return nil, nil, errors.Join(err, g.stop())
	}
	return g, call, nil
}

// echoManifest is the manifest of a skill whose tool is echoGuest.
const echoManifest = `format = "palyra-skill/v1"
id = %q
name = "Echo"
version = "1.0.0"
publisher = "bench.example"

[[tools]]
id = "echo"
description = "Return the input."
module = "modules/echo.wasm"
input_schema = '{"type": "object"}'
`

// ofSkill makes calls of the tool of a skill. Each client has its own skill.
func ofSkill(ctx context.Context, c *client, times int) error {
	id := "s" + strings.ToLower(rand.Text()[:10])
	if err := c.installEcho(ctx, id); err != nil {
		return err
	}
	return callsOf(id+"/echo", `{"text":"hello"}`)(ctx, c, times)
}

// installEcho packs a skill, signs it with the key of the benchmark's publisher, and
// installs it.
func (c *client) installEcho(ctx context.Context, id string) error {
	module, err := base64.StdEncoding.DecodeString(echoGuest)
	if err != nil {
		return err
	}
	p := &skill.Package{ManifestText: fmt.Appendf(nil, echoManifest, id), Modules: map[string][]byte{"modules/echo.wasm": module}}
	if p.Manifest, err = skill.ParseManifest(p.ManifestText); err != nil {
		return err
	}
	if err := p.Document(nil, nil); err != nil {
		return err
	}
	data, err := skill.Sign(p, ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
	if err != nil {
		return err
	}
	digest := canonical.Digest(data)
	if _, err := c.skills.StageSkill(ctx, &palyrav1.StageSkillRequest{Digest: digest, Size: int64(len(data)), Data: data}); err != nil {
		return err
	}
	_, err = c.skills.InstallSkill(ctx, &palyrav1.InstallSkillRequest{Digest: digest})
	return err
}

// governedGuest is goal 2: a call of a WebAssembly guest, compared with the floor of goal 1.
func governedGuest(ctx context.Context, b *bench) (_ []*line, err error) {
	g, call, err := b.guests(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.stop()) }()
	floor, err := b.newCallFloor(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, floor.close()) }()
	l := &line{goal: "2", what: "governed call of a WebAssembly guest, p50", floorName: callFloorName, unit: "us", limit: atMost(1.6)}
	return []*line{l}, b.each(ctx, func() error {
		took, err := inTurns(b.size.calls, 0, floor.trip.once, floor.file.append, call)
		if err != nil {
			return err
		}
		l.add(took[0]+2*took[1], took[2])
		return nil
	})
}

// side is the number of parallel calls of guests.
const side = 64

// guestsPerSecond is goal 10: parallel calls of guests, compared with sequential durable appends.
func guestsPerSecond(ctx context.Context, b *bench) (_ []*line, err error) {
	g, call, err := b.guests(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.stop()) }()
	file, err := b.newGrowing()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.close()) }()
	l := &line{goal: "10", what: "governed calls of WebAssembly guests, 64 at once", floorName: "fdatasync one at a time", unit: "/s", limit: atLeast(2)}
	return []*line{l}, b.each(ctx, func() error {
		floor, err := file.rate(b.size.floor)
		if err != nil {
			return err
		}
		started := time.Now()
		var group errgroup.Group
		for range side {
			group.Go(func() error {
				for range max(b.size.calls/10, 1) {
					if err := call(); err != nil {
						return err
					}
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			return err
		}
		l.add(floor, perSecond(side*max(b.size.calls/10, 1), time.Since(started)))
		return nil
	})
}
