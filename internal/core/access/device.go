package access

import "context"

type deviceKey struct{}

// ReachesExecutors lets an executor record the device of its request (tool.Isolate).
func (deviceKey) ReachesExecutors() {}

// WithDevice returns a context of a request made by a device, so that the journal can record the
// device of a change.
func WithDevice(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, deviceKey{}, id)
}

// DeviceOf returns the device that made the request. It is "" for a command on the gateway's
// host while no palyrad runs, and for palyrad itself.
func DeviceOf(ctx context.Context) string {
	id, _ := ctx.Value(deviceKey{}).(string)
	return id
}
