package cgroup

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// How Settle would come by controllers for runs.
const (
	byLeaf  = "it moves into a group of its own below the one that it is alone in"
	byScope = "systemd makes it a delegated scope when it asks"
)

// Foresee is what Settle would come to, without a move and without asking for one:
// how the calling process would come by controllers for runs, and why it would not.
// It is "" and no error where Settle does nothing. reachable says whether systemd
// could be asked.
func Foresee(reachable func() error) (how string, err error) {
	return foresee(ownGroups()[""], reachable)
}

func foresee(own string, reachable func() error) (how string, err error) {
	if !lacking(own) {
		return "", nil
	}
	err = mayDivide(own)
	if err == nil && unix.Access(own, unix.W_OK) != nil {
		err = errNoGroups
	}
	if err == nil {
		return byLeaf, nil
	}
	if stay := mayLeave(own); stay != nil {
		if errors.Is(err, stay) {
			return "", err
		}
		return "", fmt.Errorf("%w; %w", err, stay)
	}
	if asked := reachable(); asked != nil {
		return "", fmt.Errorf("%w; %w", err, asked)
	}
	return byScope, nil
}
