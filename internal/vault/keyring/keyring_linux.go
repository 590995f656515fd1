package keyring

import (
	"context"
	"errors"
	"fmt"

	"github.com/godbus/dbus/v5"

	"palyra/internal/core/bus"
)

// The Secret Service, a draft specification of freedesktop.org that GNOME Keyring,
// KWallet and KeePassXC implement.
const (
	busName      = "org.freedesktop.secrets"
	servicePath  = dbus.ObjectPath("/org/freedesktop/secrets")
	serviceName  = "org.freedesktop.Secret.Service"
	collection   = "org.freedesktop.Secret.Collection"
	itemName     = "org.freedesktop.Secret.Item"
	promptName   = "org.freedesktop.Secret.Prompt"
	noObject     = dbus.ObjectPath("/")
	loginKeyring = dbus.ObjectPath("/org/freedesktop/secrets/collection/login")
)

// Keyring is the keyring of one session.
type Keyring struct {
	address string
	// gateway is the owner of the items, "" for the user.
	gateway string
}

// Session returns the keyring of this user's session; env returns environment variables.
func Session(env func(string) string) Keyring { return Keyring{address: bus.Session(env)} }

// OfGateway returns the same keyring for the items of a gateway, separate from other gateways. It
// never prompts to unlock, because palyrad has no interactive user.
func (k Keyring) OfGateway(id string) Keyring { return Keyring{k.address, id} }

// secret is the struct (oayays) of the specification.
type secret struct {
	Session     dbus.ObjectPath
	Parameters  []byte
	Value       []byte
	ContentType string
}

func (o open) attributes(item string) map[string]string {
	list := map[string]string{"application": service, "item": item}
	if o.gateway != "" {
		list["gateway"] = o.gateway
	}
	return list
}

// open is one conversation with the service.
type open struct {
	conn    *dbus.Conn
	session dbus.ObjectPath
	gateway string
}

// with opens a connection for do. The session has the algorithm "plain": the bus is a socket of
// this machine, and a process that can read it can query the keyring itself.
func (k Keyring) with(ctx context.Context, do func(open) error) error {
	conn, err := bus.Connect(ctx, k.address)
	if err != nil {
		return away("connecting to the session bus: %w", err)
	}
	defer func() { _ = conn.Close() }()
	o := open{conn: conn, gateway: k.gateway}
	var output dbus.Variant
	err = o.call(ctx, servicePath, serviceName+".OpenSession", "plain", dbus.MakeVariant("")).Store(&output, &o.session)
	if err != nil {
		return away("connecting to the Secret Service: %w", err)
	}
	return do(o)
}

func (o open) call(ctx context.Context, path dbus.ObjectPath, method string, args ...any) *dbus.Call {
	return o.conn.Object(busName, path).CallWithContext(ctx, method, 0, args...)
}

// Put stores a value under a name, replacing the previous one.
func (k Keyring) Put(ctx context.Context, item string, value []byte) error {
	return k.with(ctx, func(o open) error {
		at, err := o.keyring(ctx)
		if err != nil {
			return err
		}
		properties := map[string]dbus.Variant{
			itemName + ".Label":      dbus.MakeVariant("Palyra: " + item),
			itemName + ".Attributes": dbus.MakeVariant(o.attributes(item)),
		}
		var made, prompt dbus.ObjectPath
		err = o.call(ctx, at, collection+".CreateItem", properties, secret{o.session, []byte{}, value, "application/octet-stream"}, true).Store(&made, &prompt)
		if err != nil {
			return away("storing an item: %w", err)
		}
		return o.answered(ctx, prompt)
	})
}

// Get returns the value of an item, or ErrNotFound. A locked keyring prompts its user if possible.
func (k Keyring) Get(ctx context.Context, item string) (value []byte, err error) {
	err = k.with(ctx, func(o open) error {
		at, err := o.find(ctx, item)
		if err != nil {
			return err
		}
		var s secret
		if err := o.call(ctx, at, itemName+".GetSecret", o.session).Store(&s); err != nil {
			return away("reading an item: %w", err)
		}
		value = s.Value
		return nil
	})
	return value, err
}

// Delete deletes an item; the error is ErrNotFound if it does not exist.
func (k Keyring) Delete(ctx context.Context, item string) error {
	return k.with(ctx, func(o open) error {
		at, err := o.find(ctx, item)
		if err != nil {
			return err
		}
		var prompt dbus.ObjectPath
		if err := o.call(ctx, at, itemName+".Delete").Store(&prompt); err != nil {
			return away("deleting an item: %w", err)
		}
		return o.answered(ctx, prompt)
	})
}

// find returns the unlocked item with a name.
func (o open) find(ctx context.Context, item string) (dbus.ObjectPath, error) {
	var unlocked, locked []dbus.ObjectPath
	if err := o.call(ctx, servicePath, serviceName+".SearchItems", o.attributes(item)).Store(&unlocked, &locked); err != nil {
		return "", away("searching it: %w", err)
	}
	switch {
	case len(unlocked) > 0:
		return unlocked[0], nil
	case len(locked) > 0:
		return locked[0], o.unlock(ctx, locked[0], itemName)
	}
	return "", fmt.Errorf("looking for %s: %w", item, ErrNotFound)
}

// keyring returns the unlocked default collection for new items.
func (o open) keyring(ctx context.Context) (dbus.ObjectPath, error) {
	var at dbus.ObjectPath
	if err := o.call(ctx, servicePath, serviceName+".ReadAlias", "default").Store(&at); err != nil {
		return "", away("finding its default collection: %w", err)
	}
	if at == noObject {
		at = loginKeyring
	}
	return at, o.unlock(ctx, at, collection)
}

// unlock unlocks a collection or an item; kind is the D-Bus interface of the object.
func (o open) unlock(ctx context.Context, at dbus.ObjectPath, kind string) error {
	if o.gateway != "" {
		return o.unlocked(ctx, at, kind)
	}
	var unlocked []dbus.ObjectPath
	var prompt dbus.ObjectPath
	if err := o.call(ctx, servicePath, serviceName+".Unlock", []dbus.ObjectPath{at}).Store(&unlocked, &prompt); err != nil {
		return away("unlocking it: %w", err)
	}
	return o.answered(ctx, prompt)
}

// unlocked returns an error for a locked collection or item.
func (o open) unlocked(ctx context.Context, at dbus.ObjectPath, kind string) error {
	var locked dbus.Variant
	if err := o.call(ctx, at, "org.freedesktop.DBus.Properties.Get", kind, "Locked").Store(&locked); err != nil {
		return away("checking whether it is locked: %w", err)
	}
	if is, _ := locked.Value().(bool); is {
		return away("it is locked")
	}
	return nil
}

// answered waits until the user has answered a prompt of the keyring.
func (o open) answered(ctx context.Context, prompt dbus.ObjectPath) error {
	if prompt == noObject {
		return nil
	}
	if o.gateway != "" {
		return errors.Join(away("it is locked"), o.call(ctx, prompt, promptName+".Dismiss").Err)
	}
	matches := []dbus.MatchOption{dbus.WithMatchObjectPath(prompt), dbus.WithMatchInterface(promptName), dbus.WithMatchMember("Completed")}
	if err := o.conn.AddMatchSignalContext(ctx, matches...); err != nil {
		return away("%w", err)
	}
	signals := make(chan *dbus.Signal, 16)
	o.conn.Signal(signals)
	defer o.conn.RemoveSignal(signals)
	if err := o.call(ctx, prompt, promptName+".Prompt", "").Err; err != nil {
		return away("it is locked, and prompting its user failed: %w", err)
	}
	for {
		select {
		case <-ctx.Done():
			return errors.Join(away("it is locked, and its user did not answer"), o.call(context.WithoutCancel(ctx), prompt, promptName+".Dismiss").Err)
		case s, ok := <-signals:
			if !ok {
				return away("the session bus was closed")
			}
			if s.Path != prompt || len(s.Body) == 0 {
				continue
			}
			if dismissed, _ := s.Body[0].(bool); dismissed {
				return away("it is locked, and was not unlocked")
			}
			return nil
		}
	}
}
