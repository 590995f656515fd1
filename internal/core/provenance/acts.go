package provenance

import "palyra/internal/core/event"

// Kind is a kind of act on a member, or on a credential or account of a member.
type Kind string

// The kinds of acts. Table has a row for each.
const (
	// Made is the act that added the member.
	Made Kind = "made"
	// Changed is a change of the member's roles, owner or state.
	Changed Kind = "changed"
	// DeviceGiven is a device that another principal created for the member, or allowed. Earlier
	// releases recorded it as Changed.
	DeviceGiven Kind = "device"
	// Confirmed is a confirmation of the member's identity. It ends the control that earlier acts
	// gave, except for principals that control its author.
	Confirmed Kind = "confirmed"
	// Mapped is the assignment of an external account to the member.
	Mapped Kind = "mapped"
	// Consented is the member's own consent to a mapped account, or to an agent.
	Consented Kind = "consented"
	// LoggedIn is a session of a person from the identity provider.
	LoggedIn Kind = "logged_in"
	// TokenMade is the creation of an API token.
	TokenMade Kind = "token"
	// ConsoleBegun is the creation of a link into the console, or of a session of the console.
	ConsoleBegun Kind = "console"
	// KeyAdded is the addition of a passkey or presence key, or of the next key of a device.
	KeyAdded Kind = "key"
	// Ended is the end of a credential or account of a member.
	Ended Kind = "ended"
)

// Effect is the control that an act gives its author.
type Effect int

// The effects. The zero value is the most severe one, so that it applies to an act without a
// row.
const (
	// Controls lets the author act as the member from then on.
	Controls Effect = iota
	// Settles ends the control over the member, except by principals that control the author.
	Settles
	// NeedsConsent has no effect before the member consents, with a credential that no other
	// principal created or controls.
	NeedsConsent
	// OwnWord is an act that only the member can do, or a principal that already controls it.
	OwnWord
	// GivesNothing gives no other principal control over the member.
	GivesNothing
)

// Row defines the control that one kind of act gives its author.
type Row struct {
	Kind   Kind
	Effect Effect
	// Events are the event codes of the act.
	Events []event.Code
	// Why is the reason for the effect.
	Why string
}

// Table is the only list of the acts by which a principal could gain control over a member's
// credentials. History keeps the acts that control or settle; the others never change the control
// of a member.
var Table = []Row{
	{Made, Controls, []event.Code{event.MemberAdded}, "the author makes the first credential of the member"},
	{Changed, Controls, []event.Code{event.MemberChanged, event.MemberDisabled, event.MemberEnabled, event.MemberRemoved}, "the author decides what the member can do"},
	{DeviceGiven, Controls, []event.Code{event.DeviceAdded, event.DevicePaired}, "the author could hold the key of the device"},
	{Confirmed, Settles, []event.Code{event.MembersConfirmed}, "the author has checked that the credentials of the member are its own"},
	{Mapped, NeedsConsent, []event.Code{event.ChatUserMapped}, "the author could own the account"},
	{Consented, OwnWord, []event.Code{event.ChatConsent, event.ConsentGiven}, "only the member consents, with a device of its own"},
	{LoggedIn, GivesNothing, []event.Code{event.LoggedIn}, "the identity provider binds a person to a new member alone, and no login takes a member over"},
	{TokenMade, OwnWord, []event.Code{event.TokenMade}, "people make tokens for themselves and their own agents, and no token decides approvals or consents"},
	{ConsoleBegun, OwnWord, []event.Code{event.ConsoleLink, event.ConsoleBegun}, "a session of the console is that of the device that asked for the link"},
	{KeyAdded, GivesNothing, []event.Code{event.PresenceKeyRegistered, event.PresenceKeyConfirmed, event.PasskeyEnrolled, event.PasskeyConfirmed, event.DeviceKeyReplaced}, "the key is made with a credential that speaks for the member already, and does not speak for the member alone"},
	{Ended, GivesNothing, []event.Code{
		event.DeviceRevoked, event.TokenRevoked, event.LoggedOut, event.ConsoleEnded, event.ConsentWithdrawn, event.ChatUserGone,
		event.PresenceKeyReset, event.PasskeyRemoved,
	}, "the act removes something that spoke for the member"},
}

// effects are the effects in Table by kind.
var effects = func() map[Kind]Effect {
	all := map[Kind]Effect{}
	for _, row := range Table {
		all[row.Kind] = row.Effect
	}
	return all
}()
