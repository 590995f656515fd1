package skill

import (
	"crypto/sha256"
	"sync"

	"palyra/internal/exec/wasm/guest"
	"palyra/internal/exec/wasm/module"
	"palyra/internal/exec/wasm/wire"
)

// Module is the module of one of the package's tools, checked, as it is compiled and run.
// It may use what that tool asks for: a module of two tools that ask for other features is
// compiled twice. What Open read is checked once for the same limits, since it takes long
// and each call asks for it.
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

// checked are modules that were found in order. A nil one remembers nothing.
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
