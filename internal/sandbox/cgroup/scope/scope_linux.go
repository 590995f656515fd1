package scope

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/godbus/dbus/v5"

	"palyra/internal/bus"
)

// patience bounds the whole conversation.
const patience = 5 * time.Second

// systemd's manager on a bus.
const (
	manager          = "org.freedesktop.systemd1"
	managerPath      = "/org/freedesktop/systemd1"
	managerInterface = manager + ".Manager"
)

// Ask moves the calling process into a scope of its own that is delegated to it,
// below a slice ("" leaves the choice to systemd). It asks the system's manager for
// root, and the user's for others, and returns when the process is there.
func Ask(ctx context.Context, slice string) error {
	address := bus.System()
	if os.Geteuid() != 0 {
		address, slice = bus.Session(os.Getenv), ""
	}
	err := askAt(ctx, address, slice)
	if err != nil {
		return fmt.Errorf("asking systemd for a scope: %w", err)
	}
	return nil
}

func askAt(ctx context.Context, address, slice string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	b, err := bus.Connect(ctx, address)
	if err != nil {
		return err
	}
	defer func() { _ = b.Close() }()
	// The job may end before its answer is read.
	removed := make(chan *dbus.Signal, 16)
	b.Signal(removed)
	if err := b.AddMatchSignalContext(ctx, dbus.WithMatchInterface(managerInterface), dbus.WithMatchMember("JobRemoved")); err != nil {
		return err
	}
	systemd := b.Object(manager, managerPath)
	if err := systemd.CallWithContext(ctx, managerInterface+".Subscribe", 0).Err; err != nil {
		return err
	}
	var job dbus.ObjectPath
	name := "palyrad-" + strconv.Itoa(os.Getpid()) + ".scope"
	if err := systemd.CallWithContext(ctx, managerInterface+".StartTransientUnit", 0, name, "fail", properties(slice), []auxiliary{}).Store(&job); err != nil {
		return err
	}
	return awaitJob(ctx, removed, job)
}

// property is one of a unit, and auxiliary a unit that is started beside it, in
// the types of StartTransientUnit.
type (
	property struct {
		Name  string
		Value dbus.Variant
	}
	auxiliary struct {
		Name       string
		Properties []property
	}
)

func properties(slice string) []property {
	list := []property{
		{"Description", dbus.MakeVariant("palyrad and its sandboxes")},
		{"PIDs", dbus.MakeVariant([]uint32{uint32(os.Getpid())})},
		{"Delegate", dbus.MakeVariant(true)},
		{"CollectMode", dbus.MakeVariant("inactive-or-failed")},
	}
	if slice != "" {
		list = append(list, property{"Slice", dbus.MakeVariant(slice)})
	}
	return list
}

// awaitJob waits until systemd has done a job.
func awaitJob(ctx context.Context, removed <-chan *dbus.Signal, job dbus.ObjectPath) error {
	for {
		var signal *dbus.Signal
		select {
		case <-ctx.Done():
			return ctx.Err()
		case signal = <-removed:
		}
		if signal == nil {
			return dbus.ErrClosed
		}
		var (
			number       uint32
			path         dbus.ObjectPath
			unit, result string
		)
		if err := dbus.Store(signal.Body, &number, &path, &unit, &result); err != nil || path != job {
			continue
		}
		if result != "done" {
			return fmt.Errorf("the job for %s ended with %q", unit, result)
		}
		return nil
	}
}
