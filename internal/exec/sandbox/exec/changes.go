package exec

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/places"
	"palyra/internal/exec/workspace/overlay"
)

// mostDiff is the maximum size of the displayed diff, in bytes.
const mostDiff = 64 << 10

// settle displays the program's changes in its copy, and commits them according to --commit.
// Protected changes are committed only with --commit ask, after the user has confirmed the
// displayed diff.
func (e execution) settle(ctx context.Context, ran sandbox.Report, at places.Places) (*Changes, error) {
	if ran.Layer == nil {
		return nil, nil
	}
	changes, err := e.decide(ctx, ran, at)
	if closeErr := ran.Layer.Close(); err == nil {
		err = closeErr
	}
	return changes, err
}

func (e execution) decide(ctx context.Context, ran sandbox.Report, at places.Places) (*Changes, error) {
	if ran.ExitCode == nil {
		e.say("the program was stopped: its changes are discarded")
		return &Changes{State: tool.Discarded, Protected: []string{}}, nil
	}
	set, err := ran.Layer.Changes(ctx)
	if err != nil {
		return nil, err
	}
	f := set.Facts()
	changes := &Changes{State: tool.Unchanged, Root: set.Root(), Added: f.Added, Modified: f.Modified, Deleted: f.Deleted, Protected: canonical.List(f.Protected)}
	if len(set.Changes) == 0 {
		return changes, nil
	}
	e.say("changes: %s\n%s", changes.summary(), strings.TrimSuffix(set.Diff(mostDiff), "\n"))
	changes.State = tool.Discarded
	set, err = e.wanted(set)
	if err != nil {
		return changes, err
	}
	if len(set.Changes) == 0 {
		e.say("nothing is committed: the workspace is unchanged")
		return changes, nil
	}
	_, err = ran.Layer.Commit(ctx, set, overlay.Options{
		History: overlay.History{Dir: at.Undo}, ID: rand.Text(), Principal: e.spec.Owner, At: time.Now(),
	})
	if err != nil {
		if reason.Of(err) == reason.CommitConflict {
			changes.State = tool.Conflicted
		}
		return changes, err
	}
	changes.State, changes.Committed = tool.Committed, len(set.Changes)
	e.say("committed: %d of %d", changes.Committed, f.Added+f.Modified+f.Deleted)
	return changes, nil
}

// wanted returns the changes to commit.
func (e execution) wanted(set overlay.Set) (overlay.Set, error) {
	switch e.commit {
	case "yes":
		kept := ordinary(set.Changes)
		if left := len(set.Changes) - len(kept); left > 0 {
			e.say("protected changes, and changes below them, are not committed: %d; --commit ask asks about all of them", left)
		}
		set.Changes = kept
		return set, nil
	case "ask":
		yes, err := confirm("Commit these changes? [y/N] ")
		if yes || err != nil {
			return set, err
		}
	}
	return overlay.Set{}, nil
}

// ordinary removes protected changes and all changes below them.
func ordinary(all []overlay.Change) []overlay.Change {
	var kept, left []overlay.Change
	for _, c := range all {
		below := slices.ContainsFunc(left, func(above overlay.Change) bool { return strings.HasPrefix(c.Path, above.Path+"/") })
		if c.Protected() || below {
			left = append(left, c)
			continue
		}
		kept = append(kept, c)
	}
	return kept
}

// confirm asks on the terminal, which need not be standard input.
func confirm(question string) (bool, error) {
	terminal, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return false, reason.Errorf(reason.CommitRefused, "no terminal is available for the question, so nothing is committed").
			WithRemedy("Use --commit yes or --commit no.")
	}
	defer terminal.Close()
	if _, err := fmt.Fprint(terminal, question); err != nil {
		return false, fmt.Errorf("asking: %w", err)
	}
	answer, err := bufio.NewReader(terminal).ReadString('\n')
	if err != nil {
		return false, fmt.Errorf("reading the answer: %w", err)
	}
	return strings.EqualFold(strings.TrimSpace(answer), "y"), nil
}
