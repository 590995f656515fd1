package identity

import (
	"crypto/x509"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/identity/ca"
)

// The payloads of this package's events; docs/reference/events.md describes them.
type (
	caCreated struct {
		TrustDomain string    `json:"trust_domain"`
		RootSHA256  string    `json:"root_sha256"`
		NotAfter    time.Time `json:"not_after"`
	}
	certificateMade struct {
		DeviceID  string           `json:"device_id"`
		Principal access.Principal `json:"principal"`
		Serial    string           `json:"serial"`
		KeySHA256 string           `json:"key_sha256"`
		NotBefore time.Time        `json:"not_before"`
		NotAfter  time.Time        `json:"not_after"`
		Renewal   bool             `json:"renewal"`
	}
	memberAdded struct {
		Principal     access.Principal `json:"principal"`
		Owner         access.Principal `json:"owner"`
		Roles         []access.Role    `json:"roles"`
		AwaitsConsent bool             `json:"awaits_consent,omitempty"`
	}
	memberChanged struct {
		Principal access.Principal `json:"principal"`
		Roles     []access.Role    `json:"roles"`
		WasRoles  []access.Role    `json:"was_roles"`
		Owner     access.Principal `json:"owner"`
		WasOwner  access.Principal `json:"was_owner"`
		// AwaitsConsent is the state after the change.
		AwaitsConsent bool `json:"awaits_consent,omitempty"`
	}
	// agentConsent records that consent was given or withdrawn.
	agentConsent struct {
		Principal access.Principal `json:"principal"`
		Owner     access.Principal `json:"owner"`
	}
	// memberStands records that a member was disabled or enabled.
	memberStands struct {
		Principal access.Principal `json:"principal"`
		Reason    string           `json:"reason"`
	}
	memberRemoved struct {
		Principal access.Principal `json:"principal"`
		Reason    string           `json:"reason"`
		// Revoked are the ids of its devices.
		Revoked []string `json:"revoked"`
	}
	deviceRevoked struct {
		DeviceID  string           `json:"device_id"`
		Principal access.Principal `json:"principal"`
		Reason    string           `json:"reason"`
	}
	deviceRenamed struct {
		DeviceID  string           `json:"device_id"`
		Principal access.Principal `json:"principal"`
		Name      string           `json:"name"`
		WasName   string           `json:"was_name"`
	}
	membersConfirmed struct {
		Members []access.Principal `json:"members"`
		// Host is true for a confirmation by the administrator of the gateway's host.
		Host bool `json:"host"`
	}
	deviceKeyReplaced struct {
		DeviceID  string           `json:"device_id"`
		Principal access.Principal `json:"principal"`
		KeySHA256 string           `json:"key_sha256"`
		// Replaced are the previous keys, which work until Until.
		Replaced []string  `json:"replaced"`
		Until    time.Time `json:"until"`
		// Lost is true for a key that was certified after the backup from which the gateway was
		// restored.
		Lost bool `json:"lost,omitempty"`
	}
	oldKeyUsed struct {
		DeviceID  string           `json:"device_id"`
		Principal access.Principal `json:"principal"`
		KeySHA256 string           `json:"key_sha256"`
		Address   string           `json:"address"`
	}
	presenceKeyRegistered struct {
		DeviceID  string           `json:"device_id"`
		Principal access.Principal `json:"principal"`
		KeySHA256 string           `json:"key_sha256"`
		// WasSHA256 is the previous key, which signed for the new one; "" for none.
		WasSHA256 string `json:"was_sha256"`
		// Waits is true if the key proves nothing until it is confirmed.
		Waits bool `json:"waits"`
	}
	// presenceKeyEvent records that a presence key was confirmed or removed.
	presenceKeyEvent struct {
		DeviceID  string           `json:"device_id"`
		Principal access.Principal `json:"principal"`
		KeySHA256 string           `json:"key_sha256"`
	}
	loggedIn struct {
		DeviceID  string           `json:"device_id"`
		Principal access.Principal `json:"principal"`
		Issuer    string           `json:"issuer"`
		Subject   string           `json:"subject"`
		// Until is the end of the session.
		Until time.Time `json:"until"`
		// Loss names the members that lost the ability to answer approvals.
		Loss string `json:"loss,omitempty"`
		// Forgotten are sessions that ended long ago, whose devices were dropped.
		Forgotten []string `json:"forgotten"`
	}
	loggedOutEvent struct {
		DeviceID  string           `json:"device_id"`
		Principal access.Principal `json:"principal"`
		Reason    string           `json:"reason"`
	}
	deviceAdded struct {
		DeviceID  string           `json:"device_id"`
		Principal access.Principal `json:"principal"`
		// Revoked are the devices that this device replaced.
		Revoked []string `json:"revoked"`
	}
	devicePaired struct {
		DeviceID  string           `json:"device_id"`
		Principal access.Principal `json:"principal"`
		// Code is the id of the pairing code.
		Code       string             `json:"code"`
		ApprovalID string             `json:"approval_id"`
		MadeBy     access.Principal   `json:"made_by"`
		ApprovedBy []access.Principal `json:"approved_by"`
	}
)

// drafts collects events and the first error of creating one.
type drafts struct {
	list []event.Draft
	err  error
}

func (d *drafts) add(code event.Code, actor access.Principal, subject string, payload any) {
	made, err := event.DraftOf(code, actor.String(), subject, payload)
	if err != nil && d.err == nil {
		d.err = err
	}
	d.list = append(d.list, made)
}

func (d *drafts) authority(actor access.Principal, a *ca.Authority) {
	root := a.Root()
	d.add(event.CACreated, actor, "", caCreated{
		TrustDomain: a.TrustDomain(), RootSHA256: fingerprint(root), NotAfter: root.NotAfter,
	})
}

func (d *drafts) certificate(actor access.Principal, dev Device, c ca.Issued, renewal bool) {
	d.add(event.CertificateMade, actor, dev.ID, certificateMade{
		DeviceID: dev.ID, Principal: dev.Principal, Serial: c.Serial, KeySHA256: c.KeySHA256,
		NotBefore: c.NotBefore, NotAfter: c.NotAfter, Renewal: renewal,
	})
}

func (d *drafts) member(actor access.Principal, m access.Member) {
	d.add(event.MemberAdded, actor, m.Principal.String(), memberAdded{
		Principal: m.Principal, Owner: m.Owner, Roles: m.Roles, AwaitsConsent: m.AwaitsConsent,
	})
}

// revoke revokes a device that is not revoked yet.
func (d *drafts) revoke(dev *Device, actor access.Principal, why string, at time.Time) {
	dev.RevokedAt, dev.RevokedBy, dev.RevokeReason = at, actor, why
	dev.Version++
	d.add(event.DeviceRevoked, actor, dev.ID, deviceRevoked{DeviceID: dev.ID, Principal: dev.Principal, Reason: why})
}

// fingerprint returns "sha256:" and the digest of the certificate's DER.
func fingerprint(c *x509.Certificate) string { return canonical.Digest(c.Raw) }
