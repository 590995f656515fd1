package registry

import (
	"slices"
	"strings"
	"sync"
	"time"

	"palyra/internal/core/reason"
)

// Inventory holds the installed versions and the publishers in memory. It is safe for concurrent
// use.
type Inventory struct {
	mu         sync.RWMutex
	versions   map[string]Installed // by Name
	publishers map[string]Publisher
}

// List returns all versions, by skill, newest first.
func (v *Inventory) List() []Installed {
	v.mu.RLock()
	defer v.mu.RUnlock()
	list := make([]Installed, 0, len(v.versions))
	for _, i := range v.versions {
		list = append(list, i)
	}
	slices.SortFunc(list, func(a, b Installed) int {
		if c := strings.Compare(a.Skill, b.Skill); c != 0 {
			return c
		}
		return compareVersions(b.Version, a.Version)
	})
	return list
}

// Get returns a version of a skill; "" is the current one.
func (v *Inventory) Get(name, version string) (Installed, error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if version != "" {
		i, there := v.versions[Installed{Skill: name, Version: version}.Name()]
		if !there {
			return Installed{}, missing(name, version)
		}
		return i, nil
	}
	known := false
	for _, i := range v.versions {
		if i.Skill == name && i.Current {
			return i, nil
		}
		known = known || i.Skill == name
	}
	if known {
		return Installed{}, reason.Errorf(reason.NotFound, "the skill %s has no current version", name).
			WithRemedy("List the versions with `palyra skills list`, and choose one with `palyra skills enable %s@VERSION`.", name)
	}
	return Installed{}, missing(name, "")
}

func missing(name, version string) error {
	what := "skill " + name
	if version != "" {
		what = "version " + version + " of the " + what
	}
	return reason.Errorf(reason.NotFound, "%s does not exist", what).WithRemedy("List the installed skills with `palyra skills list`.")
}

// Publishers returns all publishers with a pinned key and all distrusted publishers, by name.
func (v *Inventory) Publishers() []Publisher {
	v.mu.RLock()
	defer v.mu.RUnlock()
	list := make([]Publisher, 0, len(v.publishers))
	for _, p := range v.publishers {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b Publisher) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// Notices returns warnings about tampered skills and publishers.
func (v *Inventory) Notices() []string {
	var list []string
	say := func(problem error) {
		if problem != nil {
			known := reason.Known(problem, reason.VerificationFailed)
			list = append(list, known.Message+"; "+known.NextStep())
		}
	}
	for _, p := range v.Publishers() {
		say(p.Problem)
	}
	for _, i := range v.List() {
		say(i.Problem)
	}
	return list
}

// Active returns the skills whose current version may run, by name.
func (v *Inventory) Active() []string {
	v.mu.RLock()
	defer v.mu.RUnlock()
	list := []string{}
	for _, i := range v.versions {
		if i.runs() && v.pinned(i) == nil {
			list = append(list, i.Skill)
		}
	}
	slices.Sort(list)
	return list
}

// pinned returns an error if the key of a version is not its publisher's pinned key. The caller
// holds v.mu.
func (v *Inventory) pinned(i Installed) error {
	p, there := v.publishers[i.Publisher]
	switch {
	case !there:
		return reason.Errorf(reason.VerificationFailed, "no key of the publisher %s is pinned", i.Publisher).
			WithRemedy("Pin its key with `palyra skills trust add`.")
	case p.Problem != nil:
		return p.Problem
	case p.Distrusted:
		return reason.Errorf(reason.VerificationFailed, "the publisher %s is distrusted since %s", p.Name, p.At.Format(time.RFC3339)).
			WithRemedy("To trust it again, pin its key with `palyra skills trust add`.")
	case p.KeyID != i.KeyID:
		return reason.Errorf(reason.VerificationFailed, "the publisher %s has the pinned key %s, but %s was signed with %s", p.Name, p.KeyID, i.Name(), i.KeyID).
			WithRemedy("Get a package that is signed with the publisher's key. If the publisher changed its key, verify that over a separate channel; then run `palyra skills trust remove %[1]s` and `palyra skills trust add`.", p.Name)
	}
	return nil
}

// checkPin is pinned for callers that do not hold v.mu.
func (v *Inventory) checkPin(i Installed) error {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.pinned(i)
}

// publisher returns a publisher, and the number of all publishers.
func (v *Inventory) publisher(name string) (p Publisher, known bool, count int) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	p, known = v.publishers[name]
	return p, known, len(v.publishers)
}

// ofSkill returns the versions of a skill.
func (v *Inventory) ofSkill(name string) []Installed {
	return slices.DeleteFunc(v.List(), func(i Installed) bool { return i.Skill != name })
}

// apply updates the state after a change was stored.
func (v *Inventory) apply(c Change) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, i := range c.Put {
		v.versions[i.Name()] = i
	}
	for _, i := range c.Drop {
		delete(v.versions, i.Name())
	}
	for _, p := range c.Publishers {
		v.publishers[p.Name] = p
	}
}

// setProblem records that the package of a version was tampered with.
func (v *Inventory) setProblem(i Installed, problem error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if is, there := v.versions[i.Name()]; there && is.Digest == i.Digest && is.Problem == nil {
		is.Problem = problem
		v.versions[i.Name()] = is
	}
}
