package registry

import (
	"context"
	"sync"

	"palyra/internal/core/reason"
	"palyra/internal/exec/skill"
)

// Load returns the package of a version that may run; version "" is the current one. Each call
// checks the file's digest, the signature, the pinned key and the status, and the error names the
// failed check. A tampered package or row is recorded in the journal once.
//
// The package is shared between callers, which must not change it.
func (r *Registry) Load(ctx context.Context, name, version string) (*skill.Package, error) {
	i, err := r.Get(name, version)
	if err != nil {
		return nil, err
	}
	if i.Problem != nil {
		return nil, i.Problem
	}
	if i.Status != Active {
		return nil, reason.Errorf(reason.PolicyDenied, "%s is %s%s", i.Name(), i.Status, because(i.Why)).
			WithRemedy("`palyra skills show %s` shows the details; `palyra skills enable %[1]s` lets it run again.", i.Name())
	}
	if err := r.checkPin(i); err != nil {
		return nil, err
	}
	p, err := r.packages.read(i)
	if reason.Of(err) == reason.VerificationFailed {
		return nil, r.broken(ctx, i, err)
	}
	return p, err
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

// packages reads and verifies the packages in files.
type packages struct {
	files files
	cache *cache
}

// read returns the verified package of a version, after comparing it with its row.
func (s packages) read(i Installed) (*skill.Package, error) {
	p, signer, err := s.verified(i)
	if err != nil {
		return nil, mendable(i, err)
	}
	for _, part := range []struct{ what, row, is string }{
		{"skill", i.Skill, p.Manifest.ID}, {"version", i.Version, p.Manifest.Version},
		{"publisher", i.Publisher, signer.Publisher}, {"key", i.KeyID, signer.KeyID},
	} {
		if part.row != part.is {
			return nil, mendable(i, damaged("the row of %s was changed: it has the %s %q, but the package has %q", i.Name(), part.what, part.row, part.is))
		}
	}
	return p, nil
}

// verified returns the package of a version with its signer. A package that was verified before
// is not verified again while its file has the same digest.
func (s packages) verified(i Installed) (*skill.Package, skill.Signer, error) {
	if one, there := s.cache.get(i.Digest); there && s.files.check(i.Digest) == nil {
		return one.p, one.signer, nil
	}
	data, err := s.files.read(i.Digest)
	if err != nil {
		return nil, skill.Signer{}, explained(data, err)
	}
	p, err := skill.Open(data)
	if err != nil {
		return nil, skill.Signer{}, damaged("the package cannot be read: %w", err)
	}
	signer, err := skill.Verify(p)
	if err != nil {
		return nil, skill.Signer{}, err
	}
	s.cache.put(i.Digest, verified{p, signer, int64(len(data))})
	return p, signer, nil
}

// explained names the changed part of a file that does not match its digest.
func explained(data []byte, err error) error {
	if data == nil || reason.Of(err) != reason.VerificationFailed {
		return err
	}
	p, wrong := skill.Open(data)
	if wrong == nil {
		_, wrong = skill.Verify(p)
	}
	if wrong == nil {
		return damaged("%w: it is the package %s@%s of %s", err, p.Manifest.ID, p.Manifest.Version, p.Manifest.Publisher)
	}
	return damaged("%w: %w", err, wrong)
}

// mendable adds the remedy to the error of a tampered package or row.
func mendable(i Installed, err error) error {
	if reason.Of(err) != reason.VerificationFailed {
		return err
	}
	return reason.Errorf(reason.VerificationFailed, "%s does not run: %w", i.Name(), err).
		WithRemedy("Find out who changed it. Then install the same package again, or `palyra skills remove %s`.", i.Name())
}

// broken records that a version was tampered with.
func (r *Registry) broken(ctx context.Context, i Installed, problem error) error {
	r.setProblem(i, problem)
	r.damages.report(ctx, damageOf(i, problem), skillSubject(i.Name()))
	return problem
}

// cacheBytes is the maximum size of the packages in memory.
const cacheBytes = 128 << 20

// cache holds verified packages by digest. The zero value is empty.
type cache struct {
	mu    sync.Mutex
	list  map[string]verified
	order []string // the most recently used digest is the last
	bytes int64
}

type verified struct {
	p      *skill.Package
	signer skill.Signer
	size   int64
}

func (c *cache) get(digest string) (verified, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one, there := c.list[digest]
	if there {
		c.use(digest)
	}
	return one, there
}

// use moves a digest to the end. The caller holds c.mu.
func (c *cache) use(digest string) {
	c.forget(digest)
	c.order = append(c.order, digest)
}

func (c *cache) forget(digest string) {
	for n, d := range c.order {
		if d == digest {
			c.order = append(c.order[:n], c.order[n+1:]...)
			return
		}
	}
}

func (c *cache) put(digest string, one verified) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.list == nil {
		c.list = map[string]verified{}
	}
	if was, there := c.list[digest]; there {
		c.bytes -= was.size
	}
	c.list[digest] = one
	c.bytes += one.size
	c.use(digest)
	for c.bytes > cacheBytes && len(c.order) > 1 {
		c.remove(c.order[0])
	}
}

func (c *cache) drop(digest string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(digest)
}

// remove is drop with c.mu held.
func (c *cache) remove(digest string) {
	if was, there := c.list[digest]; there {
		c.bytes -= was.size
		delete(c.list, digest)
		c.forget(digest)
	}
}
