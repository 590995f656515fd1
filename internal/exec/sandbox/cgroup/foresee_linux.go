package cgroup

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// The ways by which Settle obtains controllers for runs.
const (
	byLeaf  = "it moves into a subgroup of its own control group, in which it is alone"
	byScope = "it requests a delegated scope from systemd"
)

// Foresee predicts Settle without moving a process or requesting a scope. It returns how the
// calling process would obtain controllers for runs, or the error that prevents it. The result
// is "" and no error if Settle has nothing to do. reachable returns an error if systemd is not
// available.
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
