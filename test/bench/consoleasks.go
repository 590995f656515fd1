//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
)

// askWindow is the window in which the gateway accepts perMinute requests of one principal by
// default, plus one second.
const (
	askWindow = 61 * time.Second
	perMinute = 60
)

// callsBefore is the number of attested calls that each agent makes first.
const callsBefore = 20

// asks are calls that wait for an approval.
type asks struct{ calls sync.WaitGroup }

// many makes agents propose calls that wait until ctx ends, as fast as the caps permit.
func (a *asks) many(ctx context.Context, b *bench, g *gateway) error {
	agents := make([]*client, b.size.agents)
	for i := range agents {
		var err error
		if agents[i], err = g.agent(fmt.Sprintf("agent-%d", i)); err != nil {
			return err
		}
		for range callsBefore {
			if err := agents[i].call(ctx, "echo", "{}"); err != nil {
				return err
			}
		}
	}
	for asked := 0; asked < b.size.asks; asked += perMinute {
		if asked > 0 {
			pause(ctx, askWindow)
		}
		upTo := min(asked+perMinute, b.size.asks)
		b.say("%d agents ask: %d of %d", len(agents), len(agents)*upTo, len(agents)*b.size.asks)
		if err := a.each(ctx, agents, asked, upTo); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// agent adds an agent of the local operator.
func (g *gateway) agent(name string) (*client, error) {
	return g.add(name, "--owner", "local", "--role", "agent")
}

// each makes the calls with numbers in a range for each agent, and returns once all wait.
func (a *asks) each(ctx context.Context, agents []*client, from, to int) error {
	errs := make(chan error, len(agents))
	for i, agent := range agents {
		go func() {
			for n := from; n < to; n++ {
				if err := a.one(ctx, agent, fmt.Sprintf("agent-%d/file-%d.txt", i, n)); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	var failed error
	for range agents {
		if err := <-errs; err != nil {
			failed = err
		}
	}
	return failed
}

// one makes a call that writes a file, and returns once it waits.
func (a *asks) one(ctx context.Context, agent *client, path string) error {
	input := fmt.Sprintf(`{"content":"new\n","path":%q}`, path)
	told := make(chan error, 1)
	a.calls.Go(func() {
		err := agent.follow(ctx, "fs.write", input, func(m *palyrav1.CallToolResponse) error {
			if m.GetApprovalRequested() != nil {
				told <- nil
			}
			return nil
		})
		select {
		case told <- fmt.Errorf("the call that writes %s does not wait: %w", path, err):
		default:
		}
	})
	return <-told
}

// serve serves an HTTP endpoint that makes calls. A client on this machine posts the path of a
// file. Once the call waits, the response is the time of its proposal, in milliseconds since 1970.
func (a *asks) serve(ctx context.Context, agent *client) (url string, stop func() error, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{ReadHeaderTimeout: patience, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proposed := time.Now()
		if err := a.one(ctx, agent, r.FormValue("path")); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]float64{"proposed": float64(proposed.UnixMicro()) / 1e3})
	})}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	return "http://" + listener.Addr().String(), func() error { err := server.Close(); <-served; return err }, nil
}
