package bus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/godbus/dbus/v5"
)

// System returns the address of the system bus.
func System() string {
	if at := os.Getenv("DBUS_SYSTEM_BUS_ADDRESS"); at != "" {
		return at
	}
	return "unix:path=/run/dbus/system_bus_socket"
}

// Session returns the address of this user's session bus; env looks up a variable.
func Session(env func(string) string) string {
	if at := env("DBUS_SESSION_BUS_ADDRESS"); at != "" {
		return at
	}
	return "unix:path=/run/user/" + strconv.Itoa(os.Geteuid()) + "/bus"
}

// Connect opens the first of the addresses (separated by semicolons) where a bus answers, and
// authenticates as this user. ctx limits the attempt, not the lifetime of the connection.
//
// Only sockets of this machine are used, although the specification also has addresses that connect
// to a host or start a program.
func Connect(ctx context.Context, addresses string) (*dbus.Conn, error) {
	return connect(ctx, addresses, func(socket net.Conn) (*dbus.Conn, error) { return dbus.NewConn(socket) })
}

// ConnectOnce is Connect for one short conversation with an untrusted bus. The connection ends with
// ctx, and after a number of received bytes. It delivers signals in their order.
func ConnectOnce(ctx context.Context, addresses string, received int64) (*dbus.Conn, error) {
	return connect(ctx, addresses, func(socket net.Conn) (*dbus.Conn, error) {
		limited := struct {
			io.Reader
			io.WriteCloser
		}{io.LimitReader(socket, received), socket}
		return dbus.NewConn(limited, dbus.WithContext(ctx), dbus.WithSignalHandler(dbus.NewSequentialSignalHandler()))
	})
}

func connect(ctx context.Context, addresses string, open func(net.Conn) (*dbus.Conn, error)) (*dbus.Conn, error) {
	err := errors.New("the address of the bus is not set")
	for address := range strings.SplitSeq(addresses, ";") {
		var conn *dbus.Conn
		if conn, err = connectTo(ctx, address, open); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

func connectTo(ctx context.Context, address string, open func(net.Conn) (*dbus.Conn, error)) (*dbus.Conn, error) {
	socket, err := socketOf(address)
	if err != nil {
		return nil, err
	}
	raw, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	conn, err := open(raw)
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	// Neither Auth nor Hello takes a context.
	inTime := context.AfterFunc(ctx, func() { _ = raw.Close() })
	if err = conn.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(os.Geteuid()))}); err == nil {
		err = conn.Hello()
	}
	if !inTime() {
		err = ctx.Err()
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// socketOf returns the socket path of an address, with "@" before an abstract name.
func socketOf(address string) (string, error) {
	rest, local := strings.CutPrefix(address, "unix:")
	if local {
		for pair := range strings.SplitSeq(rest, ",") {
			name, value, _ := strings.Cut(pair, "=")
			if name != "path" && name != "abstract" {
				continue
			}
			value, err := dbus.UnescapeBusAddressValue(value)
			if name == "abstract" {
				value = "@" + value
			}
			return value, err
		}
	}
	return "", fmt.Errorf("the bus address %q names no socket of this machine", address)
}
