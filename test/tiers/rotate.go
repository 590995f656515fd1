package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// everyCommits is the number of commits in which each long tier runs at least once.
const everyCommits = 5

// runRotation first runs the long tiers that are due at this commit, independent of the budget, and
// then the others while the budget lasts. It prints the skipped tiers, each with the commit at
// which it was last due.
func (s *session) runRotation(ctx context.Context) error {
	commit, err := commitNumber(ctx, "HEAD")
	if err != nil {
		return err
	}
	order, due := rotation(tiersOf(long), commit)
	left := s.budget - s.elapsed
	var chosen, out []tier
	for i, t := range order {
		if i < due || t.budget <= left {
			chosen = append(chosen, t)
			left -= t.budget
		} else {
			out = append(out, t)
		}
	}
	chosen, err = s.choose(ctx, chosen)
	if err != nil {
		return err
	}
	failure := s.runChosen(ctx, chosen)
	for _, t := range out {
		fmt.Fprintf(s.out, "left out: %s (%s); its turn was last at %s; \"make test-all\" or \"bin/tiers run %s\" runs it\n", t.name, clock(t.budget), lastTurn(ctx, t.name, commit), t.name)
	}
	return failure
}

// rotation returns tiers in the order of a commit, of which the first due ones run
// regardless of the remaining time. In everyCommits successive commits each tier is due at least
// once.
func rotation(all []tier, commit int) (order []tier, due int) {
	due = (len(all) + everyCommits - 1) / everyCommits
	for i := range all {
		order = append(order, all[(commit*due+i)%len(all)])
	}
	return order, due
}

// commitNumber counts the commits up to one along first parents.
func commitNumber(ctx context.Context, commit string) (int, error) {
	text, err := git(ctx, "rev-list", "--count", "--first-parent", commit)
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("counting commits: %w", err)
	}
	return n, nil
}

// lastTurn returns the newest commit before the given one at which a tier was due, with
// its date.
func lastTurn(ctx context.Context, name string, commit int) string {
	for back := 1; back <= everyCommits; back++ {
		order, due := rotation(tiersOf(long), commit-back)
		for _, t := range order[:due] {
			if t.name != name {
				continue
			}
			text, err := git(ctx, "log", "-1", "--first-parent", "--date=iso-strict", "--format=%h of %cd", "HEAD~"+strconv.Itoa(back))
			if err != nil {
				return "a commit that this clone does not have"
			}
			return strings.TrimSpace(text)
		}
	}
	return "no commit"
}
