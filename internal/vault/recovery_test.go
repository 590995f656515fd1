package vault_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"filippo.io/age"

	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/reason/reasontest"
	"palyra/internal/vault"
)

func TestRecovery(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(t, token, "value")
	id := must.Get(age.GenerateX25519Identity())(t)
	to := id.Recipient().String()
	ctx := t.Context()
	full := errors.New("disk full")
	w.store.Fail(full)
	if text, _, err := w.Keys.ExportRecovery(ctx, ann, to, false); !errors.Is(err, full) || text != "" {
		t.Errorf("without the journal: %q, %v", text, err)
	}
	w.store.Fail(nil)
	_, _, err := w.Keys.ExportRecovery(ctx, bob, to, false)
	reasontest.Want(t, "without the permission", err, reason.PermissionDenied)
	_, _, err = w.Keys.ExportRecovery(ctx, ann, "age1nobody", false)
	reasontest.Want(t, "to nobody", err, reason.InvalidInput)
	// The error for a private key in the place of a recipient does not repeat the key, because
	// errors are logged.
	_, _, err = w.Keys.ExportRecovery(ctx, ann, id.String(), false)
	reasontest.Want(t, "to a key", err, reason.InvalidInput)
	if strings.Contains(err.Error(), id.String()) {
		t.Error("the error tells the recovery key")
	}

	text, ids, err := w.Keys.ExportRecovery(ctx, ann, to, false)
	must.Do(t, err)
	_, _, err = w.Keys.ExportRecovery(ctx, ann, to, false)
	reasontest.Want(t, "twice", err, reason.AlreadyExists)
	if _, _, err = w.Keys.ExportRecovery(ctx, ann, to, true); err != nil {
		t.Errorf("once more: %v", err)
	}
	keys := must.Get(w.keys.Export(ctx))(t)
	opened := must.Get(vault.OpenRecovery("", strings.NewReader(text), strings.NewReader(id.String())))(t)
	if len(opened.Keys) != 1 || !slices.Equal(opened.Keys[0].Key, keys[0].Key) || ids[0] != keys[0].ID {
		t.Errorf("opened %d keys, %v", len(opened.Keys), ids)
	}
	if strings.Contains(text, string(keys[0].Key)) || !strings.HasPrefix(text, "-----BEGIN AGE ENCRYPTED FILE-----") {
		t.Errorf("the export is %q", text)
	}
	_, err = vault.OpenRecovery("", strings.NewReader(text), strings.NewReader(must.Get(age.GenerateX25519Identity())(t).String()))
	reasontest.Want(t, "another recovery key", err, reason.SecretUnreadable)
	_, err = vault.OpenRecovery("other", strings.NewReader(text), strings.NewReader(id.String()))
	reasontest.Want(t, "another gateway", err, reason.InvalidInput)
	if got := w.codes(1); !slices.Equal(got, []event.Code{event.RecoveryExported, event.RecoveryExported}) {
		t.Errorf("events %v", got)
	}
	// After a rekey, the new key may be exported.
	must.Get(w.Keys.Rekey(ctx, ann))(t)
	if st := must.Get(w.Status(ctx, ann))(t); !st.ExportedAt.IsZero() || len(st.Old) > 0 || st.Keys.ID == ids[0] {
		t.Errorf("status %+v", st)
	}
	if _, _, err := w.Keys.ExportRecovery(ctx, ann, to, false); err != nil {
		t.Errorf("of another key: %v", err)
	}
}
