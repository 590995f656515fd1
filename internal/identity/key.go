package identity

import (
	"slices"
	"time"

	"palyra/internal/identity/ca"
)

// maxKeys is the maximum number of valid keys of one device. A device has more than two keys if
// renewals were interrupted before the new key was stored.
const maxKeys = 8

// Key is a public key that a device may act with.
type Key struct {
	// SHA256 is "sha256:" and the hex digest of the public key.
	SHA256 string `json:"sha256"`
	// NotAfter is the end of its newest certificate.
	NotAfter time.Time `json:"not_after"`
	// UsedAt is the time of its first use; zero before.
	UsedAt time.Time `json:"used_at,omitzero"`
	// EndsAt is the time at which it ends because a newer key was used; zero before.
	EndsAt time.Time `json:"ends_at,omitzero"`
}

func (k Key) ended(now time.Time) bool { return !k.EndsAt.IsZero() && !now.Before(k.EndsAt) }

// key returns a currently valid key of the device. All other keys that the authority certified for
// the device were replaced.
func (d Device) key(digest string, now time.Time) (Key, bool) {
	for _, k := range d.Keys {
		if k.SHA256 == digest {
			return k, !k.ended(now)
		}
	}
	return Key{}, false
}

// certified returns the keys of a device after a certificate was issued; the newest is last.
func certified(keys []Key, c ca.Issued, now time.Time) []Key {
	list := slices.DeleteFunc(slices.Clone(keys), func(k Key) bool { return k.ended(now) })
	if i := slices.IndexFunc(list, func(k Key) bool { return k.SHA256 == c.KeySHA256 }); i >= 0 {
		list[i].NotAfter = c.NotAfter
		return list
	}
	if len(list) >= maxKeys {
		// Remove the oldest unused key: it belongs to an interrupted renewal.
		if i := slices.IndexFunc(list, func(k Key) bool { return k.UsedAt.IsZero() }); i >= 0 {
			list = slices.Delete(list, i, i+1)
		}
	}
	return append(list, Key{SHA256: c.KeySHA256, NotAfter: c.NotAfter})
}

// used returns the keys of a device after the first use of a key: the keys certified before
// that key end.
func used(keys []Key, digest string, now time.Time) (list []Key, ending []string) {
	list = slices.Clone(keys)
	for i := range list {
		if list[i].SHA256 == digest {
			list[i].UsedAt = now
			break
		}
		if list[i].EndsAt.IsZero() {
			list[i].EndsAt = now.Add(KeyGrace)
			ending = append(ending, list[i].SHA256)
		}
	}
	return list, ending
}

// holds records a new certificate of the device.
func (d *Device) holds(c ca.Issued, now time.Time) {
	d.Serial, d.KeySHA256, d.NotAfter = c.Serial, c.KeySHA256, c.NotAfter
	d.Keys = certified(d.Keys, c, now)
}
