package identity

import (
	"context"
	"errors"
)

// errRehearsed ends a change that is only rehearsed, where it would become durable.
var errRehearsed = errors.New("identity: this is only a rehearsal")

type rehearsalKey struct{}

// Rehearse goes through a change up to where it would become durable, and returns
// what that is; nil when nothing would change. All that keeps the change from being
// made is found, since it is the same code. A rehearsal that made a certificate
// forgets it.
func Rehearse(ctx context.Context, change func(context.Context) error) (*Change, error) {
	var planned *Change
	err := change(context.WithValue(ctx, rehearsalKey{}, &planned))
	if errors.Is(err, errRehearsed) {
		err = nil
	}
	return planned, err
}

// rehearsed reports whether a change is only rehearsed, and notes it then.
func rehearsed(ctx context.Context, c Change) bool {
	planned, ok := ctx.Value(rehearsalKey{}).(**Change)
	if ok {
		*planned = &c
	}
	return ok
}
