package scope

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/godbus/dbus/v5"

	"palyra/internal/core/bus"
	"palyra/internal/core/text"
)

// Limits of a conversation: its duration, the received bytes, and the length in bytes of a text of
// the bus in an error. The address comes from the environment, so the bus is untrusted: its answers
// only decide whether palyrad checks its own group again.
const (
	patience     = 5 * time.Second
	mostReceived = 1 << 20
	maxQuoted    = 200
)

// The names of systemd's manager on a bus.
const (
	manager          = "org.freedesktop.systemd1"
	managerPath      = "/org/freedesktop/systemd1"
	managerInterface = manager + ".Manager"
)

// Ask moves the calling process into its own delegated scope below a slice; "" leaves the choice
// to systemd. It calls the system manager for root, and the user manager for others, and returns
// after the move.
func Ask(ctx context.Context, slice string) error {
	if os.Geteuid() != 0 {
		slice = ""
	}
	err := askAt(ctx, busOfUser(), slice)
	if err != nil {
		return fmt.Errorf("requesting a scope from systemd: %w", err)
	}
	return nil
}

// Reachable returns an error if Ask would not find systemd. It queries only the bus and changes
// nothing.
func Reachable(ctx context.Context) error {
	if err := reachableAt(ctx, busOfUser()); err != nil {
		return fmt.Errorf("searching for systemd: %w", err)
	}
	return nil
}

// busOfUser returns the address of the bus with the manager for Ask.
func busOfUser() string {
	if os.Geteuid() == 0 {
		return bus.System()
	}
	return bus.Session(os.Getenv)
}

func reachableAt(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := bus.ConnectOnce(ctx, address, mostReceived)
	if err != nil {
		return readable(err)
	}
	defer func() { _ = conn.Close() }()
	var owned bool
	err = conn.BusObject().CallWithContext(ctx, "org.freedesktop.DBus.NameHasOwner", 0, manager).Store(&owned)
	if err == nil && !owned {
		err = errors.New("systemd is not on the bus")
	}
	return readable(err)
}

func askAt(ctx context.Context, address, slice string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := bus.ConnectOnce(ctx, address, mostReceived)
	if err != nil {
		return readable(err)
	}
	defer func() { _ = conn.Close() }()
	return readable(moveTo(ctx, conn, slice))
}

// moveTo requests the scope and waits until systemd has completed the job.
func moveTo(ctx context.Context, conn *dbus.Conn, slice string) error {
	if err := conn.AddMatchSignalContext(ctx, dbus.WithMatchInterface(managerInterface), dbus.WithMatchMember("JobRemoved")); err != nil {
		return err
	}
	// systemd may complete the job before its answer is read.
	ended := make(chan *dbus.Signal, 1)
	conn.Signal(ended)
	systemd := conn.Object(manager, managerPath)
	if err := systemd.CallWithContext(ctx, managerInterface+".Subscribe", 0).Err; err != nil {
		return err
	}
	var job dbus.ObjectPath
	if err := systemd.CallWithContext(ctx, managerInterface+".StartTransientUnit", 0, order(slice)...).Store(&job); err != nil {
		return err
	}
	for signal := range ended {
		var number uint32
		var path dbus.ObjectPath
		var unit, result string
		if dbus.Store(signal.Body, &number, &path, &unit, &result) != nil || path != job {
			continue
		}
		if result != "done" {
			return fmt.Errorf("the job for %s ended with %s", unit, result)
		}
		return nil
	}
	return errors.New("the bus closed the connection before the end of the job")
}

// property is a property of a unit: (sv).
type property struct {
	Name  string
	Value dbus.Variant
}

// order returns the arguments of StartTransientUnit: ssa(sv)a(sa(sv)).
func order(slice string) []any {
	pid := os.Getpid()
	properties := []property{
		{"Description", dbus.MakeVariant("palyrad and its sandboxes")},
		{"PIDs", dbus.MakeVariant([]uint32{uint32(pid)})},
		{"Delegate", dbus.MakeVariant(true)},
		{"CollectMode", dbus.MakeVariant("inactive-or-failed")},
	}
	if slice != "" {
		properties = append(properties, property{"Slice", dbus.MakeVariant(slice)})
	}
	type auxiliary struct {
		Name       string
		Properties []property
	}
	return []any{"palyrad-" + strconv.Itoa(pid) + ".scope", "fail", properties, []auxiliary{}}
}

// readable returns an error with a text that is short and has no control characters.
func readable(err error) error {
	if err == nil {
		return nil
	}
	words := err.Error()
	if answer, ok := errors.AsType[dbus.Error](err); ok {
		words = answer.Name + ": " + words
	}
	quoted := strconv.QuoteToGraphic(words)
	return errors.New(text.Ellipsis(quoted[1:len(quoted)-1], maxQuoted))
}
