package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"palyra/internal/access"
	"palyra/internal/event"
	"palyra/internal/journal"
	"palyra/internal/policy"
	"palyra/internal/reason"
	"palyra/internal/rpc"
	"palyra/internal/sqlite"
	"palyra/internal/tool"
)

// maxPolicyFile is the largest policy file in bytes.
const maxPolicyFile = 1 << 20

// policies loads policy sets and puts them in force.
type policies struct {
	g *gateway
	// changed is told when members changed.
	changed chan struct{}

	mu       sync.Mutex
	sources  []policy.Source
	loadedAt time.Time
	// suspended are the tools that wait for a policy that fits them.
	suspended map[string]error
}

var _ rpc.Policies = (*policies)(nil)

func newPolicies(g *gateway) *policies {
	p := &policies{g: g, changed: make(chan struct{}, 1)}
	g.registry.Subscribe(func() {
		select {
		case p.changed <- struct{}{}:
		default:
		}
	})
	return p
}

// load loads the set for the first time; nothing starts without one.
func (p *policies) load(ctx context.Context) error {
	_, err := p.apply(ctx, journal.Daemon)
	return err
}

// Reload reads the directory again for an operator.
func (p *policies) Reload(ctx context.Context, by access.Caller) (rpc.Reloaded, error) {
	return p.apply(ctx, by.Principal.String())
}

type policyLoaded struct {
	Version        string `json:"policy_version"`
	SnapshotDigest string `json:"snapshot_digest"`
	WasVersion     string `json:"was_version,omitempty"`
	Policies       int    `json:"policies"`
	Warnings       int    `json:"warnings"`
}

type policyRejected struct {
	Findings []policy.Finding `json:"findings"`
	Message  string           `json:"message"`
}

// apply builds a set from the files, the members and the settings as they are
// now, keeps it, and puts it in force. A set that does not load changes
// nothing, and the journal says so.
func (p *policies) apply(ctx context.Context, actor string) (rpc.Reloaded, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	sources, err := readPolicies(p.g.cfg.Policy.Dir)
	if err != nil {
		return rpc.Reloaded{}, p.reject(ctx, actor, err)
	}
	now, pins, err := p.g.definitions(ctx)
	if err != nil {
		return rpc.Reloaded{}, err
	}
	chosen, err := choose(now, pins, func(tools []tool.Descriptor, suspended map[string]error) (*policy.Set, error) {
		return policy.Load(p.g.policyConfig(sources, tools, suspended))
	})
	if err != nil {
		return rpc.Reloaded{}, p.reject(ctx, actor, err)
	}
	if err := p.g.keepPins(ctx, now, pins, chosen); err != nil {
		return rpc.Reloaded{}, err
	}
	set := chosen.set
	running := p.g.engine.Current()
	result := rpc.Reloaded{Version: set.Version(), SnapshotDigest: set.SnapshotDigest(), Warnings: set.Findings()}
	if running != nil && running.SnapshotDigest() == set.SnapshotDigest() {
		p.suspend(ctx, chosen.suspended)
		return result, nil
	}
	result.Changed = true
	payload := policyLoaded{
		Version: set.Version(), SnapshotDigest: set.SnapshotDigest(), Policies: len(set.Policies()), Warnings: len(set.Findings()),
	}
	if running != nil {
		payload.WasVersion = running.Version()
	}
	if err := p.keep(ctx, actor, set, sources, payload); err != nil {
		return rpc.Reloaded{}, err
	}
	p.g.engine.Swap(set)
	// A tool resumes only under the policies that fit it: after the swap.
	p.suspend(ctx, chosen.suspended)
	p.sources, p.loadedAt = append(policy.Defaults(), sources...), time.Now().UTC()
	p.g.log.InfoContext(ctx, "policy in force", slog.String("version", set.Version()), slog.String("snapshot", set.SnapshotDigest()))
	for _, w := range set.Findings() {
		// What a tool's schema keeps from policy is for those who write
		// policies: `palyra policy check` shows it.
		level := slog.LevelWarn
		if w.Code == policy.CodeOpaque {
			level = slog.LevelDebug
		}
		p.g.log.Log(ctx, level, "policy warning", slog.String("finding", w.Message), slog.String("file", w.File), slog.Int("line", w.Line))
	}
	return result, nil
}

// keep makes the set durable before it is in force, so that every decision's
// snapshot digest leads to its content.
func (p *policies) keep(ctx context.Context, actor string, set *policy.Set, sources []policy.Source, payload policyLoaded) error {
	text, err := json.Marshal(sources)
	if err != nil {
		return fmt.Errorf("encoding the policies: %w", err)
	}
	draft, err := draftOf(event.PolicyLoaded, actor, "", payload)
	if err != nil {
		return err
	}
	return p.g.db.PutPolicySet(context.WithoutCancel(ctx), sqlite.PolicySet{
		Version: set.Version(), Sources: text, SnapshotDigest: set.SnapshotDigest(), Snapshot: set.SnapshotJSON(),
	}, draft)
}

func (p *policies) reject(ctx context.Context, actor string, cause error) error {
	payload := policyRejected{Message: cause.Error(), Findings: []policy.Finding{}}
	var load *policy.LoadError
	if errors.As(cause, &load) {
		payload.Findings = load.Findings
	}
	draft, err := draftOf(event.PolicyRejected, actor, "", payload)
	if err == nil {
		_, err = p.g.journal.Append(context.WithoutCancel(ctx), draft)
	}
	return errors.Join(cause, err)
}

// Check finds what is wrong with sources under the schema of the tools as they
// are now, also of those that are suspended.
func (p *policies) Check(_ context.Context, sources []policy.Source) []policy.Finding {
	return policy.Check(p.g.policyConfig(sources, p.g.router.Descriptors(), nil))
}

// Current returns the sources in force.
func (p *policies) Current() ([]policy.Source, time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.sources), p.loadedAt
}

// watch reloads when the directory changes, when members change, and when it
// is told to. Several changes at once are one reload.
func (p *policies) watch(ctx context.Context, reload <-chan struct{}) error {
	files, stop, err := watchDir(p.g.cfg.Policy.Dir)
	if err != nil {
		p.g.log.WarnContext(ctx, "the policy directory is not watched; use `palyra policy reload`", slog.String("error", err.Error()))
	}
	defer stop()
	return p.follow(ctx, files, reload)
}

// follow reloads until ctx ends. An error of the watcher, such as an overflow,
// may have swallowed changes, so that it counts as one.
func (p *policies) follow(ctx context.Context, files dirChanges, reload <-chan struct{}) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.changed:
		case <-reload:
		case err := <-files.errors:
			p.missed(ctx, err)
			if !p.settle(ctx, files) {
				return nil
			}
		case <-files.events:
			if !p.settle(ctx, files) {
				return nil
			}
		}
		if _, err := p.apply(ctx, journal.Daemon); err != nil {
			p.g.log.ErrorContext(ctx, "policy did not load; the running set stays", slog.String("error", err.Error()))
		}
	}
}

func (p *policies) missed(ctx context.Context, err error) {
	p.g.log.WarnContext(ctx, "watching the policy directory failed; it is read again", slog.String("error", err.Error()))
}

// settle waits until the directory has been quiet for a moment: an editor
// writes a file in several steps.
func (p *policies) settle(ctx context.Context, files dirChanges) bool {
	const quiet = 100 * time.Millisecond
	timer := time.NewTimer(quiet)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-files.events:
			timer.Reset(quiet)
		case err := <-files.errors:
			p.missed(ctx, err)
			timer.Reset(quiet)
		case <-timer.C:
			return true
		}
	}
}

// dirChanges is what a watcher of a directory says. Both channels have to be
// read: the watcher waits for its reader.
type dirChanges struct {
	events <-chan fsnotify.Event
	errors <-chan error
}

// watchDir returns the changes of a directory; none for "".
func watchDir(dir string) (dirChanges, func(), error) {
	if dir == "" {
		return dirChanges{}, func() {}, nil
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return dirChanges{}, func() {}, fmt.Errorf("watching %s: %w", dir, err)
	}
	stop := func() { _ = w.Close() }
	if err := w.Add(dir); err != nil {
		stop()
		return dirChanges{}, func() {}, fmt.Errorf("watching %s: %w", dir, err)
	}
	return dirChanges{w.Events, w.Errors}, stop, nil
}

// readPolicies reads the *.cedar files of a directory in the order of their
// names.
func readPolicies(dir string) ([]policy.Source, error) {
	if dir == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, reason.Errorf(reason.PolicyInvalid, "reading the policy directory: %w", err).
			WithRemedy("Make the directory readable, or correct policy.dir.")
	}
	var sources []policy.Source
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".cedar") || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		text, err := readPolicy(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		sources = append(sources, policy.Source{Name: e.Name(), Text: text})
	}
	return sources, nil
}

func readPolicy(path string) (string, error) {
	info, err := os.Stat(path)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxPolicyFile) {
		err = &fs.PathError{Op: "read", Path: path, Err: errors.New("not a regular file of at most 1 MiB")}
	}
	if err != nil {
		return "", reason.Errorf(reason.PolicyInvalid, "reading a policy file: %w", err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", reason.Errorf(reason.PolicyInvalid, "reading a policy file: %w", err)
	}
	return string(text), nil
}
