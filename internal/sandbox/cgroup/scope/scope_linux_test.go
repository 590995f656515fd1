package scope

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/godbus/dbus/v5"

	"palyra/internal/bus/bustest"
	"palyra/internal/must"
)

// A real bus without a systemd says so.
func TestNoSystemd(t *testing.T) {
	err := askAt(t.Context(), bustest.New(t), "user-0.slice")
	if err == nil || !strings.Contains(err.Error(), "org.freedesktop.systemd1") {
		t.Errorf("a bus without systemd says: %v", err)
	}
}

// fakeSystemd is a manager on a real bus, which checks types as systemd does: a
// method whose arguments are of another signature is refused. It ends the job with
// a result.
type fakeSystemd struct {
	conn       *dbus.Conn
	result     string
	subscribed bool
	properties map[string]any
}

func (f *fakeSystemd) Subscribe() *dbus.Error {
	f.subscribed = true
	return nil
}

func (f *fakeSystemd) StartTransientUnit(name, mode string, properties []property, beside []auxiliary) (dbus.ObjectPath, *dbus.Error) {
	if name != "palyrad-"+strconv.Itoa(os.Getpid())+".scope" || mode != "fail" || len(beside) != 0 {
		return "", dbus.NewError("org.freedesktop.DBus.Error.InvalidArgs", nil)
	}
	f.properties = map[string]any{}
	for _, p := range properties {
		f.properties[p.Name] = p.Value.Value()
	}
	// Another's job ends first, and ours before its answer is out.
	for _, job := range []dbus.ObjectPath{"/job/6", "/job/7"} {
		result := "failed"
		if job == "/job/7" {
			result = f.result
		}
		if err := f.conn.Emit(managerPath, managerInterface+".JobRemoved", uint32(7), job, name, result); err != nil {
			return "", dbus.MakeFailedError(err)
		}
	}
	return "/job/7", nil
}

func newSystemd(t *testing.T, result string) (*fakeSystemd, string) {
	t.Helper()
	address := bustest.New(t)
	f := &fakeSystemd{conn: must.Get(dbus.Connect(address))(t), result: result}
	t.Cleanup(func() { _ = f.conn.Close() })
	must.Do(t, f.conn.Export(f, managerPath, managerInterface))
	must.Get(f.conn.RequestName(manager, dbus.NameFlagDoNotQueue))(t)
	return f, address
}

func TestAnswers(t *testing.T) {
	f, address := newSystemd(t, "done")
	if err := askAt(t.Context(), address, "user-0.slice"); err != nil {
		t.Errorf("systemd did the job: %v", err)
	}
	if !f.subscribed {
		t.Error("systemd sends signals to subscribers alone")
	}
	pids, _ := f.properties["PIDs"].([]uint32)
	if !slices.Equal(pids, []uint32{uint32(os.Getpid())}) || f.properties["Delegate"] != true || f.properties["Slice"] != "user-0.slice" || f.properties["CollectMode"] != "inactive-or-failed" {
		t.Errorf("systemd was asked for %v", f.properties)
	}
	f, address = newSystemd(t, "failed")
	if err := askAt(t.Context(), address, ""); err == nil || !strings.Contains(err.Error(), `"failed"`) {
		t.Errorf("systemd's job failed: %v", err)
	}
	if _, ok := f.properties["Slice"]; ok {
		t.Error("systemd does not choose the slice")
	}
	if askAt(t.Context(), "unix:path="+filepath.Join(t.TempDir(), "none"), "") == nil {
		t.Error("no bus did the job")
	}
}
