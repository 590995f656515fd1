package provenance

import "palyra/internal/core/event"

// Kind is a kind of act on a member, or on something that speaks for one.
type Kind string

// The kinds of acts. Table has a row for each.
const (
	// Made is the act that added the member.
	Made Kind = "made"
	// Changed is another role or owner, or another state.
	Changed Kind = "changed"
	// DeviceGiven is a device that another principal created for the member, or allowed. Earlier
	// releases recorded it as Changed.
	DeviceGiven Kind = "device"
	// Confirmed says that the member is who it is said to be. It settles the acts
	// before it, for everybody in whose hands its author was not.
	Confirmed Kind = "confirmed"
	// Mapped says that an account elsewhere is the member's.
	Mapped Kind = "mapped"
	// Consented is the member's own word for a mapped account, or for an agent.
	Consented Kind = "consented"
	// LoggedIn is a session of a person at the identity provider.
	LoggedIn Kind = "logged_in"
	// TokenMade is an API token.
	TokenMade Kind = "token"
	// ConsoleBegun is a link into the console, or a session of it.
	ConsoleBegun Kind = "console"
	// KeyAdded is a passkey or presence key, or the next key of a device.
	KeyAdded Kind = "key"
	// Ended is the end of something that speaks for a member.
	Ended Kind = "ended"
)

// Effect is what an act gives to its author.
type Effect int

// The effects. The zero value is the gravest, so that an act without a row has it.
const (
	// Controls lets the author act as the member from then on.
	Controls Effect = iota
	// Settles takes the member out of the hands in which the author is not.
	Settles
	// NeedsConsent has no effect before the member consents, with a credential that no other
	// principal created or controls.
	NeedsConsent
	// OwnWord is an act that only the member itself can do, or a principal that controls it
	// already.
	OwnWord
	// GivesNothing lets no further principal act as the member.
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
