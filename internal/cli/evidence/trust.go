package evidence

import (
	"encoding/json"
	"errors"
	"fmt"

	"palyra/internal/cli/witness"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/attest"
	"palyra/internal/evidence/journal"
)

// trust says which keys may have signed the journal, and by whose word: that of
// a key set, of an earlier check, or of the CA in the credential bundle. The
// file's own word counts last, and only for whether it is whole.
func (v *verification) trust(header json.RawMessage, _ []string) (journal.Trust, error) {
	own, err := headerSet(header)
	if err != nil {
		return journal.Trust{}, err
	}
	if v.key != "" {
		v.keyBy = "--key"
	}
	switch {
	case v.set != nil && len(v.set.CheckpointKeys) > 0:
		v.keyBy = v.keys
		return v.pinned(*v.set, v.set)
	case v.key == "" && len(v.memory.Signing()) > 0:
		v.keyBy = byMemory
		return journal.Trust{Keys: v.memory.Signing(), Pinned: true, Admit: v.admit(own)}, nil
	case own == nil || len(own.CheckpointKeys) == 0 || v.key != "":
		return journal.Trust{Admit: v.admit(own)}, nil
	}
	if v.caRootBy == byBundle && own.Fingerprint() == v.caRoot {
		v.keyBy = byBundle
	}
	return v.pinned(*own, own)
}

// headerSet is the key set that an export names, nil when it names none.
func headerSet(header json.RawMessage) (*attest.KeySet, error) {
	if len(header) == 0 || string(header) == "null" {
		return nil, nil
	}
	set, err := attest.ParseKeySet(header)
	return &set, err
}

// pinned are the keys of a set, once its certificates were proven.
func (v *verification) pinned(set attest.KeySet, root *attest.KeySet) (journal.Trust, error) {
	if _, err := attest.NewVerifier(set); err != nil {
		return journal.Trust{}, err
	}
	return journal.Trust{Keys: witness.SetKeys(set), Pinned: v.keyBy != "", Admit: v.admit(root)}, nil
}

// admit lets a key take over from a known one when the root vouches for it: the
// one that is known, or the one that the file names when none is.
func (v *verification) admit(set *attest.KeySet) func(journal.Rotation) error {
	return func(r journal.Rotation) error {
		switch {
		case set == nil:
			return errors.New("there is no CA that vouches for it")
		case v.caRoot != "" && set.Fingerprint() != v.caRoot:
			return fmt.Errorf("the key set leads to another CA than the one that is known from %s", v.caRootBy)
		}
		return set.CheckCheckpointKey(attest.CheckpointKey{Verifier: r.New, CertificateChain: r.Certificate, CertifiedAt: r.At})
	}
}

// unknownKey says of a key that is not known by whom it is not.
func (v *verification) unknownKey(e *journal.UnknownKeyError) error {
	if v.keyBy == byMemory {
		path, _ := witness.Path(v.a.App, v.caRoot)
		return witness.KeyChanged(v.memory, path, e.Key)
	}
	if v.keyBy == "" {
		return reason.Errorf(reason.VerificationFailed, "%s does not verify: it is signed by a key that the key set in it does not have", v.name).
			WithField("key", e.Key)
	}
	return reason.Errorf(reason.VerificationFailed, "%s does not verify: it is signed by a key that %s does not have", v.name, v.keyBy).
		WithField("key", e.Key).
		WithRemedy("Either somebody else made it, or the gateway's key was replaced after the key set was written: fetch it anew with `palyra attest keys -o json`, compare its fingerprint over another channel, and verify again.")
}

// originUnproven is the end of a verification with a key set of version 1 and
// nothing else that knows the journal's keys: everything verifies, and anybody
// could have made it.
func (v *verification) originUnproven() error {
	if v.set == nil || v.keyBy != "" {
		return nil
	}
	return reason.Errorf(reason.OriginUnproven, "whose journal this is was not proven: %s is a key set of version 1, which has no keys of the journal", v.keys).
		WithRemedy("Fetch a new one with `palyra attest keys -o json`, compare its fingerprint with %s over another channel, and verify again.", v.set.Fingerprint())
}
