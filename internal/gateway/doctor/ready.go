package doctor

import (
	"cmp"
	"context"
	"fmt"

	"palyra/internal/core/reason"
)

// Ready examines whether this palyrad would start on the settings and the state directory, before
// it replaces another one. It changes nothing, and works while a palyrad runs. code is the reason
// of the first failure: ConfigInvalid, or VerificationFailed for keys, the vault and the journal. It
// is "" if nothing failed.
func Ready(ctx context.Context, c Config) (list []Check, code reason.Code) {
	p, declared := &subject{Config: c}, settings{c}
	for _, exam := range []struct {
		name  string
		look  func(context.Context) finding
		fails reason.Code
	}{
		{"state directory", p.stateDir, reason.ConfigInvalid},
		{"schema", p.schema, reason.ConfigInvalid},
		{"keys", p.keys, reason.VerificationFailed},
		{"operator key", p.operatorKey, reason.VerificationFailed},
		{"vault", p.vault, reason.VerificationFailed},
		{"journal", p.journal, reason.VerificationFailed},
		{"workspaces", declared.workspaces, reason.ConfigInvalid},
		{"policy", declared.policy, reason.ConfigInvalid},
		{"models", declared.models, reason.ConfigInvalid},
		{"secrets", declared.secrets, reason.ConfigInvalid},
	} {
		check := timed(ctx, exam.name, exam.look)
		if list = append(list, check); check.Result == Failed {
			code = cmp.Or(code, exam.fails)
		}
	}
	return list, code
}

// schema compares the schema of the store with the one that this palyrad writes.
func (p *subject) schema(context.Context) finding {
	have, newest, err := p.Schema()
	switch {
	case err != nil:
		return broken(err)
	case have == 0:
		return skipped("no store exists yet")
	case have < newest:
		return fine(fmt.Sprintf("the store has schema version %d; the start upgrades it to %d", have, newest))
	}
	return fine(fmt.Sprintf("the store has schema version %d", have))
}
