package skill

import (
	"crypto/sha256"
	"sync"

	"palyra/internal/exec/wasm/guest"
	"palyra/internal/exec/wasm/module"
	"palyra/internal/exec/wasm/wire"
)

// Module returns the checked module of one of the package's tools, as it is compiled and run. It
// has the features that this tool requests: a module of two tools with different features is
// compiled twice. The check takes long and runs on every call, so its result is cached for equal
// limits if the package was read by Open.
func (p *Package) Module(t Tool, limits module.Limits) (guest.Module, error) {
	limits.SIMD = limits.SIMD || t.Features.SIMD
	limits.MultiValue = limits.MultiValue || t.Features.MultiValue
	text, key := p.Modules[t.Module], checkedKey{t.Module, t.Features, limits}
	if m, there := p.checked.get(key); there && len(text) > 0 && &m.Bytes[0] == &text[0] && len(m.Bytes) == len(text) {
		return m, nil
	}
	is, err := module.Check(text, limits)
	if err != nil {
		return guest.Module{}, err
	}
	m := guest.Module{
		Bytes: text, Digest: sha256.Sum256(text), Kind: is.Kind,
		Features: wire.Features{SIMD: t.Features.SIMD, MultiValue: t.Features.MultiValue},
	}
	p.checked.put(key, m)
	return m, nil
}

// checked caches modules that passed the check. A nil cache stores nothing.
type checked struct {
	mu   sync.Mutex
	list map[checkedKey]guest.Module
}

type checkedKey struct {
	module   string
	features Features
	limits   module.Limits
}

func (c *checked) get(key checkedKey) (guest.Module, bool) {
	if c == nil {
		return guest.Module{}, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	m, there := c.list[key]
	return m, there
}

func (c *checked) put(key checkedKey, m guest.Module) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.list == nil || len(c.list) >= MaxTools {
		c.list = map[checkedKey]guest.Module{}
	}
	c.list[key] = m
}
