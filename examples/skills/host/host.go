//go:build wasip1

// Package host gives a tool access to Palyra's grants: the hosts, secrets, storage and channels
// that its manifest requests, each by a handle. A request without a grant returns ErrNotGranted.
package host

import (
	"encoding/json"
	"time"
)

// The functions of the handle interface, version 0.1.0.

//go:wasmimport palyra:plugins/host-capabilities@0.1.0 grant_open
func grantOpen(kind int32, name string) int32

//go:wasmimport palyra:plugins/host-capabilities@0.1.0 grant_count
func grantCount(kind int32) int32

//go:wasmimport palyra:plugins/host-capabilities@0.1.0 grant_at
func grantAt(kind, index int32) int32

//go:wasmimport palyra:plugins/host-capabilities@0.1.0 grant_name
func grantName(handle int32) int32

//go:wasmimport palyra:plugins/host-capabilities@0.1.0 http_request
func httpRequest(handle int32, request string) int32

//go:wasmimport palyra:plugins/host-capabilities@0.1.0 secret_read
func secretRead(handle int32) int32

//go:wasmimport palyra:plugins/host-capabilities@0.1.0 channel_send
func channelSend(handle int32, message string) int32

//go:wasmimport palyra:plugins/host-capabilities@0.1.0 storage_get
func storageGet(handle int32, key string) int32

//go:wasmimport palyra:plugins/host-capabilities@0.1.0 storage_put
func storagePut(handle int32, key, value string) int32

//go:wasmimport palyra:plugins/host-capabilities@0.1.0 storage_delete
func storageDelete(handle int32, key string) int32

//go:wasmimport palyra:plugins/host-capabilities@0.1.0 storage_list
func storageList(handle int32, prefix string) int32

//go:wasmimport palyra:plugins/host-capabilities@0.1.0 result_read
func resultRead(to *byte, room uint32) int32

//go:wasmimport palyra:plugins/host-capabilities@0.1.0 log
func logLine(level int32, message string)

//go:wasmimport palyra:plugins/host-capabilities@0.1.0 now
func now() int64

//go:wasmimport palyra:plugins/host-capabilities@0.1.0 random
func random(to *byte, size uint32) int32

// open opens a grant by its name.
func open(kind int32, name string) (Handle, error) {
	h := grantOpen(kind, name)
	if h < 0 {
		return 0, failure(h, "")
	}
	return Handle(h), nil
}

// Names returns the names of all grants of a kind.
func Names(kind Kind) []string {
	var out []string
	for i := range grantCount(int32(kind)) {
		if name, err := result(grantName(grantAt(int32(kind), i))); err == nil {
			out = append(out, string(name))
		}
	}
	return out
}

// result reads the result of the last function: n bytes, or the text of an error.
func result(n int32) ([]byte, error) {
	room := n
	if n < 0 {
		room = maxError
	}
	if room == 0 {
		return nil, nil
	}
	text := make([]byte, room)
	if got := resultRead(&text[0], uint32(room)); got >= 0 {
		text = text[:min(got, room)]
	}
	if n < 0 {
		return nil, failure(n, string(text))
	}
	return text, nil
}

// Request makes a request.
func (h Handle) Request(r Request) (Response, error) {
	question, err := json.Marshal(r)
	if err != nil {
		return Response{}, err
	}
	text, err := result(httpRequest(int32(h), string(question)))
	if err != nil {
		return Response{}, err
	}
	var out Response
	return out, json.Unmarshal(text, &out)
}

// Secret reads the value of a secret.
func (h Handle) Secret() ([]byte, error) { return result(secretRead(int32(h))) }

// Get returns the value of a key. The error is ErrNoKey if the key does not exist.
func (h Handle) Get(key string) ([]byte, error) { return result(storageGet(int32(h), key)) }

// Put stores a value under a key.
func (h Handle) Put(key string, value []byte) error {
	_, err := result(storagePut(int32(h), key, string(value)))
	return err
}

// Delete removes the value of a key.
func (h Handle) Delete(key string) error {
	_, err := result(storageDelete(int32(h), key))
	return err
}

// List returns the keys with a prefix, sorted.
func (h Handle) List(prefix string) ([]string, error) {
	text, err := result(storageList(int32(h), prefix))
	if err != nil {
		return nil, err
	}
	var keys []string
	return keys, json.Unmarshal(text, &keys)
}

// Send sends a message to a channel.
func (h Handle) Send(message string) error {
	_, err := result(channelSend(int32(h), message))
	return err
}

// Log writes a line to the log of the call.
func Log(level Level, message string) { logLine(int32(level), message) }

// Now returns the time. For a tool without the clock capability it is a counter.
func Now() time.Time { return time.Unix(0, now()).UTC() }

// Random fills a slice with random bytes. For a tool without the random capability they are the
// same for the same call.
func Random(to []byte) {
	if len(to) > 0 {
		random(&to[0], uint32(len(to)))
	}
}
