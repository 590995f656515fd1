package identity

import (
	"context"
	"errors"

	"palyra/internal/core/change"
)

// errRehearsed ends a rehearsed change at the point at which it would become durable.
var errRehearsed = errors.New("identity: this is only a rehearsal")

type rehearsalKey struct{}

// Rehearse performs a change up to the point at which it would become durable, and returns it;
// nil if nothing would change. It finds every error of the change, because it runs the same
// code. It discards a certificate created meanwhile.
func Rehearse(ctx context.Context, try func(context.Context) error) (*Change, error) {
	var planned *Change
	err := try(context.WithValue(ctx, rehearsalKey{}, &planned))
	if errors.Is(err, errRehearsed) {
		err = nil
	}
	return planned, err
}

// permitted returns nil if the change may be made now. A rehearsal needs no permit, because it
// makes no change.
func permitted(ctx context.Context, guard change.Guard, kind change.Kind) error {
	if _, rehearsal := ctx.Value(rehearsalKey{}).(**Change); rehearsal {
		return nil
	}
	return guard.Check(ctx, kind)
}

// rehearsed reports whether a change is only rehearsed, and stores it for Rehearse in that
// case.
func rehearsed(ctx context.Context, c Change) bool {
	planned, ok := ctx.Value(rehearsalKey{}).(**Change)
	if ok {
		*planned = &c
	}
	return ok
}
