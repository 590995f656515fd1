//go:build linux

package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/canonical"
	"palyra/internal/skill"
)

// echoManifest is that of a skill whose tool is echoGuest.
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

// ofSkill makes calls of the tool of a skill. Each client has a skill of its own.
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
