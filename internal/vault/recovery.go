package vault

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"time"

	"filippo.io/age"
	"filippo.io/age/armor"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/vault/kek"
)

const recoveryFormat = "palyra vault recovery v1"

// Recovery is the decrypted export: the keys of one gateway.
type Recovery struct {
	Format     string    `json:"format"`
	Gateway    string    `json:"gateway"`
	ExportedAt time.Time `json:"exported_at"`
	// Keys are the key-encryption keys, the current one last.
	Keys []kek.Exported `json:"keys"`
}

// clear wipes the keys.
func (r Recovery) clear() {
	for _, k := range r.Keys {
		clear(k.Key)
	}
}

type exportedEvent struct {
	KeyIDs    []string `json:"key_ids"`
	Recipient string   `json:"recipient"`
}

// Exported is an export of keys to a recovery key.
type Exported struct {
	KEK string
	At  time.Time
}

// ExportRecovery encrypts the keys of the vault to an age recipient. Keys that were exported before
// are refused unless again is set. The export is journaled before it is returned.
func (m *KeyManager) ExportRecovery(ctx context.Context, caller access.Caller, recipient string, again bool) (text string, ids []string, err error) {
	if err := m.guard.may(caller, access.PermVaultRekey, Ref{}); err != nil {
		return "", nil, err
	}
	to, err := age.ParseRecipients(strings.NewReader(recipient))
	if err != nil || len(to) != 1 {
		// The text may be a recovery key instead of its recipient, so it is not repeated.
		return "", nil, reason.Errorf(reason.InvalidInput, "--recipient is not a single age recipient").
			WithRemedy("Specify the public half, age1..., of an existing recovery key. Or omit --recipient: `palyra vault export-recovery` then creates a key and shows it once.")
	}
	m.keys.rekeying.Lock()
	defer m.keys.rekeying.Unlock()
	keys, err := m.keys.keys.Export(ctx)
	if err != nil {
		return "", nil, err
	}
	r := Recovery{Format: recoveryFormat, Gateway: m.gateway, ExportedAt: m.now().UTC().Truncate(time.Second), Keys: keys}
	defer r.clear()
	for _, k := range keys {
		ids = append(ids, k.ID)
	}
	if err := m.onlyOnce(ctx, ids[len(ids)-1], again); err != nil {
		return "", nil, err
	}
	if text, err = encrypt(r, to[0]); err != nil {
		return "", nil, err
	}
	e, err := event.DraftOf(event.RecoveryExported, caller.Principal.String(), ids[len(ids)-1], exportedEvent{KeyIDs: ids, Recipient: recipient})
	if err == nil {
		e, err = e.By(access.DeviceOf(ctx))
	}
	if err == nil {
		err = m.store.KeepExport(context.WithoutCancel(ctx), ids, e)
	}
	if err != nil {
		return "", nil, err
	}
	return text, ids, nil
}

// onlyOnce refuses another export of the same key.
func (m *KeyManager) onlyOnce(ctx context.Context, current string, again bool) error {
	if again {
		return nil
	}
	list, err := m.store.Exports(ctx)
	if err != nil {
		return err
	}
	for _, e := range list {
		if e.KEK == current {
			return reason.Errorf(reason.AlreadyExists, "the keys of the vault were exported at %s", e.At.Format(time.RFC3339)).
				WithRemedy("If that export is lost, repeat the command with --again. If it may be compromised, run `palyra vault rekey` to replace the key.")
		}
	}
	return nil
}

func encrypt(r Recovery, to age.Recipient) (string, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return "", err
	}
	defer clear(text)
	var out bytes.Buffer
	armored := armor.NewWriter(&out)
	w, err := age.Encrypt(armored, to)
	if err != nil {
		return "", err
	}
	if _, err := w.Write(text); err != nil {
		return "", err
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	if err := armored.Close(); err != nil {
		return "", err
	}
	return out.String(), nil
}

// maxRecovery bounds an export in bytes.
const maxRecovery = 1 << 20

// OpenRecovery decrypts an export of a gateway with the identity of its recovery key.
func OpenRecovery(gateway string, export, identity io.Reader) (Recovery, error) {
	ids, err := age.ParseIdentities(io.LimitReader(identity, maxRecovery))
	if err != nil {
		return Recovery{}, reason.Errorf(reason.InvalidInput, "reading the identity: it is not an age identity").
			WithRemedy("Specify the file with the recovery key, AGE-SECRET-KEY-...")
	}
	plain, err := age.Decrypt(armor.NewReader(io.LimitReader(export, maxRecovery)), ids...)
	if err != nil {
		return Recovery{}, reason.Errorf(reason.SecretUnreadable, "decrypting the export: the recovery key does not match").
			WithRemedy("Use the recovery key that was shown when the export was made.")
	}
	text, err := io.ReadAll(plain)
	defer clear(text)
	var r Recovery
	switch {
	case err != nil || json.Unmarshal(text, &r) != nil || r.Format != recoveryFormat || len(r.Keys) == 0:
		return Recovery{}, reason.Errorf(reason.SecretUnreadable, "the export is damaged, or is not an export of a vault")
	case r.Gateway != gateway:
		return Recovery{}, reason.Errorf(reason.InvalidInput, "the export belongs to the gateway %s, but this is %s", r.Gateway, gateway)
	}
	return r, nil
}
