package scope

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"palyra/internal/core/text"
)

// patience is the timeout of the whole conversation.
const patience = 5 * time.Second

// The names of systemd's manager on a bus.
const (
	busName, busPath = "org.freedesktop.DBus", "/org/freedesktop/DBus"
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
		return systemBus()
	}
	return userBus()
}

func systemBus() string {
	if at := os.Getenv("DBUS_SYSTEM_BUS_ADDRESS"); at != "" {
		return at
	}
	return "unix:path=/run/dbus/system_bus_socket"
}

func userBus() string {
	if at := os.Getenv("DBUS_SESSION_BUS_ADDRESS"); at != "" {
		return at
	}
	return "unix:path=/run/user/" + strconv.Itoa(os.Geteuid()) + "/bus"
}

func reachableAt(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	b, err := greet(ctx, address)
	if err != nil {
		return err
	}
	defer b.close()
	var name encoder
	name.text(manager)
	answer, err := b.call(call{busName, busPath, busName, "NameHasOwner", "s", name.bytes})
	if err != nil {
		return err
	}
	if owned := (decoder{bytes: answer.body}); owned.word() == 0 {
		return errors.New("systemd is not on the bus")
	}
	return nil
}

// greet connects and calls Hello, the required first call of a connection.
func greet(ctx context.Context, address string) (*bus, error) {
	b, err := connect(ctx, address)
	if err != nil {
		return nil, err
	}
	if _, err := b.call(call{busName, busPath, busName, "Hello", "", nil}); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func askAt(ctx context.Context, address, slice string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	b, err := greet(ctx, address)
	if err != nil {
		return err
	}
	defer b.close()
	var rule encoder
	rule.text("type='signal',interface='" + managerInterface + "',member='JobRemoved'")
	if _, err := b.call(call{busName, busPath, busName, "AddMatch", "s", rule.bytes}); err != nil {
		return err
	}
	if _, err := b.call(call{manager, managerPath, managerInterface, "Subscribe", "", nil}); err != nil {
		return err
	}
	answer, err := b.call(call{manager, managerPath, managerInterface, "StartTransientUnit", "ssa(sv)a(sa(sv))", order(slice)})
	if err != nil {
		return err
	}
	job := decoder{bytes: answer.body}
	return b.awaitJob(job.text())
}

// order returns the body of StartTransientUnit.
func order(slice string) []byte {
	var e encoder
	pid := os.Getpid()
	e.text("palyrad-" + strconv.Itoa(pid) + ".scope")
	e.text("fail")
	e.array(8, func() {
		property := func(name, signature string, value func()) {
			e.align(8)
			e.text(name)
			e.signature(signature)
			value()
		}
		property("Description", "s", func() { e.text("palyrad and its sandboxes") })
		property("PIDs", "au", func() { e.array(4, func() { e.word(uint32(pid)) }) })
		property("Delegate", "b", func() { e.word(1) })
		property("CollectMode", "s", func() { e.text("inactive-or-failed") })
		if slice != "" {
			property("Slice", "s", func() { e.text(slice) })
		}
	})
	e.array(8, func() {})
	return e.bytes
}

// bus is a connection to a message bus.
type bus struct {
	conn   net.Conn
	from   *bufio.Reader
	serial uint32
	// missed are signals that were received while waiting for an answer.
	missed []message
}

// connect opens the first address that answers and authenticates as this user.
func connect(ctx context.Context, addresses string) (*bus, error) {
	err := errors.New("the bus has no address")
	for address := range strings.SplitSeq(addresses, ";") {
		var conn net.Conn
		if conn, err = dial(ctx, address); err != nil {
			continue
		}
		b := &bus{conn: conn, from: bufio.NewReader(conn)}
		if err = b.authenticate(); err == nil {
			return b, nil
		}
		b.close()
	}
	return nil, err
}

func dial(ctx context.Context, address string) (net.Conn, error) {
	rest, ok := strings.CutPrefix(address, "unix:")
	for pair := range strings.SplitSeq(rest, ",") {
		name, value, _ := strings.Cut(pair, "=")
		if name == "abstract" {
			value = "@" + value
		} else if name != "path" {
			continue
		}
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", value)
		if err != nil {
			return nil, err
		}
		deadline, _ := ctx.Deadline()
		return conn, conn.SetDeadline(deadline)
	}
	return nil, fmt.Errorf("the bus address %q has an unsupported kind (%t)", address, ok)
}

func (b *bus) close() { _ = b.conn.Close() }

func (b *bus) authenticate() error {
	user := hex.EncodeToString([]byte(strconv.Itoa(os.Geteuid())))
	if _, err := b.conn.Write([]byte("\x00AUTH EXTERNAL " + user + "\r\n")); err != nil {
		return err
	}
	line, err := b.from.ReadSlice('\n') // at most the size of the buffer
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(line, []byte("OK ")) {
		return fmt.Errorf("the bus refuses this user: %s", quoted(string(bytes.TrimSpace(line))))
	}
	_, err = b.conn.Write([]byte("BEGIN\r\n"))
	return err
}

// quoted formats a text of the bus for an error. The address comes from the environment, so the bus
// is untrusted: its answers only decide whether palyrad checks its own group again, and their
// length is limited.
func quoted(content string) string { return text.Ellipsis(strconv.QuoteToGraphic(content), maxQuoted) }

// Limits of the length of a text, in bytes, and of the number of signals before an answer.
const maxQuoted, mostMissed = 200, 1000

// call is a method call.
type call struct {
	to, path, face, member, signature string
	body                              []byte
}

// call sends a method call and returns its answer.
func (b *bus) call(c call) (message, error) {
	b.serial++
	if _, err := b.conn.Write(c.encode(b.serial)); err != nil {
		return message{}, err
	}
	for {
		m, err := read(b.from)
		switch {
		case err != nil:
			return m, err
		case m.kind == signal && m.member != "JobRemoved":
		case m.kind == signal && len(b.missed) == mostMissed:
			return m, errMalformed
		case m.kind == signal:
			b.missed = append(b.missed, m)
		case m.answers != b.serial:
		case m.kind == failure:
			what := decoder{bytes: m.body}
			return m, fmt.Errorf("%s: %s", quoted(m.name), quoted(what.text()))
		default:
			return m, nil
		}
	}
}

// awaitJob waits until systemd has completed a job.
func (b *bus) awaitJob(job string) error {
	for {
		var m message
		if len(b.missed) > 0 {
			m, b.missed = b.missed[0], b.missed[1:]
		} else {
			var err error
			if m, err = read(b.from); err != nil {
				return err
			}
		}
		if m.kind != signal || m.member != "JobRemoved" {
			continue
		}
		d := decoder{bytes: m.body}
		_, path, unit, result := d.word(), d.text(), d.text(), d.text()
		if path != job {
			continue
		}
		if result != "done" {
			return fmt.Errorf("the job for %s ended with %s", quoted(unit), quoted(result))
		}
		return nil
	}
}
