package evidence

import (
	"palyra/internal/cli/witness"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/journal"
)

// unknownKey returns the error of a key that is not in the trusted set.
func (v *verification) unknownKey(e *journal.UnknownKeyError) error {
	if v.KeyBy == byMemory {
		path, _ := witness.Path(v.a, v.CARoot)
		return witness.KeyChanged(v.memory, path, e.Key)
	}
	if v.KeyBy == "" {
		return reason.Errorf(reason.VerificationFailed, "verifying %s: it is signed by a key that is not in its key set", v.name).
			WithField("key", e.Key)
	}
	return reason.Errorf(reason.VerificationFailed, "verifying %s: it is signed by a key that is not in %s", v.name, v.KeyBy).
		WithField("key", e.Key).
		WithRemedy("It was created by another party, or the gateway's key was replaced after the key set was written. Fetch the key set again with `palyra attest keys -o json`, compare its fingerprint over another channel, and verify again.")
}

// originUnproven returns the error of a verification with a key set of version 1 and no other
// trust anchor for the journal's keys. Such a verification proves the integrity of the journal,
// but not its origin.
func (v *verification) originUnproven() error {
	if v.Set == nil || v.KeyBy != "" {
		return nil
	}
	return reason.Errorf(reason.OriginUnproven, "the origin of the journal was not proven: %s is a key set of version 1, which has no keys of the journal", v.SetBy).
		WithRemedy("Fetch a new one with `palyra attest keys -o json`, compare its fingerprint with %s over another channel, and verify again.", v.Set.Fingerprint())
}
